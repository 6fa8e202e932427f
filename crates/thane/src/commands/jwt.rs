//! `thane jwt`.

use clap::{Args, Subcommand};
use serde_json::json;
use thane_api::code;
use thane_hub::gate::{Tokens, generate_key};

use crate::failure::Failure;
use crate::fleet::JWT;
use crate::fleet::objects::{Objects, Put};
use crate::kubernetes::connection::HubConnection;
use crate::output::{Structured, pairs, print, print_structured, tell};
use crate::roles::secrets::Wanted;

/// The key that signs tokens: make it, look at it, delete it
#[derive(Debug, Subcommand)]
#[expect(clippy::enum_variant_names, reason = "they are called as argocd-agentctl calls them")]
pub(crate) enum Jwt {
    CreateKey(CreateKey),
    /// Show what kind of key it is
    InspectKey(Common),
    /// Delete the Secret: a hub that runs goes on, one that starts misses it
    DeleteKey(Common),
}

/// What all of them need.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    hub: HubConnection,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
}

/// Make the key and keep it in the Secret argocd-agent-jwt
#[derive(Debug, Args)]
pub(crate) struct CreateKey {
    #[command(flatten)]
    common: Common,
    /// Replace a key that is already there: agents have to prove who they are again
    #[arg(long, alias = "upsert", short_alias = 'u')]
    force: bool,
}

impl Jwt {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::CreateKey(command) => command.run().await,
            Self::InspectKey(common) => common.inspect().await,
            Self::DeleteKey(common) => common.delete().await,
        }
    }
}

impl CreateKey {
    async fn run(self) -> Result<(), Failure> {
        let session = self.common.hub.open().await?;
        let objects = Objects::new(&session);
        if !self.force && objects.secret(JWT).await?.is_some() {
            let message = format!("Secret {}/{JWT} is already there", objects.namespace());
            return Err(Failure::new(code::SECRET_EXISTS, message));
        }
        let key = generate_key().map_err(|error| Failure::new(code::BUG, error.to_string()))?;
        let put = objects.put_secret(JWT, "Opaque", &[("jwt.key", &key)], self.force).await?;
        let verb = if put == Put::Created { "created" } else { "replaced" };
        self.common.report(verb, &objects, &key)
    }
}

impl Common {
    async fn inspect(self) -> Result<(), Failure> {
        let session = self.hub.open().await?;
        let objects = Objects::new(&session);
        let what = format!("Secret {}/{JWT}", objects.namespace());
        let hint = "make it with `thane jwt create-key`";
        let secret = objects.secret(JWT).await?;
        let missing = || Failure::new(code::SECRET_MISSING, format!("{what} is not there")).with_hint(hint);
        let texts = Wanted::SigningKey.read(&secret.ok_or_else(missing)?);
        let texts = texts.map_err(|why| Failure::new(code::SECRET_UNUSABLE, format!("{what}: {why}")))?;
        let tokens = tokens(&texts[0])?;
        if self.output.is_some() {
            return self.report("is", &objects, &texts[0]);
        }
        let secret = format!("{}/{JWT}", objects.namespace());
        let rows = [
            ("Secret", secret),
            ("Key", format!("RSA, {} bits", tokens.bits())),
            ("Fingerprint", tokens.fingerprint()),
        ];
        print(&pairs(&rows))
    }

    async fn delete(self) -> Result<(), Failure> {
        let session = self.hub.open().await?;
        let objects = Objects::new(&session);
        let is_deleted = objects.delete(&objects.path("secrets", JWT)).await?;
        let secret = format!("{}/{JWT}", objects.namespace());
        if !is_deleted {
            return Err(Failure::new(code::SECRET_MISSING, format!("Secret {secret} is not there")));
        }
        if let Some(form) = self.output {
            return print_structured(&json!({"secret": secret, "deleted": true}), form);
        }
        tell(&format!("deleted Secret {secret}"));
        Ok(())
    }

    fn report(&self, verb: &str, objects: &Objects<'_>, key: &str) -> Result<(), Failure> {
        let (tokens, secret) = (tokens(key)?, format!("{}/{JWT}", objects.namespace()));
        if let Some(form) = self.output {
            let (bits, fingerprint) = (tokens.bits(), tokens.fingerprint());
            return print_structured(&json!({"secret": secret, "bits": bits, "fingerprint": fingerprint}), form);
        }
        tell(&format!("{verb} Secret {secret} with a key of {} bits", tokens.bits()));
        Ok(())
    }
}

fn tokens(key: &str) -> Result<Tokens, Failure> {
    Tokens::new(key).map_err(|error| Failure::new(code::SECRET_UNUSABLE, error.to_string()))
}

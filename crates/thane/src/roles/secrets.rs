//! Certificates and keys, from Secrets or from files: read at the start, and followed from then on.

use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use serde_json::Value;
use thane_api::code;
use thane_link::{Observed, Source, follow};
use thane_runtime::Tasks;
use thane_runtime::pki::Identity;
use thane_runtime::tls::Contents;
use tokio::sync::{mpsc, watch};

use crate::failure::Failure;
use crate::kubernetes::connection::check_segment;

/// What a place holds: the texts that were asked for, in their order.
pub(crate) type Texts = Vec<String>;

/// What is asked for, and how a Secret says it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    /// A certificate and its key.
    Identity,
    /// Certificates of authorities.
    Authorities,
    /// A key that signs tokens.
    SigningKey,
    /// The keys of a gateway's clients.
    ClientKeys,
}

/// Where something is kept.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Files(Vec<PathBuf>),
    Secret { namespace: String, name: String },
}

/// How a Secret that is missing is made.
#[derive(Debug, Clone)]
pub(crate) struct Remedy(pub(crate) String);

/// Something that was read and is followed.
pub(crate) struct Kept {
    pub(crate) texts: watch::Receiver<Texts>,
}

impl Wanted {
    /// The texts in the data of a Secret, or what is missing there.
    pub(crate) fn read(self, secret: &Value) -> Result<Texts, String> {
        let text = |key: &str| -> Option<Result<String, String>> {
            let encoded = secret["data"][key].as_str()?;
            let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            Some(decoded.ok_or_else(|| format!("{key} is not text")))
        };
        let needed = |key: &str| text(key).unwrap_or_else(|| Err(format!("it has no {key}")));
        match self {
            Self::Identity => Ok(vec![needed("tls.crt")?, needed("tls.key")?]),
            Self::SigningKey => Ok(vec![needed("jwt.key")?]),
            Self::ClientKeys => Ok(vec![needed("keys.json")?]),
            Self::Authorities => {
                let found: Vec<String> =
                    ["tls.crt", "ca.crt"].into_iter().filter_map(text).collect::<Result<_, _>>()?;
                if found.is_empty() {
                    Err("it has neither ca.crt nor tls.crt".to_owned())
                } else {
                    Ok(vec![found.join("\n")])
                }
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(files) => {
                let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                f.write_str(&names.join(" and "))
            }
            Self::Secret { namespace, name } => write!(f, "Secret {namespace}/{name}"),
        }
    }
}

/// What was found is not what it should be.
pub(crate) fn unusable(what: &str, why: &dyn fmt::Display, remedy: &Remedy) -> Failure {
    Failure::new(code::SECRET_UNUSABLE, format!("{what}: {why}")).with_hint(&remedy.0)
}

impl Place {
    /// Files if any is named, and a Secret otherwise.
    pub(crate) fn choose(files: &[&Option<PathBuf>], namespace: &str, secret: &str) -> Result<Self, Failure> {
        let named: Vec<PathBuf> = files.iter().filter_map(|file| (*file).clone()).collect();
        if named.len() == files.len() {
            return Ok(Self::Files(named));
        }
        if !named.is_empty() {
            return Err(Failure::new(code::USAGE, "a certificate file needs its key file, and the other way round"));
        }
        check_segment("name of a Secret", secret)?;
        Ok(Self::Secret { namespace: namespace.to_owned(), name: secret.to_owned() })
    }

    /// Reads what is wanted, and follows it until `tasks` stops.
    pub(crate) async fn open(
        self,
        wanted: Wanted,
        client: &Client,
        remedy: &Remedy,
        tasks: &Tasks,
    ) -> Result<Kept, Failure> {
        match self {
            Self::Files(paths) => follow_files(paths, tasks),
            Self::Secret { namespace, name } => {
                let texts = read_secret(client, &namespace, &name, wanted, remedy).await?;
                Ok(Kept { texts: follow_secret(client, &namespace, &name, wanted, texts, tasks) })
            }
        }
    }
}

/// The texts of a Secret that has to be there.
pub(crate) async fn read_secret(
    client: &Client,
    namespace: &str,
    name: &str,
    wanted: Wanted,
    remedy: &Remedy,
) -> Result<Texts, Failure> {
    let what = format!("Secret {namespace}/{name}");
    let request = http::Request::get(format!("/api/v1/namespaces/{namespace}/secrets/{name}")).body(Vec::new());
    let request = request.map_err(|error| Failure::new(code::USAGE, format!("{what}: {error}")))?;
    let secret: Value = match client.request(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(Failure::new(code::SECRET_MISSING, format!("{what} is not there")).with_hint(&remedy.0));
        }
        answer => answer.map_err(|error| Failure::from(error).about(&what))?,
    };
    wanted.read(&secret).map_err(|why| unusable(&what, &why, remedy))
}

fn follow_files(paths: Vec<PathBuf>, tasks: &Tasks) -> Result<Kept, Failure> {
    let mut contents = Contents::follow(paths, tasks)?;
    let read = |contents: &Contents| -> Texts {
        contents.now().iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    };
    let (sender, texts) = watch::channel(read(&contents));
    let group = tasks.clone();
    tasks.spawn("files", async move {
        loop {
            tokio::select! {
                () = group.cancelled() => return,
                changed = contents.changed() => if !changed { return },
            }
            sender.send_replace(read(&contents));
        }
    });
    Ok(Kept { texts })
}

fn follow_secret(
    client: &Client,
    namespace: &str,
    name: &str,
    wanted: Wanted,
    texts: Texts,
    tasks: &Tasks,
) -> watch::Receiver<Texts> {
    let (sender, receiver) = watch::channel(texts);
    let name = name.to_owned();
    follow_one(client, namespace, "secrets", &name.clone(), tasks, move |secret| {
        let Some(secret) = secret else {
            tracing::warn!(secret = name, "a Secret in use was deleted; what it held stays in use");
            return;
        };
        match wanted.read(secret) {
            Ok(texts) => {
                sender.send_if_modified(|current| {
                    let is_new = *current != texts;
                    *current = texts;
                    is_new
                });
            }
            Err(why) => tracing::warn!(secret = name, why, "a changed Secret is no good; what it held stays in use"),
        }
    });
    receiver
}

/// Follows one object by its name: as it is, as it becomes, and none when it is gone.
pub(crate) fn follow_one(
    client: &Client,
    namespace: &str,
    plural: &str,
    name: &str,
    tasks: &Tasks,
    mut seen: impl FnMut(Option<&Value>) + Send + 'static,
) {
    let source = Source {
        path: format!("/api/v1/namespaces/{namespace}/{plural}"),
        labels: String::new(),
        fields: format!("metadata.name={name}"),
    };
    let (sender, mut observed) = mpsc::channel(16);
    tasks.spawn("watch", follow(client.clone(), source, sender, |observed| observed, tasks.clone()));
    let group = tasks.clone();
    tasks.spawn("changes", async move {
        loop {
            let next = tokio::select! {
                () = group.cancelled() => return,
                next = observed.recv() => next,
            };
            match next {
                Some(Observed::All(objects, _)) => seen(objects.first().map(AsRef::as_ref)),
                Some(Observed::Applied(object)) => seen(Some(&object)),
                Some(Observed::Deleted(_)) => seen(None),
                None => return,
            }
        }
    });
}

impl Kept {
    /// The one text.
    pub(crate) fn text(&self) -> String {
        self.texts.borrow().first().cloned().unwrap_or_default()
    }

    /// The certificate and its key.
    pub(crate) fn identity(&self) -> Identity {
        identity(&self.texts.borrow())
    }
}

fn identity(texts: &Texts) -> Identity {
    let text = |at: usize| texts.get(at).cloned().unwrap_or_default();
    Identity { cert_pem: text(0), key_pem: text(1) }
}

/// Calls `take` whenever one of several things has changed, until `tasks` stops.
pub(crate) fn on_change<const N: usize>(
    mut kept: [Kept; N],
    tasks: &Tasks,
    mut take: impl FnMut(&[Kept; N]) -> Result<(), String> + Send + 'static,
) {
    let group = tasks.clone();
    tasks.spawn("certificates", async move {
        loop {
            let changed = kept.iter_mut().map(|kept| Box::pin(kept.texts.changed()));
            let (changed, ..) = tokio::select! {
                () = group.cancelled() => return,
                changed = futures::future::select_all(changed) => changed,
            };
            if changed.is_err() {
                return;
            }
            match take(&kept) {
                Ok(()) => tracing::info!("certificates or keys have changed and are in use"),
                Err(why) => tracing::warn!(why, "changed certificates or keys are no good; the old ones stay in use"),
            }
        }
    });
}

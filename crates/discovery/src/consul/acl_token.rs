//! `/v1/acl/bootstrap` and `/v1/acl/token*`.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde::Serialize;

use super::acl::{HIDDEN, Known, hash, is_uuid};
use super::call::{Call, Outcome};
use super::failure::Failure;
use super::options::ReadOptions;
use crate::access::{ANONYMOUS, builtin, digest, rules};
use crate::command::{Command, Outcome as Written};
use crate::decode::duration::print;
use crate::decode::{self, Link, TokenBody};
use crate::model::{Index, Indexed, Policy, Token};

/// A token that expires lasts so long at least.
const LASTS_MIN: Duration = Duration::from_mins(1);

const ABSENT: &str = "token does not exist: ACL not found";

/// A token.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct TokenView {
    /// Only of the first token, where Consul still says its secret so.
    #[serde(rename = "ID", skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "AccessorID")]
    accessor: String,
    #[serde(rename = "SecretID")]
    secret: String,
    description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<LinkView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    service_identities: Vec<ServiceView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    node_identities: Vec<NodeView>,
    /// Rules of its own: not Consul's.
    #[serde(skip_serializing_if = "String::is_empty")]
    rules: String,
    local: bool,
    create_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration_time: Option<String>,
    hash: String,
    create_index: Index,
    modify_index: Index,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct LinkView {
    #[serde(rename = "ID")]
    id: String,
    name: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ServiceView {
    service_name: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct NodeView {
    node_name: String,
    datacenter: String,
}

impl TokenView {
    fn new(token: &Indexed<Token>, known: &Known, secret: &str) -> Self {
        let value = token.value.as_ref();
        let link = |id: &String| {
            let set = known.rule_set(|set| set.id == *id)?;
            Some(LinkView { id: id.clone(), name: set.value.name.clone() })
        };
        let node = |node: &crate::model::NodeIdentity| NodeView {
            node_name: node.node.clone(),
            datacenter: node.datacenter.clone(),
        };
        Self {
            id: None,
            accessor: value.accessor.clone(),
            secret: if value.accessor == ANONYMOUS { "anonymous" } else { secret }.to_owned(),
            description: value.description.clone(),
            policies: value.rule_sets.iter().filter_map(link).collect(),
            service_identities: value.services.iter().map(|name| ServiceView { service_name: name.clone() }).collect(),
            node_identities: value.nodes.iter().map(node).collect(),
            rules: rules::print(&value.rules),
            local: false,
            create_time: value.created.unwrap_or(Timestamp::UNIX_EPOCH).to_string(),
            expiration_time: value.expires.map(|expires| expires.to_string()),
            hash: hash(value),
            create_index: token.create_index,
            modify_index: token.modify_index,
        }
    }
}

impl Call<'_> {
    pub(super) async fn acl_bootstrap(&self) -> Outcome {
        let given = decode::bootstrap_secret(self.body()?).map_err(Failure::bad)?;
        if !given.is_empty() && !is_uuid(&given) {
            return Err(Failure::bad(format!("invalid bootstrap token: {given:?} is no UUID")));
        }
        let secret = if given.is_empty() { uuid::Uuid::new_v4().to_string() } else { given };
        let token = Token {
            accessor: uuid::Uuid::new_v4().to_string(),
            secret_digest: digest(&secret),
            description: "Bootstrap Token (Global Management)".to_owned(),
            rule_sets: vec![builtin::MANAGEMENT.to_owned()],
            ..Token::default()
        };
        let token = written(self.write(Command::Bootstrap(token)).await?.outcome)?;
        let known = self.known(&ReadOptions::default()).await?;
        let view = TokenView::new(&token, &known, &secret);
        self.json(&TokenView { id: Some(secret), ..view })
    }

    pub(super) async fn acl_tokens(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        self.may_acl(Policy::Read)?;
        let known = self.known(&options).await?;
        let wanted = self.query().given("policy");
        let fits = |token: &Indexed<Token>| wanted.is_none_or(|id| token.value.rule_sets.iter().any(|own| own == id));
        let tokens = if known.is_open() { Vec::new() } else { known.tokens() };
        let views: Vec<TokenView> =
            tokens.iter().filter(|token| fits(token)).map(|token| self.view(token, &known)).collect();
        self.acl_json(&views, &known, &options)
    }

    pub(super) async fn acl_token_self(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let absent = || Failure::new(http::StatusCode::FORBIDDEN, ABSENT);
        let secret = self.caller.token.as_deref().ok_or_else(absent)?;
        let accessor = self.access.token().map(|token| token.accessor.clone()).ok_or_else(absent)?;
        let known = self.known(&options).await?;
        let token = known.token(&accessor).ok_or_else(absent)?;
        self.acl_json(&TokenView::new(&token, &known, secret), &known, &options)
    }

    /// A token as whoever asks sees it: who shows a secret may see it.
    fn view(&self, token: &Indexed<Token>, known: &Known) -> TokenView {
        let shown = self.caller.token.as_deref().filter(|secret| digest(secret) == token.value.secret_digest);
        TokenView::new(token, known, shown.unwrap_or(HIDDEN))
    }

    pub(super) async fn acl_token(&self) -> Outcome {
        let rest = self.named("Missing token AccessorID")?;
        match self.request.method {
            Method::PUT => match rest.strip_suffix("/clone") {
                Some(accessor) => self.token_clone(accessor).await,
                None => self.token_update(rest).await,
            },
            Method::DELETE => self.token_delete(rest).await,
            _ => self.token_show(rest).await,
        }
    }

    async fn token_show(&self, accessor: &str) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        self.may_acl(Policy::Read)?;
        if !is_uuid(accessor) {
            return Err(Failure::failed("failed acl token lookup: index error: UUID must be 36 characters"));
        }
        let known = self.known(&options).await?;
        let absent = || Failure::new(http::StatusCode::FORBIDDEN, ABSENT);
        let token = known.token(accessor).filter(|_| !known.is_open()).ok_or_else(absent)?;
        self.acl_json(&self.view(&token, &known), &known, &options)
    }

    pub(super) async fn acl_token_create(&self) -> Outcome {
        let asked = decode::token(self.body()?).map_err(Failure::bad)?;
        self.may_acl(Policy::Write)?;
        self.make_token(asked).await
    }

    async fn make_token(&self, mut asked: TokenBody) -> Outcome {
        let known = self.known(&ReadOptions::default()).await?;
        let fresh = || uuid::Uuid::new_v4().to_string();
        if asked.accessor.is_empty() {
            asked.accessor = fresh();
        } else if !is_uuid(&asked.accessor) {
            return Err(Failure::failed("Invalid Token: AccessorID - not a valid UUID"));
        } else if known.token(&asked.accessor).is_some() {
            return Err(Failure::failed("Invalid Token: AccessorID is already in use"));
        }
        if asked.secret.is_empty() {
            asked.secret = fresh();
        } else if !is_uuid(&asked.secret) {
            return Err(Failure::failed("Invalid Token: SecretID - not a valid UUID"));
        }
        let (secret, secret_digest) = (asked.secret.clone(), digest(&asked.secret));
        if known.tokens().iter().any(|token| token.value.secret_digest == secret_digest) {
            return Err(Failure::failed("Invalid Token: SecretID is already in use"));
        }
        let expires = self.expiry(&asked)?;
        let token = Token { expires, ..self.token_from(asked, secret_digest, &known)? };
        let token = written(self.write(Command::PutToken(token)).await?.outcome)?;
        self.json(&TokenView::new(&token, &known, &secret))
    }

    /// When a new token is to expire.
    fn expiry(&self, asked: &TokenBody) -> Result<Option<Timestamp>, Failure> {
        let failed = |text: String| Err(Failure::failed(text));
        let now = self.now();
        let expires = match (Duration::from_nanos(asked.lasts.unsigned_abs()), asked.expires) {
            (lasts, _) if asked.lasts < 0 => {
                return failed(format!("Token Expiration TTL '-{}' should be > 0", print(lasts)));
            }
            (Duration::ZERO, expires) => expires,
            (_, Some(_)) => return failed("Token Expiration TTL and Expiration Time cannot both be set".to_owned()),
            (lasts, None) => Some(now.saturating_add(lasts).unwrap_or(Timestamp::MAX)),
        };
        let Some(expires) = expires else { return Ok(None) };
        let Ok(left) = Duration::try_from(expires.duration_since(now)) else {
            return failed("ExpirationTime cannot be before CreateTime".to_owned());
        };
        if left < LASTS_MIN {
            let (least, left) = (print(LASTS_MIN), print(left));
            return failed(format!("ExpirationTime cannot be less than {least} in the future (was {left})"));
        }
        Ok(Some(expires))
    }

    async fn token_update(&self, accessor: &str) -> Outcome {
        let mut asked = decode::token(self.body()?).map_err(Failure::bad)?;
        if !asked.accessor.is_empty() && asked.accessor != accessor {
            return Err(Failure::bad("Token Accessor ID in URL and payload do not match"));
        }
        self.may_acl(Policy::Write)?;
        if !is_uuid(accessor) {
            return Err(Failure::failed("failed acl token lookup: index error: UUID must be 36 characters"));
        }
        let known = self.known(&ReadOptions::default()).await?;
        let before = known.token(accessor);
        let before = before.ok_or_else(|| Failure::failed(format!("Cannot find token {accessor:?}")))?;
        let is_same = matches!(asked.secret.as_str(), "" | HIDDEN)
            || digest(&asked.secret) == before.value.secret_digest
            || accessor == ANONYMOUS && asked.secret == "anonymous";
        if !is_same {
            return Err(Failure::failed("Changing a token's SecretID is not permitted"));
        }
        if asked.lasts != 0 || asked.expires.is_some() && asked.expires != before.value.expires {
            return Err(Failure::failed(format!("Cannot change expiration time of {accessor}")));
        }
        accessor.clone_into(&mut asked.accessor);
        let token = self.token_from(asked, before.value.secret_digest.clone(), &known)?;
        let token = written(self.write(Command::PutToken(token)).await?.outcome)?;
        self.json(&self.view(&token, &known))
    }

    async fn token_clone(&self, accessor: &str) -> Outcome {
        let asked = decode::token(self.body()?).map_err(Failure::bad)?;
        self.may_acl(Policy::Write)?;
        let known = self.known(&ReadOptions::default()).await?;
        let before = known.token(accessor).filter(|_| accessor != ANONYMOUS);
        let before = before.ok_or_else(|| Failure::new(http::StatusCode::FORBIDDEN, ABSENT))?;
        let secret = uuid::Uuid::new_v4().to_string();
        let mut token = before.value.as_ref().clone();
        token.accessor = uuid::Uuid::new_v4().to_string();
        token.secret_digest = digest(&secret);
        if !asked.description.is_empty() {
            token.description = asked.description;
        }
        let token = written(self.write(Command::PutToken(token)).await?.outcome)?;
        self.json(&TokenView::new(&token, &known, &secret))
    }

    async fn token_delete(&self, accessor: &str) -> Outcome {
        if !is_uuid(accessor) {
            return Err(Failure::failed("Accessor ID is missing or an invalid UUID"));
        }
        if accessor == ANONYMOUS {
            return Err(Failure::failed("Delete operation not permitted on the anonymous token"));
        }
        self.may_acl(Policy::Write)?;
        if self.access.token().is_some_and(|own| own.accessor == accessor) {
            return Err(Failure::failed("Deletion of the request's authorization token is not permitted"));
        }
        if self.known(&ReadOptions::default()).await?.token(accessor).is_none() {
            return Err(Failure::not_found("Cannot find token to delete"));
        }
        self.write(Command::DeleteToken(accessor.to_owned())).await?;
        self.json(&true)
    }

    /// The token that a body asks for.
    fn token_from(&self, asked: TokenBody, secret_digest: String, known: &Known) -> Result<Token, Failure> {
        let failed = |text: String| Err(Failure::failed(text));
        if let Some(role) = asked.roles.first() {
            return failed(missing("role", role));
        }
        if let Some(name) = asked.templates.first() {
            return failed(format!("No such ACL templated policy with Name {name:?}"));
        }
        let mut rule_sets = Vec::with_capacity(asked.policies.len());
        for link in &asked.policies {
            let fits = |set: &crate::model::RuleSet| {
                if link.id.is_empty() { set.name == link.name } else { set.id == link.id }
            };
            let set = known.rule_set(fits).ok_or_else(|| Failure::failed(missing("policy", link)))?;
            if !rule_sets.contains(&set.value.id) {
                rule_sets.push(set.value.id.clone());
            }
        }
        for name in &asked.services {
            check_service(name)?;
        }
        for node in &asked.nodes {
            if node.node.is_empty() {
                return failed("Node identity is missing the node name field on this token".to_owned());
            }
            if node.datacenter.is_empty() {
                return failed("Node identity is missing the datacenter field on this token".to_owned());
            }
            self.is_here(&node.datacenter)?;
        }
        Ok(Token {
            accessor: asked.accessor,
            secret_digest,
            description: asked.description,
            rules: rules::parse(&asked.rules).map_err(Failure::failed)?,
            rule_sets,
            services: asked.services,
            nodes: asked.nodes,
            created: None,
            expires: None,
        })
    }
}

fn written(outcome: Written) -> Result<Indexed<Token>, Failure> {
    match outcome {
        Written::Token(token) => Ok(token),
        _ => Err(Failure::failed("the registry answered something else")),
    }
}

fn missing(what: &str, link: &Link) -> String {
    if link.id.is_empty() {
        format!("No such ACL {what} with name {:?}", link.name)
    } else {
        format!("No such ACL {what} with ID {:?}", link.id)
    }
}

fn check_service(name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(Failure::failed("Service identity is missing the service name field on this token"));
    }
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fine = name.bytes().all(|byte| is_plain(byte) || matches!(byte, b'-' | b'_'));
    let edges = [name.bytes().next(), name.bytes().last()];
    if fine && edges.into_iter().flatten().all(is_plain) {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "Service identity {name:?} has an invalid name. Only lowercase alphanumeric characters, '-' and '_' are allowed"
    )))
}

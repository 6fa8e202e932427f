//! Tokens and policies.

use jiff::Timestamp;

use super::duration;
use super::fields::Fields;
use super::json::{self, Json};
use super::shape::{self, Field, Kind, Shape};
use crate::model::NodeIdentity;

/// A token as it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenBody {
    /// Its name in listings; empty: one is made.
    pub accessor: String,
    /// Its secret; empty: one is made.
    pub secret: String,
    /// For people.
    pub description: String,
    /// Policies it has.
    pub policies: Vec<Link>,
    /// Roles it has; there are none.
    pub roles: Vec<Link>,
    /// Templated policies it has, by name; there are none.
    pub templates: Vec<String>,
    /// Services it may be.
    pub services: Vec<String>,
    /// Nodes it may be.
    pub nodes: Vec<NodeIdentity>,
    /// Rules of its own: not Consul's.
    pub rules: String,
    /// How long it is to last, in nanoseconds; 0: for ever, or until [`TokenBody::expires`].
    pub lasts: i64,
    /// When it is to expire.
    pub expires: Option<Timestamp>,
}

/// Something named by its id or its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
}

/// A policy as it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyBody {
    /// Its id; empty: one is made.
    pub id: String,
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// The rules.
    pub rules: String,
    /// Where they hold.
    pub datacenters: Vec<String>,
}

/// A field that is spelled in complaints as it is.
macro_rules! field {
    ($key:literal, $kind:expr) => {
        Field { key: $key, label: $key, kind: $kind }
    };
}

/// A field that Consul decodes through a type without name around the real one.
macro_rules! inner {
    ($key:literal, $kind:expr) => {
        Field { key: $key, label: concat!("Alias.", $key), kind: $kind }
    };
}

const TEXT: Kind = Kind::Text("string");
const STRINGS: Kind = Kind::Texts { list: "[]string", item: "string" };

const fn shape(kind: &'static str, name: &'static str, fields: &'static [Field]) -> Shape {
    Shape { kind, name, fields, durations: &[], closed: true }
}

const POLICY_LINK: Shape =
    shape("structs.ACLTokenPolicyLink", "ACLTokenPolicyLink", &[field!("ID", TEXT), field!("Name", TEXT)]);
const ROLE_LINK: Shape =
    shape("structs.ACLTokenRoleLink", "ACLTokenRoleLink", &[field!("ID", TEXT), field!("Name", TEXT)]);
const SERVICE_IDENTITY: Shape = shape(
    "structs.ACLServiceIdentity",
    "ACLServiceIdentity",
    &[field!("ServiceName", TEXT), field!("Datacenters", STRINGS)],
);
const NODE_IDENTITY: Shape =
    shape("structs.ACLNodeIdentity", "ACLNodeIdentity", &[field!("NodeName", TEXT), field!("Datacenter", TEXT)]);
const TEMPLATE: Shape = shape(
    "structs.ACLTemplatedPolicy",
    "ACLTemplatedPolicy",
    &[
        field!("TemplateName", TEXT),
        field!("TemplateID", TEXT),
        field!("TemplateVariables", Kind::Any),
        field!("Datacenters", STRINGS),
    ],
);

const TOKEN: Shape = shape(
    "structs.ACLToken",
    "",
    &[
        inner!("ID", TEXT),
        inner!("AccessorID", TEXT),
        inner!("SecretID", TEXT),
        inner!("Description", TEXT),
        inner!("Policies", Kind::Many { list: "[]structs.ACLTokenPolicyLink", shape: &POLICY_LINK }),
        inner!("Roles", Kind::Many { list: "[]structs.ACLTokenRoleLink", shape: &ROLE_LINK }),
        inner!("ServiceIdentities", Kind::Many { list: "structs.ACLServiceIdentities", shape: &SERVICE_IDENTITY }),
        inner!("NodeIdentities", Kind::Many { list: "structs.ACLNodeIdentities", shape: &NODE_IDENTITY }),
        inner!("TemplatedPolicies", Kind::Many { list: "structs.ACLTemplatedPolicies", shape: &TEMPLATE }),
        inner!("Rules", TEXT),
        inner!("Local", Kind::Bool),
        inner!("AuthMethod", TEXT),
        inner!("ExpirationTime", Kind::Any),
        inner!("ExpirationTTL", Kind::Any),
        inner!("CreateTime", Kind::Any),
        inner!("Hash", Kind::Bytes),
        inner!("Namespace", TEXT),
        inner!("Partition", TEXT),
        inner!("CreateIndex", Kind::Uint),
        inner!("ModifyIndex", Kind::Uint),
    ],
);

const POLICY: Shape = shape(
    "structs.ACLPolicy",
    "",
    &[
        inner!("ID", TEXT),
        inner!("Name", TEXT),
        inner!("Description", TEXT),
        inner!("Rules", TEXT),
        inner!("Datacenters", STRINGS),
        inner!("Hash", Kind::Bytes),
        inner!("Namespace", TEXT),
        inner!("Partition", TEXT),
        inner!("CreateIndex", Kind::Uint),
        inner!("ModifyIndex", Kind::Uint),
    ],
);

const BOOTSTRAP: Shape =
    shape("structs.BootstrapTokenRequest", "BootstrapTokenRequest", &[field!("BootstrapSecret", TEXT)]);

/// `acl/token`.
pub fn token(body: &[u8]) -> Result<TokenBody, String> {
    let complain = |complaint: String| format!("Token decoding failed: {complaint}");
    let value = read(body, &TOKEN, "Token")?;
    let fields = Fields::of(&value);
    let links = |key: &str| {
        let link = |link: Fields<'_>| Link { id: link.text(&["ID"]), name: link.text(&["Name"]) };
        fields.objects(key).map(link).collect()
    };
    let text = |key: &str| fields.text(&[key]);
    let lasts = match fields.get("ExpirationTTL") {
        Some(Json::Text(text)) if !text.is_empty() => duration::nanos(text).map_err(complain)?,
        _ => fields.nanos(&["ExpirationTTL"]),
    };
    // Go's empty time is none.
    let expires = match text("ExpirationTime").as_str() {
        "" | "0001-01-01T00:00:00Z" => None,
        given => Some(given.parse::<Timestamp>().map_err(|_| complain(format!("{given:?} is no time")))?),
    };
    Ok(TokenBody {
        accessor: text("AccessorID"),
        secret: text("SecretID"),
        description: text("Description"),
        policies: links("Policies"),
        roles: links("Roles"),
        templates: fields.objects("TemplatedPolicies").map(|template| template.text(&["TemplateName"])).collect(),
        services: fields.objects("ServiceIdentities").map(|identity| identity.text(&["ServiceName"])).collect(),
        nodes: fields
            .objects("NodeIdentities")
            .map(|identity| NodeIdentity {
                node: identity.text(&["NodeName"]),
                datacenter: identity.text(&["Datacenter"]),
            })
            .collect(),
        rules: text("Rules"),
        lasts,
        expires,
    })
}

/// `acl/policy`.
pub fn policy(body: &[u8]) -> Result<PolicyBody, String> {
    let value = read(body, &POLICY, "Policy")?;
    let fields = Fields::of(&value);
    let text = |key: &str| fields.text(&[key]);
    Ok(PolicyBody {
        id: text("ID"),
        name: text("Name"),
        description: text("Description"),
        rules: text("Rules"),
        datacenters: fields.texts(&["Datacenters"]),
    })
}

/// `acl/bootstrap`: the secret that the first token is to have, if any.
pub fn bootstrap_secret(body: &[u8]) -> Result<String, String> {
    if body.is_empty() {
        return Ok(String::new());
    }
    let value = read(body, &BOOTSTRAP, "Request decode")?;
    Ok(Fields::of(&value).text(&["BootstrapSecret"]))
}

fn read(body: &[u8], shape: &Shape, what: &str) -> Result<Json, String> {
    let complain = |complaint| format!("{what} decoding failed: {complaint}");
    let value = json::parse(body).map_err(complain)?;
    shape::check(&value, shape).map_err(complain)?;
    Ok(value)
}

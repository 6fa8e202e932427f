//! What the rows of each endpoint have, as far as a filter may ask for it.

use super::Operator;

/// Whose rows are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// `catalog/nodes`.
    Nodes,
    /// `catalog/service/:name`.
    CatalogService,
    /// The services of `catalog/node/:name` and `catalog/node-services/:name`, and of `agent/services`.
    NodeServices,
    /// `health/service/:name`.
    Health,
    /// `health/node`, `health/checks`, `health/state` and `agent/checks`.
    Checks,
}

impl Subject {
    pub(super) fn fields(self) -> &'static [Field] {
        match self {
            Self::Nodes => NODE,
            Self::CatalogService => CATALOG_SERVICE,
            Self::NodeServices => SERVICE,
            Self::Health => HEALTH,
            Self::Checks => CHECK,
        }
    }
}

/// A field by its name.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Type,
}

/// What a field holds.
#[derive(Debug)]
pub(super) enum Type {
    Text,
    Number,
    Bool,
    Texts,
    /// Text to something.
    Map(&'static Type),
    /// An object with these fields.
    One(&'static [Field]),
    /// A list of such objects.
    Many(&'static [Field]),
}

impl Type {
    /// Whether Consul lets this be compared so.
    pub(super) fn takes(&self, operator: Operator) -> bool {
        use Operator::{Equal, In, IsEmpty, IsNotEmpty, Matches, NotEqual, NotIn, NotMatches};
        match self {
            Self::Text => matches!(operator, Equal | NotEqual | In | NotIn | Matches | NotMatches),
            Self::Number | Self::Bool => matches!(operator, Equal | NotEqual),
            Self::Texts | Self::Map(_) => matches!(operator, In | NotIn | IsEmpty | IsNotEmpty),
            Self::Many(_) => matches!(operator, IsEmpty | IsNotEmpty),
            Self::One(_) => false,
        }
    }
}

pub(super) fn find<'a>(fields: &'a [Field], name: &str) -> Option<&'a Field> {
    fields.iter().find(|field| field.name == name)
}

const fn text(name: &'static str) -> Field {
    Field { name, kind: Type::Text }
}

const fn number(name: &'static str) -> Field {
    Field { name, kind: Type::Number }
}

const fn flag(name: &'static str) -> Field {
    Field { name, kind: Type::Bool }
}

const fn texts(name: &'static str) -> Field {
    Field { name, kind: Type::Texts }
}

const fn map(name: &'static str, inner: &'static Type) -> Field {
    Field { name, kind: Type::Map(inner) }
}

const fn one(name: &'static str, fields: &'static [Field]) -> Field {
    Field { name, kind: Type::One(fields) }
}

const fn many(name: &'static str, fields: &'static [Field]) -> Field {
    Field { name, kind: Type::Many(fields) }
}

const ADDRESS: &Type = &Type::One(&[text("Address"), number("Port")]);
const WEIGHTS: &[Field] = &[number("Passing"), number("Warning")];
const CONNECT: &[Field] = &[flag("Native")];
const MESH_GATEWAY: &[Field] = &[text("Mode")];
const TRANSPARENT: &[Field] = &[flag("DialedDirectly"), number("OutboundListenerPort")];
const UPSTREAM: &[Field] = &[
    text("Datacenter"),
    text("DestinationName"),
    text("DestinationNamespace"),
    text("DestinationPartition"),
    text("DestinationPeer"),
    text("DestinationType"),
    text("LocalBindAddress"),
    number("LocalBindPort"),
    text("LocalBindSocketMode"),
    text("LocalBindSocketPath"),
    one("MeshGateway", MESH_GATEWAY),
];
const EXPOSED: &[Field] =
    &[number("ListenerPort"), number("LocalPathPort"), flag("ParsedFromCheck"), text("Path"), text("Protocol")];
const PROXY: &[Field] = &[
    text("DestinationServiceID"),
    text("DestinationServiceName"),
    one("Expose", &[flag("Checks"), many("Paths", EXPOSED)]),
    text("LocalServiceAddress"),
    number("LocalServicePort"),
    text("LocalServiceSocketPath"),
    one("MeshGateway", MESH_GATEWAY),
    text("Mode"),
    one("TransparentProxy", TRANSPARENT),
    many("Upstreams", UPSTREAM),
];

const NODE: &[Field] = &[
    text("ID"),
    text("Node"),
    text("Address"),
    text("Datacenter"),
    text("Partition"),
    text("PeerName"),
    map("TaggedAddresses", &Type::Text),
    map("Meta", &Type::Text),
];

const SERVICE: &[Field] = &[
    text("Kind"),
    text("ID"),
    text("Service"),
    texts("Tags"),
    text("Address"),
    map("TaggedAddresses", ADDRESS),
    map("Meta", &Type::Text),
    number("Port"),
    text("SocketPath"),
    one("Weights", WEIGHTS),
    flag("EnableTagOverride"),
    one("Proxy", PROXY),
    one("Connect", CONNECT),
    text("PeerName"),
];

const CHECK: &[Field] = &[
    text("Node"),
    text("CheckID"),
    text("Name"),
    text("Status"),
    text("Notes"),
    text("Output"),
    text("ServiceID"),
    text("ServiceName"),
    texts("ServiceTags"),
    text("Type"),
    text("Interval"),
    text("Timeout"),
    number("ExposedPort"),
    text("PeerName"),
];

const HEALTH: &[Field] = &[one("Node", NODE), one("Service", SERVICE), many("Checks", CHECK)];

const CATALOG_SERVICE: &[Field] = &[
    text("ID"),
    text("Node"),
    text("Address"),
    text("Datacenter"),
    map("TaggedAddresses", &Type::Text),
    map("NodeMeta", &Type::Text),
    text("ServiceKind"),
    text("ServiceID"),
    text("ServiceName"),
    texts("ServiceTags"),
    text("ServiceAddress"),
    map("ServiceTaggedAddresses", ADDRESS),
    one("ServiceWeights", WEIGHTS),
    map("ServiceMeta", &Type::Text),
    number("ServicePort"),
    text("ServiceSocketPath"),
    flag("ServiceEnableTagOverride"),
    one("ServiceProxy", PROXY),
    one("ServiceConnect", CONNECT),
    text("PeerName"),
];

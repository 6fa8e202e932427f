//! What is stored.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{Check, Index, Indexed, KvEntry, Node, RuleSet, Service, Session, Token, UserEvent};

/// A service's name as first written, and the tags of all its instances, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameRow {
    /// The name.
    pub name: String,
    /// The tags.
    pub tags: Vec<String>,
}

/// What the registry knows about an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentRecord {
    /// Its node, in lower case.
    pub node: String,
    /// Which life of its data spoke last.
    pub incarnation: String,
    /// The last batch applied of that life.
    pub sequence: u64,
    /// Lives before, newest last: what still arrives from them is too late.
    pub past: Vec<String>,
    /// Since when nothing was heard of it.
    pub lost: Option<Timestamp>,
}

/// How long a key cannot be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// From then on it can.
    pub until: Timestamp,
}

/// A stored thing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what its name says")]
pub enum Thing {
    Node(Indexed<Node>),
    Service(Indexed<Service>),
    Check(Indexed<Check>),
    Name(Indexed<NameRow>),
    Key(Indexed<KvEntry>),
    Session(Indexed<Session>),
    Delay(Indexed<Delay>),
    Event(Indexed<UserEvent>),
    Token(Indexed<Token>),
    RuleSet(Indexed<RuleSet>),
    Agent(Indexed<AgentRecord>),
}

/// A kind of stored thing.
pub(super) trait Kind: PartialEq + Sized {
    fn wrap(value: Indexed<Self>) -> Thing;
    fn of(thing: &Thing) -> Option<&Indexed<Self>>;
}

macro_rules! kinds {
    ($($variant:ident($kind:ty)),* $(,)?) => {$(
        impl Kind for $kind {
            fn wrap(value: Indexed<Self>) -> Thing {
                Thing::$variant(value)
            }

            fn of(thing: &Thing) -> Option<&Indexed<Self>> {
                match thing {
                    Thing::$variant(value) => Some(value),
                    _ => None,
                }
            }
        }
    )*

        impl Thing {
            /// When it last changed.
            pub fn modify_index(&self) -> Index {
                match self {
                    $(Self::$variant(value) => value.modify_index,)*
                }
            }
        }
    };
}

kinds!(
    Node(Node),
    Service(Service),
    Check(Check),
    Name(NameRow),
    Key(KvEntry),
    Session(Session),
    Delay(Delay),
    Event(UserEvent),
    Token(Token),
    RuleSet(RuleSet),
    Agent(AgentRecord),
);

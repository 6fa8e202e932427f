//! What is written, and what came of it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::model::{Check, Index, Indexed, KvEntry, Node, RuleSet, Service, Session, Token, UserEvent};

/// A write. Decided by the registry against what it holds; all of it happens at one index, or nothing does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// One key, or a tree of keys.
    Kv(KvOp),
    /// Several things at once.
    Txn(Vec<TxnOp>),
    /// A node, a service on it, checks: `catalog/register`.
    Register(Box<Registration>),
    /// A node with everything on it, or one service, or one check: `catalog/deregister`.
    Deregister(Deregistration),
    /// A new session; its id is given by whoever asks.
    CreateSession(Session),
    /// Ends a session.
    DestroySession(String),
    /// A session lives on.
    RenewSession(String),
    /// A user's event; id is given by whoever asks, ltime by the registry.
    Fire(UserEvent),
    /// The first token, which may do everything; refused once there is one.
    Bootstrap(Token),
    /// A token, new or changed.
    PutToken(Token),
    /// A token by its accessor goes.
    DeleteToken(String),
    /// Rules that tokens share, new or changed.
    PutRuleSet(RuleSet),
    /// A rule set by its id goes.
    DeleteRuleSet(String),
    /// What an agent says about its own node. The agent is who its certificate says.
    Agent(String, Batch),
}

/// What to do with keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvOp {
    /// What.
    pub verb: KvVerb,
    /// The key, or the beginning of it.
    pub key: String,
    /// The value, where one is written.
    #[serde(with = "crate::model::base64_bytes")]
    pub value: Bytes,
    /// The client's number, where one is written.
    pub flags: u64,
    /// The index compared with, for verbs that compare.
    pub index: Index,
    /// The session, for verbs that lock.
    pub session: String,
}

/// What to do with keys: Consul's verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "Consul's own words")]
pub enum KvVerb {
    Set,
    Cas,
    Lock,
    Unlock,
    Get,
    GetOrEmpty,
    GetTree,
    CheckIndex,
    CheckSession,
    CheckNotExists,
    Delete,
    DeleteTree,
    DeleteCas,
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TxnOp {
    /// On keys.
    Kv(KvOp),
    /// On a node.
    Node(CatalogVerb, Box<Node>, Index),
    /// On a service of a node.
    Service(CatalogVerb, String, Box<Service>, Index),
    /// On a check of a node.
    Check(CatalogVerb, String, Box<Check>, Index),
}

/// What a transaction does with nodes, services and checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "Consul's own words")]
pub enum CatalogVerb {
    Get,
    Set,
    Cas,
    Delete,
    DeleteCas,
}

/// `catalog/register`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    /// The node; must be there already if `keep_node`.
    pub node: Node,
    /// Leave the node as it is if it is there.
    pub keep_node: bool,
    /// A service on it.
    pub service: Option<Service>,
    /// Checks.
    pub checks: Vec<Check>,
}

/// `catalog/deregister`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deregistration {
    /// The node.
    pub node: String,
    /// Only this service.
    pub service_id: Option<String>,
    /// Only this check.
    pub check_id: Option<String>,
}

/// What an agent says about its own node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The node as the agent knows it.
    pub node: Node,
    /// Which life of the agent's data this is: sequences are counted within.
    pub incarnation: String,
    /// Grows with each batch; one that is not above the last applied changes nothing and is answered as done.
    pub sequence: u64,
    /// Everything the agent has is in `items`: what the registry has besides goes.
    pub full: bool,
    /// At most 100, unless full.
    pub items: Vec<Item>,
}

/// One thing an agent says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Item {
    /// An instance is there, as it is now.
    Service(Box<Service>),
    /// An instance is gone.
    NoService(String),
    /// A check is there, as it is now.
    Check(Box<Check>),
    /// A check is gone.
    NoCheck(String),
}

/// What came of one item: nothing to say, or why not. One bad item does not hold up the others.
pub type ItemResult = Result<(), Refusal>;

/// A write happened, or was found to be done already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The registry's index after it.
    pub index: Index,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// Nothing more to say.
    Nothing,
    /// Whether the comparison or lock succeeded.
    Kv(bool),
    /// The transaction's results, or why nothing happened.
    Txn(Result<Vec<TxnResult>, Vec<TxnError>>),
    /// The session, as it is now.
    Session(Option<Indexed<Session>>),
    /// The event with its number.
    Event(Indexed<UserEvent>),
    /// One for each item of a batch.
    Items(Vec<ItemResult>),
    /// The token, as it is now.
    Token(Indexed<Token>),
    /// The rule set, as it is now.
    RuleSet(Indexed<RuleSet>),
}

/// A result of one operation of a transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TxnResult {
    /// A key; the value is left out after writes.
    Kv(Indexed<KvEntry>),
    /// A node.
    Node(Indexed<Node>),
    /// A service.
    Service(Indexed<Service>),
    /// A check, and its node.
    Check(String, Indexed<Check>),
}

/// Why an operation of a transaction failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TxnError {
    /// Which one.
    pub op: usize,
    /// Why, in Consul's words.
    pub what: String,
}

/// Why a write was refused; nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Somebody else's, or not allowed.
    #[error("{}", denied(.0))]
    Forbidden(String),
    /// A token that nobody knows.
    #[error("{0}")]
    Unknown(String),
    /// Not there.
    #[error("{0}")]
    NotFound(String),
    /// It makes sense but not now (an invalid session, a missing node): Consul answers 500 with these words.
    #[error("{0}")]
    Failed(String),
    /// Larger than may be.
    #[error("{0}")]
    TooLarge(String),
    /// Too much at once; try again.
    #[error("{0}")]
    Busy(String),
    /// Nobody can decide at the moment.
    #[error("No cluster leader")]
    NoHub,
}

fn denied(why: &str) -> String {
    if why.is_empty() { "Permission denied".to_owned() } else { format!("Permission denied: {why}") }
}

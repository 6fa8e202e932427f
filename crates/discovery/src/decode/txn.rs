//! Transactions.

use crate::command::{CatalogVerb, KvOp, KvVerb, Refusal, TxnError, TxnOp};

use super::fields::Fields;
use super::json::{self, Json};
use super::{bodies, check, shape, shapes, validate};

/// More operations at once are refused.
pub const OPERATIONS_MAX: usize = 128;

/// `txn`: the operations, or what is wrong with which of them (a 409).
pub fn txn(body: &[u8]) -> Result<Result<Vec<TxnOp>, Vec<TxnError>>, Refusal> {
    let unread = |why| Refusal::Invalid(format!("Failed to parse body: {why}"));
    let value = json::parse(body).map_err(unread)?;
    shape::check_list(&value, "api.TxnOps", &shapes::OPERATION).map_err(unread)?;
    let items = match value {
        Json::List(items) => items,
        _ => Vec::new(),
    };
    if items.len() > OPERATIONS_MAX {
        let count = items.len();
        return Err(Refusal::TooLarge(format!(
            "Transaction contains too many operations ({count} > {OPERATIONS_MAX})"
        )));
    }
    let (mut operations, mut errors) = (Vec::with_capacity(items.len()), Vec::new());
    for (op, item) in items.iter().enumerate() {
        match operation(Fields::of(item)) {
            Some(Ok(operation)) => operations.push(operation),
            Some(Err(what)) => errors.push(TxnError { op, what }),
            // An operation that is none is passed over, as Consul does.
            None => {}
        }
    }
    Ok(if errors.is_empty() { Ok(operations) } else { Err(errors) })
}

fn operation(fields: Fields<'_>) -> Option<Result<TxnOp, String>> {
    fields
        .object("KV")
        .map(|inner| kv(inner).map(TxnOp::Kv))
        .or_else(|| fields.object("Node").map(node))
        .or_else(|| fields.object("Service").map(service))
        .or_else(|| fields.object("Check").map(health))
}

fn kv(fields: Fields<'_>) -> Result<KvOp, String> {
    let word = fields.text(&["Verb"]);
    let key = fields.text(&["Key"]);
    if key.is_empty() && word != "delete-tree" {
        return Err(String::from("Must provide key"));
    }
    let verb = match word.as_str() {
        "set" => KvVerb::Set,
        "cas" => KvVerb::Cas,
        "lock" => KvVerb::Lock,
        "unlock" => KvVerb::Unlock,
        "get" => KvVerb::Get,
        "get-or-empty" => KvVerb::GetOrEmpty,
        "get-tree" => KvVerb::GetTree,
        "check-index" => KvVerb::CheckIndex,
        "check-session" => KvVerb::CheckSession,
        "check-not-exists" => KvVerb::CheckNotExists,
        "delete" => KvVerb::Delete,
        "delete-tree" => KvVerb::DeleteTree,
        "delete-cas" => KvVerb::DeleteCas,
        _ => return Err(format!("unknown KV operation: {word}")),
    };
    Ok(KvOp {
        verb,
        key,
        value: fields.bytes("Value"),
        flags: fields.uint("Flags"),
        index: fields.uint("Index"),
        session: fields.text(&["Session"]),
    })
}

fn catalog_verb(fields: Fields<'_>, what: &str) -> Result<CatalogVerb, String> {
    match fields.text(&["Verb"]).as_str() {
        "get" => Ok(CatalogVerb::Get),
        "set" => Ok(CatalogVerb::Set),
        "cas" => Ok(CatalogVerb::Cas),
        "delete" => Ok(CatalogVerb::Delete),
        "delete-cas" => Ok(CatalogVerb::DeleteCas),
        other => Err(format!("unknown {what} operation: {other}")),
    }
}

fn nested<'a>(fields: Fields<'a>, key: &str) -> Fields<'a> {
    fields.object(key).unwrap_or(Fields::of(&Json::Null))
}

fn node(fields: Fields<'_>) -> Result<TxnOp, String> {
    let verb = catalog_verb(fields, "node")?;
    let inner = nested(fields, "Node");
    let node = bodies::node(inner, "Meta");
    if verb != CatalogVerb::Get {
        if node.name.is_empty() {
            return Err(String::from("Must provide node"));
        }
        if !node.id.is_empty() && uuid::Uuid::try_parse(&node.id).is_err() {
            return Err(String::from("Bad node ID: uuid string is wrong length"));
        }
    }
    Ok(TxnOp::Node(verb, Box::new(node), inner.uint("ModifyIndex")))
}

fn service(fields: Fields<'_>) -> Result<TxnOp, String> {
    let verb = catalog_verb(fields, "service")?;
    let inner = nested(fields, "Service");
    let service = if verb == CatalogVerb::Get {
        validate::service(inner, inner.text(&["ID"]), inner.text(&["Service"]))?
    } else {
        bodies::catalog_service(inner).map_err(|refusal| refusal.to_string())?
    };
    Ok(TxnOp::Service(verb, fields.text(&["Node"]), Box::new(service), inner.uint("ModifyIndex")))
}

fn health(fields: Fields<'_>) -> Result<TxnOp, String> {
    let verb = catalog_verb(fields, "check")?;
    let inner = nested(fields, "Check");
    let (node, check) = check::health(inner)?;
    Ok(TxnOp::Check(verb, node, Box::new(check), inner.uint("ModifyIndex")))
}

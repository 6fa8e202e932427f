//! `/v1/txn`: several things at once.

use http::StatusCode;
use serde::Serialize;

use super::call::{Call, Outcome};
use super::catalog_write::not_run_here;
use super::failure::Failure;
use super::headers::put_leader;
use super::options::ReadOptions;
use super::view::{CheckView, KvView, NodeView, ServiceView};
use crate::command::{CatalogVerb, Command, KvVerb, Outcome as Written, TxnError, TxnOp, TxnResult};
use crate::decode;
use crate::http::{Answer, BODY_BYTES_MAX};

/// Where Consul explains its bound.
const BOUND_PAGE: &str = "https://developer.hashicorp.com/docs/agent/config/config-files#txn_max_req_len";

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Reply<'a> {
    results: Option<Vec<ResultView<'a>>>,
    errors: Option<Vec<ErrorView<'a>>>,
    #[serde(flatten)]
    read: Option<ReadPart>,
}

#[derive(Serialize)]
enum ResultView<'a> {
    #[serde(rename = "KV")]
    Kv(KvView<'a>),
    Node(NodeView<'a>),
    Service(ServiceView<'a>),
    Check(Box<CheckView<'a>>),
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorView<'a> {
    op_index: usize,
    what: &'a str,
}

/// What Consul adds when nothing was written.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ReadPart {
    index: u64,
    last_contact: u64,
    known_leader: bool,
    consistency_level: &'static str,
    not_modified: bool,
    backend: u64,
    #[serde(rename = "ResultsFilteredByACLs")]
    results_filtered: bool,
}

/// Which of Consul's paths a transaction took: the answer's shape tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    /// Something was to be written.
    Write,
    /// It only reads, and was decided.
    Read,
    /// It only reads, and was refused before anybody decided.
    Refused,
}

impl Path {
    fn part(self) -> Option<ReadPart> {
        let decided = self == Self::Read;
        (self != Self::Write).then_some(ReadPart {
            index: decided.into(),
            last_contact: 0,
            known_leader: decided,
            consistency_level: "",
            not_modified: false,
            backend: 0,
            results_filtered: false,
        })
    }
}

impl Call<'_> {
    pub(super) async fn txn(&self) -> Outcome {
        let mut ops = match decode::txn(self.txn_body()?)? {
            Ok(ops) => ops,
            Err(errors) => return self.conflict(&errors, Path::Write),
        };
        let reads_only = !ops.iter().any(writes);
        if reads_only {
            ReadOptions::parse(self.request)?;
        }
        self.datacenter()?;
        let mut denied = Vec::new();
        for (op, one) in ops.iter().enumerate() {
            if let Err(refusal) = self.vet().operation(one).await {
                denied.push(TxnError { op, what: refusal.to_string() });
            }
        }
        if !denied.is_empty() {
            return self.conflict(&denied, if reads_only { Path::Refused } else { Path::Write });
        }
        for op in &mut ops {
            match op {
                TxnOp::Node(_, node, _) => {
                    self.is_here(&node.datacenter)?;
                    node.datacenter.clone_from(&self.place().datacenter);
                }
                TxnOp::Check(_, _, check, _) => not_run_here(check),
                TxnOp::Kv(_) | TxnOp::Service(..) => {}
            }
        }
        let path = if reads_only { Path::Read } else { Path::Write };
        match self.write(Command::Txn(ops)).await?.outcome {
            Written::Txn(Ok(results)) => {
                let results =
                    Some(results.iter().filter(|result| self.access.sees_result(result)).map(shown).collect());
                let reply = Reply { results, errors: None, read: path.part() };
                Ok(told(self.json(&reply)?, path))
            }
            Written::Txn(Err(errors)) => self.conflict(&errors, path),
            _ => Err(Failure::failed("the registry answered something else")),
        }
    }

    fn txn_body(&self) -> Result<&[u8], Failure> {
        self.request.body.as_deref().map_err(|large| {
            let length = large.declared.map(|length| format!("({length} bytes)")).unwrap_or_default();
            Failure::too_large(format!(
                "Request body{length} too large, max size: {BODY_BYTES_MAX} bytes. See {BOUND_PAGE}."
            ))
        })
    }

    fn conflict(&self, errors: &[TxnError], path: Path) -> Outcome {
        let errors = errors.iter().map(|error| ErrorView { op_index: error.op, what: &error.what }).collect();
        let reply = Reply { results: None, errors: Some(errors), read: path.part() };
        let answer = Answer::typed(StatusCode::CONFLICT, "application/json; charset=utf-8", self.rendered(&reply)?);
        Ok(told(answer, path))
    }
}

/// Reads say whether somebody decided.
fn told(mut answer: Answer, path: Path) -> Answer {
    if path != Path::Write {
        put_leader(&mut answer.headers, path == Path::Read);
    }
    answer
}

fn writes(op: &TxnOp) -> bool {
    match op {
        TxnOp::Kv(kv) => matches!(
            kv.verb,
            KvVerb::Set
                | KvVerb::Cas
                | KvVerb::Lock
                | KvVerb::Unlock
                | KvVerb::Delete
                | KvVerb::DeleteTree
                | KvVerb::DeleteCas
        ),
        TxnOp::Node(verb, ..) | TxnOp::Service(verb, ..) | TxnOp::Check(verb, ..) => *verb != CatalogVerb::Get,
    }
}

fn shown(result: &TxnResult) -> ResultView<'_> {
    match result {
        TxnResult::Kv(entry) => ResultView::Kv(KvView::new(entry)),
        TxnResult::Node(node) => ResultView::Node(NodeView::new(node)),
        TxnResult::Service(service) => ResultView::Service(ServiceView::in_transaction(service)),
        TxnResult::Check(node, check) => ResultView::Check(Box::new(CheckView::in_transaction(node, check))),
    }
}

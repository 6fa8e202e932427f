//! Writes of `/v1/kv/*`.

use bytes::Bytes;

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::options::unsigned;
use crate::command::{Command, KvOp, KvVerb, Outcome as Written};
use crate::http::BODY_BYTES_MAX;
use crate::model::{Policy, Resource};

/// Where Consul explains its bound.
const BOUND_PAGE: &str = "https://developer.hashicorp.com/docs/agent/config/config-files#kv_max_value_size";

impl Call<'_> {
    pub(super) async fn kv_put(&self, key: &str) -> Outcome {
        if key.is_empty() {
            return Err(Failure::bad("Missing key name"));
        }
        self.one_of(&["cas", "acquire", "release"])?;
        let query = self.query();
        let mut op = operation(KvVerb::Set, key);
        if query.has("flags") {
            op.flags = number(query.get("flags"))?;
        }
        if query.has("cas") {
            op.index = number(query.get("cas"))?;
            op.verb = KvVerb::Cas;
        }
        for (name, verb) in [("acquire", KvVerb::Lock), ("release", KvVerb::Unlock)] {
            if query.has(name) {
                query.get(name).clone_into(&mut op.session);
                op.verb = verb;
            }
        }
        op.value = self.request.body.clone().map_err(|large| match large.declared {
            Some(length) => Failure::too_large(format!(
                "Request body({length} bytes) too large, max size: {BODY_BYTES_MAX} bytes. See {BOUND_PAGE}."
            )),
            None => Failure::too_large(format!("Request body too large. Max allowed is {BODY_BYTES_MAX} bytes.")),
        })?;
        self.access.require(Resource::Key, key, Policy::Write)?;
        self.kv_apply(op).await
    }

    pub(super) async fn kv_delete(&self, key: &str) -> Outcome {
        self.one_of(&["recurse", "cas"])?;
        let query = self.query();
        let mut op = operation(KvVerb::Delete, key);
        if query.has("recurse") {
            op.verb = KvVerb::DeleteTree;
            self.access.require_tree(Resource::Key, key, Policy::Write)?;
        } else if key.is_empty() {
            return Err(Failure::bad("Missing key name"));
        } else {
            self.access.require(Resource::Key, key, Policy::Write)?;
        }
        if query.has("cas") {
            op.index = number(query.get("cas"))?;
            op.verb = KvVerb::DeleteCas;
        }
        self.kv_apply(op).await
    }

    async fn kv_apply(&self, op: KvOp) -> Outcome {
        self.datacenter()?;
        let done = self.write(Command::Kv(op)).await?;
        self.json(&!matches!(done.outcome, Written::Kv(false)))
    }

    fn one_of(&self, flags: &[&str]) -> Result<(), Failure> {
        if flags.iter().filter(|flag| self.query().has(flag)).count() > 1 {
            return Err(Failure::bad(format!("Conflicting flags: {}\n", self.query().encoded())));
        }
        Ok(())
    }
}

fn operation(verb: KvVerb, key: &str) -> KvOp {
    KvOp { verb, key: key.to_owned(), value: Bytes::new(), flags: 0, index: 0, session: String::new() }
}

/// A number, or Go's complaint about it.
fn number(text: &str) -> Result<u64, Failure> {
    unsigned(text).ok_or_else(|| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let what = if digits { "value out of range" } else { "invalid syntax" };
        Failure::failed(format!("strconv.ParseUint: parsing {text:?}: {what}"))
    })
}

//! `/v1/acl/policy*`.

use http::Method;
use serde::Serialize;

use super::acl::{Known, hash, is_uuid};
use super::call::{Call, Outcome};
use super::failure::Failure;
use super::options::ReadOptions;
use crate::access::{builtin, rules};
use crate::command::{Command, Outcome as Written};
use crate::decode::{self, PolicyBody};
use crate::model::{Index, Indexed, Policy, RuleSet};

const NAME_MAX: usize = 128;

/// A policy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct PolicyView<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    name: &'a str,
    description: &'a str,
    rules: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    datacenters: &'a [String],
    hash: String,
    create_index: Index,
    modify_index: Index,
}

/// A policy in a list: without its rules.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct StubView<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    name: &'a str,
    description: &'a str,
    datacenters: Option<&'a [String]>,
    hash: String,
    create_index: Index,
    modify_index: Index,
}

impl<'a> PolicyView<'a> {
    fn new(set: &'a Indexed<RuleSet>) -> Self {
        let value = set.value.as_ref();
        Self {
            id: &value.id,
            name: &value.name,
            description: &value.description,
            rules: &value.text,
            datacenters: &value.datacenters,
            hash: hash(value),
            create_index: set.create_index,
            modify_index: set.modify_index,
        }
    }
}

impl<'a> StubView<'a> {
    fn new(set: &'a Indexed<RuleSet>) -> Self {
        let value = set.value.as_ref();
        Self {
            id: &value.id,
            name: &value.name,
            description: &value.description,
            datacenters: Some(value.datacenters.as_slice()).filter(|names| !names.is_empty()),
            hash: hash(value),
            create_index: set.create_index,
            modify_index: set.modify_index,
        }
    }
}

impl Call<'_> {
    pub(super) async fn acl_policies(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        self.may_acl(Policy::Read)?;
        let known = self.known(&options).await?;
        let sets = known.rule_sets();
        self.acl_json(&sets.iter().map(StubView::new).collect::<Vec<_>>(), &known, &options)
    }

    pub(super) async fn acl_policy(&self) -> Outcome {
        let id = self.named("Missing policy ID")?;
        match self.request.method {
            Method::PUT => self.policy_update(id).await,
            Method::DELETE => self.policy_delete(id).await,
            _ => self.policy_show(id).await,
        }
    }

    pub(super) async fn acl_policy_by_name(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let name = self.named("Missing policy Name")?;
        self.may_acl(Policy::Read)?;
        let known = self.known(&options).await?;
        self.show_policy(&known, &options, |set| set.name == name)
    }

    async fn policy_show(&self, id: &str) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        self.may_acl(Policy::Read)?;
        lookup(id)?;
        let known = self.known(&options).await?;
        self.show_policy(&known, &options, |set| set.id == id)
    }

    fn show_policy(&self, known: &Known, options: &ReadOptions, fits: impl Fn(&RuleSet) -> bool) -> Outcome {
        let absent = || Failure::not_found("Requested policy does not exist: ACL not found");
        let set = known.rule_set(fits).ok_or_else(absent)?;
        self.acl_json(&PolicyView::new(&set), known, options)
    }

    pub(super) async fn acl_policy_create(&self) -> Outcome {
        let asked = decode::policy(self.body()?).map_err(Failure::bad)?;
        if !asked.id.is_empty() {
            return Err(Failure::bad("Cannot specify the ID when creating a new policy"));
        }
        self.may_acl(Policy::Write)?;
        let id = uuid::Uuid::new_v4().to_string();
        self.put_policy(id, asked).await
    }

    async fn policy_update(&self, id: &str) -> Outcome {
        let asked = decode::policy(self.body()?).map_err(Failure::bad)?;
        if !asked.id.is_empty() && asked.id != id {
            return Err(Failure::bad("Policy ID in URL and payload do not match"));
        }
        self.may_acl(Policy::Write)?;
        if asked.name.is_empty() {
            return Err(Failure::failed("Invalid Policy: no Name is set"));
        }
        lookup(id)?;
        if let Some(set) = builtin::rule_set(id) {
            let text = format!("Changing the Rules for the builtin {} policy is not permitted", set.name);
            return Err(Failure::failed(text));
        }
        if self.known(&ReadOptions::default()).await?.rule_set(|set| set.id == id).is_none() {
            return Err(Failure::failed(format!("cannot find policy {id}")));
        }
        self.put_policy(id.to_owned(), asked).await
    }

    async fn put_policy(&self, id: String, asked: PolicyBody) -> Outcome {
        check_name(&asked.name)?;
        let known = self.known(&ReadOptions::default()).await?;
        if known.rule_set(|set| set.id != id && set.name == asked.name).is_some() {
            return Err(Failure::failed(format!("Invalid Policy: A Policy with Name {:?} already exists", asked.name)));
        }
        let rules = rules::parse(&asked.rules).map_err(Failure::failed)?;
        for datacenter in &asked.datacenters {
            self.is_here(datacenter)?;
        }
        let set = RuleSet {
            id,
            name: asked.name,
            description: asked.description,
            text: asked.rules,
            rules,
            datacenters: asked.datacenters,
        };
        match self.write(Command::PutRuleSet(set)).await?.outcome {
            Written::RuleSet(set) => self.json(&PolicyView::new(&set)),
            _ => Err(Failure::failed("the registry answered something else")),
        }
    }

    async fn policy_delete(&self, id: &str) -> Outcome {
        self.may_acl(Policy::Write)?;
        lookup(id)?;
        if let Some(set) = builtin::rule_set(id) {
            return Err(Failure::failed(format!("Delete operation not permitted on the builtin {} policy", set.name)));
        }
        if self.known(&ReadOptions::default()).await?.rule_set(|set| set.id == id).is_none() {
            return Err(Failure::not_found("Cannot find policy to delete"));
        }
        self.write(Command::DeleteRuleSet(id.to_owned())).await?;
        self.json(&true)
    }
}

fn lookup(id: &str) -> Result<(), Failure> {
    if is_uuid(id) {
        return Ok(());
    }
    Err(Failure::failed("failed acl policy lookup: index error: UUID must be 36 characters"))
}

fn check_name(name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(Failure::failed("Invalid Policy: no Name is set"));
    }
    let is_fine = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let mut parts = name.split('/');
    let fine = parts.by_ref().take(2).all(is_fine) && parts.next().is_none();
    if fine && name.len() <= NAME_MAX {
        return Ok(());
    }
    let text = "Invalid Policy: invalid Name. Only alphanumeric characters, a single '/', '-' and '_' are allowed";
    Err(Failure::failed(text))
}

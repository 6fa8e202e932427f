//! The same tokens on both sides.

use serde_json::json;
use thane_discovery::Command;
use thane_discovery::access::{ANONYMOUS, digest};
use thane_discovery::backend::{Backend, Caller};
use thane_discovery::hub::Registry;
use thane_discovery::model::{Policy, Resource, Rule, Token};
use thane_testkit::peer::Consul;

/// May do everything.
pub(crate) const ROOT: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const ROOT_ACCESSOR: &str = "aaaaaaaa-0000-4000-8000-000000000002";
/// May do a little.
const SECRET: &str = "bbbbbbbb-0000-4000-8000-000000000001";
const ACCESSOR: &str = "bbbbbbbb-0000-4000-8000-000000000002";

const RULES: &[(Resource, &str, &str, bool, Policy)] = &[
    (Resource::Key, "key", "app/", false, Policy::Write),
    (Resource::Key, "key", "app/secret", false, Policy::Deny),
    (Resource::Key, "key", "shared/", false, Policy::Read),
    (Resource::Key, "key", "shared/mine", true, Policy::Write),
    (Resource::Node, "node", "", false, Policy::Read),
    (Resource::Service, "service", "tweb", true, Policy::Write),
    (Resource::Service, "service", "tdb", true, Policy::Read),
    (Resource::Session, "session", "n1", true, Policy::Write),
    (Resource::Event, "event", "deploy", false, Policy::Write),
];

pub(crate) async fn give_to_consul(consul: &Consul) {
    let rule = |(_, word, name, exact, policy): &(Resource, &str, &str, bool, Policy)| {
        let policy = format!("{policy:?}").to_lowercase();
        let kind = if *exact { (*word).to_owned() } else { format!("{word}_prefix") };
        format!("{kind} \"{name}\" {{ policy = \"{policy}\" }}\n")
    };
    let rules: String = RULES.iter().map(rule).collect();
    let policy = json!({"Name": "some", "Rules": rules}).to_string();
    let token = json!({"AccessorID": ACCESSOR, "SecretID": SECRET, "Policies": [{"Name": "some"}]}).to_string();
    for (line, body) in [("PUT /v1/acl/policy", policy), ("PUT /v1/acl/token", token)] {
        let answer = consul.ask(line, ROOT, body).await.unwrap();
        assert!(answer.status.is_success(), "{line}: {}", String::from_utf8_lossy(&answer.body));
    }
}

pub(crate) async fn give_to_ours(registry: &Registry) {
    let everything = Resource::ALL
        .map(|resource| Rule { resource, name: String::new(), exact: false, policy: Policy::Write })
        .into();
    let some = RULES
        .iter()
        .map(|(resource, _, name, exact, policy)| Rule {
            resource: *resource,
            name: (*name).to_owned(),
            exact: *exact,
            policy: *policy,
        })
        .collect();
    let tokens = [
        (ROOT_ACCESSOR, digest(ROOT), everything),
        (ACCESSOR, digest(SECRET), some),
        (ANONYMOUS, String::new(), Vec::new()),
    ];
    for (accessor, secret_digest, rules) in tokens {
        let token = Token { accessor: accessor.to_owned(), secret_digest, rules, ..Token::default() };
        registry.write(&Caller::default(), Command::PutToken(token)).await.unwrap();
    }
}

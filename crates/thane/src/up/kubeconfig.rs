//! The kubeconfig that leads to every API of the process.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use thane_api::code;
use thane_apiserver::embedded::Embedded;
use thane_runtime::pki::Identity;

use crate::failure::Failure;

/// One context: where, trusted by what, as whom.
struct Context<'a> {
    name: &'a str,
    server: String,
    ca_pem: &'a str,
    user: &'a Identity,
}

/// A kubeconfig with a context for each API; the first is the current one.
pub(super) fn write(names: &[String], apis: &[Embedded]) -> Result<String, Failure> {
    let contexts = names.iter().zip(apis).map(|(name, api)| Context {
        name,
        server: api.url(),
        ca_pem: &api.ca_pem,
        user: &api.admin,
    });
    let tree = tree(&contexts.collect::<Vec<_>>());
    // Encoded certificates must stay on their lines.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&tree, options)
        .map_err(|error| Failure::new(code::BUG, format!("write the kubeconfig: {error}")))
}

fn tree(contexts: &[Context<'_>]) -> Value {
    let list = |one: &dyn Fn(&Context<'_>) -> Value| contexts.iter().map(one).collect::<Vec<Value>>();
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": contexts.first().map_or("", |context| context.name),
        "clusters": list(&|context| json!({
            "name": context.name,
            "cluster": {"server": context.server, "certificate-authority-data": STANDARD.encode(context.ca_pem)},
        })),
        "users": list(&|context| json!({
            "name": format!("{}-admin", context.name),
            "user": {
                "client-certificate-data": STANDARD.encode(&context.user.cert_pem),
                "client-key-data": STANDARD.encode(&context.user.key_pem),
            },
        })),
        "contexts": list(&|context| json!({
            "name": context.name,
            "context": {"cluster": context.name, "user": format!("{}-admin", context.name)},
        })),
    })
}

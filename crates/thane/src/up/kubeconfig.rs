//! The kubeconfig that leads to every API of the process.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::select_all;
use serde_json::{Value, json};
use thane_api::code;
use thane_apiserver::embedded::{Credentials, Embedded};
use thane_runtime::Tasks;
use tokio::sync::watch;

use super::directory::Directory;
use crate::failure::Failure;

const FILE: &str = "kubeconfig";

/// One context: where, and with what.
struct Context {
    name: String,
    server: String,
    credentials: watch::Receiver<Credentials>,
}

/// Writes a kubeconfig with a context for each API, the first being the current one, and again whenever certificates
/// were renewed.
pub(super) fn publish(
    names: &[String],
    apis: &[Embedded],
    directory: &Directory,
    tasks: &Tasks,
) -> Result<(), Failure> {
    let contexts = names.iter().zip(apis).map(|(name, api)| Context {
        name: name.clone(),
        server: api.url(),
        credentials: api.credentials.clone(),
    });
    let mut contexts: Vec<Context> = contexts.collect();
    write(&mut contexts, directory)?;
    let (directory, group) = (directory.clone(), tasks.clone());
    tasks.spawn("kubeconfig", async move {
        tokio::select! {
            () = group.cancelled() => {}
            () = follow(contexts, directory) => {}
        }
    });
    Ok(())
}

async fn follow(mut contexts: Vec<Context>, directory: Directory) {
    loop {
        let changed = contexts.iter_mut().map(|context| Box::pin(context.credentials.changed()));
        if select_all(changed).await.0.is_err() {
            // That server has ended, and with it the process.
            return;
        }
        if let Err(failure) = write(&mut contexts, &directory) {
            tracing::error!(?failure, "the kubeconfig has old certificates");
        }
    }
}

fn write(contexts: &mut [Context], directory: &Directory) -> Result<(), Failure> {
    // Encoded certificates must stay on their lines.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(&tree(contexts), options)
        .map_err(|error| Failure::new(code::BUG, format!("write the kubeconfig: {error}")))?;
    directory.write(FILE, &text)
}

fn tree(contexts: &mut [Context]) -> Value {
    let (mut clusters, mut users, mut named) = (Vec::new(), Vec::new(), Vec::new());
    for Context { name, server, credentials } in &mut *contexts {
        let Credentials { ca_pem, admin } = &*credentials.borrow_and_update();
        let user = format!("{name}-admin");
        clusters.push(json!({
            "name": name,
            "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(ca_pem)},
        }));
        users.push(json!({
            "name": user,
            "user": {
                "client-certificate-data": STANDARD.encode(&admin.cert_pem),
                "client-key-data": STANDARD.encode(&admin.key_pem),
            },
        }));
        named.push(json!({"name": name, "context": {"cluster": name, "user": user}}));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": contexts.first().map_or("", |context| &context.name),
        "clusters": clusters,
        "users": users,
        "contexts": named,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thane_runtime::pki::Identity;

    use super::*;

    fn credentials(key: &str) -> Credentials {
        Credentials {
            ca_pem: "authority".to_owned(),
            admin: Identity { cert_pem: "certificate".to_owned(), key_pem: key.to_owned() },
        }
    }

    #[tokio::test]
    async fn renewed_certificates_appear_in_the_file() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path()).unwrap();
        let (sender, receiver) = watch::channel(credentials("old"));
        let context = Context { name: "hub".to_owned(), server: "https://x".to_owned(), credentials: receiver };
        let mut contexts = vec![context];
        write(&mut contexts, &directory).unwrap();
        let read = || std::fs::read_to_string(directory.join(FILE)).unwrap();
        assert!(read().contains(&STANDARD.encode("old")));
        assert!(read().contains("current-context: hub"));
        sender.send_replace(credentials("new"));
        // It ends when nobody renews any more.
        drop(sender);
        tokio::time::timeout(Duration::from_secs(30), follow(contexts, directory.clone())).await.unwrap();
        assert!(read().contains(&STANDARD.encode("new")));
    }
}

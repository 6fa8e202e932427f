//! test
use thane_testkit::peer::{Node, PeerHome};
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up() {
    let home = PeerHome::locate();
    if let Err(a) = Node::require(&home) { return a.tell(); }
    let node = Node::start(&home, &[]).await.unwrap_or_else(|e| panic!("{e:#}"));
    eprintln!("{}", node.api().kubeconfig().display());
    if std::env::var("HOLD").is_ok() { while !std::path::Path::new("/tmp/argo-go").exists() { tokio::time::sleep(std::time::Duration::from_millis(500)).await; } }
    node.stop().unwrap();
}

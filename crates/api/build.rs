//! Turns the wire contracts in `proto/` into Rust, without any program besides the compiler.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let files = [
        "cloudevents/cloudevents.proto",
        "argocd-agent/authapi.proto",
        "argocd-agent/versionapi.proto",
        "argocd-agent/eventstreamapi.proto",
        "argocd-agent/logstreamapi.proto",
        "argocd-agent/terminalstreamapi.proto",
        "konsul/agent.proto",
        "grpc/health.proto",
        "arl/sidecar.proto",
        "thane/sandbox.proto",
        "thane/tunnel.proto",
    ];
    let descriptors = protox::compile(files, [&root])?;
    // Bodies are passed on, never looked into where they are moved: sharing them costs nothing.
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}

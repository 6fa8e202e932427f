//! Messages and services of the connections between agent, hub and sandboxes, generated from `proto/`.
#![expect(
    missing_docs,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    reason = "generated code; proto/ says what it is"
)]

mod io {
    pub(super) mod cloudevents {
        pub mod v1 {
            tonic::include_proto!("io.cloudevents.v1");
        }
    }
}

/// The envelope of every event.
pub use io::cloudevents::v1 as cloudevents;

/// Proof of identity, and tokens.
pub mod auth {
    tonic::include_proto!("authapi");
}

/// The hub's version.
pub mod version {
    tonic::include_proto!("versionapi");
}

/// The stream of events.
pub mod events {
    tonic::include_proto!("eventstreamapi");
}

/// Logs of containers.
pub mod logs {
    tonic::include_proto!("principal.apis.logstreamapi");
}

/// Shells in containers.
pub mod terminal {
    tonic::include_proto!("terminalstreamapi");
}

/// Services, keys and health between an agent and the hub.
pub mod discovery {
    tonic::include_proto!("konsul.agent");
}

/// How a gRPC server says that it is well.
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}

/// Commands, shells and files of a sandbox, as upstream has them.
pub mod sidecar {
    tonic::include_proto!("arl.sidecar");
}

/// Recorded steps of a sandbox, and its files as they were.
pub mod sandbox {
    tonic::include_proto!("thane.sandbox.v1");
}

/// Requests to the Kubernetes API of an agent's cluster.
pub mod tunnel {
    tonic::include_proto!("thane.tunnel.v1");
}

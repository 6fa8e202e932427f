//! A check that is dialled: whoever answers passes.

use super::machine::Observation;
use super::{Tools, chain};
use crate::agent::dial::{self, BoxError};
use crate::model::{CheckDefinition, Status};

pub(super) async fn ask(tools: &Tools, definition: &CheckDefinition) -> Observation {
    let address = &definition.tcp;
    match dial(tools, definition).await {
        Ok(()) => Observation::new(Status::Passing, format!("TCP connect {address}: Success")),
        Err(error) => Observation::new(Status::Critical, format!("TCP connect {address}: {}", chain(&*error))),
    }
}

async fn dial(tools: &Tools, definition: &CheckDefinition) -> Result<(), BoxError> {
    let (host, port) = dial::host_and_port(&definition.tcp, None).ok_or("not a host and a port")?;
    let stream = tools.network.connect(&host, port).await?;
    if definition.tcp_use_tls {
        let name = if definition.tls_server_name.is_empty() { &host } else { &definition.tls_server_name };
        dial::tls(stream, name, &tools.trust.config(definition.tls_skip_verify)?, b"").await?;
    }
    Ok(())
}

//! A check asked over gRPC's own health service.

use http::Uri;
use thane_api::wire::health::HealthCheckRequest;
use thane_api::wire::health::health_check_response::ServingStatus;
use thane_api::wire::health::health_client::HealthClient;

use super::machine::Observation;
use super::{Tools, chain};
use crate::agent::dial::{self, BoxError, Channel};
use crate::model::{CheckDefinition, Status};

pub(super) async fn ask(tools: &Tools, definition: &CheckDefinition) -> Observation {
    let target = &definition.grpc;
    match call(tools, definition).await {
        Ok(ServingStatus::Serving) => Observation::new(Status::Passing, format!("gRPC check {target}: success")),
        Ok(other) => {
            Observation::new(Status::Critical, format!("gRPC {target} serving status: {}", other.as_str_name()))
        }
        Err(error) => Observation::new(Status::Critical, format!("gRPC check {target}: {}", chain(&*error))),
    }
}

async fn call(tools: &Tools, definition: &CheckDefinition) -> Result<ServingStatus, BoxError> {
    let (address, service) = definition.grpc.split_once('/').unwrap_or((&definition.grpc, ""));
    let (host, port) = dial::host_and_port(address, None).ok_or("not a host and a port")?;
    let mut stream = tools.network.connect(&host, port).await?;
    if definition.grpc_use_tls {
        let name = if definition.tls_server_name.is_empty() { &host } else { &definition.tls_server_name };
        stream = dial::tls(stream, name, &tools.trust.config(definition.tls_skip_verify)?, b"h2").await?;
    }
    let close = tools.tasks.token().child_token();
    let _guard = close.clone().drop_guard();
    let channel = Channel::over(stream, None, close, &tools.tasks).await?;
    let scheme = if definition.grpc_use_tls { "https" } else { "http" };
    let origin = Uri::builder().scheme(scheme).authority(address).path_and_query("/").build()?;
    let mut client = HealthClient::with_origin(channel, origin);
    let answer = client.check(HealthCheckRequest { service: service.to_owned() }).await?;
    Ok(answer.into_inner().status())
}

//! Logs, commands and ports of pods: read here, done by whoever runs the pod.

mod channels;
mod forward;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde_json::Value;
use thane_runtime::pods::{AccessError, ContainerAt, ExecOptions, LogOptions};

use super::Call;
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::response::{self, Answer, Body};
use crate::server::PodDoor;

/// Ports in one request.
const PORTS_MAX: usize = 32;

/// A pod whose ports are wanted.
#[derive(Debug, Clone)]
struct PodAt {
    name: String,
    uid: String,
}

/// Handles GET of a log.
pub(crate) async fn log(call: &Call<'_>) -> Result<Answer> {
    let pod = call.current().await?.value(&call.kind)?;
    let at = container(call, &pod)?;
    let options = log_options(call)?;
    let door = door(call, &pod, &at.container)?;
    let log = door.access.logs(at, options).await.map_err(|error| failure(&error))?;
    let mut answer = response::text(200, "");
    *answer.body_mut() = Body::stream(log);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(answer)
}

/// Handles a command in a container, or (`attach`) its own process.
pub(crate) async fn exec(call: &Call<'_>, attach: bool) -> Result<Answer> {
    let pod = call.current().await?.value(&call.kind)?;
    let at = container(call, &pod)?;
    let flag = |name: &str| call.query.flag(name);
    let of = if attach { channels::Process::Container } else { channels::Process::Command };
    let streams = channels::Streams { stdin: flag("stdin"), stdout: flag("stdout"), stderr: flag("stderr"), of };
    let command: Vec<String> = call.query.all("command").map(str::to_owned).collect();
    if !attach && command.is_empty() {
        return Err(Failure::bad_request("you must specify at least one command for the container"));
    }
    if !(streams.stdin || streams.stdout || streams.stderr) {
        return Err(Failure::bad_request("you must specify at least one of stdin, stdout, stderr"));
    }
    let door = door(call, &pod, &at.container)?;
    let handshake = websocket::Handshake::read(call, &channels::PROTOCOLS)?;
    let command = if attach { Vec::new() } else { command };
    let options = ExecOptions { command, stdin: streams.stdin, terminal: flag("tty") };
    let started = door.access.exec(at, options).await;
    let session = match started {
        Ok(session) => session,
        // A command that cannot be started is told where its end would be.
        Err(AccessError::Refused(why)) => {
            return Ok(handshake.accept(door, move |socket| channels::refuse(socket, why)));
        }
        Err(error) => return Err(failure(&error)),
    };
    Ok(handshake.accept(door, move |socket| channels::exec(socket, session, streams)))
}

/// Handles connections to ports of a pod.
pub(crate) async fn port_forward(call: &Call<'_>) -> Result<Answer> {
    let pod = call.current().await?.value(&call.kind)?;
    let ports: Option<Vec<u16>> =
        call.query.all("ports").flat_map(|list| list.split(',')).map(|port| port.parse().ok()).collect();
    let ports = ports.filter(|ports| ports.len() <= PORTS_MAX && ports.iter().all(|port| *port != 0));
    let Some(ports) = ports else {
        return Err(Failure::bad_request("ports must be numbers from 1 to 65535, not too many"));
    };
    let door = door(call, &pod, "")?;
    let handshake = websocket::Handshake::read(call, &channels::PORT_PROTOCOLS)?;
    let access = Arc::clone(&door.access);
    let pod = PodAt { name: metadata::name(&pod).to_owned(), uid: metadata::uid(&pod).to_owned() };
    if handshake.protocol == forward::PROTOCOL {
        // Each stream says which port it is for.
        let refused = call.server.metrics.streams_refused.clone();
        return Ok(handshake.accept(door, move |socket| forward::serve(socket, access, pod, refused)));
    }
    if ports.is_empty() {
        return Err(Failure::bad_request("query parameter \"ports\" is required"));
    }
    Ok(handshake.accept(door, move |socket| channels::port_forward(socket, access, pod, ports)))
}

/// The way in, if somebody runs this pod.
fn door<'a>(call: &'a Call<'_>, pod: &Value, container: &str) -> Result<&'a PodDoor> {
    let name = metadata::name(pod);
    if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        return Err(Failure::bad_request(format!("pod {name} does not have a host assigned")));
    }
    if let Some(reason) = waiting(pod, container) {
        let message = format!("container {container:?} in pod {name:?} is waiting to start: {reason}");
        return Err(Failure::bad_request(message));
    }
    call.server
        .pods
        .get()
        .ok_or_else(|| Failure::new(503, "ServiceUnavailable", "nobody runs pods of this server here"))
}

/// Why a container has not been started, if it never was.
fn waiting(pod: &Value, container: &str) -> Option<String> {
    let list = |name: &str| pod["status"][name].as_array().cloned().unwrap_or_default();
    let all = [list("containerStatuses"), list("initContainerStatuses")].concat();
    let found = all.into_iter().find(|status| status["name"] == container)?;
    let never = found["lastState"].get("terminated").is_none();
    let reason = found["state"]["waiting"]["reason"].as_str().filter(|_| never)?;
    Some(reason.to_owned())
}

/// The container that is meant.
fn container(call: &Call<'_>, pod: &Value) -> Result<ContainerAt> {
    let names = |list: &str| -> Vec<String> {
        let items = pod["spec"][list].as_array().cloned().unwrap_or_default();
        items.iter().filter_map(|one| one["name"].as_str()).map(str::to_owned).collect()
    };
    let (own, inits) = (names("containers"), names("initContainers"));
    let pod_name = metadata::name(pod);
    let asked = call.query.first("container").unwrap_or_default();
    let marked = pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"].as_str();
    let container = match (asked, own.as_slice()) {
        ("", [only]) => only.clone(),
        ("", many) => match marked.filter(|marked| many.iter().any(|one| one == marked)) {
            Some(marked) => marked.to_owned(),
            None => {
                let message = format!(
                    "a container name must be specified for pod {pod_name}, choose one of: [{}]",
                    many.join(" ")
                );
                return Err(Failure::bad_request(message));
            }
        },
        (asked, _) if own.iter().chain(&inits).any(|one| one == asked) => asked.to_owned(),
        (asked, _) => return Err(Failure::bad_request(format!("container {asked} is not valid for pod {pod_name}"))),
    };
    Ok(ContainerAt { uid: metadata::uid(pod).to_owned(), container })
}

fn log_options(call: &Call<'_>) -> Result<LogOptions> {
    let number = |name: &str| -> Result<Option<u64>> {
        let Some(text) = call.query.first(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let parsed = text.parse().map_err(|_| {
            Failure::bad_request(format!("{name}: Invalid value: {text:?}: must be a non-negative number"))
        });
        parsed.map(Some)
    };
    let seconds = number("sinceSeconds")?;
    let ago = seconds.map(|seconds| call.now.saturating_sub(Duration::from_secs(seconds)).unwrap_or(Timestamp::MIN));
    let since = match call.query.first("sinceTime").filter(|text| !text.is_empty()) {
        Some(text) => Some(
            text.parse()
                .map_err(|_| Failure::bad_request(format!("sinceTime: Invalid value: {text:?}: must be a time")))?,
        ),
        None => ago,
    };
    Ok(LogOptions {
        previous: call.query.flag("previous"),
        follow: call.query.flag("follow"),
        timestamps: call.query.flag("timestamps"),
        tail_lines: number("tailLines")?,
        limit_bytes: number("limitBytes")?,
        since,
    })
}

fn failure(error: &AccessError) -> Failure {
    match error {
        AccessError::NotFound(why) | AccessError::Refused(why) => Failure::bad_request(why.clone()),
        AccessError::Failed(why) => Failure::new(500, "InternalError", why.clone()),
    }
}

//! `thane sandbox exec`: a command's output as it comes, and its exit code.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use http::{HeaderValue, Method, header};
use hyper::body::Bytes;
use serde_json::{Value, json};
use thane_api::code;
use thane_runtime::config::units::Span;

use super::super::rows::{segment, text};
use super::gateway::{Gateway, request, whole};
use super::pair;
use crate::failure::Failure;
use crate::output::{Structured, print_structured, tell};

/// Run a command in a sandbox; ends with its exit code
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// The sandbox
    name: String,
    /// Environment besides the sandbox's own
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Where it starts
    #[arg(short, long, value_name = "DIR")]
    workdir: Option<String>,
    /// It is ended after so long
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// What it leaves running goes on
    #[arg(long)]
    background: bool,
    /// Wait for the end and print the result
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
    #[command(flatten)]
    gateway: Gateway,
    /// Program and arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// An event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
}

/// Server-sent events out of bytes as they come.
#[derive(Debug, Default)]
pub(super) struct Events {
    rest: Vec<u8>,
    event: Event,
}

impl Events {
    /// The events that are complete with these bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.rest.extend_from_slice(bytes);
        let mut complete = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                complete.extend((!event.data.is_empty()).then_some(event));
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut self.event.name),
                "data" => {
                    if !self.event.data.is_empty() {
                        self.event.data.push('\n');
                    }
                    self.event.data.push_str(value);
                }
                _ => {}
            }
        }
        complete
    }
}

impl Exec {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let env: serde_json::Map<String, Value> =
            self.env.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
        let mut step = json!({"command": self.command, "env": env});
        if let Some(directory) = &self.workdir {
            step["workDir"] = directory.clone().into();
        }
        if let Some(time) = &self.timeout {
            step["timeoutSeconds"] = time.0.as_secs().max(1).into();
        }
        if self.background {
            step["background"] = true.into();
        }
        let path = format!("/v1/sessions/{}/execute", segment(&self.name));
        let body = json!({"steps": [step]});
        if let Some(form) = self.output {
            let answer = self.gateway.json(Method::POST, &path, Some(&body)).await?;
            let result = answer.pointer("/results/0").cloned().unwrap_or_default();
            print_structured(&result, form)?;
            return ended(&result);
        }
        let mut asked = request(Method::POST, &path)?;
        asked.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let mut answer = self.gateway.open(asked, whole(Bytes::from(body.to_string()))).await?;
        let mut events = Events::default();
        while let Some(piece) = answer.piece().await? {
            for event in events.push(&piece) {
                if let Some(result) = heard(&event)? {
                    return ended(&result);
                }
            }
        }
        Err(Failure::new(code::SANDBOX_LOST, "the stream ended before the command did"))
    }
}

/// Passes on what a command says; its result, once it has one.
fn heard(event: &Event) -> Result<Option<Value>, Failure> {
    let body: Value = serde_json::from_str(&event.data)
        .map_err(|error| Failure::new(code::GATEWAY_REFUSED, format!("an event is no JSON: {error}")))?;
    let said = || {
        let data = body["data"].as_str().unwrap_or_default();
        if body["encoding"] == "base64" { STANDARD.decode(data).unwrap_or_default() } else { data.as_bytes().to_vec() }
    };
    let written = match event.name.as_str() {
        "stdout" => write(&mut io::stdout().lock(), &said()),
        "stderr" => write(&mut io::stderr().lock(), &said()),
        "result" => return Ok(Some(body)),
        "error" => {
            let message = [text(&body, "/error"), text(&body, "/detail")].join(" ").trim().to_owned();
            let code = if body["kind"] == "infra" { code::SANDBOX_LOST } else { code::GATEWAY_REFUSED };
            return Err(Failure::new(code, message));
        }
        _ => Ok(()),
    };
    written.map_err(|_| Failure::output_closed())?;
    Ok(None)
}

fn write(to: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// How a step ended, as the end of this process.
fn ended(result: &Value) -> Result<(), Failure> {
    let exit = result.pointer("/output/exit_code").and_then(Value::as_i64).unwrap_or_default();
    let kind = text(result, "/error/kind");
    if kind == "infra" {
        return Err(Failure::new(code::SANDBOX_LOST, text(result, "/error/message")));
    }
    if !kind.is_empty() {
        tell(&format!("{kind}: {}", text(result, "/error/message")));
    }
    match u8::try_from(exit) {
        Ok(0) if kind.is_empty() => Ok(()),
        Ok(0) | Err(_) => Err(Failure::ended(1)),
        Ok(exit) => Err(Failure::ended(exit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_any_pieces() {
        let text = b": hi\n\nevent: stdout\ndata: {\"a\":1}\n\nevent: ping\ndata: {}\r\n\r\ndata: x\ndata: y\n\n";
        let event = |name: &str, data: &str| Event { name: name.to_owned(), data: data.to_owned() };
        let expected = [event("stdout", "{\"a\":1}"), event("ping", "{}"), event("", "x\ny")];
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<Event> = text.chunks(size).flat_map(|piece| events.push(piece)).collect();
            assert_eq!(found, expected, "pieces of {size}");
        }
    }

    #[test]
    fn the_exit_code_is_the_commands() {
        let code = |value: Value| ended(&value).map_or_else(|failure| failure.exit_code(), |()| 0);
        assert_eq!(code(json!({"output": {"exit_code": 0}, "error": null})), 0);
        assert_eq!(code(json!({"output": {"exit_code": 7}, "error": null})), 7);
        assert_eq!(code(json!({"output": {"exit_code": 124}, "error": {"kind": "timeout", "message": "m"}})), 124);
        assert_eq!(code(json!({"output": {"exit_code": 0}, "error": {"kind": "infra", "message": "m"}})), 1);
    }
}

//! Bodies of this API: those of Consul's, with what the design record leaves out filled in.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::command::Refusal;
use crate::decode;
use crate::model::{Check, Service, Status};

const KINDS: [&str; 7] = ["http", "tcp", "udp", "grpc", "ttl", "script", "alias"];
/// Keys that say how a check is run at intervals.
const TIMED: [&str; 7] = ["http", "tcp", "udp", "grpc", "args", "script_args", "scriptargs"];

/// An instance with its checks.
pub(super) fn service(body: &[u8], interval: Duration) -> Result<(Service, Vec<Check>), Refusal> {
    let mut value = parsed(body)?;
    if let Some(fields) = value.as_object_mut() {
        for (key, inner) in fields.iter_mut() {
            match inner {
                Value::Object(check) if key.eq_ignore_ascii_case("check") => complete(check, interval)?,
                Value::Array(checks) if key.eq_ignore_ascii_case("checks") => {
                    for check in checks.iter_mut().filter_map(Value::as_object_mut) {
                        complete(check, interval)?;
                    }
                }
                _ => {}
            }
        }
    }
    decode::service(value.to_string().as_bytes())
}

/// A check.
pub(super) fn check(body: &[u8], interval: Duration) -> Result<Check, Refusal> {
    let mut value = parsed(body)?;
    if let Some(fields) = value.as_object_mut() {
        complete(fields, interval)?;
        // A check may be named by its id alone.
        if find(fields, "name").is_none()
            && let Some(id) = find(fields, "id").cloned()
        {
            fields.insert("Name".to_owned(), id);
        }
    }
    decode::check(value.to_string().as_bytes())
}

/// What a TTL check is told: a status in any of its names, and what it says.
pub(super) fn update(body: &[u8]) -> Result<(Status, String), Refusal> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok((Status::Passing, String::new()));
    }
    let value = parsed(body)?;
    let fields = value.as_object().ok_or_else(|| invalid("an object is expected"))?;
    let text = |name| find(fields, name).and_then(Value::as_str);
    let status = match text("status").map(str::to_ascii_lowercase).as_deref() {
        None | Some("pass" | "passing") => Status::Passing,
        Some("warn" | "warning") => Status::Warning,
        Some("fail" | "critical") => Status::Critical,
        Some(other) => return Err(invalid(&format!("{other:?} is no status: passing, warning or critical"))),
    };
    Ok((status, text("output").or_else(|| text("note")).unwrap_or_default().to_owned()))
}

/// Takes the name of the kind, which the rest says as well, and adds how often it runs.
fn complete(check: &mut Map<String, Value>, interval: Duration) -> Result<(), Refusal> {
    let key = check.keys().find(|key| key.eq_ignore_ascii_case("type")).cloned();
    if let Some(kind) = key.and_then(|key| check.remove(&key)) {
        let kind = kind.as_str().unwrap_or_default();
        if !KINDS.iter().any(|known| kind.eq_ignore_ascii_case(known)) {
            return Err(invalid(&format!("Invalid check: unknown check type {kind:?}")));
        }
    }
    let is_timed = TIMED.iter().any(|key| find(check, key).is_some());
    if is_timed && find(check, "interval").is_none() && find(check, "ttl").is_none() {
        check.insert("Interval".to_owned(), Value::String(decode::duration::print(interval)));
    }
    Ok(())
}

fn find<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn parsed(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|error| invalid(&format!("Request decode failed: {error}")))
}

fn invalid(text: &str) -> Refusal {
    Refusal::Invalid(text.to_owned())
}

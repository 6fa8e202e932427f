//! Values as argocd-agent writes them.

use std::time::Duration;

use serde_json::{Value, json};
use thane_runtime::config::units::Span;

use super::Assigned;

/// A password on a command line is everybody's.
pub(super) fn password(text: &str, _upstream: bool) -> Result<Assigned, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    Err("a command line can be read by others; set REDIS_PASSWORD, or give a folder with --redis-creds-dir-path"
        .to_owned())
}

/// Switches as Go writes them.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

pub(super) fn number(text: &str) -> Result<Value, String> {
    text.trim().parse::<u64>().map(Value::from).map_err(|_| format!("{text:?} is not a number"))
}

/// Items between commas.
pub(super) fn list(text: &str) -> Value {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Value::from).collect()
}

/// Durations as Go writes them: `1m30s`, `1.5h`, `0`.
pub(super) fn duration(text: &str) -> Result<Value, String> {
    let read = || {
        let mut rest = text.trim();
        if rest == "0" {
            return Some(0.0);
        }
        let mut seconds = (!rest.is_empty()).then_some(0.0)?;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (count, after) = rest.split_at(digits);
            let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, next) = after.split_at(end);
            let factor = match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
            seconds += count.parse::<f64>().ok()? * factor;
            rest = next;
        }
        Some(seconds)
    };
    let duration = read().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let duration = duration.ok_or_else(|| format!("{text:?} is not a duration such as 30s or 1m30s"))?;
    Ok(json!(Span(duration)))
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a port"))
}

/// A port that everyone can call where argocd-agent's defaults are in force, and this machine otherwise.
pub(super) fn metrics_port(text: &str, upstream: bool) -> Result<Assigned, String> {
    let host = if upstream { "0.0.0.0" } else { "127.0.0.1" };
    Ok(vec![("admin.address", json!(format!("{host}:{}", port(text)?)))])
}

/// Bytes.
pub(super) fn bytes(key: &'static str, text: &str) -> Result<Assigned, String> {
    let bytes: u64 = text.trim().parse().map_err(|_| format!("{text:?} is not a number of bytes"))?;
    Ok(vec![(key, json!(thane_runtime::config::units::ByteSize(bytes)))])
}

pub(super) fn placement(key: &'static str, text: &str) -> Result<Assigned, String> {
    Ok(vec![(key, json!(if switch(text)? { "destination" } else { "namespace" }))])
}

/// The oldest TLS version; older ones than 1.2 are not spoken whatever is asked for.
pub(super) fn min_version(key: &'static str, text: &str) -> Result<Assigned, String> {
    match text {
        "tls1.3" => Ok(vec![(key, json!("tls1.3"))]),
        "tls1.1" | "tls1.2" => Ok(vec![(key, json!("tls1.2"))]),
        _ => Err(format!("{text:?} is not one of tls1.2, tls1.3")),
    }
}

pub(super) fn max_version(text: &str, _upstream: bool) -> Result<Assigned, String> {
    match text {
        "tls1.3" => Ok(Vec::new()),
        _ => Err("TLS 1.3 is always offered".to_owned()),
    }
}

/// Levels as logrus names them.
pub(crate) fn levels(text: &str) -> String {
    let parts = text.split(',').map(|part| {
        let (target, level) = part.trim().split_once('=').map_or((None, part.trim()), |(t, l)| (Some(t), l));
        let level = match level {
            "warning" => "warn",
            "fatal" | "panic" => "error",
            other => other,
        };
        match target {
            Some(target) => format!("{}={level}", target.replace('-', "_")),
            None => level.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join(",")
}

#[expect(clippy::unnecessary_wraps, reason = "it is one of many that read values")]
pub(super) fn log_level(text: &str, _upstream: bool) -> Result<Assigned, String> {
    Ok(vec![("log.level", json!(levels(text)))])
}

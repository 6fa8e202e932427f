//! A check that runs a program: 0 passes, 1 warns, anything else is critical.

use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::machine::{OUTPUT_MAX, Observation};
use crate::model::Status;

pub(super) async fn run(args: &[String]) -> Observation {
    let Some((program, rest)) = args.split_first() else {
        return Observation::new(Status::Critical, "no program");
    };
    let spawned = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A run that takes too long is dropped, and its program with it.
        .kill_on_drop(true)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Observation::new(Status::Critical, format!("{program}: {error}")),
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr, ended) = tokio::join!(beginning(stdout), beginning(stderr), child.wait());
    let output = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    match ended.map(|status| status.code()) {
        Ok(Some(0)) => Observation::new(Status::Passing, output),
        Ok(Some(1)) => Observation::new(Status::Warning, output),
        Ok(Some(_)) => Observation::new(Status::Critical, output),
        Ok(None) => Observation::new(Status::Critical, format!("ended by a signal; {output}")),
        Err(error) => Observation::new(Status::Critical, error.to_string()),
    }
}

/// The beginning of what a program says; the rest is read and forgotten, or it would wait for us.
async fn beginning(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let Some(mut stream) = stream else { return Vec::new() };
    let mut kept = Vec::new();
    let mut part = [0; 4096];
    while let Ok(read) = stream.read(&mut part).await {
        if read == 0 {
            break;
        }
        let room = OUTPUT_MAX - kept.len();
        kept.extend_from_slice(&part[..read.min(room)]);
    }
    kept
}

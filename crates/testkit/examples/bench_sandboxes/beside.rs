//! Other ways to run a program, each from nothing to its end.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::figures::Times;
use crate::row;

/// Runs `true` in each of them so often; what is not installed is left out.
pub(crate) fn measure(rounds: usize) -> Result<()> {
    row("fork and exec of `true`", &timed(rounds, |_| command("/bin/true", &[]))?, "no isolation");
    if is_installed("bwrap") {
        let arguments = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "/bin/true"];
        row("`bwrap --unshare-all true`", &timed(rounds, |_| command("bwrap", &arguments))?, "a process, no limits");
    }
    if is_installed("runc") {
        let folder = tempfile::tempdir()?;
        bundle(folder.path())?;
        let bundle = folder.path().display().to_string();
        let run = |number: usize| {
            let name = format!("thane-bench-{}-{number}", std::process::id());
            command("runc", &["run", "--bundle", &bundle, &name])
        };
        row("`runc run` of `true`", &timed(rounds, run)?, "a container");
    }
    Ok(())
}

fn timed(rounds: usize, run: impl Fn(usize) -> Command) -> Result<Times> {
    let mut times = Times::default();
    for number in 0..rounds {
        let mut command = run(number);
        let began = Instant::now();
        let done = command.output().context("starting it")?;
        times.push(began.elapsed());
        ensure!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(times)
}

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn is_installed(program: &str) -> bool {
    command(program, &["--version"]).output().is_ok_and(|done| done.status.success())
}

/// A container with the machine's own programs, read only.
fn bundle(folder: &Path) -> Result<()> {
    let made = command("runc", &["spec", "--bundle", &folder.display().to_string()]).output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = folder.join("config.json");
    let mut spec: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    spec["process"]["terminal"] = json!(false);
    spec["process"]["args"] = json!(["/bin/true"]);
    spec["root"] = json!({"path": "/", "readonly": true});
    // with the machine's own root it would be put over the machine's own groups
    if let Some(mounts) = spec["mounts"].as_array_mut() {
        mounts.retain(|mount| mount["type"] != "cgroup");
    }
    std::fs::write(file, spec.to_string())?;
    Ok(())
}

//! What of a request no sandbox needs to see.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thane_api::wire::sandbox::{File, StepRequest};

use crate::gateway::Limits;
use crate::gateway::bodies::{FileMode, NewFile, Step};
use crate::gateway::failure::{Failure, Result};

/// The longest a step may be given.
const TIMEOUT_SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;
const OPERATION_MAX: usize = 128;
const PATH_MAX: usize = 4096;

/// Refuses steps that cannot be run anywhere.
pub(in crate::gateway) fn steps(steps: &[Step], limits: &Limits) -> Result<()> {
    if steps.is_empty() {
        return Err(Failure::bad("steps: there are none"));
    }
    if steps.len() > limits.steps_max {
        return Err(Failure::bad(format!("steps: at most {} at once", limits.steps_max)));
    }
    for (at, step) in steps.iter().enumerate() {
        check(step, limits).map_err(|(place, reason)| Failure::bad(format!("steps[{at}].{place}: {reason}")))?;
    }
    Ok(())
}

type Fault = (String, &'static str);

fn check(step: &Step, limits: &Limits) -> Result<(), Fault> {
    if step.command.first().is_none_or(String::is_empty) {
        return Err(("command".to_owned(), "no program is named"));
    }
    if let Some(at) = step.command.iter().position(|word| word.contains('\0')) {
        return Err((format!("command[{at}]"), "it has a NUL"));
    }
    if step.work_dir.contains('\0') {
        return Err(("workDir".to_owned(), "it has a NUL"));
    }
    if step.timeout_seconds.is_some_and(|seconds| !(0.0..=TIMEOUT_SECONDS_MAX).contains(&seconds)) {
        return Err(("timeoutSeconds".to_owned(), "it is not between 0 and 604800"));
    }
    env(&step.env, limits)
}

fn env(env: &BTreeMap<String, String>, limits: &Limits) -> Result<(), Fault> {
    if env.len() > limits.env_max {
        return Err(("env".to_owned(), "too many variables"));
    }
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err((format!("env[{name:?}]"), "a name is neither empty nor has it = or NUL"));
        }
        if value.contains('\0') {
            return Err((format!("env[{name:?}]"), "it has a NUL"));
        }
    }
    Ok(())
}

/// Refuses an environment that no session can have.
pub(in crate::gateway) fn session_env(variables: &BTreeMap<String, String>, limits: &Limits) -> Result<()> {
    env(variables, limits).map_err(|(place, reason)| Failure::bad(format!("{place}: {reason}")))
}

/// Files of a new session as the sidecar takes them.
pub(in crate::gateway) fn files(files: Vec<NewFile>, limits: &Limits) -> Result<Vec<File>> {
    if files.len() > limits.files_max {
        return Err(Failure::bad(format!("files: at most {}", limits.files_max)));
    }
    let read = |(at, file): (usize, NewFile)| {
        let bad = |place: &str, reason: &str| Failure::bad(format!("files[{at}].{place}: {reason}"));
        path(&file.path).map_err(|reason| bad("path", reason))?;
        let content = STANDARD.decode(file.content.as_bytes()).map_err(|error| bad("content", &error.to_string()))?;
        let mode = match file.mode {
            None => 0,
            Some(FileMode::Bits(bits)) => bits,
            Some(FileMode::Octal(digits)) => u32::from_str_radix(digits.trim_start_matches("0o"), 8)
                .map_err(|_| bad("mode", "it is not octal digits"))?,
        };
        if mode > 0o7777 {
            return Err(bad("mode", "it has more than permissions"));
        }
        Ok(File { path: file.path, content: content.into(), mode })
    };
    files.into_iter().enumerate().map(read).collect()
}

/// Refuses what is no path at all; what it may reach is for the sidecar to say.
pub(in crate::gateway) fn path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("it is empty");
    }
    if path.len() > PATH_MAX {
        return Err("it is too long");
    }
    if path.contains('\0') {
        return Err("it has a NUL");
    }
    Ok(())
}

/// Refuses names of operations that could not be told from others'.
pub(in crate::gateway) fn operation(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if name.is_empty() || name.len() > OPERATION_MAX || !name.bytes().all(plain) {
        let message = format!("operationID: 1 to {OPERATION_MAX} letters, digits and any of -_.:");
        return Err(Failure::bad(message));
    }
    Ok(())
}

/// A step as the sidecar takes it.
pub(in crate::gateway) fn request(session: &str, step: &Step) -> StepRequest {
    StepRequest {
        session: session.to_owned(),
        name: step.name.clone(),
        command: step.command.clone(),
        env: step.env.clone().into_iter().collect(),
        working_dir: step.work_dir.clone(),
        timeout_ms: step.timeout_seconds.map(milliseconds).unwrap_or_default(),
        background: step.background,
        stdin: step.stdin.clone().into_bytes().into(),
        unrecorded: step.unrecorded,
        ..StepRequest::default()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it was checked to be at most a week")]
fn milliseconds(seconds: f64) -> i64 {
    (seconds * 1000.0).ceil() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(change: impl FnOnce(&mut Step)) -> Step {
        let mut step = Step { command: vec!["true".to_owned()], ..Step::default() };
        change(&mut step);
        step
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_its_place() {
        let limits = Limits { steps_max: 2, env_max: 2, ..Limits::default() };
        let env = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let many = (0..3).map(|at| (at.to_string(), String::new())).collect();
        for (wrong, expected) in [
            (vec![], "steps: there are none"),
            (vec![step(|_| {}); 3], "steps: at most 2"),
            (vec![step(|_| {}), step(|step| step.command.clear())], "steps[1].command: no program"),
            (vec![step(|step| step.command.push("a\0b".to_owned()))], "steps[0].command[1]: it has a NUL"),
            (vec![step(|step| step.env = env("A=B", ""))], "steps[0].env[\"A=B\"]"),
            (vec![step(|step| step.env = env("A", "\0"))], "steps[0].env[\"A\"]: it has a NUL"),
            (vec![step(|step| step.env = many)], "steps[0].env: too many"),
            (vec![step(|step| step.timeout_seconds = Some(-1.0))], "steps[0].timeoutSeconds"),
            (vec![step(|step| step.timeout_seconds = Some(f64::NAN))], "steps[0].timeoutSeconds"),
            (vec![step(|step| step.work_dir = "\0".to_owned())], "steps[0].workDir"),
        ] {
            let failure = steps(&wrong, &limits).unwrap_err();
            assert!(failure.message.starts_with(expected), "{} is not {expected}", failure.message);
            assert_eq!(failure.status.as_u16(), 400);
        }
        assert!(steps(&[step(|step| step.timeout_seconds = Some(0.5))], &limits).is_ok());
        assert_eq!(request("s", &step(|step| step.timeout_seconds = Some(0.5))).timeout_ms, 500);
    }

    #[test]
    fn files_of_a_session_are_read() {
        let limits = Limits::default();
        let file = |path: &str, content: &str, mode: Option<FileMode>| {
            files(vec![NewFile { path: path.to_owned(), content: content.to_owned(), mode }], &limits)
        };
        let octal = |digits: &str| Some(FileMode::Octal(digits.to_owned()));
        let read = file("/a", "aGk=", octal("0755")).unwrap();
        assert_eq!((&read[0].content[..], read[0].mode), (&b"hi"[..], 0o755));
        assert_eq!(file("/a", "", Some(FileMode::Bits(420))).unwrap()[0].mode, 0o644);
        for wrong in
            [file("", "", None), file("/a", "%", None), file("/a", "", octal("9")), file("/a", "", octal("17777"))]
        {
            assert_eq!(wrong.unwrap_err().status.as_u16(), 400);
        }
        assert!(operation("a-b:1").is_ok() && operation("").is_err() && operation("a/b").is_err());
    }
}

//! Sandboxes as their users have them: the Python SDK, the example of the README and the commands, on `thane up`.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]
#![expect(clippy::print_stderr, reason = "how much was lost is worth knowing")]

mod bad;
mod chaos;
mod left;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use thane_testkit::fleet::Programs;
use thane_testkit::peer::{Absence, PeerHome, Thane, home_or_skip};

const PYTHON: &str = "../clients/python/bin/python";

/// A gateway with sandboxes that run.
struct Bed {
    home: PeerHome,
    program: PathBuf,
    /// Stops when it is dropped.
    _thane: Thane,
    gateway: String,
}

impl Bed {
    /// `None` after saying loudly what is missing.
    async fn start() -> Option<Self> {
        let home = home_or_skip(&[PYTHON])?;
        let program = Programs::locate(&home).thane().map_err(Absence::tell).ok()?.to_owned();
        let started = Thane::start(&program, &["--ephemeral-ports", "--clusters", "0"]).await;
        let thane = started.unwrap_or_else(|error| panic!("{error:#}"));
        let Ok(gateway) = thane.published("gateway") else {
            Absence::Skip("this machine runs no pods: that takes root".to_owned()).tell();
            return None;
        };
        Some(Self { home, program, _thane: thane, gateway })
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let sdk = root().join("sdk/python/src");
        command.env("PYTHONPATH", sdk).env("THANE_GATEWAY", format!("http://{}", self.gateway)).current_dir(root());
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn python(&self, arguments: &[&str]) -> Output {
        self.command(&self.home.program(PYTHON)).args(arguments).output().unwrap()
    }

    fn thane(&self, arguments: &[&str]) -> Output {
        self.command(&self.program).args(arguments).output().unwrap()
    }

    /// What a command says on stdout; it must end well.
    fn said(&self, arguments: &[&str]) -> String {
        let output = self.thane(arguments);
        assert!(output.status.success(), "{arguments:?}:\n{}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sdk_the_example_and_the_commands_work() {
    let Some(bed) = Bed::start().await else { return };
    tokio::task::spawn_blocking(move || {
        the_example_runs(&bed);
        the_program_of_the_readme_runs(&bed);
        the_sdk_is_content(&bed);
        the_commands_work(&bed);
    })
    .await
    .unwrap();
}

fn the_example_runs(bed: &Bed) {
    let output = bed.python(&["examples/sandbox.py"]);
    assert!(output.status.success(), "{}", told(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    let mut lines = said.lines();
    let expected = ["one", "two", "three", "one", "left", "one", "right", "one"];
    assert_eq!(lines.by_ref().take(expected.len()).collect::<Vec<_>>(), expected);
    assert_eq!(lines.count(), 4, "three steps and one after the restore:\n{said}");
}

/// What a new user tries first.
fn the_program_of_the_readme_runs(bed: &Bed) {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```python\n").unwrap();
    let (program, _) = rest.split_once("```").unwrap();
    assert_eq!(program.lines().count(), 10, "ten lines:\n{program}");
    let output = bed.python(&["-c", program]);
    assert!(output.status.success(), "{}", told(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("1\nleft\n 1\n"), "{said}");
    assert_eq!(said.matches("\"session_id\"").count(), 3, "{said}");
}

fn the_sdk_is_content(bed: &Bed) {
    let output = bed.python(&["-m", "pytest", "-q", "-p", "no:cacheprovider", "sdk/python/tests"]);
    let told = told(&output);
    assert!(output.status.success() && !told.contains("skipped"), "{told}");
}

fn the_commands_work(bed: &Bed) {
    bed.said(&["pool", "create", "shell", "--image", "host", "--replicas", "2"]);
    let name = bed.said(&["sandbox", "create", "shell", "--env", "WHO=me"]).trim().to_owned();
    let pools = bed.said(&["pool", "list"]);
    assert!(pools.starts_with("NAME") && pools.contains("shell"), "{pools}");
    let failed = bed.thane(&["sandbox", "exec", &name, "--", "sh", "-c", "echo $WHO; echo no >&2; exit 7"]);
    assert_eq!(failed.status.code(), Some(7));
    assert_eq!((failed.stdout.as_slice(), failed.stderr.as_slice()), (&b"me\n"[..], &b"no\n"[..]));
    let folder = tempfile::tempdir().unwrap();
    let (sent, back) = (folder.path().join("sent"), folder.path().join("back"));
    std::fs::write(&sent, [0, 255, 10]).unwrap();
    bed.said(&["sandbox", "cp", sent.to_str().unwrap(), &format!("{name}:/workspace/here")]);
    bed.said(&["sandbox", "cp", &format!("{name}:here"), back.to_str().unwrap()]);
    assert_eq!(std::fs::read(&back).unwrap(), [0, 255, 10]);
    let snapshot = bed.said(&["sandbox", "snapshot", &name]).trim().to_owned();
    bed.said(&["sandbox", "exec", &name, "--", "rm", "here"]);
    let fork = bed.said(&["sandbox", "fork", &name, &snapshot]).trim().to_owned();
    bed.said(&["sandbox", "exec", &fork, "--", "test", "-f", "here"]);
    bed.said(&["sandbox", "restore", &name, &snapshot]);
    bed.said(&["sandbox", "exec", &name, "--", "test", "-f", "here"]);
    let logs: serde_json::Value = serde_json::from_str(&bed.said(&["sandbox", "logs", &name, "-o", "json"])).unwrap();
    assert_eq!(logs[0]["output"]["exit_code"], 7, "{logs:#}");
    assert!(bed.said(&["sandbox", "list"]).contains(&fork));
    bed.said(&["sandbox", "rm", &name, &fork]);
    let gone = bed.thane(&["sandbox", "exec", &name, "--", "true"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(told(&gone).contains("THANE-1704"), "{}", told(&gone));
    bed.said(&["pool", "rm", "shell"]);
}

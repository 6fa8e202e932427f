//! The wrapper as a process: exit codes, signals, what it keeps.
#![expect(clippy::unwrap_used, reason = "tests say why they fail")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use thane_executor::step::{MAIN, PARAMETER_MAX, Places, RESULT_MAX, StepPlan};

struct Step {
    folder: TempDir,
    places: Places,
}

impl Step {
    fn new(plan: &StepPlan) -> Self {
        let folder = tempfile::Builder::new().prefix("thane-step-").tempdir().unwrap();
        let places = Places::new(folder.path().join("run"));
        fs::create_dir(places.root()).unwrap();
        fs::write(places.plan(), serde_json::to_vec(plan).unwrap()).unwrap();
        Self { folder, places }
    }

    fn command(&self, name: &str, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thane-executor"));
        command.arg("step").arg("--directory").arg(self.places.root()).arg("--").args(words);
        command.env("ARGO_CONTAINER_NAME", name).current_dir(self.folder.path());
        command
    }

    fn run(&self, script: &str) -> Output {
        self.command(MAIN, &["sh", "-c", script]).output().unwrap()
    }

    fn exit_code(&self, name: &str) -> String {
        fs::read_to_string(self.places.exit_code(name)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn entries(tar: &Path) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(fs::File::open(tar).unwrap());
    let all = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let link = entry.link_name().unwrap().map(|link| format!("-> {}", link.display()));
        let mut content = String::new();
        std::io::Read::read_to_string(&mut entry, &mut content).unwrap();
        (entry.path().unwrap().display().to_string(), link.unwrap_or(content))
    });
    all.collect()
}

#[test]
fn it_ends_as_the_program_does() {
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("exit 64", 64), ("kill -9 $$", 137), ("kill -15 $$", 143)] {
        let step = Step::new(&StepPlan::default());
        let output = step.run(script);
        assert_eq!(output.status.code(), Some(code), "{script}");
        assert_eq!(step.exit_code(MAIN), code.to_string(), "{script}");
    }
}

#[test]
fn the_first_process_of_a_container_reaps_and_ends_as_the_program_does() {
    for (script, code) in [("exit 0", 0), ("(sleep 0 &) ; exit 3", 3), ("kill -9 $$", 137)] {
        let step = Step::new(&StepPlan::default());
        let inner = step.command(MAIN, &["sh", "-c", script]);
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork"]).arg(inner.get_program()).args(inner.get_args());
        command.env("ARGO_CONTAINER_NAME", MAIN).current_dir(step.folder.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("unshare:") {
            return; // there are no namespaces here
        }
        assert_eq!(output.status.code(), Some(code), "{script}: {said}");
        assert_eq!(step.exit_code(MAIN), code.to_string(), "{script}");
    }
}

#[test]
fn its_end_shows_even_if_it_is_killed() {
    let step = Step::new(&StepPlan::default());
    let mut child = step
        .command(MAIN, &["sh", "-c", "echo begun; read end"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let pipe = rustix::fs::open(step.places.alive(MAIN), flags, rustix::fs::Mode::empty()).unwrap();
    assert_eq!(rustix::io::read(&pipe, &mut [0; 1]), Err(rustix::io::Errno::AGAIN));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(rustix::io::read(&pipe, &mut [0; 1]), Ok(0));
}

#[test]
fn what_cannot_be_run_is_said_in_argos_words() {
    let cases = [
        ("nope-nope", "failed to find name in PATH: exec: \"nope-nope\": executable file not found in $PATH"),
        ("/nope", "failed to find name in PATH: exec: \"/nope\": stat /nope: no such file or directory"),
        ("/etc/passwd", "failed to find name in PATH: exec: \"/etc/passwd\": permission denied"),
    ];
    for (program, expected) in cases {
        let step = Step::new(&StepPlan::default());
        let output = step.command(MAIN, &[program]).output().unwrap();
        assert_eq!(output.status.code(), Some(64));
        assert_eq!(String::from_utf8_lossy(&output.stderr).trim_end(), expected);
        assert_eq!(step.exit_code(MAIN), "64");
    }
}

#[test]
fn the_end_of_the_output_is_kept_and_all_of_it_passed_on() {
    let plan = StepPlan { result: true, logs: true, ..StepPlan::default() };
    let cases: [(&str, Vec<u8>); 4] = [
        ("printf 'a\\nb\\n'; echo problem >&2", b"a\nb".to_vec()),
        ("printf 'a\\n\\n'", b"a\n".to_vec()),
        ("printf '\\377\\000x'", b"\xff\0x".to_vec()),
        ("head -c 300000 /dev/zero | tr '\\000' x; echo end", [vec![b'x'; RESULT_MAX - 3], b"end".to_vec()].concat()),
    ];
    for (script, expected) in cases {
        let step = Step::new(&plan);
        let output = step.run(script);
        assert!(output.status.success());
        assert!(fs::read(step.places.result(MAIN)).unwrap() == expected, "{script}");
        let logged = fs::read(step.places.logs(MAIN)).unwrap();
        assert_eq!(logged.len(), output.stdout.len() + output.stderr.len(), "{script}");
        assert!(output.stdout.len() >= expected.len(), "{script}");
    }
}

#[test]
fn what_a_program_leaves_running_does_not_hold_the_step_up() {
    let step = Step::new(&StepPlan { result: true, ..StepPlan::default() });
    let mut child =
        step.command(MAIN, &["sh", "-c", "echo out; sleep 60 & echo $! > pid"]).stdout(Stdio::null()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read_to_string(step.places.result(MAIN)).unwrap(), "out");
    let left = fs::read_to_string(step.path("pid")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn parameters_and_artifacts_are_copied_out() {
    let plan = |step: &Path| StepPlan {
        parameters: ["param", "none", "huge"].map(|name| step.join(name).display().to_string()).to_vec(),
        artifacts: ["file", "tree/", "link", "gone"].map(|name| format!("{}/{name}", step.display())).to_vec(),
        ..StepPlan::default()
    };
    let step = Step::new(&StepPlan::default());
    let plan = plan(step.folder.path());
    fs::write(step.places.plan(), serde_json::to_vec(&plan).unwrap()).unwrap();
    symlink("file", step.path("link")).unwrap();
    let script = "printf 'a\\000b' > param; head -c 2000000 /dev/zero > huge; echo content > file; mkdir -p tree/sub; \
                  echo x > tree/sub/x; ln -s sub/x tree/l; ln -s nowhere tree/dangling; mkfifo tree/pipe; exit 5";
    assert_eq!(step.run(script).status.code(), Some(5), "outputs are kept whatever the program's end");
    let at = |name: &str| step.path(name).display().to_string();
    assert_eq!(fs::read(step.places.parameter(&at("param"))).unwrap(), b"a\0b");
    assert!(!step.places.parameter(&at("none")).exists());
    assert_eq!(fs::metadata(step.places.parameter(&at("huge"))).unwrap().len(), PARAMETER_MAX + 1);
    let pair = |name: &str, content: &str| (name.to_owned(), content.to_owned());
    assert_eq!(entries(&step.places.artifact(&at("file"))), [pair("file", "content\n")]);
    assert_eq!(entries(&step.places.artifact(&at("link"))), [pair("link", "content\n")]);
    assert_eq!(
        entries(&step.places.artifact(&at("tree"))),
        [
            pair("tree", ""),
            pair("tree/dangling", "-> nowhere"),
            pair("tree/l", "-> sub/x"),
            pair("tree/sub", ""),
            pair("tree/sub/x", "x\n")
        ]
    );
    assert!(!step.places.artifact(&at("gone")).exists());
}

#[test]
fn signals_reach_the_program() {
    let step = Step::new(&StepPlan::default());
    let script = "trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.01; done";
    let mut child = step.command(MAIN, &["sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "bye");
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert_eq!(step.exit_code(MAIN), "9");
}

#[test]
fn a_file_can_ask_for_a_signal() {
    let step = Step::new(&StepPlan::default());
    let mut child = step.command(MAIN, &["sh", "-c", "echo up; exec sleep 60"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    fs::write(step.places.signal(MAIN), "15").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_sidecar_ends_with_main() {
    let step = Step::new(&StepPlan { sidecars: vec!["side".to_owned()], ..StepPlan::default() });
    let mut side =
        step.command("side", &["sh", "-c", "echo up; exec sleep 60"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(side.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    assert!(step.run("exit 0").status.success());
    assert_eq!(side.wait().unwrap().code(), Some(143));
    assert_eq!(step.exit_code("side"), "143");
}

#[test]
fn arguments_may_come_from_a_file() {
    let step = Step::new(&StepPlan::default());
    let file = step.path("arguments");
    fs::write(&file, r#"["-c","echo $0 $#","a","b"]"#).unwrap();
    let output = step.command(MAIN, &["sh"]).env("ARGO_CONTAINER_ARGS_FILE", &file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a 1\n");
}

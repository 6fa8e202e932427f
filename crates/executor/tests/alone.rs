//! The executor as the first process of a container that others have made: an ordinary process of an ordinary user.
#![expect(clippy::unwrap_used, reason = "tests say why they fail")]

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use thane_executor::frame::{Decoder, Frame};
use thane_executor::message::{Call, Failure, Reply, Request, Said, Spawn};
use thane_executor::plan::SOCKET;

/// Nobody, on every machine.
const NOBODY: u32 = 65_534;

struct Alone {
    child: Child,
    folder: TempDir,
}

impl Alone {
    fn start(command: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("thane-alone-").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        // Where the program is built may be closed to others. Another process makes the copy: a test beside this one that
        // starts a child while the copy is open here would hand it to that child, and what is open to be written cannot run.
        let program = folder.path().join("program");
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_thane-executor")).arg(&program).status().unwrap();
        assert!(copied.success(), "the program is copied");
        let mut start = Command::new(program);
        start.arg("serve").arg("--directory").arg(folder.path().join("run"));
        start.arg("--workdir").arg(folder.path().join("work"));
        if !command.is_empty() {
            start.arg("--").args(command);
        }
        if rustix::process::geteuid().is_root() {
            start.uid(NOBODY).gid(NOBODY);
        }
        let child = start.current_dir("/").stdout(Stdio::piped()).spawn().unwrap();
        Self { child, folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("run").join(SOCKET)
    }

    fn talk(&self) -> Talk {
        let until = std::time::Instant::now() + Duration::from_secs(30);
        loop {
            if let Ok(stream) = UnixStream::connect(self.socket()) {
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                return Talk { stream, decoder: Decoder::default(), output: Vec::new() };
            }
            assert!(std::time::Instant::now() < until, "nobody listens");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Talk {
    stream: UnixStream,
    decoder: Decoder,
    output: Vec<u8>,
}

impl Talk {
    fn hear(&mut self) -> Said {
        loop {
            match self.decoder.next_frame().unwrap() {
                Some(Frame::Data(data)) => self.output.extend(data.bytes),
                Some(Frame::Message(json)) => return serde_json::from_slice(&json).unwrap(),
                None => {
                    let mut buffer = vec![0; 65_536];
                    let count = self.stream.read(&mut buffer).unwrap();
                    assert!(count > 0, "it hung up");
                    self.decoder.push(&buffer[..count]);
                }
            }
        }
    }

    fn ask(&mut self, request: Request) -> Reply {
        let json = serde_json::to_vec(&Call { id: 1, request }).unwrap();
        self.stream.write_all(&Frame::Message(json).encode()).unwrap();
        loop {
            if let Said::Reply { reply, .. } = self.hear() {
                return reply;
            }
        }
    }

    fn run(&mut self, script: &str, background: bool) -> (i32, Vec<u8>) {
        let command = ["sh", "-c", script].map(str::to_owned).into();
        let spawned = self.ask(Request::Spawn(Spawn { command, background, attach: true, ..Spawn::default() }));
        assert!(matches!(spawned, Reply::Spawned { .. }), "{spawned:?}");
        loop {
            if let Said::Exited { exit, .. } = self.hear() {
                return (exit.code, std::mem::take(&mut self.output));
            }
        }
    }
}

#[test]
fn it_serves_without_any_privilege() {
    let alone = Alone::start(&[]);
    let mut talk = alone.talk();
    let mode = std::fs::metadata(alone.socket()).unwrap().mode();
    assert_eq!(mode & 0o777, 0o660, "the directory's group may talk to it and nobody else");
    let work = alone.folder.path().join("work").display().to_string();
    assert_eq!(talk.ask(Request::About), Reply::About { directory: work.clone() });
    assert_eq!(talk.run("pwd; exit 3", false), (3, format!("{work}\n").into_bytes()));
    assert_eq!(talk.ask(Request::Settle { patience_ms: 5000 }), Reply::Done);
    // What a step leaves, it can be told to leave, and it is ended when that is asked.
    assert_eq!(talk.run("sleep 4721 >/dev/null 2>&1 & echo up", true).1, b"up\n");
    let busy = talk.ask(Request::Settle { patience_ms: 60_000 });
    assert!(matches!(busy, Reply::Failed { failure: Failure::Exhausted, .. }), "{busy:?}");
    assert_eq!(talk.ask(Request::Reset { patience_ms: 10_000 }), Reply::Done);
    assert_eq!(talk.ask(Request::Settle { patience_ms: 0 }), Reply::Done);
    // Also what has left its group is ended with its step, and what another was told to leave is not.
    assert_eq!(talk.run("setsid sleep 4722 >/dev/null 2>&1 & echo up", true).1, b"up\n");
    assert_eq!(talk.run("setsid sleep 4723 >/dev/null 2>&1 & echo up", false).1, b"up\n");
    let busy = talk.ask(Request::Settle { patience_ms: 0 });
    assert!(matches!(busy, Reply::Failed { .. }), "{busy:?}");
    let look = "exec 2>/dev/null; for at in /proc/[0-9]*; do [ \"$(tr '\\0' ' ' < $at/cmdline)\" = 'sleep 4722 ' ] && echo there; done";
    assert!(talk.run(look, false).1.starts_with(b"there\n"), "it was told to stay");
    assert_eq!(talk.ask(Request::Reset { patience_ms: 60_000 }), Reply::Done);
    assert_eq!(talk.run("env -i setsid sleep 4724 >/dev/null 2>&1 & echo up", false).1, b"up\n");
    assert_eq!(talk.ask(Request::Settle { patience_ms: 60_000 }), Reply::Done, "nothing is left");
    let write = Request::WriteFile { path: "new".to_owned(), mode: None, append: false };
    assert_eq!(talk.ask(write), Reply::Done);
    let rename = Request::Rename { from: "new".to_owned(), to: "file".to_owned() };
    assert_eq!(talk.ask(rename), Reply::Done);
    assert!(Path::new(&work).join("file").exists());
}

#[test]
fn it_ends_when_it_is_told_to_and_passes_on_what_its_command_says() {
    let mut alone = Alone::start(&["sh", "-c", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"]);
    let mut out = alone.child.stdout.take().unwrap();
    let mut said = [0; 3];
    out.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"up\n");
    let pid = rustix::process::Pid::from_child(&alone.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(alone.child.wait().unwrap().code(), Some(7));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "bye\n");
    let mut silent = Alone::start(&[]);
    assert_eq!(silent.talk().ask(Request::Ping), Reply::Done);
    let pid = rustix::process::Pid::from_child(&silent.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(silent.child.wait().unwrap().success());
}

//! A real container and what can be asked of its first process. As anybody but root it is skipped, loudly.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests say why they fail or are skipped")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use tempfile::TempDir;
use thane_executor::exit::Exit;
use thane_executor::frame::{Data, Decoder, Frame, Stream};
use thane_executor::message::{Call, Failure, MAIN, Reply, Request, Said, Size, Spawn};
use thane_executor::plan::{
    Cgroups, ContainerPlan, IdRange, LogLimits, Lower, Main, Mount, Outcome, PodPlan, ROOT, Root, SOCKET, Source,
    Started, User,
};

const PATIENCE: Duration = Duration::from_mins(1);
/// Less than what a machine gives us.
const OPEN_FILES: u64 = 333;
const IDS: IdRange = IdRange { base: 0x7000_0000, count: 65_536 };

fn run(verb: &str, plan: &impl Serialize) -> Started {
    let mut child = Command::new(env!("CARGO_BIN_EXE_thane-executor"))
        .arg(verb)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(plan).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    match serde_json::from_slice(&output.stdout).unwrap() {
        Outcome::Started(started) => started,
        Outcome::Failed(why) => panic!("{verb}: {why}"),
    }
}

struct Container {
    folder: TempDir,
    holder: Started,
    init: Started,
}

impl Container {
    /// A container from this machine's programs, unless we may not make one.
    fn start(main: Option<Main>) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: containers take root");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("thane-executor-").tempdir().unwrap();
        let holder =
            run("hold", &PodPlan { hostname: "pod".to_owned(), ids: IDS, host_network: false, memory: Vec::new() });
        let make = |name: &str| -> PathBuf {
            let path = folder.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            chown(&path, Some(IDS.base), Some(IDS.base)).unwrap();
            path
        };
        let skeleton = make("skeleton");
        for name in ["usr", "tmp", "workspace"] {
            make(&format!("skeleton/{name}"));
        }
        std::fs::set_permissions(skeleton.join("tmp"), PermissionsExt::from_mode(0o1777)).unwrap();
        for name in ["bin", "lib", "lib64", "sbin"] {
            std::os::unix::fs::symlink(format!("usr/{name}"), skeleton.join(name)).unwrap();
        }
        let run_directory = make("run");
        make(&format!("run/{ROOT}"));
        let plan = ContainerPlan {
            directory: run_directory,
            holder: holder.clone(),
            ids: IDS,
            host_network: false,
            root: Root {
                lowers: vec![Lower { path: skeleton, mapped: false }],
                upper: make("upper"),
                work: make("work"),
                read_only: false,
            },
            mounts: vec![Mount { target: "/usr".to_owned(), source: Source::Bind("/usr".into()), read_only: true }],
            cgroups: Cgroups::default(),
            main,
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            working_directory: "/workspace".to_owned(),
            user: User::default(),
            capabilities: 0,
            oom_score: 500,
            log: LogLimits::default(),
            open_files: Some(OPEN_FILES),
            file_bytes_max: Some(100 << 20),
        };
        let init = run("create", &plan);
        Some(Self { folder, holder, init })
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn talk(&self) -> Talk {
        let directory = std::fs::File::open(self.directory()).unwrap();
        let stream = UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Talk { stream, decoder: Decoder::default(), next: 0, output: BTreeMap::new(), exits: BTreeMap::new() }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        for started in [&self.init, &self.holder] {
            let pid = rustix::process::Pid::from_raw(started.pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            while Path::new(&format!("/proc/{}/exe", started.pid)).exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// A conversation: answers as they are asked for, output and ends as they come.
struct Talk {
    stream: UnixStream,
    decoder: Decoder,
    next: u64,
    output: BTreeMap<(u64, Stream), Vec<u8>>,
    exits: BTreeMap<u64, Exit>,
}

impl Talk {
    fn hear(&mut self) -> Option<(u64, Reply)> {
        loop {
            match self.decoder.next_frame().unwrap() {
                Some(Frame::Data(data)) => {
                    self.output.entry((data.process, data.stream)).or_default().extend(data.bytes);
                    return None;
                }
                Some(Frame::Message(json)) => match serde_json::from_slice(&json).unwrap() {
                    Said::Reply { id, reply } => return Some((id, reply)),
                    Said::Exited { process, exit } => {
                        self.exits.insert(process, exit);
                        return None;
                    }
                },
                None => {}
            }
            let mut buffer = vec![0; 65_536];
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the executor hung up");
            self.decoder.push(&buffer[..count]);
        }
    }

    fn ask(&mut self, request: Request) -> Reply {
        self.next += 1;
        let json = serde_json::to_vec(&Call { id: self.next, request }).unwrap();
        self.stream.write_all(&Frame::Message(json).encode()).unwrap();
        loop {
            if let Some((id, reply)) = self.hear()
                && id == self.next
            {
                return reply;
            }
        }
    }

    fn data(&mut self, process: u64, stream: Stream, bytes: &[u8]) {
        let data = Data { process, stream, offset: 0, bytes: bytes.to_vec() };
        self.stream.write_all(&Frame::Data(data).encode()).unwrap();
    }

    fn spawn(&mut self, spawn: Spawn) -> u64 {
        match self.ask(Request::Spawn(spawn)) {
            Reply::Spawned { process, .. } => process,
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, process: u64) -> (Exit, Vec<u8>) {
        while !self.exits.contains_key(&process) {
            self.hear();
        }
        (self.exits[&process].clone(), self.output.remove(&(process, Stream::Stdout)).unwrap_or_default())
    }

    fn run(&mut self, script: &str) -> (Exit, Vec<u8>) {
        let process = self.spawn(shell(script));
        self.end(process)
    }
}

fn shell(script: &str) -> Spawn {
    Spawn { command: ["sh", "-c", script].map(str::to_owned).into(), attach: true, ..Spawn::default() }
}

#[test]
fn steps_run_with_output_input_and_codes() {
    let Some(container) = Container::start(None) else { return };
    let mut talk = container.talk();
    assert_eq!(talk.ask(Request::Ping), Reply::Done);
    let (exit, said) = talk.run("printf 'a\\377b'; exit 3");
    assert_eq!((exit.code, said.as_slice()), (3, &b"a\xffb"[..]), "bytes that are no text survive");
    let (_, limits) = talk.run("ulimit -Sn; ulimit -Hn");
    assert!(limits.starts_with(b"333\n") && limits != b"333\n333\n", "{}", String::from_utf8_lossy(&limits));
    let process = talk.spawn(Spawn { stdin: true, ..shell("cat") });
    talk.data(process, Stream::Stdin, b"given");
    assert_eq!(talk.ask(Request::CloseStdin { process }), Reply::Done);
    assert_eq!(talk.end(process).1, b"given");
    talk.ask(Request::Bind { env: BTreeMap::from([("BOUND".to_owned(), "late".to_owned())]) });
    assert_eq!(talk.run("echo $BOUND $PWD").1, b"late /workspace\n");
    for (spawn, expected) in [
        (Spawn::default(), Failure::Invalid),
        (Spawn { command: vec!["a\0b".to_owned()], ..Spawn::default() }, Failure::Invalid),
        (Spawn { command: vec!["nowhere".to_owned()], ..Spawn::default() }, Failure::NotFound),
        (Spawn { command: vec!["/etc".to_owned()], ..Spawn::default() }, Failure::NotFound),
    ] {
        match talk.ask(Request::Spawn(spawn)) {
            Reply::Failed { failure, .. } => assert_eq!(failure, expected),
            other => panic!("{other:?}"),
        }
    }
    let many = (0..10_000).map(|number| (format!("V{number}"), "x".to_owned())).collect();
    let process = talk.spawn(Spawn { env: many, ..shell("env | grep -c ^V") });
    assert_eq!(talk.end(process).1, b"10000\n");
}

#[test]
fn a_late_step_is_killed_with_all_it_started() {
    let Some(container) = Container::start(None) else { return };
    let mut talk = container.talk();
    let script = "trap '' TERM; sleep 4711 & sleep 4711";
    let process = talk.spawn(Spawn { timeout_ms: Some(200), ..shell(script) });
    let (exit, _) = talk.end(process);
    assert_eq!((exit.code, exit.timed_out), (124, true));
    assert_eq!(talk.run("cat /proc/[0-9]*/comm | grep -c sleep").1, b"0\n", "nothing of it is left");
}

#[test]
fn what_a_step_leaves_ends_unless_it_said_so() {
    let Some(container) = Container::start(None) else { return };
    let mut talk = container.talk();
    assert_eq!(talk.run("sleep 4712 >/dev/null 2>&1 & echo done").1, b"done\n");
    let sleepers = "cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^sleep$'";
    // killed is not yet gone
    let gone = format!("until [ $({sleepers}) = 0 ]; do :; done; echo gone");
    assert_eq!(talk.run(&gone).1, b"gone\n");
    // A shell's child is a sleeper only once it has become one.
    let left = "sleep 4713 & until [ $(cat /proc/$!/comm) = sleep ]; do :; done; echo up";
    let process = talk.spawn(Spawn { background: true, ..shell(left) });
    assert_eq!(talk.end(process).1, b"up\n");
    assert_eq!(talk.run(sleepers).1, b"1\n", "the one that said so lives");
}

#[test]
fn output_can_be_read_again_from_where_one_was() {
    let Some(container) = Container::start(None) else { return };
    let mut first = container.talk();
    let process = first.spawn(Spawn { tag: "job".to_owned(), ..shell("printf 0123456789; sleep 0.2; printf abc") });
    assert_eq!(first.end(process).1, b"0123456789abc");
    drop(first);
    let mut second = container.talk();
    let Reply::Processes { processes } = second.ask(Request::List) else { panic!("no list") };
    let job = processes.iter().find(|one| one.tag == "job").unwrap();
    assert_eq!((job.process, job.stdout), (process, 13));
    assert_eq!(second.ask(Request::Attach { process, stdout: 8, stderr: 0 }), Reply::Done);
    assert_eq!(second.end(process).1, b"89abc");
    assert_eq!(second.ask(Request::Forget { process }), Reply::Done);
    assert!(matches!(second.ask(Request::Attach { process, stdout: 0, stderr: 0 }), Reply::Failed { .. }));
}

#[test]
fn a_flood_is_bounded_and_nothing_of_it_is_lost_to_who_follows() {
    let Some(container) = Container::start(None) else { return };
    let mut talk = container.talk();
    let (exit, said) = talk.run("head -c 50000000 /dev/zero");
    assert_eq!((exit.code, said.len()), (0, 50_000_000));
    let status = std::fs::read_to_string(format!("/proc/{}/status", container.init.pid)).unwrap();
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kib: u64 = anonymous.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 32 * 1024, "the first process holds {kib} KiB");
}

#[test]
fn a_terminal_has_a_size_and_takes_signals() {
    let Some(container) = Container::start(None) else { return };
    let mut talk = container.talk();
    let terminal = Some(Size { rows: 33, cols: 44 });
    let process = talk.spawn(Spawn { terminal, stdin: true, ..shell("stty size; read x; stty size; exec cat") });
    while talk.output.get(&(process, Stream::Stdout)).is_none_or(|said| said.len() < 5) {
        talk.hear();
    }
    assert_eq!(talk.ask(Request::Resize { process, rows: 10, cols: 20 }), Reply::Done);
    talk.data(process, Stream::Stdin, b"go\n");
    while !String::from_utf8_lossy(&talk.output[&(process, Stream::Stdout)]).contains("10 20") {
        talk.hear();
    }
    // seen twice, by the terminal's echo and from cat: no shell is there any more that could take the signal for itself
    talk.data(process, Stream::Stdin, b"ping\n");
    while String::from_utf8_lossy(&talk.output[&(process, Stream::Stdout)]).matches("ping").count() < 2 {
        talk.hear();
    }
    talk.data(process, Stream::Stdin, &[3]);
    let (exit, said) = talk.end(process);
    assert_eq!((exit.code, exit.signal), (130, Some(2)));
    assert!(said.starts_with(b"33 44\r\n"), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn files_are_written_read_and_removed() {
    let Some(container) = Container::start(None) else { return };
    let mut talk = container.talk();
    let path = "/workspace/deep/file".to_owned();
    talk.data(talk.next + 1, Stream::File, b"\x00bytes\xff");
    assert_eq!(talk.ask(Request::WriteFile { path: path.clone(), mode: Some(0o600), append: false }), Reply::Done);
    let Reply::File { file } = talk.ask(Request::ReadFile { path: path.clone(), offset: 1, length: 100 }) else {
        panic!("not read")
    };
    assert_eq!((file.size, file.mode), (7, 0o600));
    assert_eq!(talk.output.remove(&(talk.next, Stream::File)).unwrap(), b"bytes\xff");
    let list = |after: &str| Request::ListDirectory { path: "deep".to_owned(), after: after.to_owned() };
    let Reply::Directory { entries, more } = talk.ask(list("")) else { panic!("not listed") };
    assert_eq!((entries.len(), more), (1, false));
    let Reply::Directory { entries, .. } = talk.ask(list("file")) else { panic!("not listed") };
    assert!(entries.is_empty(), "only names after that one");
    assert_eq!(talk.ask(Request::Remove { path: "/workspace/deep".to_owned() }), Reply::Done);
    assert!(matches!(talk.ask(Request::Stat { path }), Reply::Failed { failure: Failure::NotFound, .. }));
    for path in ["/usr/bin/x", "/dev/null", "/workspace/../../../etc/escaped"] {
        talk.ask(Request::WriteFile { path: path.to_owned(), mode: None, append: false });
    }
    assert!(!Path::new("/etc/escaped").exists() && !Path::new("/usr/bin/x").exists());
}

/// By what the first process has open of the machine.
#[test]
fn nothing_open_is_a_way_out() {
    let Some(container) = Container::start(None) else { return };
    let folder = container.folder.path();
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(folder.join("secret"), "treasure").unwrap();
    std::fs::copy("/bin/true", folder.join("program")).unwrap();
    std::fs::set_permissions(folder.join("program"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(folder.join("run/given"), "").unwrap();
    chown(folder.join("run/given"), Some(IDS.base), Some(IDS.base)).unwrap();
    let mut talk = container.talk();
    let script = "mkdir /tmp/links; for n in $(seq 3 40); do ln -s /proc/self/fd/$n /tmp/links/$n; done";
    assert_eq!(talk.run(script).0.code, 0);
    for number in 3..40 {
        for before in [format!("/proc/self/fd/{number}"), format!("/tmp/links/{number}")] {
            let up = format!("{before}{}{}", "/..".repeat(12), folder.display());
            for request in [
                Request::ReadFile { path: format!("{up}/secret"), offset: 0, length: 100 },
                Request::Stat { path: format!("{up}/secret") },
                Request::ListDirectory { path: up.clone(), after: String::new() },
                Request::ListDirectory { path: format!("{before}/.."), after: String::new() },
                Request::WriteFile { path: format!("{up}/run/given"), mode: None, append: false },
                Request::WriteFile { path: format!("{before}/planted"), mode: None, append: false },
                Request::Rename { from: "/tmp/links/3".to_owned(), to: format!("{up}/run/given") },
                Request::Spawn(Spawn { directory: Some(up.clone()), ..shell("true") }),
                Request::Spawn(Spawn { directory: Some(before.clone()), ..shell("true") }),
                Request::Spawn(Spawn { command: vec![format!("{up}/program")], ..Spawn::default() }),
            ] {
                let asked = format!("{request:?}");
                let reply = talk.ask(request);
                assert!(matches!(reply, Reply::Failed { .. }), "{asked}: {reply:?}");
            }
            talk.ask(Request::Remove { path: format!("{up}/run/given") });
        }
    }
    assert!(folder.join("run/given").exists() && !folder.join("run/planted").exists());
    let (_, said) = talk.run("readlink /proc/self/cwd; ls -l /proc/self/fd | grep -c thane-executor-");
    assert_eq!(said, b"/workspace\n0\n", "and processes have nothing open");
}

#[test]
fn no_file_is_longer_than_it_may_be() {
    let Some(container) = Container::start(None) else { return };
    let script = "head -c 110000000 /dev/zero > /tmp/f; echo $?; stat -c %s /tmp/f";
    assert_eq!(container.talk().run(script).1, b"153\n104857600\n", "whoever writes more is ended by a signal");
}

#[test]
fn nonsense_is_answered_or_cut_off_and_others_go_on() {
    let Some(container) = Container::start(None) else { return };
    let mut other = container.talk();
    let mut talk = container.talk();
    talk.stream.write_all(&Frame::Message(b"{not json".to_vec()).encode()).unwrap();
    assert!(matches!(talk.hear(), Some((0, Reply::Failed { failure: Failure::Invalid, .. }))));
    talk.stream.write_all(&[0xff; 64]).unwrap();
    let mut rest = Vec::new();
    let _ = talk.stream.read_to_end(&mut rest);
    assert_eq!(other.ask(Request::Ping), Reply::Done);
}

#[test]
fn the_end_is_on_disk() {
    let main = |script: &str| {
        Some(Main { command: ["sh", "-c", script].map(str::to_owned).into(), terminal: false, stdin: false })
    };
    let Some(container) = Container::start(main("trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.05; done"))
    else {
        return;
    };
    let mut talk = container.talk();
    assert_eq!(talk.ask(Request::Attach { process: MAIN, stdout: 0, stderr: 0 }), Reply::Done);
    while !talk.output.contains_key(&(MAIN, Stream::Stdout)) {
        talk.hear();
    }
    assert_eq!(talk.ask(Request::Stop { grace_ms: 60_000, signal: None }), Reply::Done);
    let (exit, said) = talk.end(MAIN);
    assert_eq!((exit.code, said.as_slice()), (9, &b"up\nbye\n"[..]));
    let record: Exit =
        serde_json::from_slice(&std::fs::read(container.directory().join("exit.json")).unwrap()).unwrap();
    assert_eq!(record, exit);
    let log = std::fs::read_to_string(container.directory().join("log")).unwrap();
    assert!(log.contains(" stdout F up\n") && log.contains(" stdout F bye\n"), "{log}");
}

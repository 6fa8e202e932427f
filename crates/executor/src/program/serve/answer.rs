//! Requests and their answers.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use thane_executor::frame::{Data, Frame, Stream};
use thane_executor::message::{Call, Failure as Sort, MAIN, Reply, Request, Size, Spawn};

use super::{Server, Settling};
use crate::program::process::INPUT_MAX;
use crate::program::{files, spawn};

/// Content that waits to be written on one connection.
const CONTENT_MAX: usize = 16 * 1024 * 1024;
/// Requests that wait until nothing runs.
const SETTLING_MAX: usize = 64;

/// Does what a frame asks for.
pub(super) fn answer(server: &mut Server, connection: u64, frame: Frame) {
    match frame {
        Frame::Data(data) => take(server, connection, data),
        Frame::Message(json) => match serde_json::from_slice::<Call>(&json) {
            Ok(Call { id, request }) => {
                let Some(reply) = perform(server, connection, id, request) else { return };
                if let Some(connection) = server.connections.get_mut(&connection) {
                    connection.content.remove(&id);
                    connection.reply(id, reply);
                }
            }
            Err(error) => {
                if let Some(connection) = server.connections.get_mut(&connection) {
                    connection.reply(0, failed(Sort::Invalid, format!("understand the request: {error}")));
                }
            }
        },
    }
}

/// Input of a process, or content of a file that is about to be written.
fn take(server: &mut Server, connection: u64, data: Data) {
    match data.stream {
        Stream::Stdin => {
            if let Some(process) = server.table.processes.get_mut(&data.process)
                && process.stdin.is_some()
                && process.input.len() + data.bytes.len() <= INPUT_MAX
            {
                process.input.extend(data.bytes);
                process.write();
            }
        }
        Stream::File => {
            if let Some(connection) = server.connections.get_mut(&connection) {
                let held: usize = connection.content.values().map(Vec::len).sum();
                if held + data.bytes.len() > CONTENT_MAX {
                    connection.broken = true;
                } else {
                    connection.content.entry(data.process).or_default().extend(data.bytes);
                }
            }
        }
        Stream::Stdout | Stream::Stderr => {}
    }
}

/// None if it is answered later.
fn perform(server: &mut Server, connection: u64, id: u64, request: Request) -> Option<Reply> {
    match request {
        Request::Reset { patience_ms } => {
            server.table.reset();
            settle(server, connection, id, patience_ms)
        }
        Request::Settle { patience_ms } => {
            if server.table.is_busy() {
                return Some(failed(Sort::Exhausted, "processes run".to_owned()));
            }
            settle(server, connection, id, patience_ms)
        }
        request => Some(perform_now(server, connection, id, request)),
    }
}

fn settle(server: &mut Server, connection: u64, id: u64, patience_ms: u64) -> Option<Reply> {
    if server.table.is_quiet() {
        return Some(Reply::Done);
    }
    if server.settling.len() >= SETTLING_MAX {
        return Some(failed(Sort::Exhausted, format!("{SETTLING_MAX} wait for that already")));
    }
    server.settling.push(Settling { connection, id, until: Instant::now() + Duration::from_millis(patience_ms) });
    None
}

fn perform_now(server: &mut Server, connection: u64, id: u64, request: Request) -> Reply {
    match request {
        Request::Ping => Reply::Done,
        Request::About => Reply::About { directory: server.table.launcher.directory.clone() },
        Request::Bind { env } => {
            server.table.launcher.env.extend(env);
            Reply::Done
        }
        Request::Spawn(spawn) => start(server, connection, spawn),
        Request::Attach { process, stdout, stderr } => {
            let Some(found) = server.table.processes.get(&process) else { return unknown(process) };
            // What has not been said yet is heard when it is.
            let ends = [0, 1].map(|stream: usize| found.outputs[stream].ring.end());
            follow(server, connection, process, [stdout.min(ends[0]), stderr.min(ends[1])]);
            Reply::Done
        }
        Request::Detach { process } => {
            if let Some(connection) = server.connections.get_mut(&connection) {
                connection.follows.remove(&process);
            }
            Reply::Done
        }
        Request::CloseStdin { process } => match server.table.processes.get_mut(&process) {
            Some(process) => {
                process.input_ends = true;
                process.write();
                Reply::Done
            }
            None => unknown(process),
        },
        Request::Signal { process, signal, group } => signalled(server, process, signal, group),
        Request::Resize { process, rows, cols } => resized(server, process, Size { rows, cols }),
        Request::List => {
            Reply::Processes { processes: server.table.processes.values().map(super::Process::info).collect() }
        }
        Request::Forget { process } if process != MAIN && server.table.forget(process) => Reply::Done,
        Request::Forget { process } => unknown(process),
        Request::Stop { grace_ms, signal } => stop(server, grace_ms, signal),
        request => file(server, connection, id, request),
    }
}

fn start(server: &mut Server, connection: u64, spawn: Spawn) -> Reply {
    let attach = spawn.attach;
    match server.table.spawn(spawn) {
        Ok(process) => {
            if attach {
                follow(server, connection, process, [0, 0]);
            }
            let pid = server.table.processes.get(&process).map_or(0, |one| one.pid);
            Reply::Spawned { process, pid }
        }
        Err((sort, message)) => failed(sort, message),
    }
}

fn follow(server: &mut Server, connection: u64, process: u64, known: [u64; 2]) {
    if let Some(connection) = server.connections.get_mut(&connection) {
        connection.follows.insert(process, known);
    }
}

fn signalled(server: &mut Server, process: u64, signal: i32, group: bool) -> Reply {
    let Some(signal) = Signal::from_named_raw(signal) else {
        return failed(Sort::Invalid, format!("{signal} is no signal"));
    };
    let Some(found) = server.table.processes.get(&process) else { return unknown(process) };
    match found.signal(signal, group) {
        Ok(()) => Reply::Done,
        Err(rustix::io::Errno::SRCH) => failed(Sort::NotFound, format!("process {process} has ended")),
        Err(error) => failed(Sort::Other, format!("signal process {process}: {error}")),
    }
}

fn resized(server: &mut Server, process: u64, size: Size) -> Reply {
    let Some(found) = server.table.processes.get(&process) else { return unknown(process) };
    let Some(terminal) = found.stdin.as_ref().filter(|_| found.spawn.terminal.is_some()) else {
        return failed(Sort::Invalid, format!("process {process} has no terminal"));
    };
    match spawn::resize(terminal, size) {
        Ok(()) => Reply::Done,
        Err(error) => failed(Sort::Other, format!("resize the terminal: {error}")),
    }
}

pub(super) fn stop(server: &mut Server, grace_ms: u64, signal: Option<i32>) -> Reply {
    let signal = signal.and_then(Signal::from_named_raw).unwrap_or(Signal::TERM);
    if let Some(main) = server.table.processes.get(&MAIN) {
        let _ = main.signal(signal, false);
        let until = Instant::now() + Duration::from_millis(grace_ms);
        // Asked again, it may be given less time, never more.
        server.stopping = Some(server.stopping.map_or(until, |before| before.min(until)));
    } else {
        server.stopping = Some(Instant::now());
    }
    Reply::Done
}

fn file(server: &mut Server, connection: u64, id: u64, request: Request) -> Reply {
    let Some(connection) = server.connections.get_mut(&connection) else { return Reply::Done };
    let places = files::Places { directory: &server.table.launcher.directory, owner: server.settings.owner.as_ref() };
    match request {
        Request::WriteFile { path, mode, append } => {
            let content = connection.content.remove(&id).unwrap_or_default();
            match places.write(&path, mode, append, &content) {
                Ok(()) => Reply::Done,
                Err(error) => files::failed(&path, &error),
            }
        }
        Request::Rename { from, to } => match places.rename(&from, &to) {
            Ok(()) => Reply::Done,
            Err(error) => files::failed(&to, &error),
        },
        Request::ReadFile { path, offset, length } => match places.read(&path, offset, length) {
            Ok((file, bytes)) => {
                connection.send_content(id, offset, &bytes);
                Reply::File { file }
            }
            Err(error) => files::failed(&path, &error),
        },
        Request::Stat { path } => match places.stat(&path) {
            Ok(file) => Reply::File { file },
            Err(error) => files::failed(&path, &error),
        },
        Request::ListDirectory { path, after } => match places.list(&path, &after) {
            Ok((entries, more)) => Reply::Directory { entries, more },
            Err(error) => files::failed(&path, &error),
        },
        Request::Remove { path } => match places.remove(&path) {
            Ok(()) => Reply::Done,
            Err(error) => files::failed(&path, &error),
        },
        _ => failed(Sort::Invalid, "an unknown request".to_owned()),
    }
}

fn unknown(process: u64) -> Reply {
    failed(Sort::NotFound, format!("there is no process {process} that this could be done to"))
}

fn failed(failure: Sort, message: String) -> Reply {
    Reply::Failed { failure, message }
}

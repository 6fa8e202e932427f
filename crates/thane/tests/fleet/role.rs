//! A role that runs as a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::place::Place;

/// How long anything may take on a machine that does many things at once.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A running role, killed when dropped.
pub(crate) struct Role {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Role {
    pub(crate) fn start(place: &Place, variables: &[(&str, &str)], line: &str) -> Self {
        let mut command = place.command(variables, &line.split(' ').collect::<Vec<_>>());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for the next line of the log with this message.
    pub(crate) fn wait_for(&mut self, message: &str) -> Value {
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("{message:?} was never said:\n{}", self.seen.join("\n"));
            };
            self.seen.push(line.clone());
            let line: Value = serde_json::from_str(&line).unwrap_or_default();
            if line["message"] == message {
                return line;
            }
        }
    }

    /// Asks it to stop, and gives its exit code and all it said.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let code = self.child.wait().unwrap().code();
        let rest: Vec<String> = self.lines.iter().collect();
        self.seen.extend(rest);
        (code, self.seen.join("\n"))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status line of a path on loopback.
pub(crate) fn status(port: u16, path: &str) -> String {
    answer(port, path).lines().next().unwrap().to_owned()
}

/// The whole answer to a GET on loopback.
pub(crate) fn answer(port: u16, path: &str) -> String {
    ask(port, "GET", path, "")
}

/// The whole answer to a request on loopback.
pub(crate) fn ask(port: u16, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}");
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A port that nobody has at this moment.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

//! Terminals, as a person at a keyboard has them: kubectl on a real one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use crate::bed::{Bed, PATIENCE, holds, on_bed};

/// Says how large its terminal is, at the beginning and whenever that changes, and ends with 7 after a line.
const PROGRAM: &str = "import os,signal,sys\n\
def s(*a):\n\
\x20z=os.get_terminal_size(0); os.write(1, f'{z.lines}x{z.columns}\\r\\n'.encode())\n\
signal.signal(signal.SIGWINCH,s); s()\n\
print('got',input(),os.isatty(1),flush=True); sys.exit(7)";

/// A kubectl at a terminal.
struct Seat {
    terminal: File,
    kubectl: Child,
    heard: String,
    pieces: Receiver<Vec<u8>>,
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Seat {
    fn take(bed: &Bed, words: &[&str]) -> Option<Self> {
        let program = thane_testkit::peer::home_or_skip(&["kubectl"])?.program("kubectl");
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        tcsetwinsize(&terminal, size(33, 111)).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let end: OwnedFd = rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let kubectl = Command::new(program)
            .arg("--kubeconfig")
            .arg(bed.kubeconfig())
            .args(words)
            .env("HOME", bed.folder.path())
            .stdin(end.try_clone().unwrap())
            .stdout(end.try_clone().unwrap())
            .stderr(end)
            .spawn()
            .unwrap();
        let terminal = File::from(terminal);
        let mut reader = terminal.try_clone().unwrap();
        let (tell, pieces) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // It fails when kubectl has closed its end.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if tell.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Some(Self { terminal, kubectl, heard: String::new(), pieces })
    }

    fn hear(&mut self, wanted: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.heard.contains(wanted) {
            let left = until.saturating_duration_since(Instant::now());
            match self.pieces.recv_timeout(left) {
                Ok(piece) => self.heard.push_str(&String::from_utf8_lossy(&piece)),
                Err(late) => panic!("{late}: {wanted:?} was not said, but {:?}", self.heard),
            }
        }
    }

    fn resize(&self, rows: u16, columns: u16) {
        tcsetwinsize(&self.terminal, size(rows, columns)).unwrap();
        // It is not the session's own terminal, so the kernel tells nobody.
        let pid = Pid::from_raw(i32::try_from(self.kubectl.id()).unwrap()).unwrap();
        kill_process(pid, Signal::WINCH).unwrap();
    }

    /// Changes the size, says a line and hears the end: kubectl's exit code.
    fn talk(mut self) -> i32 {
        self.hear("33x111");
        self.resize(44, 122);
        self.hear("44x122");
        self.terminal.write_all(b"hello\r").unwrap();
        self.hear("got hello True");
        self.kubectl.wait().unwrap().code().unwrap()
    }
}

#[test]
fn a_command_has_the_terminal_of_who_runs_it() {
    on_bed(|bed| async {
        bed.script("p", "exec sleep 600", json!({})).await;
        bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
        let seat = Seat::take(&bed, &["exec", "-it", "p", "--", "python3", "-c", PROGRAM]);
        if let Some(seat) = seat {
            let code = tokio::task::spawn_blocking(|| seat.talk()).await.unwrap();
            assert_eq!(code, 7);
        }
        bed
    });
}

#[test]
fn a_container_has_the_terminal_of_who_is_attached() {
    on_bed(|bed| async {
        let more = json!({"container": {"stdin": true, "tty": true, "command": ["python3", "-c", PROGRAM]}});
        bed.script("p", "", more).await;
        bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
        let seat = Seat::take(&bed, &["attach", "-it", "p"]);
        if let Some(seat) = seat {
            // The container's code is in its status; being attached to it went well.
            let code = tokio::task::spawn_blocking(|| seat.talk()).await.unwrap();
            assert_eq!(code, 0);
            let pod = bed.phase("p", "Failed").await;
            assert_eq!(crate::bed::state(&pod, "main").terminated.unwrap().exit_code, 7);
        }
        bed
    });
}

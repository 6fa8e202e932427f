//! `kubectl port-forward`, the real one.

use std::net::Ipv4Addr;
use std::process::Stdio;

use serde_json::json;
use thane_runtime::pods::PodAccess;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::bed::{Bed, PATIENCE, holds, on_bed};

/// Sends back what it gets, and says when somebody goes who had something to say; probes do not.
const ECHO: &str = "import socketserver\n\
class H(socketserver.BaseRequestHandler):\n\
\x20 def handle(self):\n\
\x20  some=False\n\
\x20  try:\n\
\x20   while (b := self.request.recv(65536)): some=True; self.request.sendall(b)\n\
\x20  except OSError: pass\n\
\x20  if some: print('gone', flush=True)\n\
class S(socketserver.ThreadingTCPServer): allow_reuse_address=True; daemon_threads=True\n\
S(('127.0.0.1', 8000), H).serve_forever()";

/// The local end of a forward.
struct Forward {
    child: Child,
    ports: Vec<u16>,
    errors: Lines<BufReader<ChildStderr>>,
    /// Kept open, since it goes on saying things.
    _said: Lines<BufReader<ChildStdout>>,
}

fn command(bed: &Bed, words: &[&str]) -> Option<Command> {
    let program = thane_testkit::peer::home_or_skip(&["kubectl"])?.program("kubectl");
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(bed.kubeconfig()).args(words).env("HOME", bed.folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    Some(command)
}

impl Forward {
    async fn start(bed: &Bed, ports: &[&str]) -> Option<Self> {
        let words = [&["port-forward", "--address", "127.0.0.1", "pod/p"], ports].concat();
        let mut child = command(bed, &words)?.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut found = Vec::new();
        while found.len() < ports.len() {
            let line = tokio::time::timeout(PATIENCE, said.next_line()).await.unwrap().unwrap();
            let line = line.expect("kubectl says where it listens");
            let address = line.split_whitespace().find_map(|word| word.strip_prefix("127.0.0.1:"));
            found.push(address.unwrap_or_else(|| panic!("{line}")).parse().unwrap());
        }
        Some(Self { child, ports: found, errors, _said: said })
    }

    async fn connect(&self, index: usize) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports[index])).await.unwrap()
    }
}

async fn server(bed: &Bed) {
    let more = json!({"container": {"readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1}}});
    bed.script("p", &format!("exec python3 -c \"{ECHO}\""), more).await;
    bed.until("p", "ready", |pod| holds(pod, "Ready")).await;
}

/// Waits until the server has said a word so many times.
async fn said(bed: &Bed, word: &str, times: usize) {
    let pod = bed.pods().get("p").await.unwrap();
    let waiting = async {
        while bed.log(&pod, "main", 0).matches(word).count() < times {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(found.is_ok(), "{word} less than {times} times: {}", bed.log(&pod, "main", 0));
}

#[test]
fn bytes_go_both_ways_over_several_connections() {
    on_bed(|bed| async {
        server(&bed).await;
        let Some(forward) = Forward::start(&bed, &[":8000"]).await else { return bed };
        // The first stays open and silent while others come and go.
        let mut quiet = forward.connect(0).await;
        quiet.write_all(b"first").await.unwrap();
        let sent: Vec<u8> = (0..20_000_000_u32).map(|number| (number % 251) as u8).collect();
        let (mut from, mut to) = forward.connect(0).await.into_split();
        let copy = sent.clone();
        let writing = async move {
            to.write_all(&copy).await.unwrap();
            // The pod hears that no more comes, and still answers.
            to.shutdown().await.unwrap();
        };
        let mut received = Vec::with_capacity(sent.len());
        let both = async { tokio::join!(writing, from.read_to_end(&mut received)) };
        tokio::time::timeout(PATIENCE, both).await.unwrap().1.unwrap();
        assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
        let mut answer = [0; 5];
        tokio::time::timeout(PATIENCE, quiet.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"first");
        drop(quiet);
        said(&bed, "gone", 2).await;
        bed
    });
}

#[test]
fn a_port_nobody_listens_on_is_told() {
    on_bed(|bed| async {
        server(&bed).await;
        let Some(mut forward) = Forward::start(&bed, &[":81"]).await else { return bed };
        let mut stream = forward.connect(0).await;
        let mut nothing = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut nothing)).await.unwrap().ok();
        assert_eq!(nothing, b"");
        let mut told = String::new();
        let hearing = async {
            while let Some(line) = forward.errors.next_line().await.unwrap() {
                told.push_str(&line);
            }
        };
        tokio::time::timeout(PATIENCE, hearing).await.unwrap();
        let expected = "failed to connect to localhost:81 inside the pod: Connection refused";
        assert!(told.contains("error forwarding port 81 to pod p, uid ") && told.contains(expected), "{told}");
        assert!(told.contains("lost connection to pod"), "kubectl gives up after an error: {told}");
        forward.child.wait().await.unwrap();
        bed
    });
}

#[test]
fn a_killed_kubectl_leaves_nothing() {
    on_bed(|bed| async {
        server(&bed).await;
        let Some(mut forward) = Forward::start(&bed, &[":8000"]).await else { return bed };
        let mut stream = forward.connect(0).await;
        // In the middle of an answer that nobody reads.
        let filling = async { while stream.write_all(&vec![7; 65536]).await.is_ok() {} };
        let _ = tokio::time::timeout(std::time::Duration::from_millis(500), filling).await;
        forward.child.kill().await.unwrap();
        drop(stream);
        said(&bed, "gone", 1).await;
        bed
    });
}

#[test]
fn plain_spdy_is_refused_with_a_reason() {
    on_bed(|bed| async {
        server(&bed).await;
        let Some(mut command) = command(&bed, &["port-forward", "pod/p", ":8000"]) else { return bed };
        let output = command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false").output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("only WebSocket is spoken here"), "{text}");
        bed
    });
}

#[test]
fn a_pod_that_has_ended_leads_nowhere() {
    on_bed(|bed| async {
        let machine = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = machine.local_addr().unwrap().port();
        bed.script("p", "true", json!({})).await;
        let pod = bed.phase("p", "Succeeded").await;
        let uid = pod.metadata.uid.unwrap();
        // Somebody else has the number of what held its network: here this process, whose network is the machine's.
        let file = bed.folder.path().join("node/pods").join(&uid).join("pod.json");
        let mut record: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        record["holder"]["pid"] = std::process::id().into();
        std::fs::write(&file, record.to_string()).unwrap();
        let dialled = bed.node.as_ref().unwrap().rooms.dial(&uid, port).await;
        assert!(dialled.is_err(), "it leads to the machine");
        bed
    });
}

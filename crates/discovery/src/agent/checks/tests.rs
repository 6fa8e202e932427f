use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use thane_api::wire::health::health_check_response::ServingStatus;
use thane_api::wire::health::health_server::{Health, HealthServer};
use thane_api::wire::health::{HealthCheckRequest, HealthCheckResponse};
use thane_runtime::net::{Listener, Network, Tcp};
use thane_runtime::pki::{Authority, Request};
use thane_runtime::tls::ClientOptions;
use thane_runtime::{Clock, SystemClock, Tasks};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::agent::tests::bed::{Spoke, check as named, service, store, ttl};
use crate::backend::LocalAgent;
use crate::model::CheckDefinition;

fn tools() -> (Tools, Tasks) {
    let (tasks, _) = Tasks::root("test");
    (Tools::new(Tcp::shared(), SystemClock::shared(), None, tasks.clone()), tasks)
}

async fn listener() -> (Box<dyn Listener>, SocketAddr) {
    let listener = Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr();
    (listener, address)
}

/// Answers every request with that.
async fn answers(tasks: &Tasks, answer: String) -> SocketAddr {
    let (listener, address) = listener().await;
    tasks.spawn("answers", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let asked = String::from_utf8_lossy(&request[..read]).to_ascii_lowercase();
            let is_ours = asked.contains("user-agent: consul health check") && asked.contains("x-own: 1");
            let answer = if is_ours { answer.clone() } else { "HTTP/1.1 400 Bad\r\n\r\n".to_owned() };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

#[tokio::test]
async fn http_is_judged_by_its_status_and_keeps_four_kibibytes() {
    let (tools, tasks) = tools();
    for (line, body, expected) in [
        ("200 OK", "well".to_owned(), Status::Passing),
        ("204 No Content", String::new(), Status::Passing),
        ("429 Too Many Requests", "slow".to_owned(), Status::Warning),
        ("302 Found", String::new(), Status::Critical),
        ("500 Internal Server Error", "x".repeat(100_000), Status::Critical),
    ] {
        let answer = format!("HTTP/1.1 {line}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let address = answers(&tasks, answer).await;
        let definition = CheckDefinition {
            http: format!("http://{address}/health?x=1"),
            header: [("X-Own".to_owned(), vec!["1".to_owned()])].into(),
            ..CheckDefinition::default()
        };
        let seen = http::ask(&tools, &definition).await;
        assert_eq!(seen.status, expected, "{line}: {}", seen.output);
        let begins = format!("HTTP GET http://{address}/health?x=1: {line} Output: ");
        assert!(seen.output.starts_with(&begins) && seen.output.len() <= machine::OUTPUT_MAX, "{}", seen.output);
    }
    for bad in ["ftp://127.0.0.1/", "nonsense", "http://127.0.0.1:1/", "https://127.0.0.1:1/"] {
        let definition = CheckDefinition { http: bad.to_owned(), ..CheckDefinition::default() };
        assert_eq!(http::ask(&tools, &definition).await.status, Status::Critical, "{bad}");
    }
}

/// Answers by path, and notes what was asked.
async fn signposts(tasks: &Tasks, answers: &'static [(&'static str, &'static str)]) -> (SocketAddr, Asked) {
    let (listener, address) = listener().await;
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    tasks.spawn("signposts", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let text = String::from_utf8_lossy(&request[..read]).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
            let found = answers.iter().find(|(known, _)| path == *known);
            let answer = found.map_or("HTTP/1.1 404 Not Found\r\n\r\n", |(_, answer)| answer);
            noted.lock().push(text);
            let _ = stream.write_all(answer.replace("HERE", &address.to_string()).as_bytes()).await;
        }
    });
    (address, asked)
}

type Asked = Arc<Mutex<Vec<String>>>;

#[tokio::test]
async fn who_is_sent_elsewhere_goes_there_ten_times_at_most() {
    let (tools, tasks) = tools();
    let (address, asked) = signposts(
        &tasks,
        &[
            ("/ok", "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwell"),
            ("/found", "HTTP/1.1 302 Found\r\nlocation: /ok\r\n\r\n"),
            ("/same", "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://HERE/ok\r\n\r\n"),
            ("/away", "HTTP/1.1 301 Moved\r\nlocation: http://localhost:1/ok\r\n\r\n"),
            ("/nowhere", "HTTP/1.1 302 Found\r\n\r\n"),
            ("/round", "HTTP/1.1 303 See Other\r\nlocation: round\r\n\r\n"),
        ],
    )
    .await;
    let check = |path: &str| CheckDefinition {
        http: format!("http://{address}{path}"),
        method: "POST".to_owned(),
        body: "how are you".to_owned(),
        header: [("X-Own".to_owned(), vec!["1".to_owned()])].into(),
        ..CheckDefinition::default()
    };
    for (path, status, last, count) in [
        ("/ok", Status::Passing, "POST /ok", 1),
        ("/found", Status::Passing, "GET /ok", 2),
        ("/same", Status::Passing, "POST /ok", 2),
        ("/away", Status::Critical, "POST /away", 1),
        ("/nowhere", Status::Critical, "POST /nowhere", 1),
        ("/round", Status::Critical, "GET /round", 11),
    ] {
        asked.lock().clear();
        let seen = http::ask(&tools, &check(path)).await;
        let all = asked.lock().clone();
        assert_eq!((seen.status, all.len()), (status, count), "{path}: {}", seen.output);
        let request = all.last().unwrap();
        assert!(request.starts_with(last) && request.contains("x-own: 1"), "{path}: {request}");
        assert_eq!(request.contains("how are you"), last.starts_with("POST"), "{path}: {request}");
    }
    let stays = CheckDefinition { disable_redirects: true, ..check("/found") };
    let seen = http::ask(&tools, &stays).await;
    assert!(seen.status == Status::Critical && seen.output.contains("302 Found"), "{}", seen.output);
}

#[tokio::test]
async fn whoever_sends_a_ping_back_passes() {
    let (tools, tasks) = tools();
    let (listener, address) = listener().await;
    tasks.spawn("h2", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(HealthServer::new(Doctor));
            let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        }
    });
    let check = |address: &str| CheckDefinition { h2ping: address.to_owned(), ..CheckDefinition::default() };
    let seen = h2ping::ask(&tools, &check(&address.to_string())).await;
    assert_eq!(seen, Observation::new(Status::Passing, "HTTP2 ping was successful"));
    let other = answers(&tasks, "HTTP/1.1 200 OK\r\n\r\n".to_owned()).await;
    for bad in [other.to_string(), "127.0.0.1:1".to_owned(), "nowhere".to_owned()] {
        let seen = h2ping::ask(&tools, &check(&bad)).await;
        assert!(seen.status == Status::Critical && seen.output.starts_with("HTTP2 ping failed: "), "{}", seen.output);
    }
}

#[tokio::test]
async fn whoever_answers_a_call_passes() {
    let (tools, _tasks) = tools();
    let (listener, address) = listener().await;
    let definition = CheckDefinition { tcp: address.to_string(), ..CheckDefinition::default() };
    let (seen, _) = tokio::join!(tcp::ask(&tools, &definition), listener.accept());
    assert_eq!(seen.output, format!("TCP connect {address}: Success"));
    drop(listener);
    assert_eq!(tcp::ask(&tools, &definition).await.status, Status::Critical);
    let nonsense = CheckDefinition { tcp: "nowhere".to_owned(), ..CheckDefinition::default() };
    assert_eq!(tcp::ask(&tools, &nonsense).await.status, Status::Critical);
}

#[tokio::test]
async fn only_a_machine_that_says_nobody_listens_fails_a_packet() {
    let server = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let definition = CheckDefinition { udp: address.to_string(), ..CheckDefinition::default() };
    let answer = async {
        let (length, from) = server.recv_from(&mut [0; 8]).await.unwrap();
        server.send_to(b"x", from).await.unwrap();
        length
    };
    let (seen, length) = tokio::join!(udp::ask(&definition), answer);
    assert_eq!((seen.output, length), (format!("UDP connect {address}: Success"), 0));
    let brief = CheckDefinition { timeout: Duration::from_millis(20), ..definition.clone() };
    assert_eq!(udp::ask(&brief).await.status, Status::Passing, "silence is no news");
    drop(server);
    for bad in [definition, CheckDefinition { udp: "nowhere".to_owned(), ..CheckDefinition::default() }] {
        assert_eq!(udp::ask(&bad).await.status, Status::Critical);
    }
}

struct Doctor;

#[tonic::async_trait]
impl Health for Doctor {
    async fn check(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<HealthCheckResponse>, tonic::Status> {
        let status = match request.into_inner().service.as_str() {
            "" | "well" => ServingStatus::Serving,
            "ill" => ServingStatus::NotServing,
            _ => return Err(tonic::Status::not_found("unknown")),
        };
        Ok(tonic::Response::new(HealthCheckResponse { status: status.into() }))
    }
}

#[tokio::test]
async fn grpc_is_asked_by_its_own_health_service() {
    let (tools, tasks) = tools();
    let (listener, address) = listener().await;
    tasks.spawn("grpc", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(HealthServer::new(Doctor));
            let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        }
    });
    for (service, expected) in
        [("", Status::Passing), ("/well", Status::Passing), ("/ill", Status::Critical), ("/none", Status::Critical)]
    {
        let definition = CheckDefinition { grpc: format!("{address}{service}"), ..CheckDefinition::default() };
        let seen = grpc::ask(&tools, &definition).await;
        assert_eq!(seen.status, expected, "{service}: {}", seen.output);
    }
}

#[tokio::test]
async fn a_program_is_judged_by_its_exit_code() {
    let sh = |script: &str| ["sh", "-c", script].map(str::to_owned).to_vec();
    for (script, expected, output) in [
        ("echo well", Status::Passing, "well\n"),
        ("echo so so >&2; exit 1", Status::Warning, "so so\n"),
        ("exit 2", Status::Critical, ""),
        ("kill -9 $$", Status::Critical, "ended by a signal; "),
    ] {
        assert_eq!(script::run(&sh(script)).await, Observation::new(expected, output), "{script}");
    }
    let long = script::run(&sh("yes | head -c 1000000")).await;
    assert_eq!((long.status, long.output.len()), (Status::Passing, machine::OUTPUT_MAX));
    assert_eq!(script::run(&["/does/not/exist".to_owned()]).await.status, Status::Critical);
}

#[tokio::test]
async fn what_hangs_holds_up_its_like_alone() {
    let runs = Runs::default();
    let scripts = runs.of(&Kind::Script).unwrap();
    let _all = scripts.acquire_many(u32::try_from(SCRIPTS_MAX).unwrap()).await.unwrap();
    assert!(scripts.try_acquire().is_err());
    for kind in [Kind::Http, Kind::Tcp, Kind::Udp, Kind::Grpc, Kind::H2Ping] {
        assert!(runs.of(&kind).unwrap().try_acquire().is_ok(), "{kind:?}");
    }
    assert!(runs.of(&Kind::Ttl).is_none() && runs.of(&Kind::Alias).is_none());
}

/// As with Consul, whom the machine believes a check believes; besides, the agent's own authority as it is now.
#[test]
fn checks_follow_the_authorities_and_show_no_certificate() {
    let clock = SystemClock::new();
    let authority = || Authority::create("test", clock.now(), Duration::from_hours(1)).unwrap();
    let (first, second) = (authority(), authority());
    let own = first.issue(&Request::agent("agent-1"), clock.now(), Duration::from_hours(1)).unwrap();
    let tls = ClientTls::from_pem(first.cert_pem(), Some(&own), &ClientOptions::default()).unwrap();
    assert!(tls.config().client_auth_cert_resolver.has_certs());
    let trusted = trust::Trusted::new(Some(tls.clone()));
    let before = trusted.config(false).unwrap();
    assert!(!before.client_auth_cert_resolver.has_certs());
    assert!(Arc::ptr_eq(&before, &trusted.config(false).unwrap()), "made once");
    tls.replace(second.cert_pem(), None).unwrap();
    assert!(!Arc::ptr_eq(&before, &trusted.config(false).unwrap()), "made anew");
    assert!(
        trust::Trusted::new(None).config(false).is_ok(),
        "an agent without certificates believes whom the machine does"
    );
}

async fn until(agent: &Spoke, expected: impl Fn(&Arc<crate::agent::Agent>) -> bool) {
    let waiting = async {
        loop {
            let change = agent.local_change();
            if expected(&agent.agent) {
                return;
            }
            change.await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), waiting).await.expect("it did not come to that");
}

#[tokio::test]
async fn checks_run_and_stop_with_their_service() {
    let agent = Spoke::start("node-1", &[]).await;
    let script = |code: u8| CheckDefinition {
        args: ["sh", "-c", &format!("exit {code}")].map(str::to_owned).to_vec(),
        interval: Duration::from_secs(1),
        ..CheckDefinition::default()
    };
    agent.register(service("web", "web", 80), vec![named("run", script(0))], false).await.unwrap();
    until(&agent, |agent| agent.checks()["run"].status == Status::Passing).await;
    agent.register(service("web", "web", 80), vec![named("run", script(1))], false).await.unwrap();
    until(&agent, |agent| agent.checks()["run"].status == Status::Warning).await;
    let alias = CheckDefinition { alias_service: "web".to_owned(), ..CheckDefinition::default() };
    agent.register_check(named("copy", alias)).await.unwrap();
    until(&agent, |agent| agent.checks()["copy"].status == Status::Warning).await;
    agent.deregister("web").await.unwrap();
    until(&agent, |agent| agent.checks()["copy"].status == Status::Critical).await;
    assert!(!agent.checks().contains_key("run"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_ttl_check_lapses_and_takes_its_service_along() {
    let agent = Spoke::on("node-1", &[], store()).await;
    let mut check = ttl("alive");
    check.definition.ttl = Duration::from_secs(5);
    check.definition.deregister_after = Duration::from_secs(1);
    agent.register(service("web", "web", 80), vec![check], false).await.unwrap();
    agent.update_check("alive", Status::Passing, "well".to_owned()).await.unwrap();
    assert_eq!(agent.services().len(), 1);
    let ended = async {
        let mut seen = Vec::new();
        loop {
            let change = agent.local_change();
            match agent.checks().get("alive") {
                Some(check) => seen.push((check.status, check.output.clone())),
                None => return seen,
            }
            change.await;
        }
    };
    let seen = ended.await;
    let lapsed = (Status::Critical, "TTL expired (last output before timeout follows): well".to_owned());
    assert!(seen.contains(&lapsed), "{seen:?}");
    assert!(agent.services().is_empty());
}

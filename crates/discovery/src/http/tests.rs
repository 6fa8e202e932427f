use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::StatusCode;
use prometheus_client::registry::Registry;
use thane_runtime::Tasks;
use thane_runtime::net::{Network, Tcp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Says back what it understood.
struct Echo;

impl Routes for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn owns(&self, path: &str) -> bool {
        path.starts_with("/echo")
    }

    fn quick(&self, head: &Head<'_>) -> Option<Answer> {
        (head.path == "/echo/quick").then(|| Answer::text(StatusCode::OK, "quick"))
    }

    fn answer(&self, request: Request) -> BoxFuture<'_, Answer> {
        let body = match &request.body {
            Ok(body) => format!("{} bytes", body.len()),
            Err(large) => format!("too large: {:?}", large.declared),
        };
        let text = format!("{} {} [{}] {body}", request.method, request.path, request.query.encoded());
        Box::pin(async move { Answer::text(StatusCode::OK, text) })
    }
}

async fn exchange(limits: Limits, requests: &[u8]) -> String {
    let (tasks, _supervisor) = Tasks::root("test");
    let listener = Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().port();
    let metrics = Metrics::default();
    metrics.register(&mut Registry::default());
    serve(listener, Edge { routes: vec![Arc::new(Echo)], limits, metrics }, &tasks);
    let mut stream = Tcp::shared().connect("127.0.0.1", port).await.unwrap();
    stream.write_all(requests).await.unwrap();
    let mut answer = Vec::new();
    // A connection cut short still has given what it had to give.
    let _ = stream.read_to_end(&mut answer).await;
    tasks.shutdown(std::time::Duration::from_secs(5)).await;
    String::from_utf8(answer).unwrap()
}

fn request(line: &str, rest: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{rest}").into_bytes()
}

#[tokio::test]
async fn requests_are_decoded_and_routed() {
    let table = [
        ("GET /echo/quick", "\r\n", "200 OK", "quick"),
        ("GET /echo/a%20b?x=1&y", "\r\n", "200 OK", "GET /echo/a b [x=1&y=] 0 bytes"),
        ("PUT /echo/x", "content-length: 2\r\n\r\nhi", "200 OK", "PUT /echo/x [] 2 bytes"),
        ("GET /echo/%zz", "\r\n", "400 Bad Request", "400 Bad Request"),
        ("GET /echo/x?a=%zz", "\r\n", "500 Internal Server Error", ""),
        ("GET /other", "\r\n", "404 Not Found", "ensure the path starts with '/v1/'"),
        ("GET /v1/other", "\r\n", "404 Not Found", "not a recognized HTTP API endpoint"),
    ];
    for (line, rest, status, body) in table {
        let answer = exchange(Limits::default(), &request(line, rest)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")) && answer.contains(body), "{line}: {answer}");
    }
}

#[tokio::test]
async fn a_connection_is_kept_and_bodies_are_bounded() {
    let mut two = b"GET /echo/quick HTTP/1.1\r\nhost: a\r\n\r\n".to_vec();
    two.extend(request("GET /echo/again", "\r\n"));
    let answer = exchange(Limits::default(), &two).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    let fits = usize::try_from(BODY_BYTES_MAX).unwrap();
    for (length, expected) in [(fits, format!("{fits} bytes")), (fits + 1, format!("too large: Some({})", fits + 1))] {
        let mut put = request("PUT /echo/x", &format!("content-length: {length}\r\n\r\n"));
        put.extend(Bytes::from(vec![b'x'; length]));
        let answer = exchange(Limits::default(), &put).await;
        assert!(answer.ends_with(&expected), "{answer}");
    }
}

#[tokio::test]
async fn a_web_page_cannot_drive_an_open_listener() {
    let closed = || Limits { local_only: true, ..Limits::default() };
    let table = [
        ("host: localhost\r\n", "200"),
        ("host: evil.example\r\n", "403"),
        ("host: localhost\r\norigin: x\r\n", "403"),
    ];
    for (headers, status) in table {
        let text = format!("GET /echo/quick HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
        let answer = exchange(closed(), text.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_asks_too_much_is_told_when_to_come_again() {
    let rate = Some(Rate { per_second: 1, burst: 3 });
    let one = "GET /echo/quick HTTP/1.1\r\nhost: localhost\r\n";
    let ask = async |rate, token: &dyn Fn(usize) -> String| {
        let requests = (0..5).map(|number| [one, &token(number), "\r\n"].concat()).collect::<String>();
        let requests = format!("{requests}GET /nowhere HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        exchange(Limits { rate, ..Limits::default() }, requests.as_bytes()).await
    };
    let told = ask(rate, &|_| String::new()).await;
    assert_eq!((told.matches("200 OK").count(), told.matches("429 Too Many").count()), (3, 2), "{told}");
    assert!(told.contains("retry-after: 1\r\n") && told.contains("rate limit exceeded"), "{told}");
    let rotated = ask(rate, &|number| format!("x-consul-token: made-up-{number}\r\n")).await;
    assert_eq!(rotated.matches("200 OK").count(), 3, "other tokens do not help: {rotated}");
    assert_eq!(ask(None, &|_| String::new()).await.matches("200 OK").count(), 5);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_not_waited_for() {
    let limits = || Limits { body_idle_max: std::time::Duration::from_millis(20), ..Limits::default() };
    let answer = exchange(limits(), &request("PUT /echo/x", "content-length: 10\r\n\r\nhi")).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("did not arrive in time"), "{answer}");
    // One that is too large anyway is not waited for either.
    let large = format!("content-length: {}\r\n\r\nhi", BODY_BYTES_MAX + 1);
    let answer = exchange(limits(), &request("PUT /echo/x", &large)).await;
    assert!(answer.contains("too large"), "{answer}");
}

#[tokio::test]
async fn what_is_sent_before_anybody_is_asked_who_they_are_is_bounded() {
    let limits = Limits { bodies_max: 10, ..Limits::default() };
    let (tasks, _supervisor) = Tasks::root("test");
    let listener = Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().port();
    serve(listener, Edge { routes: vec![Arc::new(Echo)], limits, metrics: Metrics::default() }, &tasks);
    let send = async |text: Vec<u8>| {
        let mut stream = Tcp::shared().connect("127.0.0.1", port).await.unwrap();
        stream.write_all(&text).await.unwrap();
        stream
    };
    let put = |sent: &str| request("PUT /echo/x", &format!("content-length: 20\r\n\r\n{sent}"));
    let mut slow = send(put("123456789")).await;
    let answer = async |text| {
        let mut answer = String::new();
        let _ = send(text).await.read_to_string(&mut answer).await;
        answer
    };
    // Until what the slow one sends has arrived there is room.
    let waiting = async {
        loop {
            let answer = answer(put("12345678901234567890")).await;
            if answer.starts_with("HTTP/1.1 503 ") {
                return answer;
            }
        }
    };
    let told = tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.expect("there is no room");
    assert!(told.contains("retry-after: 1\r\n"), "{told}");
    drop(slow.write_all(b"01234567890").await);
    drop(slow);
    tasks.shutdown(std::time::Duration::from_secs(5)).await;
}

#[tokio::test]
async fn one_client_has_only_so_many_connections() {
    let limits = Limits { local_client_max: 2, ..Limits::default() };
    let (tasks, _supervisor) = Tasks::root("test");
    let listener = Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().port();
    serve(listener, Edge { routes: vec![Arc::new(Echo)], limits, metrics: Metrics::default() }, &tasks);
    let ask = async |keep: bool| {
        let end = if keep { "" } else { "connection: close\r\n" };
        let mut stream = Tcp::shared().connect("127.0.0.1", port).await.unwrap();
        let _ = stream.write_all(format!("GET /echo/quick HTTP/1.1\r\nhost: localhost\r\n{end}\r\n").as_bytes()).await;
        let mut start = [0; 12];
        let is_answered = stream.read_exact(&mut start).await.is_ok() && start.ends_with(b" 200");
        (is_answered, stream)
    };
    let (first, second) = (ask(true).await, ask(true).await);
    assert_eq!((first.0, second.0, ask(true).await.0), (true, true, false));
    drop(first);
    let waiting = async { while !ask(false).await.0 {} };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.expect("there is room again");
    drop(second);
    tasks.shutdown(std::time::Duration::from_secs(5)).await;
}

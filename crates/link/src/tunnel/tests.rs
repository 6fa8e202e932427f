use http::{HeaderMap, HeaderValue};
use thane_api::wire::tunnel::Refusal;

use super::*;

struct Side {
    sending: Sending,
    receiving: Receiving,
    inlet: Inlet,
    out: mpsc::Receiver<Frame>,
    _keep: mpsc::Sender<Frame>,
}

fn side() -> Side {
    let (keep, out) = mpsc::channel(OUTGOING_MAX);
    let (sending, receiving, inlet) = ends(&keep, &Bytecounts::default());
    Side { sending, receiving, inlet, out, _keep: keep }
}

fn data(len: usize) -> Frame {
    frame(Part::Data(Bytes::from(vec![7; len])))
}

#[tokio::test]
async fn bytes_arrive_in_order_and_end() {
    let (one, mut other) = (side(), side());
    let text: Vec<u8> = (0..3 * WINDOW).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let (mut from_one, mut back) = (one.out, one.inlet);
    let expected = text.clone();
    let sender = async move {
        one.sending.data(text.into()).await.unwrap();
        one.sending.end().await.unwrap();
    };
    let mut inlet = other.inlet;
    let carrier = async {
        loop {
            tokio::select! {
                frame = from_one.recv() => {
                    inlet.take(frame.unwrap()).unwrap();
                    if inlet.has_ended() {
                        return;
                    }
                }
                frame = other.out.recv() => assert_eq!(back.take(frame.unwrap()).unwrap(), None),
            }
        }
    };
    let reader = async { other.receiving.collect(usize::MAX).await.unwrap().unwrap() };
    let ((), (), got) = tokio::join!(sender, carrier, reader);
    assert_eq!(got, expected);
}

#[tokio::test]
async fn nobody_sends_beyond_credit() {
    let mut one = side();
    // A reader that takes nothing gives no credit, and the sender stops at the window.
    let sending = one.sending.data(Bytes::from(vec![0; 4 * WINDOW]));
    let draining = async {
        let mut got = 0;
        while got < WINDOW {
            let Some(Frame { part: Some(Part::Data(bytes)) }) = one.out.recv().await else { panic!("no data") };
            got += bytes.len();
        }
        got
    };
    tokio::select! {
        _ = sending => panic!("sent without credit"),
        got = draining => assert_eq!(got, WINDOW),
    }
    assert_eq!(one.sending.credit.available_permits(), 0);
}

#[tokio::test]
async fn what_breaks_the_rules_is_refused() {
    let mut greedy = side();
    let mut taken = 0;
    let broken = loop {
        match greedy.inlet.take(data(CHUNK)) {
            Ok(_) => taken += CHUNK,
            Err(broken) => break broken,
        }
    };
    assert_eq!((broken, taken), (Broken::Credit, WINDOW));
    // Tiny frames cost too.
    let mut tiny = side();
    let count = (0..=WINDOW).take_while(|_| tiny.inlet.take(data(1)).is_ok()).count();
    assert_eq!(count, WINDOW / COST_MIN);
    assert_eq!(side().inlet.take(frame(Part::Credit(1))), Err(Broken::Credit));
    assert_eq!(side().inlet.take(frame(Part::Credit(u32::MAX))), Err(Broken::Credit));
    assert_eq!(side().inlet.take(Frame { part: None }), Err(Broken::Order));
    let mut ended = side();
    ended.inlet.take(frame(Part::End(End {}))).unwrap();
    assert_eq!(ended.inlet.take(data(1)), Err(Broken::Order));
    assert_eq!(ended.inlet.take(frame(Part::End(End {}))), Err(Broken::Order));
    assert_eq!(ended.receiving.next().await, Ok(None));
    let head = Part::Refusal(Refusal { reason: String::new() });
    assert_eq!(side().inlet.take(frame(head.clone())), Ok(Some(head)));
}

#[tokio::test]
async fn what_breaks_off_is_no_end() {
    let mut cut = side();
    cut.inlet.take(data(3)).unwrap();
    drop(cut.inlet);
    assert_eq!(cut.receiving.next().await.unwrap().unwrap().len(), 3);
    assert_eq!(cut.receiving.next().await, Err(Broken::Gone));
    let gone = side();
    drop(gone.out);
    assert_eq!(gone.sending.data(Bytes::from_static(b"x")).await, Err(Broken::Gone));
    let mut large = side();
    large.inlet.take(data(10)).unwrap();
    large.inlet.take(frame(Part::End(End {}))).unwrap();
    assert_eq!(large.receiving.collect(9).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_takes_is_noticed() {
    let most = Duration::from_mins(15);
    let mut slow = side();
    let started = Instant::now();
    slow.inlet.take(data(3)).unwrap();
    slow.inlet.progress().stuck(most).await;
    assert!((most..=most * 5 / 4).contains(&started.elapsed()));
    let (progress, watched) = (side().inlet.progress(), slow.inlet.progress());
    // Some is taken now and then, and a watch has nothing to be taken.
    let taking = async {
        for _ in 0..10 {
            tokio::time::sleep(most / 2).await;
            slow.receiving.next().await.unwrap();
            slow.inlet.take(data(3)).unwrap();
        }
        slow.receiving.next().await.unwrap();
        tokio::time::sleep(most * 10).await;
    };
    tokio::select! {
        () = taking => {}
        () = progress.stuck(most) => panic!("nothing waits"),
        () = watched.stuck(most) => panic!("it is taken"),
    }
}

#[test]
fn only_headers_that_matter_pass() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("accept", "application/json"),
        ("authorization", "Bearer x"),
        ("impersonate-user", "admin"),
        ("x-remote-user", "admin"),
        ("cookie", "a=b"),
        ("host", "h"),
        ("kubectl-command", "get"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", "k"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let names = |headers: &HeaderMap| {
        let mut names: Vec<String> = request_headers(headers).into_iter().map(|header| header.name).collect();
        names.sort();
        names
    };
    assert_eq!(names(&headers), ["accept", "kubectl-command"]);
    headers.insert("connection", HeaderValue::from_static("keep-alive, Upgrade"));
    assert_eq!(names(&headers), ["accept", "connection", "kubectl-command", "sec-websocket-key", "upgrade"]);
    let answered = answer_headers(&headers, false);
    assert!(answered.iter().all(|header| header.name != "upgrade"));
    assert!(answer_headers(&headers, true).iter().any(|header| header.name == "upgrade"));
    assert_eq!(read_headers(&request_headers(&headers)).unwrap().len(), 5);
}

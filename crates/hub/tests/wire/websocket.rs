//! gRPC over WebSocket, frame by frame and between our own two sides.

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderValue, Request};
use prost::Message as _;
use thane_agent::connection::Failure;
use thane_api::frame::Frame;
use thane_api::wire::auth::AuthResponse;
use thane_api::wire::events;
use thane_api::wire::version::VersionResponse;
use thane_runtime::net::BoxIo;
use thane_runtime::pki::Identity;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::{Error, Message};
use tonic::Code;

use crate::bed::{Bed, Setup, event, request, within};

const END: &[u8] = b"\x80\0\0\0\0";

type Socket = WebSocketStream<BoxIo>;

async fn open(bed: &Bed, who: Option<&Identity>, path: &str, token: Option<&str>) -> Result<Socket, Error> {
    let mut asking = Request::get(format!("ws://127.0.0.1{path}"))
        .header("Host", "127.0.0.1")
        .header("Connection", "keep-alive, Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", generate_key())
        .header("Sec-WebSocket-Protocol", "grpc-ws")
        .header("Content-Type", "application/grpc")
        .body(())
        .unwrap();
    if let Some(token) = token {
        asking.headers_mut().insert("authorization", HeaderValue::from_str(token).unwrap());
    }
    let stream = bed.dial(who, b"http/1.1").await;
    let (socket, response) = tokio_tungstenite::client_async(asking, stream).await?;
    assert_eq!(response.headers()["sec-websocket-protocol"], "grpc-ws");
    Ok(socket)
}

fn frame(message: &impl prost::Message) -> Message {
    let body = message.encode_to_vec();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    Message::Binary([&[0][..], &length, &body].concat().into())
}

async fn next(socket: &mut Socket) -> Bytes {
    loop {
        match within(socket.next()).await.unwrap().unwrap() {
            Message::Binary(bytes) => return bytes,
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

async fn metadata(socket: &mut Socket) -> http::HeaderMap {
    let bytes = next(socket).await;
    assert_eq!(bytes[0], 0x80);
    match Frame::read(bytes, 0).unwrap() {
        Frame::Metadata(headers) => headers,
        other => panic!("unexpected {other:?}"),
    }
}

/// One call with one message each way.
async fn unary<T: prost::Message + Default>(socket: &mut Socket, message: &impl prost::Message) -> T {
    socket.send(frame(message)).await.unwrap();
    socket.send(Message::Binary(Bytes::from_static(END))).await.unwrap();
    let headers = metadata(socket).await;
    assert!(headers["content-type"].to_str().unwrap().starts_with("application/grpc"));
    assert!(!headers.contains_key("grpc-status"));
    let answer = next(socket).await;
    let length = usize::try_from(u32::from_be_bytes(answer[1..5].try_into().unwrap())).unwrap();
    assert_eq!((answer[0], length), (0, answer.len() - 5));
    let trailers = metadata(socket).await;
    assert_eq!(trailers["grpc-status"], "0");
    assert!(matches!(within(socket.next()).await, Some(Ok(Message::Close(_)))), "a normal close ends the call");
    T::decode(&answer[5..]).unwrap()
}

#[tokio::test]
async fn frames_are_those_of_grpc_ws() {
    let mut bed = Bed::start().await;
    let identity = bed.identity("agent-w");
    let who = Some(&identity);
    let mut socket = open(&bed, None, "/versionapi.Version/Version", None).await.unwrap();
    let version: VersionResponse = unary(&mut socket, &thane_api::wire::version::VersionRequest {}).await;
    assert_eq!(version.version, "argocd-agent-1.2.3");
    let mut socket = open(&bed, who, "/authapi.Authentication/Authenticate", None).await.unwrap();
    let tokens: AuthResponse = unary(&mut socket, &request("mtls")).await;

    let path = "/eventstreamapi.EventStream/Subscribe";
    let mut socket = open(&bed, who, path, Some(&tokens.access_token)).await.unwrap();
    assert!(!metadata(&mut socket).await.contains_key("grpc-status"));
    let mut stream = within(bed.streams.recv()).await.unwrap();
    assert_eq!((&*stream.identity.agent, stream.identity.fingerprint.is_some()), ("agent-w", true));
    for n in 0..3 {
        let event = event(&format!("app-{n}"), "{}");
        socket.send(frame(&events::Event { event: Some(event.clone().into_wire("test")) })).await.unwrap();
        assert_eq!(within(stream.incoming.recv()).await, Some(Ok(event.clone())));
        stream.outgoing.send(event).await.unwrap();
    }
    for n in 0..3 {
        let bytes = next(&mut socket).await;
        let wire = events::Event::decode(&bytes[5..]).unwrap().event.unwrap();
        let read = thane_api::event::Event::from_wire(wire).unwrap();
        assert_eq!(read, event(&format!("app-{n}"), "{}"), "one message is one frame");
    }
    socket.send(Message::Binary(Bytes::from_static(END))).await.unwrap();
    within(stream.close.cancelled()).await;
    assert!(metadata(&mut socket).await.contains_key("grpc-status"));
}

#[tokio::test]
async fn a_refusal_is_one_frame() {
    let bed = Bed::start().await;
    let path = "/eventstreamapi.EventStream/Subscribe";
    for token in [None, Some("forged")] {
        let mut socket = open(&bed, Some(&bed.identity("agent-w")), path, token).await.unwrap();
        let headers = metadata(&mut socket).await;
        assert_eq!(headers["grpc-status"], "16");
        assert!(matches!(within(socket.next()).await, Some(Ok(Message::Close(_)))));
    }
}

#[tokio::test]
async fn broken_frames_end_their_call_alone() {
    let mut bed = Bed::start().await;
    let identity = bed.identity("agent-w");
    let (_client, tokens) = bed.authenticated("agent-w").await;
    let path = "/eventstreamapi.EventStream/Subscribe";
    let broken: [&[u8]; 5] = [b"", b"\0\0\0\0", b"\0\0\0\0\x09x", b"\x07\0\0\0\0", b"\x80\0\0\0\x0dGrpc-Status:0"];
    for bytes in broken {
        let mut socket = open(&bed, Some(&identity), path, Some(&tokens.access_token)).await.unwrap();
        let stream = within(bed.streams.recv()).await.unwrap();
        metadata(&mut socket).await;
        socket.send(Message::Binary(Bytes::copy_from_slice(bytes))).await.unwrap();
        within(stream.close.cancelled()).await;
        assert!(metadata(&mut socket).await.contains_key("grpc-status"), "{bytes:?}");
    }
}

#[tokio::test]
async fn our_two_sides_speak_over_websockets() {
    let mut bed = Bed::start().await;
    for compression in [false, true] {
        let mut config = bed.config();
        (config.websocket, config.compression) = (true, compression);
        let name = format!("agent-{compression}");
        let (mut stream, mut opened) = bed.pair(&name, config).await;
        assert_eq!((&stream.identity.agent, &opened.agent), (&name, &name));
        for n in 0..100 {
            let (down, up) = (event(&format!("down-{n}"), vec![b'x'; 50_000]), event(&format!("up-{n}"), "{}"));
            stream.outgoing.send(down.clone()).await.unwrap();
            opened.outgoing.send(up.clone()).await.unwrap();
            assert_eq!(within(opened.incoming.recv()).await, Some(Ok(down)));
            assert_eq!(within(stream.incoming.recv()).await, Some(Ok(up)));
        }
        opened.close.cancel();
        within(stream.close.cancelled()).await;
    }
}

#[tokio::test]
async fn a_blocked_certificate_is_cut_off_here_too() {
    let mut bed = Bed::start().await;
    let mut config = bed.config();
    config.websocket = true;
    let (stream, opened) = bed.pair("agent-w", config).await;
    bed.gate.set_blocked(stream.identity.fingerprint.clone());
    within(stream.close.cancelled()).await;
    within(opened.close.cancelled()).await;
}

#[tokio::test]
async fn a_hub_without_websockets_says_so() {
    let mut setup = Setup::default();
    setup.config.websocket = false;
    let bed = Bed::with(setup).await;
    let mut config = bed.config();
    config.websocket = true;
    let failure = bed.dialer("agent-w", config).attempt(&bed.tasks).await.unwrap_err();
    assert!(matches!(failure, Failure::Refused { code: Code::Unimplemented, .. }), "{failure}");
}

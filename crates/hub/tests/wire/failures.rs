//! What breaks a stream, and what must not.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use thane_api::event::{Event, Fault, Target, Type};
use thane_api::wire::events;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::bed::{Bed, Setup, call, event, within};

/// Sends bytes as they are, and reads them as they are.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, bytes: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

fn bytes(event: Event) -> Bytes {
    events::Event { event: Some(event.into_wire("test")) }.encode_to_vec().into()
}

fn read(bytes: Bytes) -> Event {
    Event::from_wire(events::Event::decode(bytes).unwrap().event.unwrap()).unwrap()
}

/// A stream on which any bytes can be sent.
async fn subscribe(client: &Channel, token: &str, gzip: bool) -> (mpsc::Sender<Bytes>, Streaming<Bytes>) {
    let (sender, receiver) = mpsc::channel(16);
    let mut grpc = Grpc::new(client.clone()).accept_compressed(Gzip).max_decoding_message_size(usize::MAX);
    if gzip {
        grpc = grpc.send_compressed(Gzip);
    }
    grpc.ready().await.unwrap();
    let mut request = call(token, ReceiverStream::new(receiver));
    request.metadata_mut().insert("thane-capabilities", "pong".parse().unwrap());
    let path = http::uri::PathAndQuery::from_static("/eventstreamapi.EventStream/Subscribe");
    let response = within(grpc.streaming(request, path, Raw)).await.unwrap();
    assert_eq!(response.metadata().get("thane-capabilities").unwrap(), "digest,pong");
    assert_eq!(response.metadata().get("grpc-encoding").is_some(), gzip, "answers are compressed in kind");
    (sender, response.into_inner())
}

#[tokio::test]
async fn frames_that_are_no_events_leave_the_stream_whole() {
    let mut bed = Bed::start().await;
    let (client, tokens) = bed.authenticated("agent-a").await;
    let (sender, mut answers) = subscribe(&client, &tokens.access_token, false).await;
    let mut stream = within(bed.streams.recv()).await.unwrap();
    let mut unfinished = event("broken", "{}").into_wire("test");
    unfinished.r#type.clear();
    let unfinished = events::Event { event: Some(unfinished) }.encode_to_vec();
    let garbage: [(&[u8], &str); 4] = [
        (b"\xff\xff\xff\xff garbage", "frame"),
        (b"", "absent"),
        (b"\x0a\x05junk!", "frame"),
        (&unfinished, "missing"),
    ];
    for (bytes, label) in garbage {
        sender.send(Bytes::copy_from_slice(bytes)).await.unwrap();
        let fault = within(stream.incoming.recv()).await.unwrap().unwrap_err().fault;
        assert_eq!(fault.label(), label);
        assert!(bed.metrics.frames_refused(label) > 0);
        assert_ne!(fault, Fault::Payload);
    }
    let ack = read(within(answers.message()).await.unwrap().unwrap());
    assert_eq!((&ack.target, &*ack.event_id), (&Target::Processed, "broken_1"), "only this one could be answered");
    sender.send(bytes(event("whole", "{}"))).await.unwrap();
    assert_eq!(within(stream.incoming.recv()).await.unwrap().unwrap(), event("whole", "{}"));
    stream.outgoing.send(event("down", "{}")).await.unwrap();
    assert_eq!(read(within(answers.message()).await.unwrap().unwrap()), event("down", "{}"));
}

#[tokio::test]
async fn signs_of_life_are_answered_where_that_was_agreed() {
    let mut bed = Bed::start().await;
    let (client, tokens) = bed.authenticated("agent-a").await;
    let (sender, mut answers) = subscribe(&client, &tokens.access_token, false).await;
    let mut stream = within(bed.streams.recv()).await.unwrap();
    let mut ping = event("sign", "");
    (ping.target, ping.kind) = (Target::Heartbeat, Type::Ping);
    sender.send(bytes(ping)).await.unwrap();
    sender.send(bytes(event("after", "{}"))).await.unwrap();
    let answer = read(within(answers.message()).await.unwrap().unwrap());
    assert_eq!((answer.target, answer.kind, &*answer.event_id), (Target::Heartbeat, Type::Pong, "sign_1"));
    assert_eq!(within(stream.incoming.recv()).await.unwrap().unwrap(), event("after", "{}"));
}

#[tokio::test]
async fn messages_that_are_too_large_end_their_stream_alone() {
    let mut setup = Setup::default();
    setup.config.message_bytes_max = 64 * 1024;
    let mut bed = Bed::with(setup).await;
    let (mut other, opened) = bed.pair("agent-b", bed.config()).await;
    let (client, tokens) = bed.authenticated("agent-a").await;
    for gzip in [false, true] {
        let (sender, mut answers) = subscribe(&client, &tokens.access_token, gzip).await;
        let stream = within(bed.streams.recv()).await.unwrap();
        // Compressed it is small, and must not become large.
        sender.send(bytes(event("large", vec![b' '; 100 * 1024]))).await.unwrap();
        let refused = within(answers.message()).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        within(stream.close.cancelled()).await;
    }
    assert_eq!(bed.metrics.frames_refused("message"), 2);
    opened.outgoing.send(event("up", "{}")).await.unwrap();
    assert_eq!(within(other.incoming.recv()).await.unwrap().unwrap(), event("up", "{}"));
    let (sender, _answers) = subscribe(&client, &tokens.access_token, false).await;
    let mut stream = within(bed.streams.recv()).await.unwrap();
    sender.send(bytes(event("small", "{}"))).await.unwrap();
    assert!(within(stream.incoming.recv()).await.unwrap().is_ok());
}

#[tokio::test]
async fn an_agent_that_does_not_read_keeps_nobody_waiting() {
    let mut setup = Setup::default();
    setup.config.outgoing_max = 4;
    let mut bed = Bed::with(setup).await;
    let (client, tokens) = bed.authenticated("agent-a").await;
    let (_sender, _answers) = subscribe(&client, &tokens.access_token, false).await;
    let slow = within(bed.streams.recv()).await.unwrap();
    let large = event("large", vec![b' '; 1024 * 1024]);
    let full = async { while slow.outgoing.send_timeout(large.clone(), Duration::from_millis(300)).await.is_ok() {} };
    within(full).await;
    let (stream, mut opened) = bed.pair("agent-b", bed.config()).await;
    stream.outgoing.send(event("down", "{}")).await.unwrap();
    assert_eq!(within(opened.incoming.recv()).await.unwrap().unwrap(), event("down", "{}"));
    assert!(!slow.close.is_cancelled());
    slow.close.cancel();
}

#[tokio::test]
async fn names_of_a_thousand_letters_pass_and_longer_ones_do_not() {
    let mut bed = Bed::start().await;
    let (mut stream, mut opened) = bed.pair("agent-a", bed.config()).await;
    let long = event(&"n".repeat(1000), "{}");
    opened.outgoing.send(long.clone()).await.unwrap();
    assert_eq!(within(stream.incoming.recv()).await, Some(Ok(long)));
    let mut longer = event("app", "{}");
    longer.extensions.insert("note".to_owned(), "x".repeat(5000));
    opened.outgoing.send(longer).await.unwrap();
    let refused = within(stream.incoming.recv()).await.unwrap().unwrap_err();
    assert_eq!(refused.fault, Fault::TooLong("attribute"));
    let ack = within(opened.incoming.recv()).await.unwrap().unwrap();
    assert_eq!((&*ack.event_id, ack.kind), ("app_1", Type::Processed));
}

#[tokio::test]
async fn compressed_events_pass_both_ways() {
    let mut bed = Bed::start().await;
    let mut config = bed.config();
    config.compression = true;
    let (mut stream, mut opened) = bed.pair("agent-a", config).await;
    for n in 0..20 {
        let large = event(&format!("app-{n}"), vec![b'x'; 100_000]);
        stream.outgoing.send(large.clone()).await.unwrap();
        opened.outgoing.send(large.clone()).await.unwrap();
        assert_eq!(within(opened.incoming.recv()).await, Some(Ok(large.clone())));
        assert_eq!(within(stream.incoming.recv()).await, Some(Ok(large)));
    }
}

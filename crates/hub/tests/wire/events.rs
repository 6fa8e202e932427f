//! What besides the one stream can be asked of the service for events.

use http::{Request, Version};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use thane_api::event::Target;
use thane_api::wire::events;
use thane_api::wire::events::PingRequest;
use thane_api::wire::events::event_stream_client::EventStreamClient;
use tonic::Code;

use crate::bed::{Bed, call, event, within};

fn wire(target: Target, name: &str) -> events::Event {
    let mut event = event(name, "{}");
    event.target = target;
    events::Event { event: Some(event.into_wire("test")) }
}

#[tokio::test]
async fn pushed_applications_take_the_way_of_all_events() {
    let mut bed = Bed::start().await;
    let (client, tokens) = bed.authenticated("agent-a").await;
    let mut client = EventStreamClient::new(client);
    let pushed = [wire(Target::Application, "one"), wire(Target::AppProject, "two"), events::Event { event: None }];
    let push = |token: &str| call(token, tokio_stream::iter(pushed.clone()));
    let early = client.push(push(&tokens.access_token)).await.unwrap_err();
    assert_eq!(early.code(), Code::FailedPrecondition);
    let (mut stream, _opened) = bed.pair("agent-a", bed.config()).await;
    let summary = client.push(push(&tokens.access_token)).await.unwrap().into_inner();
    assert_eq!((summary.received, summary.processed), (3, 1));
    assert_eq!(within(stream.incoming.recv()).await, Some(Ok(event("one", "{}"))));
    let (other, theirs) = bed.authenticated("agent-b").await;
    let refused = EventStreamClient::new(other.clone()).push(push(&tokens.access_token)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let absent = EventStreamClient::new(other).push(push(&theirs.access_token)).await.unwrap_err();
    assert_eq!(absent.code(), Code::FailedPrecondition, "nobody pushes into the stream of another");
}

#[tokio::test]
async fn what_is_not_there_is_unimplemented() {
    let bed = Bed::start().await;
    let (client, tokens) = bed.authenticated("agent-a").await;
    for path in
        ["/eventstreamapi.EventStream/Other", "/authapi.Authentication/Other", "/replicationapi.Replication/Status"]
    {
        let mut grpc = tonic::client::Grpc::new(client.clone());
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<PingRequest, PingRequest>::new();
        let request = call(&tokens.access_token, PingRequest {});
        let refused = grpc.unary(request, http::uri::PathAndQuery::from_static(path), codec).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented, "{path}");
    }
}

#[tokio::test]
async fn a_browser_is_sent_away() {
    let bed = Bed::start().await;
    let stream = bed.dial(None, b"http/1.1").await;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    bed.tasks.spawn("connection", async move { drop(connection.await) });
    let request = Request::get("/").header("host", "hub").version(Version::HTTP_11);
    let answer = within(sender.send_request(request.body(Empty::<bytes::Bytes>::new()).unwrap())).await.unwrap();
    assert_eq!(answer.status(), http::StatusCode::HTTP_VERSION_NOT_SUPPORTED);
}

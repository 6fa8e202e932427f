//! Logs and terminals, bound to who opened them.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use thane_api::wire::logs::log_stream_service_client::LogStreamServiceClient;
use thane_api::wire::logs::{LogStreamData, LogStreamResponse};
use thane_api::wire::terminal::TerminalStreamData;
use thane_api::wire::terminal::terminal_stream_service_client::TerminalStreamServiceClient;
use thane_hub::transport::{Caller, Live, Messages};
use tonic::{Code, Status};

use crate::bed::{Bed, Setup, call, within};

/// Counts lines, and repeats what a terminal says in the caller's name.
#[derive(Default)]
struct Recorder {
    callers: Mutex<Vec<Caller>>,
}

impl Live for Recorder {
    fn logs(
        &self,
        caller: Caller,
        mut log: Messages<LogStreamData>,
    ) -> BoxFuture<'_, Result<LogStreamResponse, Status>> {
        self.callers.lock().push(caller);
        Box::pin(async move {
            let mut response = LogStreamResponse { status: 200, ..LogStreamResponse::default() };
            while let Some(data) = log.next().await {
                response.request_uuid = data?.request_uuid;
                response.lines_received += 1;
            }
            Ok(response)
        })
    }

    fn terminal(
        &self,
        caller: Caller,
        output: Messages<TerminalStreamData>,
    ) -> BoxFuture<'_, Result<Messages<TerminalStreamData>, Status>> {
        let echo = output.map(move |data| {
            let mut data = data?;
            data.stream_type.clone_from(&caller.agent);
            Ok(data)
        });
        Box::pin(async move { Ok(Box::pin(echo) as Messages<TerminalStreamData>) })
    }
}

#[tokio::test]
async fn logs_and_terminals_reach_whoever_takes_them() {
    let recorder = Arc::new(Recorder::default());
    let live: Arc<dyn Live> = recorder.clone();
    let bed = Bed::with(Setup { live, ..Setup::default() }).await;
    let (client, tokens) = bed.authenticated("agent-a").await;
    let lines = vec![LogStreamData { request_uuid: "u".to_owned(), ..LogStreamData::default() }; 3];
    let mut logs = LogStreamServiceClient::new(client.clone());
    let summary = logs.stream_logs(call(&tokens.access_token, tokio_stream::iter(lines.clone()))).await.unwrap();
    assert_eq!((summary.get_ref().lines_received, &*summary.get_ref().request_uuid), (3, "u"));
    let callers = recorder.callers.lock().clone();
    assert_eq!((callers.len(), &*callers[0].agent), (1, "agent-a"));
    let typed = TerminalStreamData { request_uuid: "u".to_owned(), rows: 24, ..TerminalStreamData::default() };
    let mut terminals = TerminalStreamServiceClient::new(client);
    let echo = terminals.stream_terminal(call(&tokens.access_token, tokio_stream::iter([typed]))).await.unwrap();
    let echoed = within(echo.into_inner().message()).await.unwrap().unwrap();
    assert_eq!((&*echoed.stream_type, echoed.rows), ("agent-a", 24));
    let (other, _) = bed.authenticated("agent-b").await;
    let stolen = call(&tokens.access_token, tokio_stream::iter(lines));
    let refused = LogStreamServiceClient::new(other).stream_logs(stolen).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn without_anyone_to_take_them_they_are_unimplemented() {
    let bed = Bed::start().await;
    let (client, tokens) = bed.authenticated("agent-a").await;
    let nothing = call(&tokens.access_token, tokio_stream::iter(Vec::<LogStreamData>::new()));
    let refused = LogStreamServiceClient::new(client).stream_logs(nothing).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}

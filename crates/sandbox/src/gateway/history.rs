//! What happened in a session: its steps as its sidecar has them, passed on one by one.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, stream};
use http::header::CONTENT_TYPE;
use thane_api::wire::sandbox::{HistoryRequest, StepRecord};
use tonic::Streaming;

use super::Shared;
use super::failure::{Failure, Result};
use super::keys::Caller;
use super::read::{Asked, At};
use super::records;
use super::routes::InNamespace;
use super::sessions::Session;
use super::sidecars::Sidecar;

/// Recorded steps, oldest first.
pub(super) struct Records {
    records: Streaming<StepRecord>,
    // As long as it is used, its connection is.
    _sidecar: Sidecar,
}

impl Records {
    pub(super) async fn next(&mut self) -> Result<Option<StepRecord>> {
        Ok(self.records.message().await?)
    }
}

impl Shared {
    /// Recorded steps of a session from an index on; all, or those that led to the present files.
    pub(super) async fn history(&self, session: &Session, live: bool, from: i64) -> Result<Records> {
        let sidecar = self.proven(session).await?;
        let asked = sidecar.steps().history(HistoryRequest { live, from }).await;
        match asked {
            Ok(records) => Ok(Records { records: records.into_inner(), _sidecar: sidecar }),
            Err(status) => Err(self.verdict(session, status).await),
        }
    }
}

/// The branch that led to the present files, as an array.
pub(super) async fn history(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
) -> Result<Response> {
    let session = shared.session(&id, namespace.as_deref(), &caller).await?;
    let records = shared.history(&session, true, 0).await?;
    let items = lines(records, |record, at| {
        let mut item = vec![if at == 0 { b'[' } else { b',' }];
        serde_json::to_writer(&mut item, &records::result(record, usize::MAX))?;
        Ok(item)
    });
    let closing = |count: usize| if count == 0 { Bytes::from_static(b"[]") } else { Bytes::from_static(b"]") };
    Ok(typed("application/json", Body::from_stream(closed(items, closing))))
}

/// Every step there was, one in a line.
pub(super) async fn trajectory(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
) -> Result<Response> {
    let session = shared.session(&id, namespace.as_deref(), &caller).await?;
    let records = shared.history(&session, false, 0).await?;
    let items = lines(records, move |record, _| {
        let mut line = serde_json::to_vec(&records::entry(&session.id, record))?;
        line.push(b'\n');
        Ok(line)
    });
    Ok(typed("application/x-ndjson", Body::from_stream(items)))
}

fn typed(kind: &'static str, body: Body) -> Response {
    ([(CONTENT_TYPE, kind)], body).into_response()
}

type Piece = Result<Bytes, Failure>;

/// Each record as bytes. A stream that breaks breaks the answer, so that nobody takes a part for the whole.
fn lines(
    records: Records,
    write: impl Fn(&StepRecord, usize) -> serde_json::Result<Vec<u8>> + Send + 'static,
) -> impl Stream<Item = Piece> + Send {
    stream::try_unfold((records, write, 0), |(mut records, write, at)| async move {
        let Some(record) = records.next().await? else { return Ok(None) };
        let bytes = write(&record, at).map_err(|error| Failure::unavailable(error.to_string()))?;
        Ok(Some((Bytes::from(bytes), (records, write, at + 1))))
    })
}

/// The same with something after the last.
fn closed(
    items: impl Stream<Item = Piece> + Send,
    closing: impl Fn(usize) -> Bytes + Send,
) -> impl Stream<Item = Piece> + Send {
    let items = Box::pin(items);
    stream::try_unfold((Some(items), closing, 0), |(items, closing, count)| async move {
        use futures::TryStreamExt;
        let Some(mut items) = items else { return Ok(None) };
        match items.try_next().await? {
            Some(item) => Ok(Some((item, (Some(items), closing, count + 1)))),
            None => Ok(Some((closing(count), (None, closing, count)))),
        }
    })
}

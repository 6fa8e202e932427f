//! Files of a sandbox, in and out, as streams.

use std::io;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use sha2::{Digest, Sha256};
use thane_api::wire::sandbox::RemoveFileRequest;
use thane_api::wire::sidecar::{FileChunk, ReadFileRequest, WriteFileChunk};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::Shared;
use super::bodies::{FilePath, UploadResponse};
use super::execute::vet;
use super::failure::{Failure, Result};
use super::keys::Caller;
use super::read::{Asked, At, Json, drain, too_large};
use super::routes::InNamespace;
use super::sidecars::Sidecar;
use super::text::hex;

/// The path of a file.
pub(super) const PATH: HeaderName = HeaderName::from_static("x-arl-path");
/// Its SHA-256.
pub(super) const SHA256: HeaderName = HeaderName::from_static("x-arl-sha256");
/// Its length.
pub(super) const SIZE: HeaderName = HeaderName::from_static("x-arl-size-bytes");
/// What goes to the sidecar at once.
const PIECE: usize = 256 * 1024;
const PIECES_MAX: usize = 4;
/// The digest of no content: what breaks off ends with it, since the end of a call that was cancelled looks to a sidecar like
/// any other. The last piece of a whole body has the true one.
const UNFINISHED: &str = "unfinished";

/// Writes a file: the body is its content, headers say where it goes and what it must be.
pub(super) async fn upload(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
    request: Request,
) -> Result<axum::Json<UploadResponse>> {
    let max = shared.options.limits.upload_bytes_max;
    let declared = header(request.headers(), &CONTENT_LENGTH)?.and_then(|length| length.parse::<u64>().ok());
    if declared.is_some_and(|length| length > max) {
        drain(request.into_body()).await;
        return Err(too_large(usize::try_from(max).unwrap_or(usize::MAX)));
    }
    let path = header(request.headers(), &PATH)?.unwrap_or_default();
    vet::path(&path).map_err(|reason| Failure::bad(format!("{PATH}: {reason}")))?;
    let expected_sha256 = header(request.headers(), &SHA256)?.unwrap_or_default();
    let session = shared.session(&id, namespace.as_deref(), &caller).await?;
    let sidecar = shared.proven(&session).await?;
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let first = WriteFileChunk { path, data: Bytes::new(), expected_sha256: UNFINISHED.to_owned() };
    let mut agent = sidecar.agent();
    let writing = agent.write_file(ReceiverStream::new(receiver));
    let feeding = feed(request.into_body(), first, expected_sha256, sender, max);
    let (mut writing, mut feeding) = (std::pin::pin!(writing), std::pin::pin!(feeding));
    let written = tokio::select! {
        written = &mut writing => written,
        // A body that breaks off ends the call, which then writes nothing.
        fed = &mut feeding => { fed?; writing.await }
    };
    match written {
        Ok(written) => {
            let written = written.into_inner();
            let (path, size_bytes, sha256) = (written.path, written.bytes_written, written.sha256);
            Ok(axum::Json(UploadResponse { path, size_bytes, sha256 }))
        }
        Err(status) => Err(shared.verdict(&session, status).await),
    }
}

async fn feed(
    mut body: Body,
    first: WriteFileChunk,
    expected: String,
    sender: mpsc::Sender<WriteFileChunk>,
    max: u64,
) -> Result<()> {
    let (mut left, mut sha) = (max, Sha256::new());
    // Whoever does not take it has an answer already, which is what is waited for.
    let _ = sender.send(first).await;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failure::bad("the body ended early"))?;
        let Ok(mut data) = frame.into_data() else { continue };
        let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
        left = left.checked_sub(length).ok_or_else(|| too_large(usize::try_from(max).unwrap_or(usize::MAX)))?;
        sha.update(&data);
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(PIECE));
            let _ = sender.send(WriteFileChunk { data: piece, ..WriteFileChunk::default() }).await;
        }
    }
    let expected_sha256 = if expected.is_empty() { hex(&sha.finalize()) } else { expected };
    let _ = sender.send(WriteFileChunk { expected_sha256, ..WriteFileChunk::default() }).await;
    Ok(())
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>> {
    let read = |value: &HeaderValue| String::from_utf8(value.as_bytes().to_vec()).ok();
    match headers.get(name) {
        None => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(|| Failure::bad(format!("{name}: it is not UTF-8"))),
    }
}

/// Reads a file; its length and digest follow as trailers, and as headers where they are known at once.
pub(super) async fn download(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
    Json(body): Json<FilePath>,
) -> Result<Response> {
    vet::path(&body.path).map_err(|reason| Failure::bad(format!("path: {reason}")))?;
    let session = shared.session(&id, namespace.as_deref(), &caller).await?;
    let sidecar = shared.proven(&session).await?;
    let opened = async {
        let mut chunks = sidecar.agent().read_file(ReadFileRequest { path: body.path }).await?.into_inner();
        let first = chunks.message().await?;
        Ok((chunks, first))
    };
    let (chunks, first) = match opened.await {
        Ok(opened) => opened,
        Err(status) => return Err(shared.verdict(&session, status).await),
    };
    let known = first.as_ref().map(summary).unwrap_or_default();
    let reading = Reading { chunks, next: first, _sidecar: sidecar };
    let mut response = Body::new(StreamBody::new(frames(reading))).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(TRAILER, HeaderValue::from_static("x-arl-size-bytes, x-arl-sha256"));
    headers.extend(known);
    Ok(response)
}

struct Reading {
    chunks: Streaming<FileChunk>,
    next: Option<FileChunk>,
    // As long as it is used, its connection is.
    _sidecar: Sidecar,
}

/// What a chunk says of the whole file.
fn summary(chunk: &FileChunk) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if chunk.size_bytes > 0 || chunk.done {
        headers.insert(SIZE, HeaderValue::from(chunk.size_bytes));
    }
    if let Some(digest) = HeaderValue::try_from(&chunk.sha256).ok().filter(|digest| !digest.is_empty()) {
        headers.insert(SHA256, digest);
    }
    headers
}

fn frames(reading: Reading) -> impl futures::Stream<Item = io::Result<Frame<Bytes>>> + Send {
    stream::try_unfold((reading, HeaderMap::new(), false), |(mut reading, mut trailers, is_over)| async move {
        if is_over {
            return Ok(None);
        }
        let chunk = match reading.next.take() {
            Some(chunk) => Some(chunk),
            None => reading.chunks.message().await.map_err(io::Error::other)?,
        };
        let Some(chunk) = chunk else {
            let last = std::mem::take(&mut trailers);
            return Ok(Some((Frame::trailers(last), (reading, trailers, true))));
        };
        trailers.extend(summary(&chunk));
        Ok(Some((Frame::data(chunk.data), (reading, trailers, false))))
    })
}

/// Removes a file.
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(id): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
    Json(body): Json<FilePath>,
) -> Result<StatusCode> {
    vet::path(&body.path).map_err(|reason| Failure::bad(format!("path: {reason}")))?;
    let session = shared.session(&id, namespace.as_deref(), &caller).await?;
    let sidecar = shared.proven(&session).await?;
    match sidecar.steps().remove_file(RemoveFileRequest { path: body.path }).await {
        Ok(_) => Ok(StatusCode::NO_CONTENT),
        Err(status) => Err(shared.verdict(&session, status).await),
    }
}

//! Answers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body::Frame;
use serde_json::Value;

use crate::failure::Failure;
use crate::inflight::Place;
use crate::media::Encoding;

/// The most bytes of a body that are handed over at once: a client that does not read leaves the rest here.
const FRAME_MAX: usize = 256 * 1024;

/// A response body: whole, or a stream of chunks that ends when the client leaves.
pub struct Body {
    content: Content,
    /// The place of the request, given back when its answer is sent or given up.
    place: Option<Place>,
}

enum Content {
    /// All of it (`None` once sent).
    Whole(Option<Bytes>),
    /// Chunk by chunk.
    Stream(BoxStream<'static, Bytes>),
}

impl Body {
    /// No body.
    pub fn empty() -> Self {
        Self { content: Content::Whole(None), place: None }
    }

    /// Bytes.
    pub(crate) fn bytes(bytes: Bytes) -> Self {
        Self { content: Content::Whole(Some(bytes)), place: None }
    }

    /// Chunk by chunk.
    pub(crate) fn stream(chunks: BoxStream<'static, Bytes>) -> Self {
        Self { content: Content::Stream(chunks), place: None }
    }

    /// All of it, where it is bytes.
    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Whole(bytes) => bytes.as_ref(),
            Content::Stream(_) => None,
        }
    }

    /// Keeps the place of the request until the body is sent.
    pub(crate) fn hold(&mut self, place: Option<Place>) {
        self.place = place;
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        match &mut self.content {
            Content::Whole(rest) => {
                let frame = match rest {
                    Some(bytes) if bytes.len() > FRAME_MAX => Some(bytes.split_to(FRAME_MAX)),
                    _ => rest.take(),
                };
                Poll::Ready(frame.map(|bytes| Ok(Frame::data(bytes))))
            }
            Content::Stream(stream) => {
                stream.as_mut().poll_next(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Stream(_) => http_body::SizeHint::default(),
        }
    }
}

/// An answer before it is sent.
pub(crate) type Answer = Response<Body>;

/// JSON that is already bytes.
pub(crate) fn json_bytes(code: u16, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Body::bytes(bytes.into()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// A value in the encoding the client wants.
pub(crate) fn value(code: u16, value: &Value, encoding: Encoding) -> Answer {
    match encoding {
        Encoding::Json => json_bytes(code, value.to_string()),
        Encoding::Yaml => match serde_saphyr::to_string(value) {
            Ok(text) => {
                let mut answer = json_bytes(code, text);
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
                answer
            }
            Err(error) => failure(&Failure::internal(error)),
        },
    }
}

/// Plain text.
pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Answer {
    let mut answer = json_bytes(code, text);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// A refusal.
pub(crate) fn failure(failure: &Failure) -> Answer {
    let mut answer = if failure.plain {
        text(failure.code, format!("{}\n", failure.message))
    } else {
        json_bytes(failure.code, failure.to_status().to_string())
    };
    let retry = failure.details.as_ref().and_then(|details| details.retry_after_seconds);
    if let Some(seconds) = retry {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// JSON lines for as long as the stream lives.
pub(crate) fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    let mut answer = json_bytes(200, Bytes::new());
    *answer.body_mut() = Body::stream(Box::pin(chunks));
    answer
}

/// Adds `Warning: 299 - "…"` headers, bounded as Kubernetes bounds them.
pub(crate) fn warn(answer: &mut Answer, warnings: &[String]) {
    const TOTAL_MAX: usize = 4 * 1024;
    const EACH_MAX: usize = 256;
    let crowded = warnings.iter().map(String::len).sum::<usize>() > TOTAL_MAX;
    let mut total = 0;
    for warning in warnings {
        let text: String = if crowded { warning.chars().take(EACH_MAX).collect() } else { warning.clone() };
        total += text.len();
        if total > TOTAL_MAX {
            break;
        }
        let escaped: String = text
            .chars()
            .filter(|c| !c.is_control())
            .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain(std::iter::once(c)))
            .collect();
        if let Ok(header) = HeaderValue::from_bytes(format!("299 - \"{escaped}\"").as_bytes()) {
            answer.headers_mut().append(WARNING, header);
        }
    }
}

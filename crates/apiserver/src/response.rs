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
use crate::media::Encoding;

/// A response body: whole, or a stream of chunks that ends when the client leaves.
pub enum Body {
    /// All of it (`None` once sent).
    Whole(Option<Bytes>),
    /// Chunk by chunk.
    Stream(BoxStream<'static, Bytes>),
}

impl Body {
    /// No body.
    pub fn empty() -> Self {
        Self::Whole(None)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => stream.as_mut().poll_next(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Whole(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => http_body::SizeHint::default(),
        }
    }
}

/// An answer before it is sent.
pub(crate) type Answer = Response<Body>;

/// JSON that is already bytes.
pub(crate) fn json_bytes(code: u16, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Body::Whole(Some(bytes.into())));
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
    *answer.body_mut() = Body::Stream(Box::pin(chunks));
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

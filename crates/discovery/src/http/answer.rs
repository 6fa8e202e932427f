//! What is answered.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::combinators::BoxBody;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// All headers but the length.
    pub headers: HeaderMap,
    /// The body.
    pub content: Content,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Content {
    /// All of it.
    Whole(Bytes),
    /// As it comes.
    Stream(BoxBody<Bytes, std::io::Error>),
}

impl Answer {
    /// An answer without a body.
    pub fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), content: Content::Whole(Bytes::new()) }
    }

    /// Text for people.
    pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::typed(status, "text/plain; charset=utf-8", body)
    }

    /// JSON that is written already.
    pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::typed(status, "application/json", body)
    }

    /// A body of some type.
    pub fn typed(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Self {
        // As many as a read of Consul's API has.
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        Self { status, headers, content: Content::Whole(body.into()) }
    }

    /// A body that comes bit by bit.
    pub fn stream(kind: &'static str, body: BoxBody<Bytes, std::io::Error>) -> Self {
        let answer = Self::typed(StatusCode::OK, kind, Bytes::new());
        Self { content: Content::Stream(body), ..answer }
    }

    /// The body, if it is all there.
    pub fn body(&self) -> &[u8] {
        match &self.content {
            Content::Whole(bytes) => bytes,
            Content::Stream(_) => &[],
        }
    }
}

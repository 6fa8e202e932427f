//! Logs that are followed through a tunnel: when the agent comes back they go on, every line once.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use thane_api::live::Query;
use tokio::time::Instant;

use super::reach::{Body, BodyError, Caller, Reach, Unreachable};
use super::target::Target;
use super::tunnel::Tunnels;
use crate::lines::Lines;

/// How long a log that is followed may be without its agent.
pub(crate) const RESUME_TIMEOUT: Duration = Duration::from_secs(20);
/// An agent that is there again may have an API that is not.
const RETRY_EVERY: Duration = Duration::from_millis(250);
/// Parameters that say where a log begins.
const BEGINNINGS: [&str; 3] = ["sinceTime", "sinceSeconds", "tailLines"];

/// A request for a log that is followed.
pub(super) struct Followed {
    path: String,
    query: Query,
    headers: HeaderMap,
}

impl Followed {
    /// `None` for every other request, and for a log that ends after so many bytes: they are counted elsewhere.
    pub(super) fn of(target: &Target, request: &Request<Body>) -> Option<Self> {
        let is_log =
            (target.group.as_str(), target.resource.as_str(), target.subresource.as_str()) == ("", "pods", "log");
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let is_followed = is_log && request.method() == Method::GET && query.is_set("follow");
        if !is_followed || query.get("limitBytes").is_some() {
            return None;
        }
        let mut headers = request.headers().clone();
        // Its lines have to be read here.
        headers.remove(ACCEPT_ENCODING);
        Some(Self { path: request.uri().path().to_owned(), query, headers })
    }

    /// The answer, which goes on for as long as the log or its reader does.
    pub(super) async fn send(
        self,
        tunnels: &Tunnels,
        agent: &str,
        caller: &Caller,
    ) -> Result<Response<Body>, Unreachable> {
        let response = tunnels.send(agent, caller, self.request(None)?).await?;
        if response.status() != StatusCode::OK {
            return Ok(response);
        }
        let (mut parts, body) = response.into_parts();
        parts.headers.remove(CONTENT_LENGTH);
        let reading = Reading {
            lines: Lines::new(self.query.is_set("timestamps")),
            followed: self,
            tunnels: tunnels.clone(),
            agent: agent.to_owned(),
            caller: caller.clone(),
            body: Some(body),
            deadline: None,
        };
        let pieces = futures::stream::unfold(reading, |mut reading| async {
            let next = reading.next().await?;
            Some((next.map(Frame::data), reading))
        });
        Ok(Response::from_parts(parts, StreamBody::new(pieces).boxed_unsync()))
    }

    /// The same request, from some time on.
    fn request(&self, since: Option<Timestamp>) -> Result<Request<Body>, Unreachable> {
        let mut query = Query::default();
        for (name, value) in self.query.iter() {
            if name != "timestamps" && (since.is_none() || !BEGINNINGS.contains(&name)) {
                query.push(name, value);
            }
        }
        // By their times lines are known again.
        query.push("timestamps", "true");
        if let Some(since) = since {
            query.push("sinceTime", since.to_string());
        }
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let mut request =
            Request::get(query.on(&self.path)).body(body).map_err(|error| Unreachable::Failed(error.to_string()))?;
        *request.headers_mut() = self.headers.clone();
        Ok(request)
    }
}

/// A log on its way to whoever reads it.
struct Reading {
    followed: Followed,
    tunnels: Tunnels,
    agent: String,
    caller: Caller,
    lines: Lines,
    /// What comes through the tunnel; none when it is over.
    body: Option<Body>,
    /// When it has to have gone on.
    deadline: Option<Instant>,
}

impl Reading {
    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            let new = match self.body.as_mut()?.frame().await {
                Some(Ok(frame)) => frame.into_data().map_or_else(|_| Bytes::new(), |data| self.lines.take(&data)),
                None => {
                    self.body = None;
                    self.lines.rest()
                }
                Some(Err(broken)) => {
                    // What is left of it in the tunnel ends now.
                    self.body = None;
                    self.body = self.again().await;
                    if self.body.is_none() {
                        return Some(Err(broken));
                    }
                    continue;
                }
            };
            if !new.is_empty() {
                self.deadline = None;
                return Some(Ok(new));
            }
        }
    }

    /// The log once more, from where it broke off or before that.
    async fn again(&mut self) -> Option<Body> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + RESUME_TIMEOUT);
        let since = self.lines.reached();
        loop {
            let asking = async {
                self.tunnels.present(&self.agent).await;
                self.tunnels.send(&self.agent, &self.caller, self.followed.request(since)?).await
            };
            match tokio::time::timeout_at(deadline, asking).await.ok()? {
                Ok(response) if response.status() == StatusCode::OK => {
                    self.lines.again();
                    self.tunnels.metrics().resumed();
                    return Some(response.into_body());
                }
                // The pod is gone, or may not be read any more.
                Ok(response) if !response.status().is_server_error() => return None,
                Ok(_) | Err(_) => tokio::time::timeout_at(deadline, tokio::time::sleep(RETRY_EVERY)).await.ok()?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(method: &str, path: &str) -> Option<Followed> {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder().method(method).uri(path).body(body).unwrap();
        let target = Target::read(request.method(), request.uri().path(), request.uri().query()).unwrap();
        Followed::of(&target, &request)
    }

    #[test]
    fn only_logs_that_are_followed_go_on() {
        let log = "/api/v1/namespaces/a/pods/p/log";
        for other in ["", "?follow=false", "?follow=true&limitBytes=10"] {
            assert!(followed("GET", &format!("{log}{other}")).is_none(), "{other}");
        }
        assert!(followed("POST", &format!("{log}?follow=true")).is_none());
        assert!(followed("GET", "/api/v1/namespaces/a/pods/p?follow=true").is_none());
        assert!(followed("GET", &format!("{log}?follow=true")).is_some());
    }

    #[test]
    fn it_is_asked_for_again_from_where_it_broke_off() {
        let asked = "/api/v1/namespaces/a/pods/p/log?follow=true&container=c%20d&tailLines=5&timestamps=false";
        let followed = followed("GET", asked).unwrap();
        let first = followed.request(None).unwrap().uri().to_string();
        assert_eq!(first, "/api/v1/namespaces/a/pods/p/log?follow=true&container=c%20d&tailLines=5&timestamps=true");
        let since = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let again = followed.request(Some(since)).unwrap().uri().to_string();
        let expected = "follow=true&container=c%20d&timestamps=true&sinceTime=2026-01-01T00%3A00%3A00.5Z";
        assert_eq!(again, format!("/api/v1/namespaces/a/pods/p/log?{expected}"));
    }
}

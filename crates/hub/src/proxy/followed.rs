//! Logs that are followed through a tunnel: when the agent comes back they go on, every line once.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, DATE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use jiff::{SignedDuration, Timestamp};
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
/// By so much the clocks of a cluster that does not tell its time may be behind the hub's.
const CLOCKS_APART: SignedDuration = SignedDuration::from_secs(5);
/// The first word of a line is a time only if it is no longer than this.
const TIME_MAX: usize = 40;
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
        now: Timestamp,
    ) -> Result<Response<Body>, Unreachable> {
        let response = tunnels.send(agent, caller, self.request(None)?).await?;
        if response.status() != StatusCode::OK {
            return Ok(response);
        }
        let (mut parts, body) = response.into_parts();
        parts.headers.remove(CONTENT_LENGTH);
        let began = began(&parts.headers, now);
        let reading = Reading {
            start: self.start(began),
            is_checked: true,
            lines: Lines::new(self.query.is_set("timestamps")),
            followed: self,
            tunnels: tunnels.clone(),
            agent: agent.to_owned(),
            caller: caller.clone(),
            body: Some(body),
            opened: Instant::now(),
            deadline: None,
        };
        let pieces = futures::stream::unfold(reading, |mut reading| async {
            let next = reading.next().await?;
            Some((next.map(Frame::data), reading))
        });
        Ok(Response::from_parts(parts, StreamBody::new(pieces).boxed_unsync()))
    }

    /// Where it begins if it has to be asked for again before a line of it has passed.
    fn start(&self, began: Timestamp) -> Start {
        let number = |name: &str| self.query.get(name).and_then(|value| value.parse::<i64>().ok());
        match (number("tailLines"), number("sinceSeconds")) {
            (Some(0), _) => Start::Since(began),
            (Some(_), _) => Start::Tail(began),
            (None, Some(seconds)) => {
                let since = began.checked_sub(SignedDuration::from_secs(seconds));
                Start::Since(since.unwrap_or(Timestamp::MIN))
            }
            (None, None) => Start::AsAsked,
        }
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

/// Where a log begins of which no line has passed. What is said as so many seconds or lines means another beginning
/// when it is said later, and what came in between would be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Where it was asked for.
    AsAsked,
    /// At that time.
    Since(Timestamp),
    /// With its last lines, if these reach back to when it was first asked for; else at that time.
    Tail(Timestamp),
}

/// When the cluster began to answer, by its own clock if it tells.
fn began(headers: &HeaderMap, now: Timestamp) -> Timestamp {
    let told = headers.get(DATE).and_then(|date| date.to_str().ok());
    let told = told.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|date| date.timestamp());
    told.or_else(|| now.checked_sub(CLOCKS_APART).ok()).unwrap_or(now)
}

/// The time of the line that these bytes begin with.
fn first_time(bytes: &[u8]) -> Option<Timestamp> {
    let head = &bytes[..bytes.len().min(TIME_MAX)];
    let end = head.iter().position(|byte| *byte == b' ')?;
    std::str::from_utf8(&head[..end]).ok()?.parse().ok()
}

/// A log on its way to whoever reads it.
struct Reading {
    start: Start,
    /// Whether it is known that nothing is missing before what comes.
    is_checked: bool,
    followed: Followed,
    tunnels: Tunnels,
    agent: String,
    caller: Caller,
    lines: Lines,
    /// What comes through the tunnel; none when it is over.
    body: Option<Body>,
    /// When that began.
    opened: Instant,
    /// When it has to have gone on.
    deadline: Option<Instant>,
}

impl Reading {
    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            let new = match self.body.as_mut()?.frame().await {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    if self.is_late(&data) {
                        self.body = None;
                        self.body = self.again().await;
                        if self.body.is_none() {
                            return Some(Err("the log could not be gone on with".into()));
                        }
                        continue;
                    }
                    self.lines.take(&data)
                }
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

    /// Whether the last lines begin after the log was first asked for; it is asked for from then on.
    fn is_late(&mut self, data: &[u8]) -> bool {
        let Start::Tail(began) = self.start else { return false };
        if self.is_checked || data.is_empty() {
            return false;
        }
        self.is_checked = true;
        let is_late = first_time(data).is_none_or(|time| time > began);
        if is_late {
            self.start = Start::Since(began);
        }
        is_late
    }

    /// The log once more, from where it broke off or before that.
    async fn again(&mut self) -> Option<Body> {
        // A log that has nothing to say has gone on all the same, unless it breaks off as soon as it is there.
        let is_short = self.opened.elapsed() < RETRY_EVERY;
        if !is_short {
            self.deadline = None;
        }
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + RESUME_TIMEOUT);
        if is_short {
            tokio::time::timeout_at(deadline, tokio::time::sleep(RETRY_EVERY)).await.ok()?;
        }
        let since = match (self.lines.reached(), self.start) {
            (None, Start::Since(since)) => Some(since),
            (reached, _) => reached,
        };
        self.is_checked = since.is_some();
        loop {
            let asking = async {
                self.tunnels.present(&self.agent).await;
                self.tunnels.send(&self.agent, &self.caller, self.followed.request(since)?).await
            };
            match tokio::time::timeout_at(deadline, asking).await.ok()? {
                Ok(response) if response.status() == StatusCode::OK => {
                    self.lines.again();
                    self.opened = Instant::now();
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

    #[test]
    fn a_log_of_which_no_line_has_passed_begins_where_it_first_would_have() {
        let began: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let log = "/api/v1/namespaces/a/pods/p/log?follow=true";
        for (asked, expected) in [
            ("", Start::AsAsked),
            ("&sinceTime=2025-01-01T00:00:00Z", Start::AsAsked),
            ("&tailLines=0", Start::Since(began)),
            ("&tailLines=0&sinceSeconds=20", Start::Since(began)),
            ("&sinceSeconds=20", Start::Since("2026-01-01T00:00:40Z".parse().unwrap())),
            ("&sinceSeconds=9223372036854775807", Start::Since(Timestamp::MIN)),
            ("&tailLines=7", Start::Tail(began)),
            ("&tailLines=many", Start::AsAsked),
        ] {
            assert_eq!(followed("GET", &format!("{log}{asked}")).unwrap().start(began), expected, "{asked}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_log_survives_more_than_one_interruption() {
        let (tasks, _) = thane_runtime::Tasks::root("test");
        let source = crate::proxy::Source::People;
        // Long ago it broke off for the first time, and has gone on since without a line.
        let reading = |opened| Reading {
            start: Start::AsAsked,
            is_checked: true,
            lines: Lines::new(true),
            followed: followed("GET", "/api/v1/namespaces/a/pods/p/log?follow=true").unwrap(),
            tunnels: Tunnels::new(crate::proxy::tunnel::Config::default(), tasks.clone()),
            agent: "one".to_owned(),
            caller: Caller { name: "ann".to_owned(), groups: Vec::new(), source },
            body: Some(
                StreamBody::new(futures::stream::iter([Err::<Frame<Bytes>, BodyError>("it broke".into())]))
                    .boxed_unsync(),
            ),
            opened,
            deadline: Some(Instant::now() + Duration::from_secs(5)),
        };
        let first = Instant::now();
        let mut quiet = reading(first);
        let mut short = reading(first + Duration::from_mins(1));
        tokio::time::advance(Duration::from_mins(1)).await;
        let broken = Instant::now();
        assert!(quiet.next().await.unwrap().is_err());
        assert_eq!(broken.elapsed(), RESUME_TIMEOUT, "it has all the time there is once more");
        short.opened = Instant::now();
        short.deadline = Some(short.opened + Duration::from_secs(5));
        let broken = Instant::now();
        assert!(short.next().await.unwrap().is_err());
        assert_eq!(broken.elapsed(), Duration::from_secs(5), "one that breaks off at once has not");
    }

    #[test]
    fn the_clusters_clock_counts_if_it_is_told() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(began(&headers, now), "2026-01-01T00:00:55Z".parse().unwrap());
        headers.insert(DATE, "Wed, 31 Dec 2025 23:00:00 GMT".parse().unwrap());
        assert_eq!(began(&headers, now), "2025-12-31T23:00:00Z".parse().unwrap());
        headers.insert(DATE, "yesterday".parse().unwrap());
        assert_eq!(began(&headers, now), "2026-01-01T00:00:55Z".parse().unwrap());
    }

    #[test]
    fn last_lines_that_do_not_reach_back_are_not_all_there_is() {
        let began: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for (data, is_late) in [
            ("2026-01-01T00:00:59.9Z a\n2026-01-01T00:01:02Z b\n", false),
            ("2026-01-01T00:01:00Z a\n", false),
            ("2026-01-01T00:01:00.1Z a\n", true),
            ("no time\n", true),
        ] {
            assert_eq!(first_time(data.as_bytes()).is_none_or(|time| time > began), is_late, "{data}");
        }
    }
}

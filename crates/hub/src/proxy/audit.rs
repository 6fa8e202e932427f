//! The record of every request, also of one whose client left before it was answered.

use std::net::SocketAddr;

use http::Method;
use thane_api::live::Query;

use super::metrics::Metrics;
use super::target::Target;

/// What is counted for a client that left: no answer was given, and nobody knows what the request did.
const LEFT: u16 = 499;
/// Parameters whose values say what was asked. Those of others, which may be secrets, are not written.
const TOLD: [&str; 33] = [
    "allowWatchBookmarks",
    "command",
    "container",
    "continue",
    "dryRun",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "follow",
    "force",
    "gracePeriodSeconds",
    "includeObject",
    "insecureSkipTLSVerifyBackend",
    "labelSelector",
    "limit",
    "limitBytes",
    "orphanDependents",
    "ports",
    "pretty",
    "previous",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "sinceSeconds",
    "sinceTime",
    "stderr",
    "stdin",
    "stdout",
    "tailLines",
    "timeoutSeconds",
    "tty",
    "watch",
];
/// Bytes of a query that are written.
const QUERY_MAX: usize = 2 * 1024;

/// A request as far as it is understood; it is written down when this is dropped.
pub(super) struct Record {
    user: String,
    agent: String,
    /// Whether that agent is connected: others are not told apart in counts.
    is_connected: bool,
    pub(super) verb: &'static str,
    method: Method,
    path: String,
    query: String,
    id: String,
    peer: SocketAddr,
    outcome: (u16, String),
    metrics: Metrics,
}

impl Record {
    pub(super) fn begin<B>(request: &http::Request<B>, id: &str, peer: SocketAddr, metrics: &Metrics) -> Self {
        Self {
            user: String::new(),
            agent: String::new(),
            is_connected: false,
            verb: "unknown",
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: String::new(),
            id: id.to_owned(),
            peer,
            outcome: (LEFT, "the client left before it was answered".to_owned()),
            metrics: metrics.clone(),
        }
    }

    /// Who asks, and for whose cluster, whether they may or not.
    pub(super) fn known(&mut self, user: &str, agent: &str, is_connected: bool) {
        user.clone_into(&mut self.user);
        agent.clone_into(&mut self.agent);
        self.is_connected = is_connected;
    }

    /// What it is about.
    pub(super) fn understood(&mut self, target: &Target, query: Option<&str>) {
        self.verb = target.verb;
        // What is behind a proxy has parameters of its own.
        self.query = told(query.unwrap_or_default(), target.subresource != "proxy");
    }

    /// It has been answered, with a refusal's reason.
    pub(super) fn answered(mut self, code: u16, why: String) {
        self.outcome = (code, why);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let (code, why) = &self.outcome;
        self.metrics.answered(self.is_connected.then_some(&*self.agent), self.verb, *code);
        tracing::info!(
            target: "thane::audit",
            user = self.user,
            agent = self.agent,
            verb = self.verb,
            method = %self.method,
            path = self.path,
            query = self.query,
            code,
            why,
            id = self.id,
            peer = %self.peer,
            "live request"
        );
    }
}

/// A query as it may be written down.
fn told(query: &str, is_known: bool) -> String {
    let mut told = String::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let parsed = Query::parse(pair);
        let is_told = is_known && parsed.iter().all(|(name, _)| TOLD.contains(&name));
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        let shown = if is_told { pair.to_owned() } else { format!("{name}=***") };
        if told.len() + shown.len() >= QUERY_MAX {
            told.push_str("&...");
            break;
        }
        if !told.is_empty() {
            told.push('&');
        }
        told.push_str(&shown);
    }
    told
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use thane_runtime::telemetry::{Format, LogConfig, subscriber};

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged at a level, one object a line.
    fn logged(level: &str, what: impl FnOnce()) -> Vec<serde_json::Value> {
        let captured = Captured::default();
        let writer = captured.clone();
        let config = LogConfig { level: level.to_owned(), format: Format::Json };
        let (subscriber, _levels) = subscriber(&config, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, what);
        let text = String::from_utf8(captured.0.lock().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn record(method: &str, uri: &str) -> Record {
        let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
        let mut record = Record::begin(&request, "7", "127.0.0.1:1".parse().unwrap(), &Metrics::default());
        let target = Target::read(request.method(), request.uri().path(), request.uri().query()).unwrap();
        record.understood(&target, request.uri().query());
        record.user = "ann".to_owned();
        record
    }

    #[test]
    fn a_client_that_leaves_is_in_the_record() {
        for level in ["info", "warn", "error"] {
            let lines = logged(level, || {
                let carrying = async {
                    let record = record("DELETE", "/api/v1/namespaces/a/pods/p");
                    std::future::pending::<()>().await;
                    record.answered(200, String::new());
                };
                let mut carrying = Box::pin(carrying);
                assert!(futures::FutureExt::now_or_never(carrying.as_mut()).is_none());
                drop(carrying);
            });
            let [line] = &lines[..] else { panic!("{level}: {lines:?}") };
            let told = ["user", "verb", "method", "path", "id", "target"].map(|name| line[name].as_str().unwrap());
            assert_eq!(told, ["ann", "delete", "DELETE", "/api/v1/namespaces/a/pods/p", "7", "thane::audit"]);
            assert_eq!((line["code"].as_u64(), line["why"].as_str().unwrap().contains("left")), (Some(499), true));
        }
        assert_eq!(logged("off", || record("GET", "/api/v1/pods").answered(200, String::new())).len(), 0);
    }

    #[test]
    fn one_that_is_answered_is_there_once_with_what_was_asked() {
        let exec = "/api/v1/namespaces/a/pods/p/exec?command=rm&command=-r%66&container=c&token=secret&stdin=true";
        let lines = logged("info", || record("GET", exec).answered(403, "no".to_owned()));
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(line["query"], "command=rm&command=-r%66&container=c&token=***&stdin=true");
        assert_eq!((line["code"].as_u64(), line["why"].as_str()), (Some(403), Some("no")));
    }

    #[test]
    fn secrets_are_no_part_of_the_record() {
        assert_eq!(told("command=x&access_token=y", false), "command=***&access_token=***");
        assert_eq!(told("", true), "");
        let long = "limit=1&".repeat(2 * QUERY_MAX);
        assert!(told(&long, true).len() <= QUERY_MAX + 4);
        assert_eq!(told(&"x".repeat(2 * QUERY_MAX), true), "&...");
    }
}

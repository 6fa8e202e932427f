//! Runs sequences against a server and records what it answers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use thane_runtime::SystemClock;
use thane_runtime::pki::{self, Authority, Subject};

use super::sequence::{Certificate, Identity, Sequence, Step, Until, Watch};
use super::{Normaliser, Target, substitute};
use crate::client::{Answer, HttpsClient};
use crate::endpoint::{ClientIdentity, Endpoint};

/// Sequences in flight at once on one server.
const PARALLEL: usize = 8;
/// Headers that clients act on.
const HEADERS: [&str; 4] = ["content-type", "warning", "retry-after", "allow"];
/// How long a certificate that nobody believes would hold.
const LIFETIME: Duration = Duration::from_hours(24);
/// Text answers are compared up to here.
const TEXT_LIMIT: usize = 4096;

pub(super) type Saved = BTreeMap<String, String>;

/// The normalised records of one sequence, one per step.
#[derive(Debug, Clone)]
pub struct Recording {
    /// What was answered, in order; quiet steps leave null.
    pub records: Vec<Value>,
}

/// Runs sequences against one server.
pub struct Runner {
    admin: HttpsClient,
    anonymous: HttpsClient,
    foreign: HttpsClient,
    expired: HttpsClient,
    run: String,
}

/// Runs all sequences against one server; the recordings are in their order.
///
/// `run` begins the namespaces' names, so that a server can be used for several runs.
pub async fn run_all(target: &dyn Target, sequences: &[Sequence], run: &str) -> Result<Vec<Recording>> {
    let runner = Runner::new(target, run)?;
    let runs = sequences.iter().enumerate().map(async |(index, sequence)| (index, runner.run(sequence).await));
    // Unordered, so that a slow one does not hold up those behind it.
    let mut done: Vec<_> = futures::stream::iter(runs).buffer_unordered(PARALLEL).collect().await;
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, recording)| recording).collect())
}

impl Runner {
    /// Prepares clients for the administrator and for nobody.
    pub fn new(target: &dyn Target, run: &str) -> Result<Self> {
        let endpoint = target.endpoint();
        Ok(Self {
            admin: HttpsClient::new(endpoint)?,
            anonymous: HttpsClient::new(&endpoint.anonymous())?,
            foreign: HttpsClient::new(&unknown(endpoint, Duration::ZERO)?)?,
            expired: HttpsClient::new(&unknown(endpoint, 2 * LIFETIME)?)?,
            run: run.to_owned(),
        })
    }

    /// Runs one sequence in a namespace of its own and cleans up after it.
    pub async fn run(&self, sequence: &Sequence) -> Recording {
        let namespace = format!("{}-{}", self.run, sequence.name);
        let mut saved = Saved::from([("ns".to_owned(), namespace.clone())]);
        let mut records = Vec::with_capacity(sequence.steps.len());
        if let Err(error) = self.prepare(&namespace).await {
            records.push(json!({"failure": format!("preparing: {error:#}")}));
        }
        for step in &sequence.steps {
            let record = self.step(step, &mut saved).await;
            records.push(record.unwrap_or_else(|error| json!({"failure": format!("{error:#}")})));
        }
        self.clean_up(sequence, &saved).await;
        let literals = vec![(namespace, "<ns>".to_owned()), (self.admin.address().to_owned(), "<server>".to_owned())];
        Recording { records: Normaliser::new(literals).records(records) }
    }

    /// Makes the namespace and waits for its service account, which pods need.
    async fn prepare(&self, namespace: &str) -> Result<()> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let create = Step { request: "POST /api/v1/namespaces".to_owned(), body: Some(body), ..Step::default() };
        let created = self.step(&create, &mut Saved::new()).await?;
        anyhow::ensure!(created["status"] == 201, "creating the namespace: {created}");
        for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            let wait = Step {
                request: format!("GET /api/v1/namespaces/{namespace}/{path}"),
                until: Some(Until { path: "/status".to_owned(), equals: Some(json!(200)), seconds: 30 }),
                ..Step::default()
            };
            let found = self.step(&wait, &mut Saved::new()).await?;
            anyhow::ensure!(found["status"] == 200, "the namespace's {path}: {found}");
        }
        Ok(())
    }

    async fn clean_up(&self, sequence: &Sequence, saved: &Saved) {
        let namespace = "/api/v1/namespaces/${ns}".to_owned();
        for path in sequence.cleanup.iter().chain([&namespace]) {
            let delete = Step { request: format!("DELETE {path}"), ..Step::default() };
            // What a sequence made may be gone already.
            let _ = self.step(&delete, &mut saved.clone()).await;
        }
    }

    async fn step(&self, step: &Step, saved: &mut Saved) -> Result<Value> {
        let mut record = match &step.until {
            None => self.once(step, saved).await?,
            Some(until) => self.repeatedly(step, until, saved).await?,
        };
        save(step, &record, saved);
        if step.quiet {
            return Ok(Value::Null);
        }
        keep(step, &mut record, saved)?;
        Ok(record)
    }

    async fn repeatedly(&self, step: &Step, until: &Until, saved: &Saved) -> Result<Value> {
        let deadline = Instant::now() + Duration::from_secs(until.seconds);
        let wanted = until.equals.as_ref().map(|value| substitute::value(value, saved)).transpose()?;
        loop {
            let mut record = self.once(step, saved).await?;
            if record.pointer(&until.path) == wanted.as_ref() {
                return Ok(record);
            }
            if Instant::now() > deadline {
                record["gave up after"] = until.seconds.into();
                return Ok(record);
            }
            // A controller's work shows in no other way than by asking again.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn once(&self, step: &Step, saved: &Saved) -> Result<Value> {
        let request = self.request(step, saved)?;
        let client = self.client(step);
        let Some(watch) = &step.watch else {
            let answer = client.exchange(request).await?;
            return Ok(record(&answer, &HEADERS));
        };
        let response = client.stream(request).await?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            let body = body.collect().await?.to_bytes();
            return Ok(record(&Answer { status: parts.status, headers: parts.headers, body }, &HEADERS));
        }
        let (events, ended) = read_events(body, watch).await?;
        Ok(
            json!({"status": parts.status.as_u16(), "headers": chosen(&parts.headers, &HEADERS), "events": events, "ended": ended}),
        )
    }

    /// Whoever shows the certificate the step is sent with, or none.
    fn client(&self, step: &Step) -> &HttpsClient {
        match &step.identity {
            Some(Identity::Detail { certificate: Some(Certificate::Foreign), .. }) => &self.foreign,
            Some(Identity::Detail { certificate: Some(Certificate::Expired), .. }) => &self.expired,
            Some(Identity::Detail { token: Some(_), .. }) => &self.anonymous,
            Some(Identity::Name(name)) if name == "anonymous" => &self.anonymous,
            _ => &self.admin,
        }
    }

    fn request(&self, step: &Step, saved: &Saved) -> Result<Request<Full<Bytes>>> {
        let line = substitute::text(&step.request, saved)?;
        let (method, path) = line.split_once(' ').context("a request is `METHOD /path`")?;
        let (body, mut media) = body(step, saved)?;
        if let Some(short) = &step.media {
            media = Some(media_type(short));
        }
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes())?)
            .uri(path)
            .header("host", self.admin.address())
            .header("user-agent", "differential/1.0");
        if !step.headers.keys().any(|name| name.eq_ignore_ascii_case("accept")) {
            request = request.header("accept", "application/json");
        }
        if let Some(media) = media {
            request = request.header("content-type", media);
        }
        for (name, value) in &step.headers {
            request = request.header(name, substitute::text(value, saved)?);
        }
        for (name, value) in identity_headers(step.identity.as_ref()) {
            request = request.header(name, substitute::text(&value, saved)?);
        }
        Ok(request.body(Full::new(body))?)
    }
}

/// Remembers what later steps need of an answer.
pub(super) fn save(step: &Step, record: &Value, saved: &mut Saved) {
    for (name, pointer) in &step.save {
        let whole = if pointer.starts_with("/headers/") { pointer.clone() } else { format!("/body{pointer}") };
        let text = match record.pointer(&whole) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => format!("no-{name}"),
        };
        saved.insert(name.clone(), text);
    }
}

/// Leaves of lists what is compared.
pub(super) fn keep(step: &Step, record: &mut Value, saved: &Saved) -> Result<()> {
    for keep in &step.keep {
        let keys = keep.keys.iter().map(|key| substitute::text(key, saved)).collect::<Result<Vec<_>>>()?;
        if let Some(list) = record.pointer_mut(&keep.path).and_then(Value::as_array_mut) {
            let key = |entry: &Value| entry.pointer(&keep.key).and_then(Value::as_str).unwrap_or("").to_owned();
            list.retain(|entry| keys.is_empty() || keys.contains(&key(entry)));
            list.sort_by_key(key);
        }
    }
    Ok(())
}

/// The same server, called by an administrator of another cluster whose certificate was made some time ago.
fn unknown(endpoint: &Endpoint, ago: Duration) -> Result<Endpoint> {
    let made = SystemClock::shared().now() - ago;
    let subject = Subject {
        common_name: "admin".to_owned(),
        organization: Some("system:masters".to_owned()),
        organizational_unit: None,
    };
    let authority = Authority::create("another cluster", made, LIFETIME)?;
    let identity = authority.issue(&pki::Request::client(subject), made, LIFETIME)?;
    let client = ClientIdentity { certificate: identity.cert_pem, key: identity.key_pem };
    Ok(Endpoint { client: Some(client), ..endpoint.clone() })
}

fn identity_headers(identity: Option<&Identity>) -> Vec<(&'static str, String)> {
    match identity {
        None => Vec::new(),
        Some(Identity::Name(name)) if name == "admin" || name == "anonymous" => Vec::new(),
        Some(Identity::Name(name)) => vec![("impersonate-user", name.clone())],
        Some(Identity::Detail { user, groups, token, .. }) => {
            let user = user.iter().map(|user| ("impersonate-user", user.clone()));
            let groups = groups.iter().map(|group| ("impersonate-group", group.clone()));
            let token = token.iter().map(|token| ("authorization", format!("Bearer {token}")));
            user.chain(groups).chain(token).collect()
        }
    }
}

fn media_type(short: &str) -> String {
    match short {
        "json" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    }
    .to_owned()
}

/// The body of a step's request and its type.
pub(super) fn body(step: &Step, saved: &Saved) -> Result<(Bytes, Option<String>)> {
    let json_type = || Some("application/json".to_owned());
    Ok(match (&step.body, &step.raw, &step.base64) {
        (Some(value), _, _) => (serde_json::to_vec(&substitute::value(value, saved)?)?.into(), json_type()),
        (None, Some(text), _) => (substitute::text(text, saved)?.into(), json_type()),
        (None, None, Some(coded)) => (STANDARD.decode(coded.trim())?.into(), json_type()),
        (None, None, None) => (Bytes::new(), None),
    })
}

/// An answer with some of its headers.
pub(super) fn record(answer: &Answer, names: &[&str]) -> Value {
    let body = match serde_json::from_slice(&answer.body) {
        Ok(value) => value,
        Err(_) => Value::from(String::from_utf8_lossy(&answer.body).chars().take(TEXT_LIMIT).collect::<String>()),
    };
    json!({"status": answer.status.as_u16(), "headers": chosen(&answer.headers, names), "body": body})
}

fn chosen(headers: &HeaderMap, names: &[&str]) -> Value {
    let mut out = serde_json::Map::new();
    for name in names {
        let values: Vec<Value> =
            headers.get_all(*name).iter().map(|value| Value::from(String::from_utf8_lossy(value.as_bytes()))).collect();
        if !values.is_empty() {
            out.insert((*name).to_owned(), Value::from(values));
        }
    }
    Value::Object(out)
}

/// Reads events until there are enough of them, the time is up, or the server ends the watch.
async fn read_events(mut body: Incoming, watch: &Watch) -> Result<(Vec<Value>, &'static str)> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(watch.seconds);
    let (mut events, mut buffer) = (Vec::new(), Vec::new());
    while events.len() < watch.events {
        let frame = match tokio::time::timeout_at(deadline, body.frame()).await {
            Err(_) => return Ok((events, "time is up")),
            Ok(None) => return Ok((events, "closed")),
            Ok(Some(frame)) => frame?,
        };
        buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line)?;
            if !passing_bookmark(&event) && events.len() < watch.events {
                events.push(event);
            }
        }
    }
    Ok((events, "enough"))
}

/// Bookmarks come whenever the server likes, save the one that ends the initial events.
fn passing_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event.pointer("/object/metadata/annotations/k8s.io~1initial-events-end").is_none()
}

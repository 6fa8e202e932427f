//! Requests to S3, signed, and tried again where the server is not to blame for good.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use sha2::{Digest, Sha256};
use thane_runtime::clock::{Clock, SystemClock};

use super::super::web::{self, Trust};
use super::super::{Error, Result};
use super::sign::{self, Credentials, encoded, hex};
use super::xml;

/// How often something is tried, and how long after the first failure; twice as long after each further one.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);

/// Where a bucket is and whose requests they are.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) endpoint: String,
    pub(super) bucket: String,
    pub(super) region: String,
    pub(super) is_secure: bool,
    pub(super) style: String,
    pub(super) authorities: Option<String>,
    pub(super) credentials: Option<Credentials>,
}

/// A bucket.
#[derive(Debug)]
pub(super) struct Client {
    options: Options,
    /// The server, as it is named in requests.
    host: String,
    /// Whether the bucket is part of that name and not of the path.
    in_name: bool,
    trust: Trust,
    clock: SystemClock,
}

/// Keys below a prefix.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) keys: Vec<String>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
}

impl Client {
    pub(super) fn new(mut options: Options) -> Result<Self> {
        let is_bucket =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        if !is_bucket(&options.bucket) {
            return Err(Error::Failed(format!("{:?} is no name of a bucket", options.bucket)));
        }
        let endpoint = options.endpoint.trim_end_matches('/');
        if endpoint.is_empty() || endpoint.contains('/') {
            return Err(Error::Failed(format!("{:?} is no endpoint: it is host or host:port", options.endpoint)));
        }
        let in_name = match options.style.as_str() {
            "virtual-hosted" => true,
            "path" => false,
            _ => endpoint.ends_with("amazonaws.com"),
        };
        let host = if in_name { format!("{}.{endpoint}", options.bucket) } else { endpoint.to_owned() };
        if options.region.is_empty() {
            "us-east-1".clone_into(&mut options.region);
        }
        let trust = Trust { authorities: options.authorities.take() };
        Ok(Self { options, host, in_name, trust, clock: SystemClock::new() })
    }

    /// Brings an object.
    pub(super) async fn get(&self, key: &str, to: &Path) -> Result<()> {
        let mut tries = 0;
        loop {
            tries += 1;
            let answer = self.ask("GET", key, &[], &Bytes::new()).await?;
            match web::to_file(answer, to).await {
                Err(_) if tries < TRIES => tokio::time::sleep(PAUSE).await,
                done => return done,
            }
        }
    }

    /// Keeps an object.
    pub(super) async fn put(&self, key: &str, body: Bytes) -> Result<()> {
        self.ask("PUT", key, &[], &body).await.map(drop)
    }

    /// Makes the bucket, unless it is there.
    pub(super) async fn make_bucket(&self) -> Result<()> {
        match self.ask("HEAD", "", &[], &Bytes::new()).await {
            Err(Error::Absent(_)) => {}
            other => return other.map(drop),
        }
        let region = &self.options.region;
        let body = if region == "us-east-1" {
            String::new()
        } else {
            format!(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
            )
        };
        self.ask("PUT", "", &[], &body.into()).await.map(drop)
    }

    /// A page of the keys below a prefix.
    pub(super) async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page> {
        let mut query = vec![("list-type", "2"), ("prefix", prefix)];
        if let Some(after) = after {
            query.push(("continuation-token", after));
        }
        let xml = web::text(self.ask("GET", "", &query, &Bytes::new()).await?).await?;
        let contents = xml::texts(&xml, "Contents");
        let keys = contents.into_iter().filter_map(|one| xml::text(one, "Key")).collect();
        let is_cut = xml::text(&xml, "IsTruncated").as_deref() == Some("true");
        Ok(Page { keys, next: xml::text(&xml, "NextContinuationToken").filter(|_| is_cut) })
    }

    /// Begins an object of many parts.
    pub(super) async fn begin(&self, key: &str) -> Result<String> {
        let xml = web::text(self.ask("POST", key, &[("uploads", "")], &Bytes::new()).await?).await?;
        xml::text(&xml, "UploadId").ok_or_else(|| Error::Failed("the server began no upload".to_owned()))
    }

    /// Sends a part and says what the server calls it.
    pub(super) async fn part(&self, key: &str, upload: &str, number: usize, body: Bytes) -> Result<String> {
        let number = number.to_string();
        let query = [("partNumber", number.as_str()), ("uploadId", upload)];
        let answer = self.ask("PUT", key, &query, &body).await?;
        let tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok());
        tag.map(str::to_owned).ok_or_else(|| Error::Failed("the server has no tag for a part".to_owned()))
    }

    /// Makes one object of its parts.
    pub(super) async fn complete(&self, key: &str, upload: &str, tags: &[String]) -> Result<()> {
        let mut body = String::from("<CompleteMultipartUpload>");
        for (index, tag) in tags.iter().enumerate() {
            let tag = tag.replace('&', "&amp;").replace('<', "&lt;");
            let _ = write!(body, "<Part><PartNumber>{}</PartNumber><ETag>{tag}</ETag></Part>", index + 1);
        }
        body.push_str("</CompleteMultipartUpload>");
        let answer = self.ask("POST", key, &[("uploadId", upload)], &body.into()).await?;
        let xml = web::text(answer).await?;
        // It may say yes first and no then.
        match xml::text(&xml, "Code") {
            Some(code) => Err(Error::Failed(format!("{key}: {code}"))),
            None => Ok(()),
        }
    }

    /// Gives up an object of many parts.
    pub(super) async fn abort(&self, key: &str, upload: &str) -> Result<()> {
        self.ask("DELETE", key, &[("uploadId", upload)], &Bytes::new()).await.map(drop)
    }

    /// Asks until there is an answer that another try would not change.
    async fn ask(&self, method: &str, key: &str, query: &[(&str, &str)], body: &Bytes) -> Result<Response<Incoming>> {
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            let answer = web::send(self.request(method, key, query, body)?, &self.trust).await;
            let again = match &answer {
                Ok(answer) => answer.status().is_server_error() || answer.status() == StatusCode::TOO_MANY_REQUESTS,
                Err(_) => true,
            };
            if !again || tries == TRIES {
                return self.judge(method, key, answer?).await;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            tries += 1;
        }
    }

    async fn judge(&self, method: &str, key: &str, answer: Response<Incoming>) -> Result<Response<Incoming>> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let xml = web::text(answer).await.unwrap_or_default();
        let code = xml::text(&xml, "Code").unwrap_or_else(|| status.to_string());
        let message = xml::text(&xml, "Message").unwrap_or_default();
        let at = format!("s3://{}/{key} at {}", self.options.bucket, self.options.endpoint);
        let words = format!("{method} {at}: {code} {message}").trim_end().to_owned();
        let is_absent = status == StatusCode::NOT_FOUND && (code != "NoSuchBucket" || key.is_empty());
        Err(if is_absent { Error::Absent(words) } else { Error::Failed(words) })
    }

    fn request(&self, method: &str, key: &str, query: &[(&str, &str)], body: &Bytes) -> Result<Request<Full<Bytes>>> {
        let key = encoded(key, true);
        let path = if self.in_name { format!("/{key}") } else { format!("/{}/{key}", self.options.bucket) };
        let path = if key.is_empty() && !self.in_name { format!("/{}", self.options.bucket) } else { path };
        let payload = hex(&Sha256::digest(body));
        let scheme = if self.options.is_secure { "https" } else { "http" };
        let asked = sign::query(query);
        let mark = if asked.is_empty() { "" } else { "?" };
        let mut builder = Request::builder().method(method).uri(format!("{scheme}://{}{path}{mark}{asked}", self.host));
        let signed = sign::Request { method, host: &self.host, path: &path, query, payload: &payload };
        match &self.options.credentials {
            Some(credentials) => {
                for (name, value) in sign::headers(&signed, credentials, &self.options.region, self.clock.now()) {
                    builder = builder.header(name, value);
                }
            }
            None => builder = builder.header("host", &self.host),
        }
        builder.body(Full::new(body.clone())).map_err(|error| Error::failed("the request", error))
    }
}

//! The same scripts over Consul's HTTP API: no namespaces, no certificates, and indexes in place of versions.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use super::run::{Saved, body, keep, record, save};
use super::{Normaliser, Recording, Sequence, Step, substitute};
use crate::client::HttpsClient;

/// Headers that clients act on.
const HEADERS: [&str; 15] = [
    "content-type",
    "allow",
    "location",
    "age",
    "x-cache",
    "x-consul-index",
    "x-consul-knownleader",
    "x-consul-lastcontact",
    "x-consul-effective-consistency",
    "x-consul-query-backend",
    "x-consul-default-acl-policy",
    "x-consul-reason",
    "x-consul-results-filtered-by-acls",
    "x-content-type-options",
    "content-security-policy",
];
const INDEX: &str = "x-consul-index";

/// Runs all sequences against one server, one after the other: what its lists and indexes are depends on everything that
/// happens there. `literals` are texts that differ by server and what stands for them.
pub async fn run_consul(address: &str, sequences: &[Sequence], literals: &[(String, String)]) -> Vec<Recording> {
    let client = HttpsClient::plain(address);
    let mut recordings = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let mut saved = Saved::new();
        let mut records = Vec::with_capacity(sequence.steps.len());
        let mut paths = Vec::with_capacity(sequence.steps.len());
        for step in &sequence.steps {
            let done = perform(&client, step, &mut saved).await;
            records.push(done.unwrap_or_else(|error| json!({"failure": format!("{error:#}")})));
            paths.push(step.request.split('?').next().unwrap_or_default().to_owned());
        }
        for path in &sequence.cleanup {
            let delete = Step { request: path.clone(), ..Step::default() };
            // What a sequence made may be gone already.
            let _ = exchange(&client, &delete, &saved).await;
        }
        rank_headers(&mut records, &paths);
        rank_fields(&mut records);
        recordings.push(Recording { records: Normaliser::new(literals.to_vec()).records(records) });
    }
    recordings
}

async fn perform(client: &HttpsClient, step: &Step, saved: &mut Saved) -> Result<Value> {
    let mut record = match (&step.until, &step.meanwhile) {
        (Some(until), _) => {
            let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(until.seconds);
            loop {
                let record = exchange(client, step, saved).await?;
                if record.pointer(&until.path) == until.equals.as_ref() || tokio::time::Instant::now() > deadline {
                    break record;
                }
                // What an agent tells its servers shows in no other way than by asking again.
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        (None, Some(other)) => {
            // Whether the other one comes before or after this one waits, the answer is the same.
            let (waited, sent) = tokio::join!(exchange(client, step, saved), exchange(client, other, saved));
            sent.context("the request sent meanwhile")?;
            waited?
        }
        (None, None) => exchange(client, step, saved).await?,
    };
    save(step, &record, saved);
    if step.quiet {
        return Ok(Value::Null);
    }
    keep(step, &mut record, saved)?;
    Ok(record)
}

async fn exchange(client: &HttpsClient, step: &Step, saved: &Saved) -> Result<Value> {
    let line = substitute::text(&step.request, saved)?;
    let (method, path) = line.split_once(' ').context("a request is `METHOD /path`")?;
    let mut request =
        Request::builder().method(Method::from_bytes(method.as_bytes())?).uri(path).header("host", client.address());
    for (name, value) in &step.headers {
        request = request.header(name, substitute::text(value, saved)?);
    }
    // Curl's habit, which servers have to ignore.
    request = request.header("content-type", "application/x-www-form-urlencoded");
    let (body, _): (Bytes, _) = body(step, saved)?;
    let mut found = record(&client.exchange(request.body(Full::new(body))?).await?, &HEADERS);
    // A header that comes once is easier to write about.
    if let Some(headers) = found["headers"].as_object_mut() {
        headers.values_mut().for_each(|values| *values = values[0].take());
    }
    Ok(found)
}

/// Indexes of the same path become their order: servers count differently, but only ever upwards.
fn rank_headers(records: &mut [Value], paths: &[String]) {
    let index = |record: &Value| record["headers"][INDEX].as_str().and_then(|text| text.parse::<u64>().ok());
    let mut seen: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (record, path) in records.iter().zip(paths) {
        seen.entry(path).or_default().extend(index(record));
    }
    for (record, path) in records.iter_mut().zip(paths) {
        let Some(number) = index(record) else { continue };
        let rank = seen.get(path.as_str()).map_or(0, |all| all.range(..=number).count());
        record["headers"][INDEX] = json!(if number == 0 { "zero".to_owned() } else { format!("<index-{rank}>") });
    }
}

/// The indexes of things become their order in the sequence.
fn rank_fields(records: &mut [Value]) {
    let mut seen = BTreeSet::new();
    for record in records.iter_mut() {
        visit(record, &mut |index| seen.extend([index]));
    }
    for record in records {
        rewrite(record, &seen);
    }
}

fn is_index(key: &str) -> bool {
    matches!(key, "CreateIndex" | "ModifyIndex")
}

fn visit(value: &Value, found: &mut impl FnMut(u64)) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                match field.as_u64().filter(|_| is_index(key)) {
                    Some(index) => found(index),
                    None => visit(field, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn rewrite(value: &mut Value, seen: &BTreeSet<u64>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                match field.as_u64().filter(|index| is_index(key) && *index > 0) {
                    Some(index) => *field = json!(format!("<index-{}>", seen.range(1..=index).count())),
                    None => rewrite(field, seen),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite(item, seen)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_become_their_order() {
        let index = |number: u64| json!({"headers": {INDEX: number.to_string()}, "body": [{"ModifyIndex": number}]});
        let mut records = vec![index(70), index(90), index(70), json!({"body": {"CreateIndex": 0}})];
        let paths = ["a", "a", "b", "a"].map(str::to_owned);
        rank_headers(&mut records, &paths);
        rank_fields(&mut records);
        let ranks: Vec<&Value> = records.iter().map(|record| &record["headers"][INDEX]).collect();
        assert_eq!(ranks, [&json!("<index-1>"), &json!("<index-2>"), &json!("<index-1>"), &Value::Null]);
        assert_eq!(records[1]["body"][0]["ModifyIndex"], "<index-2>");
        assert_eq!(records[3]["body"]["CreateIndex"], 0);
    }
}

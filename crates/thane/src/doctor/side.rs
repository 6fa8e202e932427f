//! One API: whether it answers, what time it is there, what it has and what it allows.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::{Value, json};
use thane_runtime::config::units::Span;
use thane_runtime::{Clock, SystemClock};

use super::{Report, State};
use crate::failure::Failure;
use crate::fleet::BLOCKLIST;
use crate::fleet::objects::Objects;
use crate::kubernetes::connection::Session;

/// Tokens and certificates allow for so much.
const SKEW_MAX: SignedDuration = SignedDuration::from_secs(60);
/// An API that takes longer to say its version is not well.
const PATIENCE: Duration = Duration::from_secs(10);
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

/// One API that answers.
pub(super) struct Side {
    pub(super) of: &'static str,
    pub(super) session: Session,
    /// How far its clock is ahead of ours, if it said.
    ahead: Option<SignedDuration>,
}

/// What a role must be allowed to do.
struct Right {
    verbs: &'static [&'static str],
    group: &'static str,
    resource: &'static str,
    /// The one object it is about, if it is about one.
    name: &'static str,
    is_everywhere: bool,
}

impl Right {
    const fn new(verbs: &'static [&'static str], group: &'static str, resource: &'static str) -> Self {
        Self { verbs, group, resource, name: "", is_everywhere: false }
    }

    const fn everywhere(mut self) -> Self {
        self.is_everywhere = true;
        self
    }

    const fn about(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }
}

const ALL: &[&str] = &["get", "list", "watch", "create", "update", "delete"];
const LOOK: &[&str] = &["get", "list", "watch"];
const HUB_RIGHTS: &[Right] = &[
    Right::new(ALL, "argoproj.io", "applications").everywhere(),
    Right::new(ALL, "argoproj.io", "appprojects"),
    Right::new(LOOK, "", "secrets"),
    Right::new(LOOK, "", "configmaps").about(BLOCKLIST),
    Right::new(&["create"], "", "configmaps"),
    Right::new(&["get", "list", "watch", "create", "patch", "delete"], "thane.dev", "agents").everywhere(),
];
const AGENT_RIGHTS: &[Right] = &[
    Right::new(ALL, "argoproj.io", "applications"),
    Right::new(ALL, "argoproj.io", "appprojects"),
    Right::new(ALL, "", "secrets"),
];

impl Side {
    /// A side that answers; none if it does not, or was not named.
    pub(super) async fn open(
        of: &'static str,
        session: Result<Option<Session>, Failure>,
        report: &mut Report,
    ) -> Option<Self> {
        let session = match session {
            Ok(Some(session)) => session,
            Ok(None) => {
                report.add(of, "api", State::Skipped, "no context was named; give --agent-context to look there too");
                return None;
            }
            Err(failure) => {
                report.failed(of, "api", &failure);
                return None;
            }
        };
        match ask_version(&session).await {
            Ok((version, ahead)) => {
                report.ok(of, "api", format!("the API answers, version {version}"));
                Some(Self { of, session, ahead })
            }
            Err(failure) => {
                report.failed(of, "api", &failure);
                None
            }
        }
    }

    pub(super) fn objects(&self) -> Objects<'_> {
        Objects::new(&self.session)
    }

    /// Namespace, kinds, rights.
    pub(super) async fn examine(&self, report: &mut Report) {
        let objects = self.objects();
        let namespace = objects.namespace();
        match objects.get(&format!("/api/v1/namespaces/{namespace}")).await {
            Ok(Some(_)) => report.ok(self.of, "namespace", format!("namespace {namespace} is there")),
            Ok(None) => report.wrong(
                self.of,
                "namespace",
                format!("namespace {namespace} is not there"),
                format!(
                    "make it with `kubectl create namespace {namespace}`, or name another with --{}namespace",
                    self.prefix()
                ),
            ),
            Err(failure) => report.failed(self.of, "namespace", &failure),
        }
        self.examine_kinds(&objects, report).await;
        self.examine_rights(&objects, report).await;
    }

    fn prefix(&self) -> &'static str {
        if self.of == "agent" { "agent-" } else { "" }
    }

    async fn examine_kinds(&self, objects: &Objects<'_>, report: &mut Report) {
        for plural in ["applications", "appprojects"] {
            match objects.get("/apis/argoproj.io/v1alpha1").await {
                Ok(group) if group.as_ref().is_some_and(|group| has(group, plural)) => {
                    report.ok(self.of, "kind", format!("{plural}.argoproj.io is served"));
                }
                Ok(_) => report.wrong(
                    self.of,
                    "kind",
                    format!("{plural}.argoproj.io is not served"),
                    "install Argo CD, or at least its custom resource definitions",
                ),
                Err(failure) => report.failed(self.of, "kind", &failure),
            }
        }
        if self.of == "hub" {
            match objects.get("/apis/thane.dev/v1alpha1").await {
                Ok(Some(group)) if has(&group, "agents") => report.ok(self.of, "kind", "agents.thane.dev is served"),
                Ok(_) => {
                    let message = "agents.thane.dev is not served: `thane agents list` does not know who is connected";
                    report.add(self.of, "kind", State::Note, message);
                }
                Err(failure) => report.failed(self.of, "kind", &failure),
            }
        }
    }

    /// Asks for the service account of the role where there is one, and for ourselves otherwise.
    async fn examine_rights(&self, objects: &Objects<'_>, report: &mut Report) {
        let (accounts, rights) = match self.of {
            "hub" => (["thane-hub", "argocd-agent-principal"], HUB_RIGHTS),
            _ => (["thane-agent", "argocd-agent-agent"], AGENT_RIGHTS),
        };
        let mut account = None;
        for name in accounts {
            if account.is_none() && matches!(objects.get(&objects.path("serviceaccounts", name)).await, Ok(Some(_))) {
                account = Some(name);
            }
        }
        let who = account.map_or("this user".to_owned(), |name| format!("service account {name}"));
        let mut missing = Vec::new();
        for right in rights {
            for verb in right.verbs {
                match may(objects, account, verb, right).await {
                    Ok(true) => {}
                    Ok(false) => missing.push(format!("{verb} {}", right.resource)),
                    Err(failure) => {
                        report.add(self.of, "rights", State::Skipped, format!("rights: {}", failure.message()));
                        return;
                    }
                }
            }
        }
        if missing.is_empty() {
            report.ok(self.of, "rights", format!("{who} may do what the {} does", self.of));
        } else {
            let next = format!("apply the roles and bindings of deploy/{}", self.of);
            report.wrong(self.of, "rights", format!("{who} may not {}", missing.join(", ")), next);
        }
    }
}

/// Whether an account, or this user, may do one thing.
async fn may(objects: &Objects<'_>, account: Option<&str>, verb: &str, right: &Right) -> Result<bool, Failure> {
    let namespace = objects.namespace();
    let place = if right.is_everywhere { "" } else { namespace };
    let (plural, kind, mut spec) = match account {
        Some(name) => (
            "subjectaccessreviews",
            "SubjectAccessReview",
            json!({
                "user": format!("system:serviceaccount:{namespace}:{name}"),
                "groups": [
                    "system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated",
                ],
            }),
        ),
        None => ("selfsubjectaccessreviews", "SelfSubjectAccessReview", json!({})),
    };
    spec["resourceAttributes"] = json!({
        "namespace": place, "verb": verb, "group": right.group, "resource": right.resource, "name": right.name,
    });
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let answer = objects.create(&format!("{REVIEWS}/{plural}"), &review).await?;
    Ok(answer["status"]["allowed"].as_bool().unwrap_or(false))
}

fn has(group: &Value, plural: &str) -> bool {
    group["resources"].as_array().is_some_and(|all| all.iter().any(|resource| resource["name"] == plural))
}

/// The server's version, and how far its clock is ahead of ours.
async fn ask_version(session: &Session) -> Result<(String, Option<SignedDuration>), Failure> {
    let answer: Value = session.request(http::Request::get("/version").body(Vec::new())).await?;
    let version = answer["gitVersion"].as_str().unwrap_or("unknown").to_owned();
    let Ok(request) = http::Request::get("/version").body(Body::empty()) else { return Ok((version, None)) };
    let clock = SystemClock::new();
    let before = clock.now();
    let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, session.client.send(request)).await else {
        return Ok((version, None));
    };
    let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
    Ok((version, date.and_then(|date| skew(date, before, clock.now()))))
}

/// How far a clock is ahead that said `date` between two moments of ours; a second is as exact as it says it.
fn skew(date: &str, before: Timestamp, after: Timestamp) -> Option<SignedDuration> {
    let at = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    let middle = before.checked_add(after.duration_since(before) / 2).ok()?;
    Some(at.duration_since(middle))
}

/// Whether the clocks agree, ours included.
pub(super) fn compare_clocks(hub: Option<&Side>, agent: Option<&Side>, report: &mut Report) {
    let told: Vec<(&'static str, SignedDuration)> =
        [hub, agent].into_iter().flatten().filter_map(|side| Some((side.of, side.ahead?))).collect();
    if told.is_empty() {
        return;
    }
    let next = "set the clocks by NTP; tokens and certificates are refused when they are more than a minute apart";
    let mut is_wrong = false;
    for (of, ahead) in &told {
        if ahead.abs() > SKEW_MAX {
            is_wrong = true;
            report.wrong(of, "clock", format!("its clock is {} of the one here", words(*ahead)), next);
        }
    }
    if let [(_, hub), (_, agent)] = told.as_slice()
        && (*agent - *hub).abs() > SKEW_MAX
    {
        is_wrong = true;
        report.wrong("pair", "clock", format!("the agent's clock is {} of the hub's", words(*agent - *hub)), next);
    }
    if !is_wrong {
        report.ok("pair", "clock", "clocks agree");
    }
}

fn words(ahead: SignedDuration) -> String {
    let rounded = Span(Duration::from_secs(ahead.unsigned_abs().as_secs()));
    if ahead.is_negative() { format!("{rounded} behind") } else { format!("{rounded} ahead") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_with_the_middle_of_the_wait() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (before, after) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:04Z"));
        for (date, expected) in [
            ("Thu, 01 Jan 2026 00:00:02 GMT", 0),
            ("Thu, 01 Jan 2026 01:00:02 GMT", 3600),
            ("Wed, 31 Dec 2025 23:58:02 GMT", -120),
        ] {
            assert_eq!(skew(date, before, after), Some(SignedDuration::from_secs(expected)), "{date}");
        }
        assert_eq!(skew("now", before, after), None);
        assert_eq!(words(SignedDuration::from_secs(-90)), "1m30s behind");
    }
}

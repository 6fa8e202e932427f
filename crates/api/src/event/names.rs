//! What targets and types are called on the wire.

use std::borrow::Cow;

use super::{Target, Type};

/// What every type of theirs begins with.
const PREFIX: &str = "io.argoproj.argocd-agent.event.";
/// What every type of ours begins with.
const OURS: &str = "dev.thane.event.";

/// HTTP verbs that stand for themselves as a type.
const VERBS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

const TARGETS: [(&str, Target); 13] = [
    ("application", Target::Application),
    ("appproject", Target::AppProject),
    ("applicationset", Target::ApplicationSet),
    ("repository", Target::Repository),
    ("gpgkey", Target::GpgKey),
    ("resource", Target::Resource),
    ("resourceResync", Target::ResourceResync),
    ("redis", Target::Redis),
    ("clusterCacheInfoUpdate", Target::ClusterCacheInfo),
    ("containerlog", Target::ContainerLog),
    ("terminal", Target::Terminal),
    ("heartbeat", Target::Heartbeat),
    ("eventProcessed", Target::Processed),
];

const TYPES: [(&str, Type); 19] = [
    ("create", Type::Create),
    ("spec-update", Type::SpecUpdate),
    ("status-update", Type::StatusUpdate),
    ("delete", Type::Delete),
    ("set-operation", Type::SetOperation),
    ("terminate-operation", Type::TerminateOperation),
    ("error", Type::Error),
    ("processed", Type::Processed),
    ("response", Type::Response),
    ("terminal-request", Type::TerminalRequest),
    ("redis-request", Type::RedisRequest),
    ("redis-response", Type::RedisResponse),
    ("request-synced-resource-list", Type::RequestSyncedResourceList),
    ("response-synced-resource", Type::ResponseSyncedResource),
    ("request-update", Type::RequestUpdate),
    ("request-resource-resync", Type::RequestResourceResync),
    ("cluster-cache-info-update", Type::ClusterCacheInfoUpdate),
    ("ping", Type::Ping),
    ("pong", Type::Pong),
];

const OUR_TYPES: [(&str, Type); 3] =
    [("digest", Type::Digest), ("digest-items", Type::DigestItems), ("troubles", Type::Troubles)];

impl Target {
    /// The names of all that are known.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TARGETS.iter().map(|(name, _)| *name)
    }

    /// Its name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => TARGETS.iter().find(|(_, target)| target == known).map_or("", |(name, _)| name),
        }
    }

    /// The target of that name.
    pub fn of_name(name: &str) -> Self {
        let known = TARGETS.iter().find(|(known, _)| *known == name);
        known.map_or_else(|| Self::Other(name.to_owned()), |(_, target)| target.clone())
    }
}

impl Type {
    /// The names of all that are known, verbs included.
    pub fn names() -> impl Iterator<Item = String> {
        let theirs = TYPES.iter().map(|(name, _)| format!("{PREFIX}{name}"));
        let ours = OUR_TYPES.iter().map(|(name, _)| format!("{OURS}{name}"));
        theirs.chain(ours).chain(VERBS.iter().map(|verb| (*verb).to_owned()))
    }

    /// Its name on the wire.
    pub fn as_str(&self) -> Cow<'_, str> {
        let named = |prefix: &str, table: &[(&str, Self)]| {
            table.iter().find(|(_, kind)| kind == self).map(|(name, _)| Cow::Owned(format!("{prefix}{name}")))
        };
        match self {
            Self::Verb(name) | Self::Other(name) => Cow::Borrowed(name),
            _ => named(PREFIX, &TYPES).or_else(|| named(OURS, &OUR_TYPES)).unwrap_or_default(),
        }
    }

    /// The type of that name.
    pub fn of_name(name: &str) -> Self {
        let find = |prefix: &str, table: &[(&str, Self)]| {
            let suffix = name.strip_prefix(prefix)?;
            table.iter().find(|(known, _)| *known == suffix).map(|(_, kind)| kind.clone())
        };
        let known = find(PREFIX, &TYPES).or_else(|| find(OURS, &OUR_TYPES));
        known.unwrap_or_else(|| {
            if VERBS.contains(&name) { Self::Verb(name.to_owned()) } else { Self::Other(name.to_owned()) }
        })
    }

    /// A word for logs and metrics; whatever we do not know shares one.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Verb(_) => "request",
            Self::Other(_) => "other",
            _ => TYPES.iter().chain(&OUR_TYPES).find(|(_, kind)| kind == self).map_or("other", |(name, _)| name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_itself() {
        for (name, target) in &TARGETS {
            assert_eq!((target.as_str(), &Target::of_name(name)), (*name, target));
        }
        for (prefix, table) in [(PREFIX, &TYPES[..]), (OURS, &OUR_TYPES[..])] {
            for (name, kind) in table {
                let full = format!("{prefix}{name}");
                assert_eq!((&*kind.as_str(), &Type::of_name(&full), kind.label()), (&*full, kind, *name));
            }
        }
    }

    #[test]
    fn names_are_exact() {
        let cases = [
            ("io.argoproj.argocd-agent.event.create", Type::Create),
            ("dev.thane.event.digest-items", Type::DigestItems),
            ("GET", Type::Verb("GET".into())),
            ("get", Type::Other("get".into())),
            ("io.argoproj.argocd-agent.event.get", Type::Other("io.argoproj.argocd-agent.event.get".into())),
            ("io.argoproj.argocd-agent.event.digest", Type::Other("io.argoproj.argocd-agent.event.digest".into())),
            ("create", Type::Other("create".into())),
            ("io.argoproj.argocd-agent.event.CREATE", Type::Other("io.argoproj.argocd-agent.event.CREATE".into())),
        ];
        for (name, kind) in cases {
            assert_eq!((Type::of_name(name), &*kind.as_str()), (kind.clone(), name));
        }
        for name in ["Application", "resourceresync", "unknown", ""] {
            assert_eq!(Target::of_name(name), Target::Other(name.to_owned()));
            assert_eq!(Target::of_name(name).as_str(), name);
        }
    }
}

//! Who may ask, and how much: keys with owners, and anybody on this machine where none are asked for.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use thane_runtime::admin::is_local_caller;

use super::failure::{Failure, Kind, Result};

/// Another header a key may be in.
const API_KEY: &str = "x-api-key";
/// Requests in a second that a key has unless it says otherwise, and how many at once.
const RATE: f64 = 100.0;
const BURST: f64 = 200.0;

/// Who is let in.
#[derive(Clone)]
pub enum Access {
    /// Anybody on this machine, but no web page.
    Local,
    /// Who has a key.
    Keys(Keys),
}

/// Keys as they are written down, in JSON: in a file, or in a Secret.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyList {
    /// The keys.
    pub keys: Vec<Key>,
}

/// A key. Of the key itself only its digest is kept.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Key {
    /// Who owns it, and the sessions made with it; a label's value. Several keys may have one owner.
    pub name: String,
    /// The SHA-256 of the key in hexadecimal digits.
    pub sha256: String,
    /// What it may do.
    #[serde(default)]
    pub role: Role,
    /// Namespaces it may use; none: all.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Sessions its owner may have at once.
    #[serde(default)]
    pub sessions_max: Option<usize>,
    /// Requests in a second.
    #[serde(default)]
    pub requests_per_second: Option<f64>,
    /// Requests at once.
    #[serde(default)]
    pub burst: Option<f64>,
}

/// What a key may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Have sessions, and see its own.
    #[default]
    User,
    /// See and change everything.
    Admin,
}

/// Why a list of keys is of no use.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KeyError {
    /// It is not the JSON it should be.
    #[error("keys: {0}")]
    Unreadable(String),
    /// A key is wrong.
    #[error("key {name:?}: {reason}")]
    Wrong {
        /// Which.
        name: String,
        /// Why.
        reason: &'static str,
    },
}

/// Keys in force; clones follow the same changes.
#[derive(Clone, Default)]
pub struct Keys {
    current: Arc<RwLock<Arc<Holders>>>,
}

/// Who holds keys, by the keys' digests.
type Holders = HashMap<[u8; 32], Arc<Holder>>;

struct Holder {
    key: Key,
    tokens: Mutex<Bucket>,
}

impl Keys {
    /// Reads keys from JSON.
    pub fn parse(text: &[u8]) -> Result<Self, KeyError> {
        let keys = Self::default();
        keys.replace(text)?;
        Ok(keys)
    }

    /// Takes other keys into use; on an error the old ones stay.
    pub fn replace(&self, text: &[u8]) -> Result<(), KeyError> {
        let list: KeyList = serde_json::from_slice(text).map_err(|error| KeyError::Unreadable(error.to_string()))?;
        let mut holders = HashMap::new();
        for key in list.keys {
            let wrong = |reason| KeyError::Wrong { name: key.name.clone(), reason };
            let digest = digest(&key.sha256).ok_or_else(|| wrong("its sha256 is not 64 hexadecimal digits"))?;
            if !is_label_value(&key.name) {
                return Err(wrong("its name cannot be a label's value"));
            }
            let rates = [key.requests_per_second, key.burst];
            if rates.iter().flatten().any(|rate| !rate.is_finite() || *rate <= 0.0) {
                return Err(wrong("its rate and burst must be above zero"));
            }
            let tokens = Mutex::new(Bucket::new(key.requests_per_second.unwrap_or(RATE), key.burst.unwrap_or(BURST)));
            if holders.insert(digest, Arc::new(Holder { key: key.clone(), tokens })).is_some() {
                return Err(wrong("the same key is there twice"));
            }
        }
        *self.current.write() = Arc::new(holders);
        Ok(())
    }

    fn find(&self, secret: &str) -> Option<Arc<Holder>> {
        let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        self.current.read().get(&digest).cloned()
    }
}

/// Whoever asks.
#[derive(Clone)]
pub(super) struct Caller {
    holder: Option<Arc<Holder>>,
}

impl Caller {
    /// Whose the sessions are that they make; nobody's where no keys are asked for.
    pub(super) fn owner(&self) -> Option<&str> {
        self.holder.as_ref().map(|holder| holder.key.name.as_str())
    }

    pub(super) fn is_admin(&self) -> bool {
        self.holder.as_ref().is_none_or(|holder| holder.key.role == Role::Admin)
    }

    /// Whether they may know of what has that owner.
    pub(super) fn sees(&self, owner: Option<&str>) -> bool {
        self.is_admin() || self.owner() == owner
    }

    /// Whether they may know of what is in that namespace and has that owner.
    pub(super) fn may(&self, namespace: &str, owner: Option<&str>) -> bool {
        self.sees(owner) && self.in_namespace(namespace).is_ok()
    }

    /// Sessions they may have at once.
    pub(super) fn sessions_max(&self) -> Option<usize> {
        self.holder.as_ref().and_then(|holder| holder.key.sessions_max)
    }

    /// Refuses what only administrators may do.
    pub(super) fn as_admin(&self) -> Result<()> {
        let message = "this is for keys of role admin";
        if self.is_admin() { Ok(()) } else { Err(Failure::new(StatusCode::FORBIDDEN, Kind::User, message)) }
    }

    /// Refuses namespaces that are not theirs.
    pub(super) fn in_namespace(&self, namespace: &str) -> Result<()> {
        let allowed = self.holder.as_ref().map(|holder| holder.key.namespaces.as_slice()).unwrap_or_default();
        if allowed.is_empty() || allowed.iter().any(|one| one == namespace) {
            return Ok(());
        }
        let message = format!("the key is not for namespace {namespace:?}");
        Err(Failure::new(StatusCode::FORBIDDEN, Kind::User, message))
    }
}

impl Access {
    /// Who asks, if they may.
    pub(super) fn admit(&self, headers: &HeaderMap, peer: IpAddr, now: Duration) -> Result<Caller> {
        let keys = match self {
            Self::Keys(keys) => keys,
            Self::Local if is_local_caller(headers, peer) => return Ok(Caller { holder: None }),
            Self::Local => {
                let message = "requests from web pages and other machines are not answered here";
                return Err(Failure::new(StatusCode::FORBIDDEN, Kind::User, message));
            }
        };
        let unknown = |message| Failure::new(StatusCode::UNAUTHORIZED, Kind::User, message);
        let secret = secret(headers).ok_or_else(|| unknown("a key is needed: Authorization: Bearer KEY"))?;
        let holder = keys.find(secret).ok_or_else(|| unknown("the key is not known"))?;
        if let Err(wait) = holder.tokens.lock().take(now) {
            let message = format!("key {:?} asks more often than it may", holder.key.name);
            return Err(Failure::crowded(message, wait.as_secs().max(1)));
        }
        Ok(Caller { holder: Some(holder) })
    }
}

fn secret(headers: &HeaderMap) -> Option<&str> {
    if let Some(key) = headers.get(API_KEY) {
        return key.to_str().ok();
    }
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

fn digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(digest)
}

/// Whether Kubernetes takes it as the value of a label.
pub(super) fn is_label_value(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().last()];
    (1..=63).contains(&text.len()) && text.bytes().all(inner) && ends.iter().flatten().all(u8::is_ascii_alphanumeric)
}

/// Tokens that come back with time.
#[derive(Debug)]
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    seen: Duration,
}

impl Bucket {
    fn new(rate: f64, burst: f64) -> Self {
        let burst = burst.max(1.0);
        Self { rate, burst, tokens: burst, seen: Duration::ZERO }
    }

    /// Takes one, or says how long to wait for it.
    fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let passed = now.saturating_sub(self.seen).as_secs_f64();
        self.seen = self.seen.max(now);
        self.tokens = (self.tokens + passed * self.rate).min(self.burst);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::try_from_secs_f64((1.0 - self.tokens) / self.rate).unwrap_or(Duration::MAX))
    }
}

/// Sessions that owners are being given right now, so that many at once are not all below the limit.
#[derive(Default)]
pub(super) struct Pending {
    owners: Mutex<BTreeMap<String, usize>>,
}

impl Pending {
    /// Counts some more for an owner, unless that is above the limit together with those there are.
    pub(super) fn begin(self: &Arc<Self>, caller: &Caller, count: usize, existing: usize) -> Result<Beginning> {
        let Some(owner) = caller.owner() else {
            return Ok(Beginning { pending: Arc::clone(self), owner: None, count });
        };
        let mut owners = self.owners.lock();
        let under_way = owners.get(owner).copied().unwrap_or_default();
        if let Some(max) = caller.sessions_max()
            && existing + under_way + count > max
        {
            return Err(Failure::crowded(format!("{owner:?} has {existing} sessions and may have {max}"), 5));
        }
        owners.insert(owner.to_owned(), under_way + count);
        Ok(Beginning { pending: Arc::clone(self), owner: Some(owner.to_owned()), count })
    }
}

/// Sessions that are counted as long as this lives.
pub(super) struct Beginning {
    pending: Arc<Pending>,
    owner: Option<String>,
    count: usize,
}

impl Drop for Beginning {
    fn drop(&mut self) {
        let Some(owner) = &self.owner else { return };
        let mut owners = self.pending.owners.lock();
        let left = owners.get(owner).copied().unwrap_or_default().saturating_sub(self.count);
        if left == 0 {
            owners.remove(owner);
        } else {
            owners.insert(owner.clone(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(secret: &str) -> String {
        super::super::text::hex(&Sha256::digest(secret.as_bytes()))
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn keys() -> Keys {
        let text = serde_json::json!({"keys": [
            {"name": "ann", "sha256": hashed("a"), "sessionsMax": 2, "requestsPerSecond": 1.0, "burst": 2.0},
            {"name": "root", "sha256": hashed("r"), "role": "admin", "namespaces": ["one"]},
        ]});
        Keys::parse(text.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn keys_let_in_and_are_held_to_their_rate() {
        let (access, peer) = (Access::Keys(keys()), IpAddr::from([192, 0, 2, 1]));
        let status = |pairs: &[(&'static str, &'static str)], now: u64| {
            let admitted = access.admit(&headers(pairs), peer, Duration::from_secs(now));
            admitted.map_or_else(|failure| failure.status.as_u16(), |_| 200)
        };
        assert_eq!(status(&[], 0), 401);
        assert_eq!(status(&[("authorization", "Basic a")], 0), 401);
        assert_eq!(status(&[("authorization", "Bearer wrong")], 0), 401);
        let ann = [("authorization", "Bearer a")];
        assert_eq!([status(&ann, 0), status(&ann, 0), status(&ann, 0), status(&ann, 1)], [200, 200, 429, 200]);
        assert_eq!(status(&[("x-api-key", "r")], 0), 200);
    }

    #[test]
    fn owners_see_their_own_and_administrators_everything() {
        let (access, peer) = (Access::Keys(keys()), IpAddr::from([192, 0, 2, 1]));
        let caller = |secret| access.admit(&headers(&[("x-api-key", secret)]), peer, Duration::ZERO).unwrap();
        let (ann, root) = (caller("a"), caller("r"));
        assert!(ann.sees(Some("ann")) && !ann.sees(Some("bob")) && !ann.sees(None) && ann.as_admin().is_err());
        assert!(root.sees(Some("ann")) && root.sees(None) && root.as_admin().is_ok());
        assert!(ann.in_namespace("two").is_ok() && root.in_namespace("two").is_err());
        assert!(ann.may("two", Some("ann")) && !ann.may("two", None) && !root.may("two", Some("ann")));
        let pending = Arc::new(Pending::default());
        let first = pending.begin(&ann, 1, 0).unwrap();
        assert!(pending.begin(&ann, 1, 1).is_err());
        drop(first);
        let _second = pending.begin(&ann, 1, 1).unwrap();
        assert!(pending.begin(&root, 100, 100).is_ok());
    }

    #[test]
    fn without_keys_only_this_machine_is_answered_and_no_web_page() {
        let here = IpAddr::from([127, 0, 0, 1]);
        for (pairs, peer, expected) in [
            (&[("host", "localhost:8080")][..], here, true),
            (&[("host", "127.0.0.1:8080")], here, true),
            (&[("host", "evil.example")], here, false),
            (&[("host", "localhost"), ("origin", "http://evil.example")], here, false),
            (&[("host", "localhost")], IpAddr::from([192, 0, 2, 1]), false),
        ] {
            let admitted = Access::Local.admit(&headers(pairs), peer, Duration::ZERO);
            assert_eq!(admitted.is_ok(), expected, "{pairs:?}");
        }
    }

    #[test]
    fn wrong_lists_are_refused_and_the_old_keys_stay() {
        let keys = keys();
        for text in [
            "",
            "{}",
            r#"{"keys": [{"name": "a", "sha256": "12"}]}"#,
            &format!(r#"{{"keys": [{{"name": "a b", "sha256": "{}"}}]}}"#, hashed("x")),
            &format!(r#"{{"keys": [{{"name": "a", "sha256": "{}", "requestsPerSecond": 0}}]}}"#, hashed("x")),
            &format!(
                r#"{{"keys": [{{"name": "a", "sha256": "{0}"}}, {{"name": "b", "sha256": "{0}"}}]}}"#,
                hashed("x")
            ),
        ] {
            assert!(keys.replace(text.as_bytes()).is_err(), "{text}");
        }
        assert!(keys.find("a").is_some());
        keys.replace(br#"{"keys": []}"#).unwrap();
        assert!(keys.find("a").is_none());
    }
}

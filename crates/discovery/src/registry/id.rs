//! What names a stored thing, in memory and on disk.

use std::fmt::Write as _;

use super::tombs::TombKey;

/// Names a stored thing. Names of nodes and services are in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// A node by name.
    Node(String),
    /// A service by node and id.
    Service(String, String),
    /// A check by node and id.
    Check(String, String),
    /// A service's name and its tags.
    Name(String),
    /// A key.
    Key(String),
    /// A session by id.
    Session(String),
    /// How long a key cannot be locked.
    Delay(String),
    /// An event by number.
    Event(u64),
    /// A token by accessor.
    Token(String),
    /// A rule set by id.
    RuleSet(String),
    /// Where a row was.
    Tomb(TombKey),
    /// An agent by the name in its certificate.
    Agent(String),
}

impl Id {
    /// The key it is stored under.
    pub fn to_key(&self) -> String {
        match self {
            Self::Node(node) => format!("n/{node}"),
            Self::Service(node, id) => format!("s/{}/{id}", escape(node)),
            Self::Check(node, id) => format!("c/{}/{id}", escape(node)),
            Self::Name(name) => format!("v/{name}"),
            Self::Key(key) => format!("k/{key}"),
            Self::Session(id) => format!("x/{id}"),
            Self::Delay(key) => format!("l/{key}"),
            Self::Event(number) => format!("e/{number:020}"),
            Self::Token(accessor) => format!("o/{accessor}"),
            Self::RuleSet(id) => format!("r/{id}"),
            Self::Tomb(tomb) => {
                // The first part, which may be long, comes last: there it need not be escaped.
                format!("t/{}/{}/{}/{}", tomb.kind, escape(&tomb.scope), escape(&tomb.second), tomb.first)
            }
            Self::Agent(name) => format!("a/{name}"),
        }
    }

    /// What is stored under a key; `None`: nothing of ours.
    pub fn from_key(key: &str) -> Option<Self> {
        let (kind, rest) = key.split_once('/')?;
        let own = || rest.to_owned();
        let pair = || {
            let (node, id) = rest.split_once('/')?;
            Some((unescape(node)?, id.to_owned()))
        };
        Some(match kind {
            "n" => Self::Node(own()),
            "s" => pair().map(|(node, id)| Self::Service(node, id))?,
            "c" => pair().map(|(node, id)| Self::Check(node, id))?,
            "v" => Self::Name(own()),
            "k" => Self::Key(own()),
            "x" => Self::Session(own()),
            "l" => Self::Delay(own()),
            "e" => Self::Event(rest.parse().ok()?),
            "o" => Self::Token(own()),
            "r" => Self::RuleSet(own()),
            "t" => {
                let mut parts = rest.splitn(4, '/');
                Self::Tomb(TombKey {
                    kind: parts.next()?.parse().ok()?,
                    scope: unescape(parts.next()?)?,
                    second: unescape(parts.next()?)?,
                    first: parts.next()?.to_owned(),
                })
            }
            "a" => Self::Agent(own()),
            _ => return None,
        })
    }

    /// The beginning all ids of services on a node have: where to start looking for them.
    pub(super) fn services_of(node: &str) -> Self {
        Self::Service(node.to_owned(), String::new())
    }

    /// The same for its checks.
    pub(super) fn checks_of(node: &str) -> Self {
        Self::Check(node.to_owned(), String::new())
    }

    /// The node it is on, if it is a service or a check.
    pub(super) fn node(&self) -> Option<&str> {
        match self {
            Self::Service(node, _) | Self::Check(node, _) => Some(node),
            _ => None,
        }
    }

    /// What a service or a check would be called in lower case, and what it is called; `None`: that is the same.
    pub(super) fn folded(&self) -> Option<(Self, &str)> {
        let lower = |id: &str| Some(id.to_lowercase()).filter(|lower| lower != id);
        match self {
            Self::Service(node, id) => Some((Self::Service(node.clone(), lower(id)?), id)),
            Self::Check(node, id) => Some((Self::Check(node.clone(), lower(id)?), id)),
            _ => None,
        }
    }

    /// The same thing of the same node, spelled otherwise.
    pub(super) fn spelled(&self, id: &str) -> Self {
        match self {
            Self::Service(node, _) => Self::Service(node.clone(), id.to_owned()),
            Self::Check(node, _) => Self::Check(node.clone(), id.to_owned()),
            other => other.clone(),
        }
    }

    /// Whether readers can see it, so that a change of it is a point in history.
    pub(super) fn is_visible(&self) -> bool {
        !matches!(self, Self::Delay(_) | Self::Agent(_) | Self::Tomb(_))
    }
}

/// So that a part of a key has no slash in it.
fn escape(part: &str) -> String {
    let mut escaped = String::with_capacity(part.len());
    for character in part.chars() {
        match character {
            '/' | '%' => {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "%{:02x}", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

fn unescape(part: &str) -> Option<String> {
    let mut plain = String::with_capacity(part.len());
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('%') {
        plain.push_str(before);
        plain.push(match after.get(..2)? {
            "2f" => '/',
            "25" => '%',
            _ => return None,
        });
        rest = &after[2..];
    }
    plain.push_str(rest);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_back_to_what_they_name() {
        let own = |text: &str| text.to_owned();
        for id in [
            Id::Node(own("n/1%")),
            Id::Service(own("a/b%2f"), own("web/1")),
            Id::Check(own(""), own("service:web")),
            Id::Name(own("web")),
            Id::Key(own("a//b/%")),
            Id::Session(own("s")),
            Id::Delay(own("a/b")),
            Id::Event(7),
            Id::Token(own("anonymous")),
            Id::RuleSet(own("r")),
            Id::Tomb(TombKey { kind: 2, scope: own("we/b"), first: own("n/%1"), second: own("i/d") }),
            Id::Agent(own("agent/1")),
        ] {
            assert_eq!(Id::from_key(&id.to_key()).as_ref(), Some(&id), "{}", id.to_key());
        }
        for key in ["", "n", "z/1", "s/node", "s/%zz/1", "s/%2/1", "e/x", "t/1/a/b", "t/x/a/b/c", "s/%é/1"] {
            assert_eq!(Id::from_key(key), None, "{key}");
        }
    }
}

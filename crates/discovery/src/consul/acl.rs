//! What `/v1/acl/*` reads and writes: tokens, and policies, which are rule sets here.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::headers::Detail;
use super::options::ReadOptions;
use crate::access::{ANONYMOUS, builtin};
use crate::backend::Reading;
use crate::model::{Indexed, Policy, Resource, RuleSet, Token};
use crate::topic::{Row, Topic, TopicData};

/// How a secret is shown that nobody here knows.
pub(super) const HIDDEN: &str = "<hidden>";

/// All tokens and rule sets.
pub(super) struct Known {
    pub(super) reading: Reading,
    now: Timestamp,
}

impl Known {
    fn data(&self) -> &TopicData {
        &self.reading.data
    }

    /// Whether there is no token.
    pub(super) fn is_open(&self) -> bool {
        !self.data().rows.iter().any(|row| matches!(row, Row::Token(_)))
    }

    /// Tokens by accessor, without those whose time is over; the one that stands for having none is always among them.
    pub(super) fn tokens(&self) -> Vec<Indexed<Token>> {
        let stored = self.data().rows.iter().filter_map(|row| match row {
            Row::Token(token) if !token.value.is_expired(self.now) => Some(token.clone()),
            _ => None,
        });
        let mut tokens: Vec<_> = stored.collect();
        if !tokens.iter().any(|token| token.value.accessor == ANONYMOUS) {
            tokens.insert(0, anonymous());
            tokens.sort_by(|a, b| a.value.accessor.cmp(&b.value.accessor));
        }
        tokens
    }

    pub(super) fn token(&self, accessor: &str) -> Option<Indexed<Token>> {
        self.tokens().into_iter().find(|token| token.value.accessor == accessor)
    }

    /// Rule sets by name, those that are always there among them.
    pub(super) fn rule_sets(&self) -> Vec<Indexed<RuleSet>> {
        let stored = self.data().rows.iter().filter_map(|row| match row {
            Row::RuleSet(set) => Some(set.clone()),
            _ => None,
        });
        let built_in = builtin::rule_sets().iter().map(|set| first(set.clone()));
        let mut sets: Vec<_> = stored.chain(built_in).collect();
        sets.sort_by(|a, b| a.value.name.cmp(&b.value.name));
        sets
    }

    pub(super) fn rule_set(&self, fits: impl Fn(&RuleSet) -> bool) -> Option<Indexed<RuleSet>> {
        self.rule_sets().into_iter().find(|set| fits(&set.value))
    }
}

/// Something that was there from the beginning.
fn first<T>(value: T) -> Indexed<T> {
    Indexed { create_index: 1, modify_index: 1, value: Arc::new(value) }
}

fn anonymous() -> Indexed<Token> {
    let description = "Anonymous Token".to_owned();
    first(Token { accessor: ANONYMOUS.to_owned(), description, ..Token::default() })
}

/// A number made of something, as Consul shows one.
pub(super) fn hash(thing: &impl serde::Serialize) -> String {
    STANDARD.encode(Sha256::digest(serde_json::to_vec(thing).unwrap_or_default()))
}

/// Whether a text can be looked for.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::parse_str(text).is_ok()
}

impl Call<'_> {
    pub(super) fn may_acl(&self, wanted: Policy) -> Result<(), Failure> {
        Ok(self.access.require(Resource::Acl, "", wanted)?)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.consul.backend.now()
    }

    pub(super) async fn known(&self, options: &ReadOptions) -> Result<Known, Failure> {
        let reading = self.topic(&Topic::Tokens, options).await?;
        Ok(Known { reading, now: self.now() })
    }

    pub(super) fn acl_json<T: serde::Serialize + ?Sized>(
        &self,
        value: &T,
        known: &Known,
        options: &ReadOptions,
    ) -> Outcome {
        self.read_json(value, &known.reading, options, Detail::Plain)
    }

    /// Roles and ways to log in: there are none here.
    pub(super) async fn acl_none(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        self.may_acl(Policy::Read)?;
        let known = self.known(&options).await?;
        self.acl_json::<[(); 0]>(&[], &known, &options)
    }
}

//! Tokens and the rules they share.

use super::{NAME_BYTES_MAX, check_size};
use crate::access::{ANONYMOUS, Tokens, builtin};
use crate::command::Refusal;
use crate::model::{Indexed, Policy, Resource, RuleSet, Token};
use crate::registry::draft::Draft;
use crate::registry::id::Id;

/// Tokens there may be.
const TOKENS_MAX: usize = 100_000;
/// Rule sets there may be.
const RULE_SETS_MAX: usize = 10_000;

impl Draft<'_> {
    pub(super) fn bootstrap(&mut self, token: &Token) -> Result<Indexed<Token>, Refusal> {
        if let Some(first) = self.tokens().iter().map(|token| token.create_index).min() {
            let text = format!("ACL bootstrap no longer allowed (reset index: {first})");
            return Err(Refusal::Forbidden(text));
        }
        self.put_token(token)
    }

    pub(super) fn put_token(&mut self, token: &Token) -> Result<Indexed<Token>, Refusal> {
        if token.accessor.is_empty() || token.accessor.len() > NAME_BYTES_MAX {
            return Err(Refusal::Invalid("a token needs an accessor".to_owned()));
        }
        let digest = &token.secret_digest;
        // What applies without a token has no secret.
        let anonymous = token.accessor == ANONYMOUS && digest.is_empty();
        let digested = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !(anonymous || digested) {
            return Err(Refusal::Invalid("a token needs the SHA-256 of its secret".to_owned()));
        }
        let tokens = self.tokens();
        let same = |other: &Token| other.accessor != token.accessor && other.secret_digest == *digest;
        if !anonymous && tokens.iter().any(|other| same(&other.value)) {
            return Err(Refusal::Failed("Invalid Token: SecretID is already in use".to_owned()));
        }
        if let Some(id) = token.rule_sets.iter().find(|id| !self.has_rule_set(id)) {
            return Err(Refusal::Failed(format!("No such ACL policy with ID {id:?}")));
        }
        let id = Id::Token(token.accessor.clone());
        let known = self.find::<Token>(&id);
        if known.is_none() && tokens.len() >= TOKENS_MAX {
            return Err(Refusal::Failed(format!("there are {TOKENS_MAX} tokens, as many as there may be")));
        }
        check_size("the token", token)?;
        let now = self.asker.now;
        if known.is_none() && token.is_expired(now) {
            return Err(Refusal::Failed("ExpirationTime cannot be before CreateTime".to_owned()));
        }
        // How long it lasts is said once.
        let (created, expires) =
            known.map_or((Some(now), token.expires), |known| (known.value.created, known.value.expires));
        let put = self.put(id, Token { created, expires, ..token.clone() });
        self.somebody_rules()?;
        Ok(put)
    }

    pub(super) fn delete_token(&mut self, accessor: &str) -> Result<(), Refusal> {
        let id = Id::Token(accessor.to_owned());
        if self.find::<Token>(&id).is_none() {
            return Ok(());
        }
        self.remove(id);
        self.somebody_rules()
    }

    pub(super) fn put_rule_set(&mut self, set: &RuleSet) -> Result<Indexed<RuleSet>, Refusal> {
        if set.id.is_empty() || set.id.len() > NAME_BYTES_MAX || builtin::rule_set(&set.id).is_some() {
            return Err(Refusal::Invalid("a rule set needs an id of its own".to_owned()));
        }
        let sets = self.rule_sets();
        let same = |other: &RuleSet| other.id != set.id && other.name == set.name;
        let taken = builtin::rule_sets().iter().any(|built_in| built_in.name == set.name);
        if taken || sets.iter().any(|other| same(&other.value)) {
            let text = format!("Invalid Policy: A Policy with Name {:?} already exists", set.name);
            return Err(Refusal::Failed(text));
        }
        let id = Id::RuleSet(set.id.clone());
        if self.find::<RuleSet>(&id).is_none() && sets.len() >= RULE_SETS_MAX {
            return Err(Refusal::Failed(format!("there are {RULE_SETS_MAX} policies, as many as there may be")));
        }
        check_size("the policy", set)?;
        let put = self.put(id, set.clone());
        self.somebody_rules()?;
        Ok(put)
    }

    pub(super) fn delete_rule_set(&mut self, id: &str) -> Result<(), Refusal> {
        self.remove(Id::RuleSet(id.to_owned()));
        self.somebody_rules()
    }

    fn tokens(&self) -> Vec<Indexed<Token>> {
        let all = self.range(&Id::Token(String::new()), |id| matches!(id, Id::Token(_)));
        all.into_iter().map(|(_, token)| token).collect()
    }

    fn rule_sets(&self) -> Vec<Indexed<RuleSet>> {
        let all = self.range(&Id::RuleSet(String::new()), |id| matches!(id, Id::RuleSet(_)));
        all.into_iter().map(|(_, set)| set).collect()
    }

    fn has_rule_set(&self, id: &str) -> bool {
        builtin::rule_set(id).is_some() || self.find::<RuleSet>(&Id::RuleSet(id.to_owned())).is_some()
    }

    /// Refuses what would leave nobody who may make or change tokens, or would open what was closed.
    fn somebody_rules(&self) -> Result<(), Refusal> {
        let is_closed = self.tables.range::<Token>(Id::Token(String::new()), |id| matches!(id, Id::Token(_))).next();
        let tokens = self.tokens();
        if tokens.is_empty() && is_closed.is_none() {
            return Ok(());
        }
        let lasting = tokens.into_iter().map(|token| token.value).filter(|token| token.expires.is_none());
        let all = Tokens::of(lasting, self.rule_sets().iter().map(|set| &*set.value));
        if all.any_allows(Resource::Acl, Policy::Write) {
            return Ok(());
        }
        Err(Refusal::Failed(
            "one token that does not expire has to have acl = \"write\", or nobody could make or change tokens"
                .to_owned(),
        ))
    }
}

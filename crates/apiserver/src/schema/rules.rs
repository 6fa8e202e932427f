//! What must hold of a value beyond its type.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use regex::Regex;

use super::cel::Rule;
use super::node::Schema;

/// Compiled patterns larger than this are refused: a client's CRD must not cost the server its memory.
const PATTERN_SIZE_MAX: usize = 4 << 20;

/// The validation keywords of a node.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a keyword of the schema language")]
pub(crate) struct Rules {
    /// Least value.
    pub minimum: Option<f64>,
    /// Greatest value.
    pub maximum: Option<f64>,
    /// The least value itself is not allowed.
    pub exclusive_minimum: bool,
    /// The greatest value itself is not allowed.
    pub exclusive_maximum: bool,
    /// The value divided by this is whole.
    pub multiple_of: Option<f64>,
    /// Least number of characters.
    pub min_length: Option<i64>,
    /// Greatest number of characters.
    pub max_length: Option<i64>,
    /// What a string must match.
    pub pattern: Option<Pattern>,
    /// Least number of items.
    pub min_items: Option<i64>,
    /// Greatest number of items.
    pub max_items: Option<i64>,
    /// No two items are equal.
    pub unique_items: bool,
    /// Least number of entries.
    pub min_properties: Option<i64>,
    /// Greatest number of entries.
    pub max_properties: Option<i64>,
    /// `additionalProperties: false`.
    pub closed: bool,
    /// Every one of these holds.
    pub all_of: Vec<Arc<Schema>>,
    /// At least one of these holds.
    pub any_of: Vec<Arc<Schema>>,
    /// Exactly one of these holds.
    pub one_of: Vec<Arc<Schema>>,
    /// This does not hold.
    pub not: Option<Arc<Schema>>,
    /// What the definition itself says of `apiVersion`, `kind` and `metadata` of a whole object.
    pub declared: BTreeMap<String, Arc<Schema>>,
    /// The Go type behind a node of a built-in kind, such as `v1.Container`; decode errors name it.
    pub go_type: Option<Arc<str>>,
    /// Unknown fields below are dropped without a word, as where Go decodes by hand.
    pub silent: bool,
    /// `x-kubernetes-validations`.
    pub validations: Vec<Arc<Rule>>,
    /// Whether a node below this one has `x-kubernetes-validations`.
    pub validations_below: bool,
}

/// A regular expression, compiled when first used.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    source: Arc<str>,
    compiled: Arc<OnceLock<Result<Regex, String>>>,
}

impl Pattern {
    /// From its text, which may turn out not to be a regular expression.
    pub(crate) fn new(source: &str) -> Self {
        Self { source: source.into(), compiled: Arc::default() }
    }

    /// Its text.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The compiled form, or why there is none.
    pub(crate) fn regex(&self) -> Result<&Regex, &str> {
        self.compiled.get_or_init(|| compile(&self.source)).as_ref().map_err(String::as_str)
    }
}

/// Compiles a pattern written for Go's `regexp`, whose `\z` and classes this crate shares; `\C` and `\Q…\E` differ.
pub(crate) fn compile(source: &str) -> Result<Regex, String> {
    let text = unquote(source);
    regex::RegexBuilder::new(&text).size_limit(PATTERN_SIZE_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "expression too large".to_owned(),
        other => {
            let message = other.to_string();
            let last = message.lines().last().unwrap_or_default();
            format!("error parsing regexp: {}", in_go_words(source, last.strip_prefix("error: ").unwrap_or(last)))
        }
    })
}

/// The common complaints as Go's `regexp` words them.
fn in_go_words(source: &str, why: &str) -> String {
    let from = |needles: &[&str]| {
        let at = needles.iter().filter_map(|needle| source.find(needle)).min().unwrap_or_default();
        source.get(at..).unwrap_or(source).to_owned()
    };
    match why {
        "unclosed group" => format!("missing closing ): `{source}`"),
        "unopened group" => format!("unexpected ): `{source}`"),
        "unclosed character class" => format!("missing closing ]: `{}`", from(&["["])),
        "repetition operator missing expression" => {
            let operator = from(&["*", "+", "?"]).chars().next().map(String::from).unwrap_or_default();
            format!("missing argument to repetition operator: `{operator}`")
        }
        other if other.starts_with("look-around") => {
            let syntax = from(&["(?=", "(?!", "(?<"]).chars().take(3).collect::<String>();
            format!("invalid or unsupported Perl syntax: `{syntax}`")
        }
        other => format!("{other}: `{source}`"),
    }
}

/// Go's `\Q…\E` quotes what is between; here it is written with escapes.
fn unquote(source: &str) -> String {
    if !source.contains("\\Q") {
        return source.to_owned();
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("\\Q") {
        out.push_str(&rest[..at]);
        rest = &rest[at + 2..];
        let end = rest.find("\\E").unwrap_or(rest.len());
        out.push_str(&regex::escape(&rest[..end]));
        rest = rest.get(end + 2..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

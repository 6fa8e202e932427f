//! Text to a tree, rule by rule as Consul's grammar has them: the order in which things are tried decides what is
//! expected where a text is wrong.

use std::sync::Arc;

use super::position::Cursor;
use super::{Expression, Match, Operand, Operator};

/// Deeper than this nobody writes; what is deeper would cost stack.
const DEPTH_MAX: usize = 100;

pub(super) fn parse(text: &str) -> Result<Arc<Expression>, String> {
    let mut parser = Parser { cursor: Cursor::new(text), depth: 0, too_deep: false };
    let parsed = parser.input();
    if parser.too_deep {
        return Err(format!("expression is nested more than {DEPTH_MAX} deep"));
    }
    match (parser.cursor.failure(parsed.is_some()), parsed) {
        (None, Some(expression)) => Ok(expression),
        (Some(failure), _) => Err(failure),
        (None, None) => Err(String::from("no match found")),
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    depth: usize,
    too_deep: bool,
}

type Parsed = Option<Arc<Expression>>;

impl Parser<'_> {
    fn input(&mut self) -> Parsed {
        self.cursor.space();
        if self.cursor.word("(", "\"(\"") {
            self.cursor.space();
            let inner = self.or();
            self.cursor.space();
            if inner.is_some() && self.cursor.word(")", "\")\"") {
                self.cursor.space();
                if self.cursor.end() {
                    return inner;
                }
            }
        }
        self.cursor.at = 0;
        self.cursor.space();
        let inner = self.or()?;
        self.cursor.space();
        self.cursor.end().then_some(inner)
    }

    fn or(&mut self) -> Parsed {
        self.deeper(|parser| {
            let left = parser.and()?;
            Some(match parser.joined("or", "\"or\"", Self::or) {
                Some(right) => Arc::new(Expression::Or(left, right)),
                None => left,
            })
        })
    }

    fn and(&mut self) -> Parsed {
        self.deeper(|parser| {
            let left = parser.not()?;
            Some(match parser.joined("and", "\"and\"", Self::and) {
                Some(right) => Arc::new(Expression::And(left, right)),
                None => left,
            })
        })
    }

    fn joined(&mut self, word: &str, quoted: &'static str, right: fn(&mut Self) -> Parsed) -> Parsed {
        let start = self.cursor.at;
        let there = self.cursor.space() && self.cursor.word(word, quoted) && self.cursor.space();
        let right = if there { right(self) } else { None };
        if right.is_none() {
            self.cursor.at = start;
        }
        right
    }

    fn not(&mut self) -> Parsed {
        self.deeper(|parser| {
            let start = parser.cursor.at;
            if parser.cursor.word("not", "\"not\"")
                && parser.cursor.space()
                && let Some(inner) = parser.not()
            {
                return Some(Arc::new(Expression::Not(inner)));
            }
            parser.cursor.at = start;
            parser.grouping()
        })
    }

    fn grouping(&mut self) -> Parsed {
        let start = self.cursor.at;
        if self.cursor.word("(", "\"(\"") {
            self.cursor.space();
            let inner = self.or();
            self.cursor.space();
            if inner.is_some() {
                if self.cursor.word(")", "\")\"") {
                    return inner;
                }
                let at = self.cursor.at;
                self.cursor.error(at, "grouping", "Unmatched parentheses");
            }
            self.cursor.at = start;
        }
        self.comparison().map(|found| Arc::new(Expression::Match(found)))
    }

    fn comparison(&mut self) -> Option<Match> {
        let start = self.cursor.at;
        if let Some(selector) = self.selector() {
            let after = self.cursor.at;
            if let Some(operator) = self.value_operator()
                && let Some(value) = self.value()
            {
                return Some(Match { selector, operator, value: Operand::Raw(value) });
            }
            self.cursor.at = after;
            if let Some(operator) = self.emptiness() {
                return Some(Match { selector, operator, value: Operand::None });
            }
        }
        self.cursor.at = start;
        let found = self.membership();
        if found.is_none() {
            self.cursor.at = start;
        }
        found
    }

    fn membership(&mut self) -> Option<Match> {
        let value = self.value()?;
        let operator = self
            .words(&[("in", "\"in\"")], Operator::In)
            .or_else(|| self.words(&[("not", "\"not\""), ("in", "\"in\"")], Operator::NotIn))?;
        let at = self.cursor.at;
        let Some(selector) = self.selector() else {
            self.cursor.error(at, "match", "Invalid selector");
            return None;
        };
        Some(Match { selector, operator, value: Operand::Raw(value) })
    }

    fn value_operator(&mut self) -> Option<Operator> {
        self.sign("==", "\"==\"", Operator::Equal)
            .or_else(|| self.sign("!=", "\"!=\"", Operator::NotEqual))
            .or_else(|| self.words(&[("contains", "\"contains\"")], Operator::In))
            .or_else(|| self.words(&[("not", "\"not\""), ("contains", "\"contains\"")], Operator::NotIn))
            .or_else(|| self.words(&[("matches", "\"matches\"")], Operator::Matches))
            .or_else(|| self.words(&[("not", "\"not\""), ("matches", "\"matches\"")], Operator::NotMatches))
    }

    fn emptiness(&mut self) -> Option<Operator> {
        let (is, not, empty) = (("is", "\"is\""), ("not", "\"not\""), ("empty", "\"empty\""));
        self.spaced(&[is, empty], Operator::IsEmpty).or_else(|| self.spaced(&[is, not, empty], Operator::IsNotEmpty))
    }

    fn sign(&mut self, sign: &str, quoted: &'static str, operator: Operator) -> Option<Operator> {
        let start = self.cursor.at;
        self.cursor.space();
        if self.cursor.word(sign, quoted) {
            self.cursor.space();
            return Some(operator);
        }
        self.cursor.at = start;
        None
    }

    /// Words with blanks around each.
    fn words(&mut self, words: &[(&str, &'static str)], operator: Operator) -> Option<Operator> {
        let start = self.cursor.at;
        if self.spaced(words, operator).is_some() && self.cursor.space() {
            return Some(operator);
        }
        self.cursor.at = start;
        None
    }

    /// Words with blanks before each.
    fn spaced(&mut self, words: &[(&str, &'static str)], operator: Operator) -> Option<Operator> {
        let start = self.cursor.at;
        if words.iter().all(|(word, quoted)| self.cursor.space() && self.cursor.word(word, quoted)) {
            return Some(operator);
        }
        self.cursor.at = start;
        None
    }

    fn value(&mut self) -> Option<String> {
        self.selector().map(|path| path.join(".")).or_else(|| self.cursor.number()).or_else(|| self.cursor.quoted())
    }

    fn selector(&mut self) -> Option<Vec<String>> {
        let mut path = vec![self.identifier()?];
        loop {
            let start = self.cursor.at;
            if self.cursor.word(".", "\".\"")
                && let Some(step) = self.identifier()
            {
                path.push(step);
                continue;
            }
            self.cursor.at = start;
            match self.index() {
                Some(step) => path.push(step),
                None => {
                    self.cursor.at = start;
                    return Some(path);
                }
            }
        }
    }

    fn identifier(&mut self) -> Option<String> {
        let start = self.cursor.at;
        if !self.cursor.class("[a-zA-Z]", |next| next.is_ascii_alphabetic()) {
            return None;
        }
        while self.cursor.class("[a-zA-Z0-9_]", |next| next.is_ascii_alphanumeric() || next == '_') {}
        Some(self.cursor.text[start..self.cursor.at].to_owned())
    }

    fn index(&mut self) -> Option<String> {
        if !self.cursor.word("[", "\"[\"") {
            return None;
        }
        self.cursor.space();
        let at = self.cursor.at;
        let Some(step) = self.cursor.quoted() else {
            self.cursor.error(at, "index", "Invalid index");
            return None;
        };
        self.cursor.space();
        if self.cursor.word("]", "\"]\"") {
            return Some(step);
        }
        let at = self.cursor.at;
        self.cursor.error(at, "index", "Unclosed index expression");
        None
    }

    fn deeper(&mut self, rule: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth >= 3 * DEPTH_MAX || self.too_deep {
            self.too_deep = true;
            return None;
        }
        self.depth += 1;
        let parsed = rule(self);
        self.depth -= 1;
        parsed
    }
}

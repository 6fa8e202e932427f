//! JSON into a [`Value`], noting keys that occur twice (the last one wins, as in Go).

use std::cell::RefCell;
use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

const REPORTED_MAX: usize = 100;

pub(super) fn parse(text: &str, found: &mut Vec<String>) -> Result<Value, String> {
    let seen = RefCell::new(Vec::new());
    let path = RefCell::new(String::new());
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Node { path: &path, found: &seen }.deserialize(&mut reader).map_err(|error| go_words(&error, text))?;
    reader.end().map_err(|error| go_words(&error, text))?;
    *found = seen.into_inner();
    Ok(value)
}

/// Go's wording where it is simple to give.
fn go_words(error: &serde_json::Error, text: &str) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let offset = text.split('\n').take(error.line().saturating_sub(1)).map(|line| line.len() + 1).sum::<usize>()
        + error.column().saturating_sub(1);
    let shown = text.get(offset..).and_then(|rest| rest.chars().next());
    match shown {
        Some(c)
            if error.to_string().starts_with("expected value") || error.to_string().starts_with("expected ident") =>
        {
            literal(text, offset)
                .unwrap_or_else(|| format!("invalid character {} looking for beginning of value", quoted(c)))
        }
        Some(c) if error.to_string().starts_with("key must be a string") => {
            format!("invalid character {} looking for beginning of object key string", quoted(c))
        }
        Some(c) if error.to_string().starts_with("trailing characters") => {
            format!("invalid character {} after top-level value", quoted(c))
        }
        _ => error.to_string(),
    }
}

/// A character as Go quotes it.
fn quoted(c: char) -> String {
    match c {
        '\'' => "'\\''".to_owned(),
        c if c.is_control() => format!("'\\u{:04x}'", u32::from(c)),
        c => format!("'{c}'"),
    }
}

/// A word that begins like `true`, `false` or `null` and goes on differently.
fn literal(text: &str, offset: usize) -> Option<String> {
    let before = text.get(..offset)?;
    let start = before.rfind(|c: char| !c.is_ascii_lowercase()).map_or(0, |at| at + 1);
    let rest = text.get(start..)?;
    let word = ["null", "true", "false"].into_iter().find(|word| rest.starts_with(&word[..1]))?;
    let (got, wanted) = rest.chars().zip(word.chars()).find(|(got, wanted)| got != wanted)?;
    Some(format!("invalid character {} in literal {word} (expecting '{wanted}')", quoted(got)))
}

struct Node<'a> {
    path: &'a RefCell<String>,
    found: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let mark = self.path.borrow().len();
        loop {
            // Writing to a string cannot fail.
            let _ = write!(self.path.borrow_mut(), "[{}]", list.len());
            let item = items.next_element_seed(Node { path: self.path, found: self.found })?;
            self.path.borrow_mut().truncate(mark);
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let mark = self.path.borrow().len();
        while let Some(key) = entries.next_key::<String>()? {
            {
                let mut path = self.path.borrow_mut();
                if mark > 0 {
                    path.push('.');
                }
                path.push_str(&key);
            }
            let value = entries.next_value_seed(Node { path: self.path, found: self.found })?;
            if map.insert(key, value).is_some() && self.found.borrow().len() < REPORTED_MAX {
                let field = self.path.borrow().clone();
                self.found.borrow_mut().push(format!("duplicate field {field:?}"));
            }
            self.path.borrow_mut().truncate(mark);
        }
        Ok(Value::Object(map))
    }
}

//! Reading and decoding request bodies.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::failure::Failure;
use crate::media::{self, Content};

/// Reads a body of at most `limit` bytes.
pub async fn read<B>(body: B, limit: usize) -> Result<Bytes, Failure>
where
    B: HttpBody<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let too_large =
        || Failure::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let mut body = std::pin::pin!(body);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.as_mut().frame().await {
        let frame = frame.map_err(|error| Failure::bad_request(format!("unable to read the request body: {error}")))?;
        if let Ok(data) = frame.into_data() {
            if whole.is_empty() && body.is_end_stream() {
                return if data.len() > limit { Err(too_large()) } else { Ok(data) };
            }
            if whole.len() + data.len() > limit {
                return Err(too_large());
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.freeze())
}

/// A decoded object and the duplicate fields its text had.
pub struct Decoded {
    /// The object.
    pub value: Value,
    /// Paths that occurred twice, worded as strict decoding words them.
    pub duplicates: Vec<String>,
}

/// Decodes an object sent by a create, update or delete.
pub fn decode(headers: &HeaderMap, bytes: &Bytes) -> Result<Decoded, Failure> {
    match Content::of(headers) {
        Ok(Content::Json) => json(bytes),
        Ok(Content::Yaml) => yaml(bytes),
        Ok(Content::Protobuf) => crate::protobuf::decode(bytes).map(|value| Decoded { value, duplicates: Vec::new() }),
        _ => Err(media::unsupported(media::OBJECT_TYPES)),
    }
}

/// Decodes JSON with the wording of Go's decoder for the common mistakes.
pub fn json(bytes: &[u8]) -> Result<Decoded, Failure> {
    let mut duplicates = Vec::new();
    let value = duplicate::parse(bytes, &mut duplicates)
        .map_err(|why| Failure::bad_request(format!("couldn't get version/kind; json parse error: {why}")))?;
    Ok(Decoded { value, duplicates })
}

/// Decodes YAML (or JSON, which a YAML body often is).
pub fn yaml(bytes: &[u8]) -> Result<Decoded, Failure> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return json(bytes);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::bad_request("error decoding YAML: invalid UTF-8"))?;
    let value = serde_saphyr::from_str::<Value>(text)
        .map_err(|error| Failure::bad_request(format!("error decoding YAML: {}", first_line(&error.to_string()))))?;
    Ok(Decoded { value, duplicates: Vec::new() })
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

mod duplicate {
    //! JSON into a [`Value`], noting keys that occur twice (the last one wins, as in Go).

    use std::cell::RefCell;
    use std::fmt;

    use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
    use serde_json::{Map, Number, Value};

    const REPORTED_MAX: usize = 100;

    pub(super) fn parse(bytes: &[u8], found: &mut Vec<String>) -> Result<Value, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "invalid UTF-8 in body".to_owned())?;
        let seen = RefCell::new(Vec::new());
        let path = RefCell::new(String::new());
        let mut reader = serde_json::Deserializer::from_str(text);
        let value =
            Node { path: &path, found: &seen }.deserialize(&mut reader).map_err(|error| go_words(&error, text))?;
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
                if error.to_string().starts_with("expected value")
                    || error.to_string().starts_with("expected ident") =>
            {
                format!("invalid character {c:?} looking for beginning of value")
            }
            Some(c) if error.to_string().starts_with("key must be a string") => {
                format!("invalid character {c:?} looking for beginning of object key string")
            }
            _ => error.to_string(),
        }
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
                self.path.borrow_mut().push_str(&format!("[{}]", list.len()));
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_found_and_the_last_wins() {
        let decoded = json(br#"{"a":{"b":1,"b":2},"l":[{"x":1,"x":3}]}"#).unwrap();
        assert_eq!(decoded.value["a"]["b"], 2);
        assert_eq!(decoded.duplicates, ["duplicate field \"a.b\"", "duplicate field \"l[0].x\""]);
    }

    #[test]
    fn bad_json_is_refused() {
        for text in ["", "{", "[", "nope", "{\"a\":}", "{\"a\":1}x", "\u{feff}{}"] {
            assert_eq!(json(text.as_bytes()).err().map(|failure| failure.code), Some(400), "{text:?}");
        }
        assert!(json(b"{\"a\":\"\xff\"}").is_err());
        assert!(json("[".repeat(100_000).as_bytes()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn equals_plain_parsing(text in "[\\[\\]{}\":,a-c0-9 .ntruefals]*") {
            let ours = json(text.as_bytes()).ok().map(|decoded| decoded.value);
            let plain = serde_json::from_str::<Value>(&text).ok();
            proptest::prop_assert_eq!(ours, plain);
        }
    }
}

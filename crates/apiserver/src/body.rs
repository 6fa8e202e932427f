//! Reading and decoding request bodies.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::go;
use crate::media::{self, Content};

/// How much of a body that is too large is read and dropped before the connection is cut.
const DRAINED_MAX: usize = 64 * 1024 * 1024;

/// Reads a body of at most `limit` bytes.
pub async fn read<B>(body: B, limit: usize) -> Result<Bytes, Failure>
where
    B: HttpBody<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let too_large =
        || Failure::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"));
    let mut body = std::pin::pin!(body);
    let mut whole = BytesMut::new();
    let mut read = 0;
    while let Some(frame) = body.as_mut().frame().await {
        let frame = frame.map_err(|error| Failure::bad_request(format!("unable to read the request body: {error}")))?;
        if let Ok(data) = frame.into_data() {
            read += data.len();
            if read > limit {
                // a client that is still sending would not see the answer: what is too much is read and dropped
                whole = BytesMut::new();
                if read > limit + DRAINED_MAX {
                    break;
                }
                continue;
            }
            if whole.is_empty() && body.is_end_stream() {
                return Ok(data);
            }
            whole.extend_from_slice(&data);
        }
    }
    if read > limit { Err(too_large()) } else { Ok(whole.freeze()) }
}

/// A decoded object and the duplicate fields its text had.
pub struct Decoded {
    /// The object.
    pub value: Value,
    /// Paths that occurred twice, worded as strict decoding words them.
    pub duplicates: Vec<String>,
}

/// Decodes an object sent by a create, update or delete, which should be of the given type.
pub fn decode(headers: &HeaderMap, bytes: &Bytes, api_version: &str, kind: &str) -> Result<Decoded, Failure> {
    let unrecognised = |why: String| {
        let shown = shown(bytes);
        Failure::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({shown})"))
    };
    let typed = |why: String| unrecognised(format!("couldn't get version/kind; json parse error: {why}"));
    let decoded = match Content::of(headers) {
        Ok(Content::Json) => json(bytes).map_err(typed)?,
        Ok(Content::Yaml) => yaml(bytes).map_err(unrecognised)?,
        Ok(Content::Protobuf) => {
            let value = crate::protobuf::decode(bytes, api_version, kind)?;
            return Ok(Decoded { value, duplicates: Vec::new() });
        }
        _ => return Err(media::unsupported(media::OBJECT_TYPES)),
    };
    match decoded.value {
        Value::Object(_) => Ok(decoded),
        Value::Null => Ok(Decoded { value: Value::Object(Map::new()), duplicates: Vec::new() }),
        other => Err(typed(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go::json_type(&other)
        ))),
    }
}

/// The beginning of a body, as errors show it.
pub fn shown(bytes: &[u8]) -> String {
    const LEN_MAX: usize = 30;
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    if !text.is_empty() && !text.starts_with('{') {
        let hex: String = bytes.iter().take(LEN_MAX).map(|byte| format!("{byte:02x}")).collect();
        return if bytes.len() > LEN_MAX { format!("{hex} ...") } else { hex };
    }
    match text.char_indices().nth(LEN_MAX) {
        None if text.is_empty() => "<empty>".to_owned(),
        None => text.to_owned(),
        Some((end, _)) => format!("{} ...", &text[..end]),
    }
}

/// Decodes JSON with the wording of Go's decoder for the common mistakes. Bytes that are no UTF-8 are replaced, as in Go.
pub fn json(bytes: &[u8]) -> Result<Decoded, String> {
    let mut duplicates = Vec::new();
    let value = duplicate::parse(&String::from_utf8_lossy(bytes), &mut duplicates)?;
    Ok(Decoded { value, duplicates })
}

/// As [`json`], without a look at duplicates.
pub fn json_value(bytes: &[u8]) -> Result<Value, String> {
    json(bytes).map(|decoded| decoded.value)
}

/// Decodes YAML (or JSON, which a YAML body often is).
pub fn yaml(bytes: &[u8]) -> Result<Decoded, String> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return json(bytes);
    }
    let wrong = |why: &str| format!("error converting YAML to JSON: yaml: {why}");
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("invalid UTF-8"))?;
    let value = serde_saphyr::from_str::<Value>(text).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        // the parser's own position in front is not Kubernetes' wording
        wrong(line.rsplit_once(": ").map_or(line, |(_, why)| why))
    })?;
    Ok(Decoded { value, duplicates: Vec::new() })
}

mod duplicate {
    //! JSON into a [`Value`], noting keys that occur twice (the last one wins, as in Go).

    use std::cell::RefCell;
    use std::fmt;

    use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
    use serde_json::{Map, Number, Value};

    const REPORTED_MAX: usize = 100;

    pub(super) fn parse(text: &str, found: &mut Vec<String>) -> Result<Value, String> {
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
            assert!(json(text.as_bytes()).is_err(), "{text:?}");
        }
        assert_eq!(json(b"{\"a\":\"\xff\"}").unwrap().value["a"], "\u{fffd}");
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

//! Defaults, encodings and checksums.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use expr::{Environment, Value};
use sha2::{Digest as _, Sha256};

use super::super::functions::{arg, decode, failed, one, text};
use super::super::json;
use super::{define, is_empty, shown};

pub(super) fn add(environment: &mut Environment<'static>) {
    define(environment, &["default"], |args| {
        let given = args.get(1).filter(|value| !is_empty(value));
        Ok(given.unwrap_or(one(args)?).clone())
    });
    define(environment, &["empty"], |args| Ok(Value::Bool(is_empty(one(args)?))));
    define(environment, &["coalesce"], |args| {
        Ok(args.iter().find(|value| !is_empty(value)).cloned().unwrap_or_default())
    });
    define(environment, &["all"], |args| Ok(Value::Bool(!args.iter().any(is_empty))));
    define(environment, &["any"], |args| Ok(Value::Bool(!args.iter().all(is_empty))));
    define(environment, &["ternary"], |args| {
        let truth = arg(args, 2)?.as_bool().ok_or_else(|| failed(&"argument 3 must be a bool"))?;
        Ok(arg(args, usize::from(!truth))?.clone())
    });
    define(environment, &["fail"], |args| Err(failed(&text(args, 0)?)));
    define(environment, &["kindOf", "typeOf"], |args| Ok(Value::String(kind(one(args)?).to_owned())));
    define(environment, &["toJson", "mustToJson", "toRawJson", "mustToRawJson"], |args| {
        Ok(Value::String(json::into(one(args)?).to_string()))
    });
    define(environment, &["toPrettyJson", "mustToPrettyJson"], |args| {
        serde_json::to_string_pretty(&json::into(one(args)?)).map(Value::String).map_err(|error| failed(&error))
    });
    define(environment, &["fromJson", "mustFromJson"], |args| decode(text(args, 0)?));
    define(environment, &["b64enc"], |args| Ok(Value::String(STANDARD.encode(text(args, 0)?))));
    define(environment, &["b64dec"], |args| {
        // Sprig answers with the error's text instead of failing
        Ok(Value::String(match STANDARD.decode(text(args, 0)?) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => error.to_string(),
        }))
    });
    define(environment, &["sha256sum"], |args| {
        let digest = Sha256::digest(text(args, 0)?);
        Ok(Value::String(digest.iter().fold(String::new(), |mut hex, byte| {
            // writing to a text cannot fail
            let _ = write!(hex, "{byte:02x}");
            hex
        })))
    });
    define(environment, &["adler32sum"], |args| {
        let (mut low, mut high) = (1u32, 0u32);
        for byte in text(args, 0)?.bytes() {
            low = (low + u32::from(byte)) % 65521;
            high = (high + low) % 65521;
        }
        Ok(Value::String((high << 16 | low).to_string()))
    });
    define(environment, &["urlquery"], |args| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        Ok(Value::String(shown(one(args)?).bytes().fold(String::new(), |mut out, byte| {
            match byte {
                b' ' => out.push('+'),
                byte if plain(byte) => out.push(char::from(byte)),
                byte => {
                    // writing to a text cannot fail
                    let _ = write!(out, "%{byte:02X}");
                }
            }
            out
        })))
    });
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "invalid",
        Value::Bool(_) => "bool",
        Value::Integer(_) => "int",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) | Value::Bytes(_) => "slice",
        Value::Map(_) | Value::KeyedMap(_) => "map",
        Value::Duration(_) => "int64",
        Value::DateTime(_) | Value::Timezone(_) | Value::Month(_) | Value::Weekday(_) => "struct",
    }
}

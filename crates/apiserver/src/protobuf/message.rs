//! Messages as the JSON that Go writes for them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::table::{Field, Kind, Shape, Table};
use super::wire::{Broken, Payload, fields, varint};
use super::{Undecodable, special};

/// Deeper nesting is refused; JSON schemas nest deepest.
const DEPTH_MAX: usize = 100;
/// The most messages in one body: an empty message takes two bytes but many more once it is JSON.
const MESSAGES_MAX: usize = 200_000;

type Fields = Map<String, Value>;
type Result<T> = std::result::Result<T, Undecodable>;

/// Decodes a whole message.
pub(super) fn decode(table: &Table, message: &str, bytes: &[u8]) -> Result<Fields> {
    Decoder { table, messages_left: MESSAGES_MAX }.message(message, bytes, 0)
}

/// Decodes one body.
pub(super) struct Decoder<'a> {
    table: &'a Table,
    messages_left: usize,
}

/// What was read of one field.
enum Slot {
    One(Value),
    Many(Vec<Value>),
    Entries(Fields),
}

impl Decoder<'_> {
    /// Decodes a message; no bytes give the zero value.
    pub(super) fn message(&mut self, name: &str, bytes: &[u8], depth: usize) -> Result<Fields> {
        let table = self.table;
        let Some(message) = table.message(name) else { return Ok(Fields::new()) };
        self.messages_left = self.messages_left.checked_sub(1).ok_or(Undecodable::TooLarge)?;
        if depth > DEPTH_MAX {
            return Err(Undecodable::TooLarge);
        }
        let mut slots: Vec<Option<Slot>> = message.fields.iter().map(|_| None).collect();
        for part in fields(bytes) {
            let (number, payload) = part?;
            let Some(at) = message.fields.iter().position(|field| field.number == number) else { continue };
            self.read(&message.fields[at], payload, &mut slots[at], depth)?;
        }
        let mut out = Fields::new();
        for (field, slot) in message.fields.iter().zip(slots) {
            self.write(field, slot, &mut out, depth)?;
        }
        Ok(out)
    }

    fn read(&mut self, field: &Field, payload: Payload<'_>, slot: &mut Option<Slot>, depth: usize) -> Result<()> {
        match field.shape {
            Shape::Single => *slot = Some(Slot::One(self.value(field, payload, depth)?)),
            Shape::Repeated if field.wrapped => {
                let mut list = Vec::new();
                for part in fields(bytes_of(field, payload)?) {
                    if let (1, payload) = part? {
                        list.push(self.value(field, payload, depth)?);
                    }
                }
                *slot = Some(Slot::Many(list));
            }
            Shape::Repeated => {
                let Slot::Many(list) = slot.get_or_insert_with(|| Slot::Many(Vec::new())) else { return Ok(()) };
                match (field.kind, payload) {
                    (Kind::Int32 | Kind::Int64 | Kind::Bool, Payload::Bytes(mut packed)) => {
                        while !packed.is_empty() {
                            let number = varint(&mut packed)?;
                            list.push(self.value(field, Payload::Varint(number), depth)?);
                        }
                    }
                    _ => list.push(self.value(field, payload, depth)?),
                }
            }
            Shape::Map => {
                let (key, value) = self.entry(field, bytes_of(field, payload)?, depth)?;
                if let Slot::Entries(entries) = slot.get_or_insert_with(|| Slot::Entries(Fields::new())) {
                    entries.insert(key, value);
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, field: &Field, bytes: &[u8], depth: usize) -> Result<(String, Value)> {
        let mut key = String::new();
        let mut value = None;
        for part in fields(bytes) {
            match part? {
                (1, Payload::Bytes(text)) => key = String::from_utf8_lossy(text).into_owned(),
                (2, payload) if field.wrapped => {
                    let mut list = Vec::new();
                    for part in fields(bytes_of(field, payload)?) {
                        if let (1, payload) = part? {
                            list.push(self.value(field, payload, depth)?);
                        }
                    }
                    value = Some(Value::Array(list));
                }
                (2, payload) => value = Some(self.value(field, payload, depth)?),
                _ => {}
            }
        }
        let value = match value {
            Some(value) => value,
            None if field.wrapped || field.kind == Kind::Bytes => Value::Null,
            None => self.zero(field, depth)?,
        };
        Ok((key, value))
    }

    fn value(&mut self, field: &Field, payload: Payload<'_>, depth: usize) -> Result<Value> {
        let wrong = || Undecodable::from(Broken::Mismatch(payload.wire_type(), field.name.to_owned()));
        Ok(match (field.kind, payload) {
            (Kind::Bool, Payload::Varint(number)) => (number != 0).into(),
            #[expect(clippy::cast_possible_truncation, reason = "how Go reads an int32")]
            (Kind::Int32, Payload::Varint(number)) => (number as i32).into(),
            (Kind::Int64, Payload::Varint(number)) => number.cast_signed().into(),
            (Kind::Float64, Payload::Fixed64(bits)) => special::float(f64::from_bits(bits)),
            (Kind::String, Payload::Bytes(bytes)) => String::from_utf8_lossy(bytes).into(),
            (Kind::Bytes, Payload::Bytes(bytes)) => STANDARD.encode(bytes).into(),
            (Kind::Message(name), Payload::Bytes(bytes)) => Value::Object(self.message(name, bytes, depth + 1)?),
            (Kind::Time, Payload::Bytes(bytes)) => special::time(bytes)?,
            (Kind::MicroTime, Payload::Bytes(bytes)) => special::micro_time(bytes)?,
            (Kind::Quantity, Payload::Bytes(bytes)) => special::quantity(bytes)?,
            (Kind::IntOrString, Payload::Bytes(bytes)) => special::int_or_string(bytes)?,
            (Kind::Raw, Payload::Bytes(bytes)) => special::raw(bytes, field.name)?,
            (Kind::OrBool, Payload::Bytes(bytes)) => special::or_bool(self, bytes, depth)?,
            (Kind::OrArray, Payload::Bytes(bytes)) => special::or_array(self, bytes, depth)?,
            (Kind::OrStringArray, Payload::Bytes(bytes)) => special::or_string_array(self, bytes, depth)?,
            _ => return Err(wrong()),
        })
    }

    /// The zero value of a field's type, as Go writes it.
    fn zero(&mut self, field: &Field, depth: usize) -> Result<Value> {
        Ok(match field.kind {
            Kind::Bool | Kind::OrBool => false.into(),
            Kind::Int32 | Kind::Int64 | Kind::Float64 | Kind::IntOrString => 0.into(),
            Kind::String => "".into(),
            Kind::Quantity => "0".into(),
            Kind::Message(name) => Value::Object(self.message(name, &[], depth + 1)?),
            Kind::Bytes | Kind::Time | Kind::MicroTime | Kind::Raw | Kind::OrArray | Kind::OrStringArray => Value::Null,
        })
    }

    /// Writes a field as Go's JSON encoder does: what is empty, and may be left out, is.
    fn write(&mut self, field: &Field, slot: Option<Slot>, out: &mut Fields, depth: usize) -> Result<()> {
        let value = match slot {
            Some(Slot::Many(list)) if !list.is_empty() => Value::Array(list),
            Some(Slot::Entries(entries)) => Value::Object(entries),
            Some(Slot::One(value)) if field.pointer => value,
            Some(Slot::One(value)) => {
                if field.inline {
                    if let Value::Object(fields) = value {
                        out.extend(fields);
                    }
                    return Ok(());
                }
                if field.omits(&value) {
                    return Ok(());
                }
                value
            }
            Some(Slot::Many(_)) | None => {
                let nil = field.pointer || field.shape != Shape::Single || field.kind == Kind::Bytes;
                if nil {
                    if !field.omit_empty {
                        out.insert(field.name.to_owned(), Value::Null);
                    }
                    return Ok(());
                }
                let zero = self.zero(field, depth)?;
                return self.write(field, Some(Slot::One(zero)), out, depth);
            }
        };
        out.insert(field.name.to_owned(), value);
        Ok(())
    }
}

impl Field {
    /// Whether Go leaves out this value of a field that is no pointer. A struct is never empty.
    fn omits(&self, value: &Value) -> bool {
        let empty = match (self.kind, value) {
            (Kind::String | Kind::Bytes, Value::String(text)) => text.is_empty(),
            (Kind::Bool, Value::Bool(flag)) => !flag,
            (Kind::Int32 | Kind::Int64 | Kind::Float64, Value::Number(number)) => number.as_f64() == Some(0.0),
            _ => false,
        };
        (self.omit_empty && empty) || (self.omit_zero && (empty || value.is_null()))
    }
}

fn bytes_of<'a>(field: &Field, payload: Payload<'a>) -> Result<&'a [u8]> {
    match payload {
        Payload::Bytes(bytes) => Ok(bytes),
        other => Err(Broken::Mismatch(other.wire_type(), field.name.to_owned()).into()),
    }
}

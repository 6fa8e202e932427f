//! The messages of built-in kinds: field numbers, JSON names and types.

use std::collections::HashMap;
use std::sync::LazyLock;

/// All messages.
pub(super) struct Table {
    messages: HashMap<&'static str, Message>,
    kinds: HashMap<(&'static str, &'static str), &'static str>,
}

/// One message.
#[derive(Default)]
pub(super) struct Message {
    pub(super) fields: Vec<Field>,
}

/// One field of a message.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, one flag each in the table")]
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    /// The value in Go is a pointer: absent differs from zero.
    pub(super) pointer: bool,
    /// The list (or map value) is a message of its own around a list of strings.
    pub(super) wrapped: bool,
    pub(super) omit_empty: bool,
    pub(super) omit_zero: bool,
    /// The fields of this message are fields of the enclosing object in JSON.
    pub(super) inline: bool,
}

/// How often a field occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Single,
    Repeated,
    Map,
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    Bytes,
    Bool,
    Int32,
    Int64,
    Float64,
    Message(&'static str),
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON as bytes.
    Raw,
    OrBool,
    OrArray,
    OrStringArray,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("../../facts/messages.txt")));

impl Table {
    /// The table, read on first use.
    pub(super) fn get() -> &'static Self {
        &TABLE
    }

    /// The message of a kind. Options are registered in every group.
    pub(super) fn message_of(&self, api_version: &str, kind: &str) -> Option<&'static str> {
        match kind {
            "DeleteOptions" | "Status" => self.kinds.get(&("meta.k8s.io/v1", kind)).copied(),
            _ => self.kinds.get(&(api_version, kind)).copied(),
        }
    }

    /// A message by name.
    pub(super) fn message(&self, name: &str) -> Option<&Message> {
        self.messages.get(name)
    }

    /// Lines that mean nothing are passed over: a test reads every one.
    pub(super) fn read(text: &'static str) -> Self {
        let mut out = Self { messages: HashMap::new(), kinds: HashMap::new() };
        let mut current = "";
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["kind", api_version, kind, message] => {
                    out.kinds.insert((*api_version, *kind), *message);
                }
                ["message", name] => {
                    current = name;
                    out.messages.insert(name, Message::default());
                }
                [number, name, kind, flags] => {
                    let (Ok(number), Some(kind)) = (number.parse(), Kind::read(kind)) else { continue };
                    if let Some(message) = out.messages.get_mut(current) {
                        message.fields.push(Field::new(number, name, kind, flags));
                    }
                }
                _ => {}
            }
        }
        out
    }
}

impl Field {
    fn new(number: u64, name: &'static str, kind: Kind, flags: &str) -> Self {
        let shape = match flags {
            flags if flags.contains('k') => Shape::Map,
            flags if flags.contains(['r', 'w']) => Shape::Repeated,
            _ => Shape::Single,
        };
        Self {
            number,
            name,
            kind,
            shape,
            pointer: flags.contains('p'),
            wrapped: flags.contains('w'),
            omit_empty: flags.contains('o'),
            omit_zero: flags.contains('z'),
            inline: flags.contains('i'),
        }
    }
}

impl Kind {
    fn read(text: &'static str) -> Option<Self> {
        Some(match text {
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "float64" => Self::Float64,
            "Time" => Self::Time,
            "MicroTime" => Self::MicroTime,
            "Quantity" => Self::Quantity,
            "IntOrString" => Self::IntOrString,
            "Raw" => Self::Raw,
            "OrBool" => Self::OrBool,
            "OrArray" => Self::OrArray,
            "OrStringArray" => Self::OrStringArray,
            message => Self::Message(message.strip_prefix('@')?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Table};

    #[test]
    fn every_line_is_read_and_every_message_is_there() {
        let text = include_str!("../../facts/messages.txt");
        let table = Table::get();
        let fields: usize = table.messages.values().map(|message| message.fields.len()).sum();
        assert_eq!(fields + table.messages.len() + table.kinds.len(), text.lines().filter(|l| !l.is_empty()).count());
        for field in table.messages.values().flat_map(|message| &message.fields) {
            if let Kind::Message(name) = field.kind {
                assert!(table.message(name).is_some(), "{name}");
            }
        }
        assert!(table.kinds.values().all(|name| table.message(name).is_some()));
    }
}

//! The types expressions are checked against, and what a schema's fields are called in them.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::schema::builtin;
use crate::schema::custom::META_FIELDS;
use crate::schema::node::{Link, Schema, Type};

/// A type of the expression language.
#[derive(Debug, Clone)]
pub(super) enum Ty {
    /// Known only when evaluated.
    Dyn,
    /// Already reported as wrong.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Type,
    List(Box<Ty>),
    Map(Box<Ty>, Box<Ty>),
    Optional(Box<Ty>),
    /// An object with known fields; whole objects have a type and a name besides.
    Object(Arc<Schema>),
    /// A type of one of the libraries, such as `quantity`.
    Opaque(&'static str),
    /// A type parameter of a signature.
    Param(char),
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Param(_) => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("google.protobuf.Duration"),
            Self::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Self::Type => f.write_str("type"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Object(_) => f.write_str("object"),
            Self::Opaque(name) => f.write_str(opaque_name(name)),
        }
    }
}

/// The full name of a library's type.
fn opaque_name(short: &'static str) -> &'static str {
    match short {
        "quantity" => "kubernetes.Quantity",
        "url" => "kubernetes.URL",
        "ip" => "net.IP",
        "cidr" => "net.CIDR",
        "format" => "kubernetes.NamedFormat",
        "semver" => "kubernetes.Semver",
        other => other,
    }
}

/// What rules may see of an object's metadata.
static META: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let field = |name: &str| (name.to_owned(), Link::Here(builtin::plain_string()));
    let properties = [field("name"), field("generateName")].into_iter().collect();
    Arc::new(Schema { kind: Some(Type::Object), properties, ..Schema::default() })
});

/// The type of a node, if rules can see it at all.
pub(super) fn of_schema(schema: &Arc<Schema>) -> Option<Ty> {
    if schema.int_or_string {
        return Some(Ty::Dyn);
    }
    Some(match schema.kind? {
        Type::Array => Ty::List(Box::new(of_schema(&schema.items.as_ref()?.get())?)),
        Type::Object => match &schema.additional {
            Some(link) if !is_anything(&link.get()) => Ty::Map(Box::new(Ty::Text), Box::new(of_schema(&link.get())?)),
            _ => Ty::Object(Arc::clone(schema)),
        },
        Type::String => match schema.format.as_deref() {
            Some("byte") => Ty::Bytes,
            Some("duration") => Ty::Duration,
            Some("date" | "date-time") => Ty::Timestamp,
            _ => Ty::Text,
        },
        Type::Boolean => Ty::Bool,
        Type::Number => Ty::Double,
        Type::Integer => Ty::Int,
    })
}

/// `additionalProperties: true`.
fn is_anything(schema: &Schema) -> bool {
    schema.kind.is_none() && !schema.int_or_string
}

/// The type of a field of an object, by its escaped name.
pub(super) fn field(schema: &Schema, escaped: &str) -> Option<Ty> {
    of_schema(&child(schema, escaped)?)
}

/// The schema of a field of an object, by its escaped name, as rules see it.
pub(super) fn child(schema: &Schema, escaped: &str) -> Option<Arc<Schema>> {
    if schema.embedded_resource && META_FIELDS.contains(&escaped) {
        return Some(if escaped == "metadata" { Arc::clone(&META) } else { builtin::plain_string() });
    }
    let name = unescape(escaped)?;
    Some(schema.properties.get(&name)?.get())
}

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The field an escaped name stands for; `None` where no field is escaped so.
pub(super) fn unescape(escaped: &str) -> Option<String> {
    if let Some(word) = escaped.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"))
        && RESERVED.contains(&word)
    {
        return Some(word.to_owned());
    }
    if RESERVED.contains(&escaped) {
        return None;
    }
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find("__") {
        name.push_str(&rest[..at]);
        rest = &rest[at + 2..];
        let codes = [("underscores__", "__"), ("dot__", "."), ("dash__", "-"), ("slash__", "/")];
        let (code, stands_for) = codes.iter().find(|(code, _)| rest.starts_with(code))?;
        name.push_str(stands_for);
        rest = &rest[code.len()..];
    }
    name.push_str(rest);
    Some(name)
}

/// Whether a value of type `given` may stand where `wanted` is expected.
pub(super) fn assignable(given: &Ty, wanted: &Ty) -> bool {
    match (given, wanted) {
        (Ty::Dyn | Ty::Error, _)
        | (_, Ty::Dyn | Ty::Error)
        | (Ty::Null, Ty::Object(_) | Ty::Timestamp | Ty::Duration | Ty::Optional(_) | Ty::Opaque(_) | Ty::Null)
        | (Ty::Object(_) | Ty::Timestamp | Ty::Duration | Ty::Optional(_) | Ty::Opaque(_), Ty::Null)
        | (Ty::Object(_), Ty::Object(_)) => true,
        (Ty::List(a), Ty::List(b)) | (Ty::Optional(a), Ty::Optional(b)) => assignable(a, b),
        (Ty::Map(ka, va), Ty::Map(kb, vb)) => assignable(ka, kb) && assignable(va, vb),
        (Ty::Opaque(a), Ty::Opaque(b)) => a == b,
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

//! As much of HCL as rules are written in: blocks, assignments, texts, lists and comments; or the same as JSON.

/// Blocks in blocks.
const DEPTH_MAX: usize = 8;

/// What a key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Text.
    Text(String),
    /// A block.
    Block(Vec<(String, Value)>),
    /// Several.
    List(Vec<Value>),
    /// A number or a truth value.
    Other,
}

impl Value {
    /// What is in a block, or in all blocks of a list.
    pub(super) fn entries(&self) -> Vec<(&str, &Value)> {
        match self {
            Self::Block(entries) => entries.iter().map(|(key, value)| (key.as_str(), value)).collect(),
            Self::List(items) => items.iter().flat_map(Value::entries).collect(),
            Self::Text(_) | Self::Other => Vec::new(),
        }
    }
}

/// What a text says.
pub(super) fn parse(text: &str) -> Result<Vec<(String, Value)>, String> {
    if text.trim_start().starts_with('{') {
        let json: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        return match from_json(&json, 0)? {
            Value::Block(entries) => Ok(entries),
            _ => Err("object expected".to_owned()),
        };
    }
    let mut reader = Reader { text, at: 0 };
    let entries = reader.entries(0)?;
    match reader.next()? {
        None => Ok(entries),
        Some(found) => Err(reader.complaint(&format!("illegal character: {}", found.name()))),
    }
}

/// A text in quotes, as it is read back.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn from_json(json: &serde_json::Value, depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err("too many blocks in blocks".to_owned());
    }
    Ok(match json {
        serde_json::Value::String(text) => Value::Text(text.clone()),
        serde_json::Value::Array(items) => {
            Value::List(items.iter().map(|item| from_json(item, depth + 1)).collect::<Result<_, _>>()?)
        }
        serde_json::Value::Object(fields) => {
            let entry = |(key, value): (&String, _)| Ok((key.clone(), from_json(value, depth + 1)?));
            Value::Block(fields.iter().map(entry).collect::<Result<_, String>>()?)
        }
        _ => Value::Other,
    })
}

/// A word of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Name(String),
    Text(String),
    Mark(char),
}

impl Word {
    /// What HCL calls it.
    fn name(&self) -> &'static str {
        match self {
            Self::Name(_) => "IDENT",
            Self::Text(_) => "STRING",
            Self::Mark('{') => "LBRACE",
            Self::Mark('}') => "RBRACE",
            Self::Mark('[') => "LBRACK",
            Self::Mark(']') => "RBRACK",
            Self::Mark('=') => "ASSIGN",
            Self::Mark(_) => "COMMA",
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn complaint(&self, what: &str) -> String {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("At {line}:{column}: {what}")
    }

    /// Passes over spaces and comments.
    fn skip(&mut self) -> Result<(), String> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            if blank > 0 {
                self.at += blank;
            } else if rest.starts_with('#') || rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let end = rest.find("*/").ok_or_else(|| self.complaint("comment not terminated"))?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Option<Word>, String> {
        self.skip()?;
        let Some(first) = self.rest().chars().next() else { return Ok(None) };
        if matches!(first, '{' | '}' | '[' | ']' | '=' | ',') {
            self.at += 1;
            return Ok(Some(Word::Mark(first)));
        }
        if first == '"' {
            return self.quoted().map(Some);
        }
        let is_part = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.');
        let length = self.rest().find(|character| !is_part(character)).unwrap_or(self.rest().len());
        if length == 0 {
            return Err(self.complaint("illegal character"));
        }
        let name = self.rest()[..length].to_owned();
        self.at += length;
        Ok(Some(Word::Name(name)))
    }

    /// Looks at the next word without taking it.
    fn peek(&mut self) -> Result<Option<Word>, String> {
        let at = self.at;
        let word = self.next();
        self.at = at;
        word
    }

    fn quoted(&mut self) -> Result<Word, String> {
        let mut text = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((offset, character)) = characters.next() {
            match character {
                '"' => {
                    self.at += offset + 1;
                    return Ok(Word::Text(text));
                }
                '\n' => break,
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                    _ => return Err(self.complaint("illegal char escape")),
                },
                _ => text.push(character),
            }
        }
        Err(self.complaint("literal not terminated"))
    }

    /// Everything up to the end of a block, or of the text.
    fn entries(&mut self, depth: usize) -> Result<Vec<(String, Value)>, String> {
        if depth > DEPTH_MAX {
            return Err(self.complaint("too many blocks in blocks"));
        }
        let mut entries = Vec::new();
        loop {
            match self.peek()? {
                None | Some(Word::Mark('}')) => return Ok(entries),
                Some(Word::Mark(',')) if !entries.is_empty() => drop(self.next()?),
                Some(_) => entries.push(self.entry(depth)?),
            }
        }
    }

    /// A key with what it stands for; further keys are blocks in it.
    fn entry(&mut self, depth: usize) -> Result<(String, Value), String> {
        let mut keys = Vec::new();
        let value = loop {
            let before = self.at;
            match self.next()? {
                Some(Word::Name(key) | Word::Text(key)) => keys.push(key),
                Some(Word::Mark('{')) if !keys.is_empty() => break self.block(depth)?,
                Some(Word::Mark('=')) if keys.len() == 1 => break self.value(depth)?,
                found => {
                    let found = found.map_or("EOF", |word| word.name());
                    self.at = before;
                    self.skip()?;
                    return Err(self.complaint(&format!("nested object expected: LBRACE got: {found}")));
                }
            }
        };
        let mut keys = keys.into_iter();
        let first = keys.next().unwrap_or_default();
        Ok((first, keys.rev().fold(value, |value, key| Value::Block(vec![(key, value)]))))
    }

    fn block(&mut self, depth: usize) -> Result<Value, String> {
        let entries = self.entries(depth + 1)?;
        match self.next()? {
            Some(Word::Mark('}')) => Ok(Value::Block(entries)),
            found => {
                let found = found.map_or("EOF", |word| word.name());
                Err(self.complaint(&format!("object expected closing RBRACE got: {found}")))
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        match self.next()? {
            Some(Word::Text(text)) => Ok(Value::Text(text)),
            Some(Word::Name(_)) => Ok(Value::Other),
            Some(Word::Mark('{')) => self.block(depth),
            Some(Word::Mark('[')) if depth < DEPTH_MAX => {
                let mut items = Vec::new();
                loop {
                    match self.peek()? {
                        Some(Word::Mark(']')) => {
                            self.next()?;
                            return Ok(Value::List(items));
                        }
                        Some(Word::Mark(',')) if !items.is_empty() => drop(self.next()?),
                        _ => items.push(self.value(depth + 1)?),
                    }
                }
            }
            None => Err(self.complaint("object expected closing RBRACE got: EOF")),
            Some(found) => Err(self.complaint(&format!("unknown token: {}", found.name()))),
        }
    }
}

//! JSON read as Go reads it: the same complaints, the same leniency about text that is not quite Unicode.

/// Deeper than this no body of ours goes.
const DEPTH_MAX: usize = 64;

/// A value with its keys in the order they were written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The kind, as Go's complaints name it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

/// The first value of a body; what follows it is not looked at.
pub(super) fn parse(body: &[u8]) -> Result<Json, String> {
    let mut reader = Reader { body, at: 0 };
    reader.blank();
    if reader.at == body.len() {
        return Err(String::from("EOF"));
    }
    reader.value(0)
}

struct Reader<'a> {
    body: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEPTH_MAX {
            return Err(String::from("exceeded max depth"));
        }
        self.blank();
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => self.text().map(Json::Text),
            b't' => self.literal("true", Json::Bool(true)),
            b'f' => self.literal("false", Json::Bool(false)),
            b'n' => self.literal("null", Json::Null),
            b'-' | b'0'..=b'9' => self.number().map(Json::Number),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut fields = Vec::new();
        self.blank();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(Json::Object(fields));
        }
        loop {
            self.blank();
            if self.peek()? != b'"' {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.text()?;
            self.blank();
            if self.peek()? != b':' {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            fields.push((key, self.value(depth + 1)?));
            self.blank();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(Json::Object(fields));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        self.blank();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blank();
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(Json::List(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn literal(&mut self, word: &str, meant: Json) -> Result<Json, String> {
        for expected in word.bytes() {
            if self.peek()? != expected {
                let wanted = char::from(expected);
                return Err(self.unexpected(&format!("in literal {word} (expecting '{wanted}')")));
            }
            self.at += 1;
        }
        Ok(meant)
    }

    fn number(&mut self) -> Result<String, String> {
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.body.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
        }
        if matches!(self.body.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.body.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
        }
        Ok(String::from_utf8_lossy(&self.body[start..self.at]).into_owned())
    }

    fn digit(&mut self, place: &str) -> Result<(), String> {
        if !self.peek()?.is_ascii_digit() {
            return Err(self.unexpected(place));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.body.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn text(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
                b'\\' => {
                    self.at += 1;
                    let escaped = self.escape()?;
                    bytes.extend_from_slice(escaped.encode_utf8(&mut [0; 4]).as_bytes());
                }
                0..=0x1f => return Err(self.unexpected("in string literal")),
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let simple = match self.peek()? {
            b'u' => {
                self.at += 1;
                return self.unicode();
            }
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(simple)
    }

    /// A `\u` escape; a half of a pair without its other half becomes the replacement character.
    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after = self.at;
        if self.body[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                let point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        self.at = after;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Result<u32, String> {
        let mut point = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.peek()?).to_digit(16) else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            point = point * 16 + digit;
            self.at += 1;
        }
        Ok(point)
    }

    fn blank(&mut self) {
        while matches!(self.body.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Result<u8, String> {
        self.body.get(self.at).copied().ok_or_else(|| String::from("unexpected EOF"))
    }

    fn unexpected(&self, place: &str) -> String {
        let shown = match self.body.get(self.at) {
            Some(b'\'') => String::from(r"\'"),
            Some(b'"') => String::from("\""),
            Some(byte) => char::from(*byte).escape_debug().to_string(),
            None => return String::from("unexpected EOF"),
        };
        format!("invalid character '{shown}' {place}")
    }
}

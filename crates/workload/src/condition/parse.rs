//! From text to a tree.

/// Conditions are never nested deeper.
const NESTING_MAX: usize = 64;
/// Conditions never have more tokens: chains nest as deeply as they are long.
const TOKENS_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Number(f64),
    Text(String),
    Bool(bool),
    /// `(a, b)`.
    List(Vec<Node>),
    Prefix(char, Box<Node>),
    Binary(&'static str, Box<Node>, Box<Node>),
    /// Yields nothing where the third is absent and the first does not hold.
    Choice(Box<Node>, Box<Node>, Option<Box<Node>>),
}

#[derive(Debug, PartialEq)]
pub(super) enum SyntaxError {
    /// A sign that is none.
    Token(String),
    Other(String),
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Value(Node),
    Sign(&'static str),
    Open,
    Close,
    Comma,
}

/// Every sign, with what its two sides bind with; `!` and `~` only stand before something.
const SIGNS: [(&str, u8); 25] = [
    ("?", 1),
    ("??", 1),
    (":", 0),
    ("||", 2),
    ("&&", 3),
    ("==", 4),
    ("!=", 4),
    (">", 4),
    ("<", 4),
    (">=", 4),
    ("<=", 4),
    ("=~", 4),
    ("!~", 4),
    ("in", 4),
    ("&", 5),
    ("|", 5),
    ("^", 5),
    ("<<", 6),
    (">>", 6),
    ("+", 7),
    ("-", 7),
    ("*", 8),
    ("/", 8),
    ("%", 8),
    ("**", 9),
];

pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    let tree = parser.expression(0)?;
    match parser.tokens.get(parser.at) {
        None => Ok(tree),
        Some(Token::Close) => Err(other("Unbalanced parenthesis")),
        Some(token) => Err(other(&format!("Unexpected {}", shown(token)))),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn expression(&mut self, binding: u8) -> Result<Node, SyntaxError> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(other("nested too deeply"));
        }
        let mut left = self.operand()?;
        while let Some(Token::Sign(sign)) = self.tokens.get(self.at) {
            let level = SIGNS.iter().find(|(known, _)| known == sign).map_or(0, |(_, level)| *level);
            if *sign == ":" || level <= binding && !(level == 1 && binding == 0) {
                break;
            }
            self.at += 1;
            left = match *sign {
                "?" => self.choice(left)?,
                "??" => {
                    self.expression(1)?;
                    left
                }
                sign => Node::Binary(sign, Box::new(left), Box::new(self.expression(level)?)),
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn choice(&mut self, condition: Node) -> Result<Node, SyntaxError> {
        let chosen = self.expression(1)?;
        let other = if self.tokens.get(self.at) == Some(&Token::Sign(":")) {
            self.at += 1;
            Some(Box::new(self.expression(0)?))
        } else {
            None
        };
        Ok(Node::Choice(Box::new(condition), Box::new(chosen), other))
    }

    fn operand(&mut self) -> Result<Node, SyntaxError> {
        let Some(token) = self.tokens.get(self.at) else { return Err(other("Unexpected end of expression")) };
        self.at += 1;
        match token {
            Token::Value(value) => Ok(value.clone()),
            Token::Open => self.clause(),
            Token::Sign(sign @ ("!" | "-" | "~")) => {
                self.depth += 1;
                if self.depth > NESTING_MAX {
                    return Err(other("nested too deeply"));
                }
                let operand = self.operand()?;
                self.depth -= 1;
                Ok(Node::Prefix(sign.chars().next().unwrap_or('!'), Box::new(operand)))
            }
            token => Err(other(&format!("Cannot transition token types from UNKNOWN [<nil>] to {}", shown(token)))),
        }
    }

    fn clause(&mut self) -> Result<Node, SyntaxError> {
        let mut items = vec![self.expression(0)?];
        loop {
            match self.tokens.get(self.at) {
                Some(Token::Comma) => {
                    self.at += 1;
                    items.push(self.expression(0)?);
                }
                Some(Token::Close) => {
                    self.at += 1;
                    break;
                }
                Some(token) => return Err(other(&format!("Unexpected {}", shown(token)))),
                None => return Err(other("Unbalanced parenthesis")),
            }
        }
        if items.len() > 1 {
            return Ok(Node::List(items));
        }
        items.pop().ok_or_else(|| other("Unexpected end of expression"))
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Value(Node::Number(number)) => format!("NUMERIC [{number}]"),
        Token::Value(Node::Text(text)) => format!("VARIABLE [{text}]"),
        Token::Value(value) => format!("BOOLEAN [{value:?}]"),
        Token::Sign(sign @ ("&&" | "||")) => format!("LOGICALOP [{sign}]"),
        Token::Sign(sign) if SIGNS.iter().any(|(known, level)| known == sign && *level == 4) => {
            format!("COMPARATOR [{sign}]")
        }
        Token::Sign(sign) => format!("MODIFIER [{sign}]"),
        Token::Open => "CLAUSE [(]".to_owned(),
        Token::Close => "CLAUSE_CLOSE [)]".to_owned(),
        Token::Comma => "SEPARATOR [,]".to_owned(),
    }
}

fn other(reason: &str) -> SyntaxError {
    SyntaxError::Other(reason.to_owned())
}

fn tokens(text: &str) -> Result<Vec<Token>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = token(rest, first)?;
        tokens.push(token);
        if tokens.len() > TOKENS_MAX {
            return Err(other("too long"));
        }
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn token(rest: &str, first: char) -> Result<(Token, usize), SyntaxError> {
    let number = |c: char| c.is_ascii_digit() || c == '.';
    match first {
        '(' => Ok((Token::Open, 1)),
        ')' => Ok((Token::Close, 1)),
        ',' => Ok((Token::Comma, 1)),
        '\'' | '"' => {
            // either quote ends a text, whichever began it
            let (text, length) =
                delimited(rest, |c| c == '\'' || c == '"').ok_or_else(|| other("Unclosed string literal"))?;
            Ok((Token::Value(Node::Text(text)), length))
        }
        '[' => {
            let (text, length) = delimited(rest, |c| c == ']').ok_or_else(|| other("Unclosed parameter bracket"))?;
            Ok((Token::Value(Node::Text(text)), length))
        }
        first if number(first) => {
            if let Some(hex) = rest.strip_prefix("0x") {
                let length = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
                let parsed = u64::from_str_radix(&hex[..length], 16);
                #[expect(clippy::cast_precision_loss, reason = "every number of this grammar is a float")]
                let value = parsed
                    .map_err(|_| other(&format!("Unable to parse hex value '{}' to uint64\n", &hex[..length])))?
                    as f64;
                return Ok((Token::Value(Node::Number(value)), length + 2));
            }
            let length = rest.find(|c| !number(c)).unwrap_or(rest.len());
            let value: f64 = rest[..length]
                .parse()
                .map_err(|_| other(&format!("Unable to parse numeric value '{}' to float64\n", &rest[..length])))?;
            Ok((Token::Value(Node::Number(value)), length))
        }
        first if first.is_alphabetic() => word(rest),
        _ => sign(rest),
    }
}

fn word(rest: &str) -> Result<(Token, usize), SyntaxError> {
    let (mut text, mut length, mut escaped) = (String::new(), 0, false);
    for (at, c) in rest.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
            length = at + 1;
            continue;
        } else if !(c.is_alphanumeric() || c == '_' || c == '.') {
            break;
        }
        text.push(c);
        length = at + c.len_utf8();
    }
    let token = match text.as_str() {
        "true" => Token::Value(Node::Bool(true)),
        "false" => Token::Value(Node::Bool(false)),
        "in" | "IN" => Token::Sign("in"),
        text if text.ends_with('.') => return Err(other(&format!("Hanging accessor on token '{text}'"))),
        text if text.contains('.') => return Err(other(&format!("No parameter '{text}' found."))),
        text => Token::Value(Node::Text(text.to_owned())),
    };
    Ok((token, length))
}

fn sign(rest: &str) -> Result<(Token, usize), SyntaxError> {
    let sign = |c: char| !(c.is_alphanumeric() || c.is_whitespace() || "()[]'\"".contains(c));
    let length = rest.find(|c| !sign(c)).unwrap_or(rest.len());
    let text = &rest[..length];
    if let Some(prefix) = ["!", "~"].iter().find(|known| **known == text) {
        return Ok((Token::Sign(prefix), length));
    }
    match SIGNS.iter().find(|(known, _)| *known == text) {
        Some((known, _)) => Ok((Token::Sign(known), length)),
        None => Err(SyntaxError::Token(format!("Invalid token: '{text}'"))),
    }
}

fn delimited(rest: &str, ends: impl Fn(char) -> bool) -> Option<(String, usize)> {
    let (mut text, mut escaped) = (String::new(), false);
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
            text.push(c);
        } else if c == '\\' {
            escaped = true;
        } else if ends(c) {
            return Some((text, at + c.len_utf8()));
        } else {
            text.push(c);
        }
    }
    None
}

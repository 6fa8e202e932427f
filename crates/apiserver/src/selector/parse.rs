//! The grammar of label selectors: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`.

use super::Error;
use super::label::{Operator, Requirement, key_error};
use crate::field::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Word,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

/// Reads all requirements of a selector, in the order they are written.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, Error> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut out = Vec::new();
    loop {
        match parser.peek() {
            (Token::Word | Token::Not, _) => {
                let one =
                    parser.requirement().map_err(|Error(why)| Error(format!("unable to parse requirement: {why}")))?;
                out.push(one);
                match parser.next() {
                    (Token::End, _) => return Ok(out),
                    (Token::Comma, _) => {
                        let (token, found) = parser.peek();
                        if !matches!(token, Token::Word | Token::Not) {
                            return Err(Error(format!("found '{found}', expected: identifier after ','")));
                        }
                    }
                    (_, found) => return Err(Error(format!("found '{found}', expected: ',' or 'end of string'"))),
                }
            }
            (Token::End, _) => return Ok(out),
            (_, found) => {
                return Err(Error(format!("found '{found}', expected: !, identifier, or 'end of string'")));
            }
        }
    }
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn raw(&self) -> (Token, &'a str) {
        self.tokens.get(self.at).copied().unwrap_or((Token::End, ""))
    }

    /// The next token where a key or value is expected, so `in` and `notin` are words.
    fn peek(&self) -> (Token, &'a str) {
        match self.raw() {
            (Token::In | Token::NotIn, text) => (Token::Word, text),
            other => other,
        }
    }

    fn next(&mut self) -> (Token, &'a str) {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let (mut token, mut key) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != Token::Word {
            return Err(Error(format!("found '{key}', expected: identifier")));
        }
        if let Some(error) = key_error(key, &Path::root()) {
            return Err(Error(error.to_string()));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        Requirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, Error> {
        let (token, found) = self.raw();
        self.at += 1;
        Ok(match token {
            Token::In => Operator::In,
            Token::NotIn => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            _ => return Err(Error(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"))),
        })
    }

    fn exact_value(&mut self) -> Result<String, Error> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            (Token::Word, value) => Ok(value.to_owned()),
            (_, found) => Err(Error(format!("found '{found}', expected: identifier"))),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, Error> {
        let (token, found) = self.next();
        if token != Token::Open {
            return Err(Error(format!("found '{found}' expected: '('")));
        }
        let (token, found) = self.peek();
        match token {
            Token::Word | Token::Comma => {
                let values = self.value_list()?;
                if self.next().0 != Token::Close {
                    return Err(Error(format!("found '{found}', expected: ')'")));
                }
                Ok(values)
            }
            Token::Close => {
                self.at += 1;
                Ok(vec![String::new()])
            }
            _ => Err(Error(format!("found '{found}', expected: ',', ')' or identifier"))),
        }
    }

    fn value_list(&mut self) -> Result<Vec<String>, Error> {
        let mut values = std::collections::BTreeSet::new();
        loop {
            match self.next() {
                (Token::Word, value) => {
                    values.insert(value.to_owned());
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values.into_iter().collect()),
                        (_, found) => return Err(Error(format!("found '{found}', expected: ',' or ')'"))),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek().0 {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values.into_iter().collect());
                        }
                        Token::Comma => {
                            self.at += 1;
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, found) => return Err(Error(format!("found '{found}', expected: ',', or identifier"))),
            }
        }
    }
}

/// Cuts a selector into tokens. A NUL ends the text, as it does in Kubernetes.
fn tokens(text: &str) -> Vec<(Token, &str)> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            0 => break,
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            _ if is_special(*byte) => {
                let two = text.get(at..at + 2).and_then(symbol);
                let one = text.get(at..=at).and_then(symbol);
                let (token, width) = match (two, one) {
                    (Some(token), _) => (token, 2),
                    (None, Some(token)) => (token, 1),
                    (None, None) => break,
                };
                out.push((token, &text[at..at + width]));
                at += width;
            }
            _ => {
                let end = bytes[at..]
                    .iter()
                    .position(|b| *b == 0 || b.is_ascii_whitespace() && *b != 0x0c || is_special(*b))
                    .map_or(bytes.len(), |width| at + width);
                let word = &text[at..end];
                out.push((word_token(word), word));
                at = if bytes.get(end) == Some(&0) { end + 1 } else { end };
            }
        }
    }
    out.push((Token::End, ""));
    out
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn symbol(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "(" => Token::Open,
        _ => return None,
    })
}

fn word_token(word: &str) -> Token {
    match word {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Word,
    }
}

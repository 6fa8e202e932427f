//! Comma-separated values as Go's `encoding/csv` reads them.

/// A field that is not well-formed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CsvError {
    /// A quote in a field that does not start with one.
    #[error("line {0}: bare \" in non-quoted field")]
    BareQuote(usize),
    /// Text after the closing quote, or no closing quote.
    #[error("line {0}: extraneous or missing \" in quoted-field")]
    Quote(usize),
}

/// All records, each with the line it starts on; blank lines are skipped.
pub(super) fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, CsvError> {
    let mut out = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) {
            rest = after;
            line += 1;
            continue;
        }
        let start = line;
        let mut fields = Vec::new();
        loop {
            let (value, after, lines) = field(rest, line)?;
            fields.push(value);
            line += lines;
            if let Some(after) = after.strip_prefix(',') {
                rest = after;
            } else {
                rest = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')).unwrap_or(after);
                line += 1;
                break;
            }
        }
        out.push((start, fields));
    }
    Ok(out)
}

/// One field, what follows it, and how many line ends are inside it.
fn field(text: &str, line: usize) -> Result<(String, &str, usize), CsvError> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find([',', '\n']).unwrap_or(text.len());
        let end = if text[end..].starts_with('\n') && text[..end].ends_with('\r') { end - 1 } else { end };
        let value = &text[..end];
        return if value.contains('"') {
            Err(CsvError::BareQuote(line))
        } else {
            Ok((value.to_owned(), &text[end..], 0))
        };
    };
    let mut value = String::new();
    loop {
        let quote = rest.find('"').ok_or(CsvError::Quote(line))?;
        value.push_str(&rest[..quote]);
        rest = &rest[quote + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                value.push('"');
                rest = after;
            }
            None => break,
        }
    }
    let closed = rest.is_empty() || rest.starts_with(',') || rest.starts_with('\n') || rest.starts_with("\r\n");
    if !closed {
        return Err(CsvError::Quote(line));
    }
    let lines = value.matches('\n').count();
    Ok((value, rest, lines))
}

//! Where in the text the parser is, how far it ever got, and what would have let it go on.

use std::collections::BTreeSet;

/// The text, a place in it, and what is known about failing.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    furthest: usize,
    expected: BTreeSet<&'static str>,
    end_expected: bool,
    errors: Vec<String>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, furthest: 0, expected: BTreeSet::new(), end_expected: false, errors: Vec::new() }
    }

    /// Takes one character that fits. `class` says which would have, as Consul writes it.
    pub(super) fn class(&mut self, class: &'static str, fits: impl Fn(char) -> bool) -> bool {
        match self.rest().chars().next() {
            Some(next) if fits(next) => {
                self.at += next.len_utf8();
                true
            }
            _ => {
                self.missing(class);
                false
            }
        }
    }

    /// Takes a word; `quoted` is how Consul writes it.
    pub(super) fn word(&mut self, word: &str, quoted: &'static str) -> bool {
        if self.rest().starts_with(word) {
            self.at += word.len();
            true
        } else {
            self.missing(quoted);
            false
        }
    }

    /// Whether the text ends here.
    pub(super) fn end(&mut self) -> bool {
        let end = self.at == self.text.len();
        if !end && self.reach() {
            self.end_expected = true;
        }
        end
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Something that cannot be right whatever follows.
    pub(super) fn error(&mut self, at: usize, rule: &str, what: &str) {
        let error = format!("{}: rule \"{rule}\": {what}", self.place(at));
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// Why the text is no expression, if it is none.
    pub(super) fn failure(self, parsed: bool) -> Option<String> {
        if !self.errors.is_empty() {
            return Some(self.errors.join("\n"));
        }
        (!parsed).then(|| format!("{}: no match found, expected: {}", self.place(self.furthest), self.wanted()))
    }

    fn wanted(&self) -> String {
        let mut wanted: Vec<&str> = self.expected.iter().copied().collect();
        if self.end_expected {
            wanted.push("EOF");
        }
        match wanted.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }

    fn missing(&mut self, what: &'static str) {
        if self.reach() {
            self.expected.insert(what);
        }
    }

    /// Whether nobody got further than here.
    fn reach(&mut self) -> bool {
        if self.at > self.furthest {
            self.furthest = self.at;
            self.expected.clear();
            self.end_expected = false;
        }
        self.at == self.furthest
    }

    /// Line, column and offset, counted as Consul's parser does.
    fn place(&self, at: usize) -> String {
        let (mut line, mut column) = (1, 0);
        for next in self.text[..at].chars().chain(self.text[at..].chars().next()) {
            column += 1;
            if next == '\n' {
                line += 1;
                column = 0;
            }
        }
        if at == self.text.len() {
            column += 1;
        }
        format!("{line}:{column} ({at})")
    }
}

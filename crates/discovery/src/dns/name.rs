//! Domain names.

use std::fmt;

const LABEL_MAX: usize = 63;
/// With the length of each label and the root's.
const NAME_MAX: usize = 255;

/// A name as labels, in the case it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Name(Vec<Vec<u8>>);

impl Name {
    /// A name of labels; `None` if one, or all together, are too long, or one is empty.
    pub(super) fn new(labels: Vec<Vec<u8>>) -> Option<Self> {
        let length: usize = labels.iter().map(|label| label.len() + 1).sum::<usize>() + 1;
        let fits = labels.iter().all(|label| (1..=LABEL_MAX).contains(&label.len()));
        (fits && length <= NAME_MAX).then_some(Self(labels))
    }

    /// A name from text with dots, with or without one at the end.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Some(Self::default());
        }
        Self::new(text.split('.').map(|label| label.as_bytes().to_vec()).collect())
    }

    pub(super) fn labels(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// Labels in lower case, as text; bytes that are no text match nothing.
    pub(super) fn lowered(&self) -> Vec<String> {
        self.0.iter().map(|label| String::from_utf8_lossy(label).to_lowercase()).collect()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for label in &self.0 {
            write!(f, "{}.", String::from_utf8_lossy(label))?;
        }
        if self.0.is_empty() { f.write_str(".") } else { Ok(()) }
    }
}

//! How examples end, kept in a table: file, Argo's phase, ours.

use anyhow::{Context, Result};

/// One example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its file.
    pub name: String,
    /// How Argo ended it.
    pub argo: String,
    /// How we do.
    pub ours: String,
}

/// Reads a table.
pub fn read(text: &str) -> Result<Vec<Row>> {
    let row = |line: &str| {
        let mut columns = line.split('\t').map(str::to_owned);
        let mut next = || columns.next().with_context(|| format!("a line is no row: {line:?}"));
        Ok(Row { name: next()?, argo: next()?, ours: next()? })
    };
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(row).collect()
}

/// Writes a table.
pub fn write(rows: &[Row]) -> String {
    let lines = rows.iter().flat_map(|row| [row.name.as_str(), "\t", &row.argo, "\t", &row.ours, "\n"]);
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = "a.yaml\tSucceeded\tFailed\nb/c.yaml\tError\tError\n";
        assert_eq!(write(&read(text).unwrap()), text);
        assert!(read("a\tb").is_err());
    }
}

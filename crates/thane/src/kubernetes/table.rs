//! Tables as the server prepared them, set to fit the terminal.

use comfy_table::{ColumnConstraint, ContentArrangement, Table as Grid, Width};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Between columns, as kubectl has it.
const GAP: u16 = 3;
/// Room for the longest kind of change.
const EVENT_WIDTH: u16 = 8;

/// A `meta.k8s.io/v1` Table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Table {
    pub(crate) metadata: TableMeta,
    /// Null after the first part of a watch.
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) column_definitions: Vec<Column>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) rows: Vec<Row>,
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TableMeta {
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(crate) continue_token: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) priority: i32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Value>,
    pub(crate) object: Value,
}

/// What to show of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    pub(crate) wide: bool,
    pub(crate) namespace: bool,
    /// Put before each name, when several kinds are shown.
    pub(crate) prefix: Option<String>,
    pub(crate) terminal_width: Option<u16>,
}

/// Prints tables that arrive in parts: columns of later parts line up with earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    look: Look,
    columns: Vec<Column>,
    widths: Vec<u16>,
    header_done: bool,
}

impl Printer {
    pub(crate) fn new(look: Look) -> Self {
        Self { look, ..Self::default() }
    }

    /// The next part as text; `event` is put before each row when given.
    pub(crate) fn print(&mut self, table: &Table, event: Option<&str>) -> String {
        if !table.column_definitions.is_empty() {
            self.columns.clone_from(&table.column_definitions);
        }
        if event.is_some() && self.widths.is_empty() {
            self.widths.push(EVENT_WIDTH);
        }
        let rows: Vec<Vec<String>> = table.rows.iter().map(|row| self.cells(row, event)).collect();
        let header = (!self.header_done).then(|| self.header(event.is_some()));
        self.header_done = true;
        grid(header, rows, &mut self.widths, self.look.terminal_width)
    }

    fn shown(&self) -> impl Iterator<Item = (usize, &Column)> {
        let wide = self.look.wide;
        self.columns.iter().enumerate().filter(move |(_, column)| wide || column.priority == 0)
    }

    fn header(&self, event: bool) -> Vec<String> {
        let extra = [(event, "EVENT"), (self.look.namespace, "NAMESPACE")];
        let extra = extra.into_iter().filter(|(set, _)| *set).map(|(_, name)| name.to_owned());
        extra.chain(self.shown().map(|(_, column)| column.name.to_uppercase())).collect()
    }

    fn cells(&self, row: &Row, event: Option<&str>) -> Vec<String> {
        let mut cells: Vec<String> = event.map(str::to_owned).into_iter().collect();
        if self.look.namespace {
            cells.push(row.object.pointer("/metadata/namespace").map(text).unwrap_or_default());
        }
        for (index, column) in self.shown() {
            let cell = row.cells.get(index).map(text).unwrap_or_default();
            match &self.look.prefix {
                Some(prefix) if column.name.eq_ignore_ascii_case("name") => cells.push(format!("{prefix}/{cell}")),
                _ => cells.push(cell),
            }
        }
        cells
    }
}

/// A table of our own, for output that does not come from a server.
pub(crate) fn plain(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let header = header.iter().map(|name| (*name).to_owned()).collect();
    grid(Some(header), rows, &mut Vec::new(), crate::output::terminal_width())
}

fn grid(header: Option<Vec<String>>, rows: Vec<Vec<String>>, widths: &mut Vec<u16>, terminal: Option<u16>) -> String {
    let mut grid = Grid::new();
    grid.load_style(comfy_table::presets::NOTHING);
    grid.set_content_arrangement(ContentArrangement::Disabled);
    if let Some(width) = terminal {
        grid.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    if let Some(header) = header {
        grid.set_header(header);
    }
    grid.add_rows(rows);
    let natural = grid.column_max_content_widths();
    widths.resize(widths.len().max(natural.len()), 0);
    let last = natural.len().saturating_sub(1);
    for (index, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { GAP }));
        let padding = if index == last { 0 } else { GAP };
        widths[index] = widths[index].max(natural[index]);
        if terminal.is_none() && index != last {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(widths[index] + padding)));
        }
    }
    let lines: Vec<String> = grid.lines().map(|line| line.trim_end().to_owned()).collect();
    if lines.iter().all(String::is_empty) { String::new() } else { lines.join("\n") + "\n" }
}

/// One cell: what follows a line break is left out, as kubectl does.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => match text.split_once(['\n', '\r']) {
            Some((first, _)) => format!("{first}..."),
            None => text.clone(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table(rows: &Value) -> Table {
        serde_json::from_value(json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Ready", "priority": 0}, {"name": "Node", "priority": 1}],
            "rows": rows,
        }))
        .unwrap()
    }

    fn two() -> Table {
        table(&json!([
            {"cells": ["web", 1, "n1"], "object": {"metadata": {"namespace": "a"}}},
            {"cells": ["database", null, "n2\nsecond"], "object": {"metadata": {"namespace": "b"}}},
        ]))
    }

    #[test]
    fn columns_and_rows_are_those_asked_for() {
        let mut printer = Printer::new(Look::default());
        assert_eq!(printer.print(&two(), None), "NAME       READY\nweb        1\ndatabase\n");
        let look = Look { wide: true, namespace: true, prefix: Some("pod".to_owned()), terminal_width: None };
        assert_eq!(
            Printer::new(look).print(&two(), None),
            "NAMESPACE   NAME           READY   NODE\na           pod/web        1       n1\nb           pod/database           n2...\n"
        );
    }

    #[test]
    fn later_parts_line_up_and_have_no_header() {
        let mut printer = Printer::new(Look::default());
        printer.print(&two(), None);
        let later: Table =
            serde_json::from_value(json!({"columnDefinitions": null, "rows": [{"cells": ["x", 2, "n"]}]})).unwrap();
        assert_eq!(printer.print(&later, None), "x          2\n");
        assert_eq!(printer.print(&serde_json::from_value(json!({"rows": null})).unwrap(), None), "");
        let mut printer = Printer::new(Look::default());
        assert_eq!(printer.print(&two(), Some("ADDED")).lines().next(), Some("EVENT      NAME       READY"));
        assert_eq!(printer.print(&later, Some("MODIFIED")), "MODIFIED   x          2\n");
    }

    #[test]
    fn a_narrow_terminal_wraps_and_never_loses_text() {
        let look = Look { terminal_width: Some(14), ..Look::default() };
        let text = Printer::new(look).print(&table(&json!([{"cells": ["a-rather-long-name", "true"]}])), None);
        assert!(text.lines().all(|line| line.chars().count() <= 14), "{text}");
        let letters: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
        assert_eq!(letters.len(), "NAMEREADYaratherlongnametrue".len(), "{text}");
    }
}

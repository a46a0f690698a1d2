//! Salt's table outputter: lists as tables with a row for each entry, mappings of plain values as tables
//! of two columns, and everything else under its name.

use saline_data::Value;
use saline_data::printable::escape_line;

use super::colour::{Colour, Style};
use super::text_lines::text_lines;
use super::{nested, raw};

/// The largest number of values that are laid out in tables. A minion could otherwise return little that
/// takes much room: many short rows beside one wide one.
const MAX_VALUES: usize = 20_000;

/// The largest number of columns of a table that names them.
const MAX_COLUMNS: usize = 64;

/// The largest width to which a column is filled up, in characters. Longer cells stand out.
const MAX_WIDTH: usize = 60;

/// Formats `data`, without the last newline. `failed` colours names red. What has more than 20,000 values is
/// formatted as nested text.
pub(crate) fn render(data: &Value, style: Style, failed: bool) -> Vec<u8> {
    if count(data, 0) > MAX_VALUES {
        return nested::render(data, style, failed);
    }
    let mut table = Table {
        style,
        colour: if failed { Colour::Red } else { Colour::Cyan },
        out: Vec::new(),
    };
    table.display(data, 0);
    table.out.pop();
    table.out
}

struct Table {
    style: Style,
    colour: Colour,
    out: Vec<u8>,
}

impl Table {
    fn display(&mut self, value: &Value, indent: usize) {
        match value {
            // Nothing to lay out.
            value if is_empty(value) => self.line(indent, raw::render(value).as_bytes()),
            Value::Map(entries) if entries.iter().all(|(_, value)| is_cell(value)) => {
                let row = |(key, value): &(String, Value)| {
                    vec![escape_line(key).into_owned(), cell(value)]
                };
                self.rows(None, &entries.iter().map(row).collect::<Vec<_>>(), indent);
            }
            Value::Map(entries) => {
                for (key, value) in entries {
                    let (begin, end) = (self.style.begin(self.colour), self.style.end());
                    let name = format!("{begin}{}{end}:", escape_line(key));
                    self.line(indent, name.as_bytes());
                    self.display(value, indent + 4);
                }
            }
            Value::List(values) => self.list(values, indent),
            value => match text_lines(value, self.style) {
                Some(lines) => lines.iter().for_each(|line| self.line(indent, line)),
                None => self.line(indent, raw::render(value).as_bytes()),
            },
        }
    }

    /// Prints a list: of mappings with a column for each name, of lists with their entries in columns, and
    /// of other values in one column.
    fn list<'v>(&mut self, values: &'v [Value], indent: usize) {
        let entries = |value: &'v Value| match value {
            Value::Map(entries) => Some(entries.as_slice()),
            _ => None,
        };
        let maps: Option<Vec<&[(String, Value)]>> = values.iter().map(entries).collect();
        match maps {
            Some(maps) if !maps.is_empty() && column_names(&maps).len() <= MAX_COLUMNS => {
                let names = column_names(&maps);
                let rows = maps.iter().map(|map| {
                    let find = |name: &&str| map.iter().find(|(key, _)| key == name);
                    let texts = names
                        .iter()
                        .map(|name| find(name).map_or_else(String::new, |(_, value)| cell(value)));
                    texts.collect()
                });
                let rows: Vec<Vec<String>> = rows.collect();
                let names = names.into_iter().map(|name| escape_line(name).into_owned());
                self.rows(Some(names.collect()), &rows, indent);
            }
            _ => {
                let rows = values.iter().map(|value| match value {
                    Value::List(cells) => cells.iter().map(cell).collect(),
                    other => vec![cell(other)],
                });
                self.rows(None, &rows.collect::<Vec<_>>(), indent);
            }
        }
    }

    /// Prints rows whose cells are one line each.
    fn rows(&mut self, names: Option<Vec<String>>, rows: &[Vec<String>], indent: usize) {
        let all = || names.iter().chain(rows);
        let mut widths = vec![0; all().map(Vec::len).max().unwrap_or_default()];
        for row in all() {
            for (cell, width) in row.iter().zip(&mut widths) {
                *width = cell.chars().count().min(MAX_WIDTH).max(*width);
            }
        }
        let border = "-".repeat(widths.iter().map(|width| width + 3).sum::<usize>() + 1);
        let line = |row: &Vec<String>| {
            // A row may have fewer cells than the others.
            let texts = row.iter().map(String::as_str).chain(std::iter::repeat(""));
            let cells = texts.zip(&widths);
            let cells = cells.map(|(text, width)| format!("| {text:<width$} "));
            cells.collect::<String>() + "|"
        };
        self.line(indent, border.as_bytes());
        if let Some(names) = &names {
            self.line(indent, line(names).as_bytes());
            self.line(indent, border.as_bytes());
        }
        for row in rows {
            self.line(indent, line(row).as_bytes());
        }
        self.line(indent, border.as_bytes());
    }

    fn line(&mut self, indent: usize, text: &[u8]) {
        self.out.resize(self.out.len() + indent, b' ');
        self.out.extend_from_slice(text);
        self.out.push(b'\n');
    }
}

/// Counts the values in a value, as far as the most that are laid out in tables.
fn count(value: &Value, counted: usize) -> usize {
    if counted > MAX_VALUES {
        return counted;
    }
    match value {
        Value::Map(entries) => entries
            .iter()
            .fold(counted + 1, |counted, (_, value)| count(value, counted)),
        Value::List(values) => values
            .iter()
            .fold(counted + 1, |counted, value| count(value, counted)),
        _ => counted + 1,
    }
}

/// Returns the names in the mappings, each once, and at most one more than a table can have.
fn column_names<'v>(maps: &[&'v [(String, Value)]]) -> Vec<&'v str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in maps.iter().copied().flatten() {
        if names.len() <= MAX_COLUMNS && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Whether a table of the value would have no cells.
fn is_empty(value: &Value) -> bool {
    let is_empty_list = |value: &Value| matches!(value, Value::List(values) if values.is_empty());
    match value {
        Value::Map(entries) => entries.is_empty(),
        Value::List(values) => values.iter().all(is_empty_list),
        _ => false,
    }
}

/// Whether a value is one line of text, and so a cell.
fn is_cell(value: &Value) -> bool {
    match value {
        Value::Map(entries) => entries.is_empty(),
        Value::List(values) => values.is_empty(),
        Value::Text(text) => !text.contains('\n'),
        Value::Bytes(bytes) => !bytes.contains(&b'\n'),
        _ => true,
    }
}

/// Returns a value as one line of text.
fn cell(value: &Value) -> String {
    match value {
        Value::Text(text) => escape_line(text).into_owned(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => escape_line(text).into_owned(),
            Err(_) => raw::render(value),
        },
        value => raw::render(value),
    }
}

//! Output formats, byte for byte as Salt prints them where Salt's can be relied on.

pub(crate) mod colour;
pub(crate) mod docs;
#[cfg(test)]
mod hostile;
pub(crate) mod keys;
mod nested;
mod newline_values_only;
pub(crate) mod no_return;
mod pprint;
mod raw;
#[cfg(test)]
mod snapshots;
pub(crate) mod start_times;
mod table;
mod text_lines;
mod txt;

pub(crate) use colour::Style;

use clap::ValueEnum;
use saline_data::{Value, json, yaml};

/// An output format, the value of `--out`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Format {
    /// Indented text.
    #[default]
    Nested,
    /// JSON, always valid: everything that is not data goes to the standard error output.
    Json,
    /// YAML, as every version of it reads it.
    Yaml,
    /// Each line after the minion's name.
    Txt,
    /// Python's `repr`, one line for each minion.
    Raw,
    /// Python's `repr`, broken into lines.
    Pprint,
    /// Keys under the names of their states.
    Key,
    /// Tables.
    Table,
    /// The values alone, a line each.
    NewlineValuesOnly,
    /// Only the minions that did not return, and why.
    NoReturn,
    /// Nothing: the last line, on the standard error output, and the exit code show the result.
    Quiet,
}

impl Format {
    /// Formats `data`, without the last newline; none when nothing is to be printed. `failed` marks
    /// the return of a failed function.
    pub(crate) fn render(self, data: &Value, style: Style, failed: bool) -> Option<Vec<u8>> {
        match self {
            Self::Nested => Some(nested::render(data, style, failed)),
            Self::Json => Some(json::pretty(data, style.indent)),
            Self::Yaml => Some(yaml::write(data, style.indent)),
            Self::Txt => Some(txt::render(data, style)),
            Self::Raw => Some(raw::render(data).into_bytes()),
            Self::Pprint => Some(pprint::render(data).into_bytes()),
            Self::Key => Some(match keys::groups_of(data) {
                Some(groups) => keys::render(&groups, style),
                None => nested::render(data, style, failed),
            }),
            Self::Table => Some(table::render(data, style, failed)),
            Self::NewlineValuesOnly => Some(newline_values_only::render(data, style)),
            Self::NoReturn | Self::Quiet => None,
        }
    }

    /// Whether programs read the standard output, so that it must not contain prose.
    pub(crate) fn is_for_programs(self) -> bool {
        match self {
            Self::Nested | Self::Key | Self::Table | Self::NoReturn => false,
            Self::Json
            | Self::Yaml
            | Self::Txt
            | Self::Raw
            | Self::Pprint
            | Self::NewlineValuesOnly
            | Self::Quiet => true,
        }
    }

    /// Whether an output without data is an empty mapping, as its readers expect one value.
    pub(crate) fn says_nothing_as_empty_mapping(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

//! Output formats, byte for byte as Salt prints them.

pub(crate) mod colour;
#[cfg(test)]
mod hostile;
pub(crate) mod json;
pub(crate) mod keys;
mod nested;
pub(crate) mod no_return;
mod python;
mod raw;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
pub(crate) mod test_values;

pub(crate) use colour::Style;

use clap::ValueEnum;
use saline_protocol::message::Value;

/// An output format, the value of `--out`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Indented text.
    #[default]
    Nested,
    /// JSON, always valid: everything that is not data goes to the standard error output.
    Json,
    /// Python's `repr`, one line for each minion.
    Raw,
    /// Nothing; only the exit code shows the result.
    Quiet,
}

impl Format {
    /// Formats `data`, without the last newline; none when nothing is to be printed. `failed` marks
    /// the return of a failed function.
    pub(crate) fn render(self, data: &Value, style: Style, failed: bool) -> Option<Vec<u8>> {
        match self {
            Self::Nested => Some(nested::render(data, style, failed)),
            Self::Json => Some(json::pretty(data)),
            Self::Raw => Some(raw::render(data).into_bytes()),
            Self::Quiet => None,
        }
    }

    /// Whether programs read the standard output, so that it must not contain prose.
    pub(crate) fn is_for_programs(self) -> bool {
        self != Self::Nested
    }
}

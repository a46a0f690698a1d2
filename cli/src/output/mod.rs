//! Output formats, byte for byte Salt's.

pub(crate) mod colour;
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

/// What `--out` names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Indented text.
    #[default]
    Nested,
    /// JSON, always valid: what is not data goes to the standard error output.
    Json,
    /// Python's `repr`, one line a minion.
    Raw,
    /// Nothing; the exit code says how it went.
    Quiet,
}

impl Format {
    /// `data` in this format, without the last newline; none when nothing is to be printed.
    /// `failed` says that it is what a failed function returned.
    pub(crate) fn render(self, data: &Value, style: Style, failed: bool) -> Option<Vec<u8>> {
        match self {
            Self::Nested => Some(nested::render(data, style, failed)),
            Self::Json => Some(json::pretty(data)),
            Self::Raw => Some(raw::render(data).into_bytes()),
            Self::Quiet => None,
        }
    }

    /// Whether the standard output is for programs, so that prose has no place in it.
    pub(crate) fn is_for_programs(self) -> bool {
        self != Self::Nested
    }
}

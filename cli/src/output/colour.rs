//! Salt's colours.

/// A colour, by its name in Salt's default theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Red,
    LightRed,
    Green,
    LightGreen,
    LightYellow,
    Blue,
    LightBlue,
    Magenta,
    LightMagenta,
    Cyan,
}

impl Colour {
    fn sequence(self) -> &'static str {
        match self {
            Self::Red => "\x1b[0;31m",
            Self::LightRed => "\x1b[0;1;31m",
            Self::Green => "\x1b[0;32m",
            Self::LightGreen => "\x1b[0;1;32m",
            Self::LightYellow => "\x1b[0;1;33m",
            Self::Blue => "\x1b[0;34m",
            Self::LightBlue => "\x1b[0;1;34m",
            Self::Magenta => "\x1b[0;35m",
            Self::LightMagenta => "\x1b[0;1;35m",
            Self::Cyan => "\x1b[0;36m",
        }
    }
}

/// The layout of an output, and the capabilities of the place where it is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether to print colours.
    pub(crate) colour: bool,
    /// Whether the output is a terminal, which must not receive control bytes of a return.
    pub(crate) terminal: bool,
    /// The indentation that was asked for, for outputs that have one to choose; below zero, everything
    /// stands in one line.
    pub(crate) indent: Option<i32>,
}

impl Style {
    /// Returns the sequence that begins `colour`; empty without colours.
    pub(crate) fn begin(self, colour: Colour) -> &'static str {
        if self.colour { colour.sequence() } else { "" }
    }

    /// Returns the sequence that ends a colour.
    pub(crate) fn end(self) -> &'static str {
        if self.colour { "\x1b[0;0m" } else { "" }
    }
}

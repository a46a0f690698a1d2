//! What a function is: its name, its parameters, its documentation, and the code.

use super::{Call, Failure, Outcome};

/// A parameter that has a name.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// What `name=value` calls it.
    pub name: &'static str,
    /// Whether it must be given.
    pub required: bool,
}

/// One that must be given.
pub const fn required(name: &'static str) -> Parameter {
    Parameter {
        name,
        required: true,
    }
}

/// One that may be left out.
pub const fn optional(name: &'static str) -> Parameter {
    Parameter {
        name,
        required: false,
    }
}

/// A function that an operator can call.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its name within its module.
    pub name: &'static str,
    /// What `sys.doc` prints: prose, then `CLI Example:`.
    pub doc: &'static str,
    /// In the order in which positional arguments fill them.
    pub parameters: &'static [Parameter],
    /// Whether further positional arguments are taken.
    pub more_positional: bool,
    /// Whether named arguments of any name are taken.
    pub more_named: bool,
    /// The code. It runs on a thread of its own and may block.
    pub run: fn(&Call<'_>) -> Result<Outcome, Failure>,
}

impl Function {
    /// Without parameters.
    pub const fn new(
        name: &'static str,
        doc: &'static str,
        run: fn(&Call<'_>) -> Result<Outcome, Failure>,
    ) -> Self {
        Self {
            name,
            doc,
            parameters: &[],
            more_positional: false,
            more_named: false,
            run,
        }
    }

    /// With these parameters.
    #[must_use]
    pub const fn with(mut self, parameters: &'static [Parameter]) -> Self {
        self.parameters = parameters;
        self
    }

    /// Taking any number of further positional arguments.
    #[must_use]
    pub const fn with_more_positional(mut self) -> Self {
        self.more_positional = true;
        self
    }

    /// Taking named arguments of any name.
    #[must_use]
    pub const fn with_more_named(mut self) -> Self {
        self.more_named = true;
        self
    }

    /// The documentation as Salt keeps it: a blank line first, each line indented by four.
    pub fn indented_doc(&self) -> String {
        let mut text = String::from("\n");
        for line in self.doc.trim().lines() {
            if !line.is_empty() {
                text.push_str("    ");
                text.push_str(line);
            }
            text.push('\n');
        }
        text
    }
}

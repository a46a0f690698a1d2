//! A function: its name, its parameters, its documentation and its code.

use super::{Call, Failure, Outcome};

/// A named parameter.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The name, as in `name=value`.
    pub name: &'static str,
    /// Whether the parameter is required.
    pub required: bool,
}

/// Declares a required parameter.
pub const fn required(name: &'static str) -> Parameter {
    Parameter {
        name,
        required: true,
    }
}

/// Declares an optional parameter.
pub const fn optional(name: &'static str) -> Parameter {
    Parameter {
        name,
        required: false,
    }
}

/// A function that an operator can call.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// The name within the module.
    pub name: &'static str,
    /// The documentation that `sys.doc` prints: prose, then `CLI Example:`.
    pub doc: &'static str,
    /// The parameters, in the order in which positional arguments fill them.
    pub parameters: &'static [Parameter],
    /// Whether the function takes further positional arguments.
    pub more_positional: bool,
    /// Whether the function takes named arguments of any name.
    pub more_named: bool,
    /// Whether the function looks at other jobs or ends them. It returns at once, and has a thread when
    /// other jobs hold all of theirs.
    pub about_jobs: bool,
    /// The code. It runs on a thread of its own and may block.
    pub run: fn(&Call<'_>) -> Result<Outcome, Failure>,
}

impl Function {
    /// Declares a function without parameters.
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
            about_jobs: false,
            run,
        }
    }

    /// Adds parameters.
    #[must_use]
    pub const fn with(mut self, parameters: &'static [Parameter]) -> Self {
        self.parameters = parameters;
        self
    }

    /// Allows any number of further positional arguments.
    #[must_use]
    pub const fn with_more_positional(mut self) -> Self {
        self.more_positional = true;
        self
    }

    /// Allows named arguments of any name.
    #[must_use]
    pub const fn with_more_named(mut self) -> Self {
        self.more_named = true;
        self
    }

    /// Declares that the function looks at other jobs or ends them, so that it must not wait for the
    /// threads that they hold. It has to return at once.
    #[must_use]
    pub const fn about_jobs(mut self) -> Self {
        self.about_jobs = true;
        self
    }

    /// Returns the documentation as Salt's `sys.doc` prints it.
    pub fn indented_doc(&self) -> String {
        saline_daemon::indented_doc(self.doc)
    }
}

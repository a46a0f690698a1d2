//! Why the arguments of a call do not fit the parameters of its function.

use crate::Mismatch;

/// Why the arguments of a call do not fit. The texts are Python's where it has one, because scripts compare them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// There are more positional arguments than parameters.
    #[error("{function}() takes {} but {given} {} given",
        positional(*.least, *.most), if *.given == 1 { "was" } else { "were" })]
    TooMany {
        /// The name of the function.
        function: String,
        /// The number of parameters that must be given.
        least: usize,
        /// The number of parameters that can be given.
        most: usize,
        /// The number of positional arguments.
        given: usize,
    },
    /// A parameter has a positional and a named argument.
    #[error("{function}() got multiple values for argument '{parameter}'")]
    Twice {
        /// The name of the function.
        function: String,
        /// The name of the parameter.
        parameter: String,
    },
    /// There are named arguments that are no parameters.
    #[error("The following keyword arguments are not valid: {arguments}{hint}")]
    Unknown {
        /// The arguments, as `name=value` with commas between them.
        arguments: String,
        /// What the operator may have meant; may be empty.
        hint: String,
    },
    /// Parameters that must be given are not.
    #[error("{function}() missing {} required positional argument{}: {}",
        .missing.len(), plural(.missing.len()), quoted(.missing))]
    Missing {
        /// The name of the function.
        function: String,
        /// The names of the parameters.
        missing: Vec<String>,
    },
    /// A parameter does not take the value that it is given.
    #[error("{function}() expects {} as '{parameter}', not {}", .mismatch.expected, .mismatch.found)]
    Mismatch {
        /// The name of the function.
        function: String,
        /// The name of the parameter.
        parameter: String,
        /// What the parameter takes, and what it is given.
        mismatch: Mismatch,
    },
}

impl ArgumentError {
    /// Returns the error without what somebody may have meant who typed the call at a command line.
    #[must_use]
    pub fn without_hint(mut self) -> Self {
        if let Self::Unknown { hint, .. } = &mut self {
            hint.clear();
        }
        self
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn positional(least: usize, most: usize) -> String {
    match least == most {
        true => format!("{most} positional argument{}", plural(most)),
        false => format!("from {least} to {most} positional arguments"),
    }
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [front @ .., last] => format!("{}, and {last}", front.join(", ")),
    }
}

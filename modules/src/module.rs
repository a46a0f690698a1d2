//! A module: functions with one name before the dot.

use saline_functions::Function;

use crate::JobContext;

/// The functions of one module.
pub type Functions = &'static [&'static Function<JobContext<'static>>];

/// A module of functions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Module {
    /// The name, which stands before the dot in the names of its functions.
    pub name: &'static str,
    /// The functions.
    pub functions: Functions,
    /// Returns what the machine lacks that the functions need, as words after "this machine has no"; none if it has everything.
    pub lacks: fn() -> Option<String>,
}

/// Creates a module whose functions need nothing that a machine may lack.
pub(crate) const fn everywhere(name: &'static str, functions: Functions) -> Module {
    Module {
        name,
        functions,
        lacks: || None,
    }
}

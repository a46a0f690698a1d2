//! `sys`: the functions, their documentation and their signatures.

use std::collections::BTreeSet;

use saline_data::Value;
use saline_functions::{Selector, function};
use saline_targeting::Glob;

use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &LIST_FUNCTIONS,
    &LIST_MODULES,
    &DOC,
    &ARGSPEC,
    &RELOAD_MODULES,
];

/// Returns the names of the minion's functions. Names of modules or functions, or globs, choose among them.
///
/// CLI Example:
///
///     saline '*' sys.list_functions
///     saline '*' sys.list_functions grains
///     saline '*' sys.list_functions 'test.*' 'cmd.run*'
#[function]
fn list_functions(job: &JobContext<'_>, #[args] wanted: Vec<Selector>) -> Value {
    let registry = job.modules.registry(job);
    Value::texts(registry.selected(&wanted).map(|(name, _)| name))
}

/// Returns the names of the minion's modules. Globs choose among them.
///
/// CLI Example:
///
///     saline '*' sys.list_modules
///     saline '*' sys.list_modules 's*'
#[function]
fn list_modules(job: &JobContext<'_>, #[args] wanted: Vec<Glob>) -> Value {
    let registry = job.modules.registry(job);
    let modules: BTreeSet<&str> = registry
        .iter()
        .filter_map(|(name, _)| name.split_once('.'))
        .map(|(module, _)| module)
        .filter(|module| wanted.is_empty() || wanted.iter().any(|glob| glob.matches(module)))
        .collect();
    Value::texts(modules)
}

/// Returns the documentation of functions: of all, or of those that names of modules or functions, or globs, choose.
///
/// CLI Example:
///
///     saline '*' sys.doc
///     saline '*' sys.doc cmd
///     saline '*' sys.doc cmd.run 'test.*'
#[function]
fn doc(job: &JobContext<'_>, #[args] wanted: Vec<Selector>) -> Value {
    job.modules.registry(job).documentation(&wanted)
}

/// Returns the signatures of functions: `args` are the names of their parameters, `defaults` the values of the last
/// ones when they are left out. `varargs` and `kwargs` tell whether further arguments are taken by position and by name.
/// `module` is the name of a module or a function, or a glob.
///
/// CLI Example:
///
///     saline '*' sys.argspec
///     saline '*' sys.argspec cmd.run
///     saline '*' sys.argspec 'grains.*'
#[function]
fn argspec(job: &JobContext<'_>, module: Option<Selector>) -> Value {
    let registry = job.modules.registry(job);
    let selected = registry.selected(module.as_slice());
    Value::map(selected.map(|(name, function)| (name, function.argspec())))
}

/// Forgets what the executables in `module_dirs` described, as `saltutil.refresh_modules` does.
///
/// CLI Example:
///
///     saline '*' sys.reload_modules
#[function(nonblocking, in_minion)]
fn reload_modules(job: &JobContext<'_>) -> bool {
    job.modules.executables.forget();
    job.host.function_changes.note();
    true
}

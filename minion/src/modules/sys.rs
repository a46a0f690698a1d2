//! `sys`: the functions and their documentation.

use std::collections::BTreeSet;

use saline_data::Value;
use saline_targeting::Glob;

use super::{Call, Failure, Function, Module, Outcome};

/// The module `sys`.
#[derive(Debug)]
pub struct Sys;

impl Module for Sys {
    fn name(&self) -> &'static str {
        "sys"
    }

    fn functions(&self) -> &'static [Function] {
        FUNCTIONS
    }
}

const FUNCTIONS: &[Function] = &[
    Function::new("list_functions", LIST_FUNCTIONS, list_functions).with_more_positional(),
    Function::new("list_modules", LIST_MODULES, list_modules).with_more_positional(),
    Function::new("doc", DOC, doc).with_more_positional(),
];

const LIST_FUNCTIONS: &str = "
List the functions for all modules. Optionally, specify a module or modules from which to list,
or globs over functions.

CLI Example:

.. code-block:: bash

    saline '*' sys.list_functions
    saline '*' sys.list_functions sys
    saline '*' sys.list_functions 'test.*' 'cmd.run*'
";

fn list_functions(call: &Call<'_>) -> Result<Outcome, Failure> {
    let wanted = Selection::of(call)?;
    let names = call.modules.iter().map(|(name, _)| name);
    Ok(Value::texts(names.filter(|name| wanted.function(name))).into())
}

const LIST_MODULES: &str = "
List the modules loaded on the minion. Globs choose among them.

CLI Example:

.. code-block:: bash

    saline '*' sys.list_modules
    saline '*' sys.list_modules 's*'
";

fn list_modules(call: &Call<'_>) -> Result<Outcome, Failure> {
    let wanted = Selection::of(call)?;
    let names: BTreeSet<&str> = call
        .modules
        .iter()
        .filter_map(|(name, _)| name.split_once('.'))
        .map(|(module, _)| module)
        .filter(|module| wanted.module(module))
        .collect();
    Ok(Value::texts(names).into())
}

const DOC: &str = "
Return the docstrings for all modules. Optionally, specify a module or a function to narrow the
selection, or globs over functions.

CLI Example:

.. code-block:: bash

    saline '*' sys.doc
    saline '*' sys.doc sys
    saline '*' sys.doc sys.doc
    saline '*' sys.doc 'test.*'
";

fn doc(call: &Call<'_>) -> Result<Outcome, Failure> {
    let wanted = Selection::of(call)?;
    let docs = call
        .modules
        .iter()
        .filter(|(name, _)| wanted.function(name))
        .map(|(name, function)| (name, Value::from(function.indented_doc())));
    Ok(Value::map(docs).into())
}

/// The requested functions; all by default.
enum Selection {
    All,
    These(Vec<(String, Glob)>),
}

impl Selection {
    fn of(call: &Call<'_>) -> Result<Self, Failure> {
        let texts = call.more_texts()?;
        if texts.is_empty() {
            return Ok(Self::All);
        }
        let wanted: Result<Vec<_>, Failure> = texts
            .into_iter()
            .map(|text| {
                let glob =
                    Glob::compile(&text).map_err(|error| Failure::Execution(error.to_string()))?;
                Ok((text, glob))
            })
            .collect();
        Ok(Self::These(wanted?))
    }

    /// Whether a function is requested: by its name, by its module, or by a glob.
    fn function(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(wanted) => wanted.iter().any(|(text, glob)| {
                let module = text.strip_suffix('.').unwrap_or(text);
                glob.matches(name) || name.split_once('.').is_some_and(|(m, _)| m == module)
            }),
        }
    }

    fn module(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(wanted) => wanted.iter().any(|(_, glob)| glob.matches(name)),
        }
    }
}

//! The signatures of the functions that every minion has: a command line that asks for their names, or which of their
//! parameters are secret, contains no function.

use saline_functions::{NamedModule, Parameter, Signature};

use crate::JobContext;
use crate::functions::BUILT_IN;

const MODULES: [NamedModule<JobContext<'static>>; BUILT_IN.len()] = modules();

static SIGNATURES: [Signature; Signature::count(&MODULES)] = Signature::all(&MODULES);

/// Returns the parameters of a function that every minion has, by its full name; none of an unknown one.
pub fn parameters_of(fun: &str) -> &'static [Parameter] {
    let Some((module, name)) = fun.split_once('.') else {
        return &[];
    };
    let mut all = SIGNATURES.iter();
    let found = all.find(|one| one.module == module && one.name == name);
    found.map_or(&[], |one| one.parameters)
}

/// Returns the full names of the functions that a minion can have, in alphabetical order.
pub fn function_names() -> Vec<String> {
    let mut names: Vec<String> = SIGNATURES.iter().map(Signature::full_name).collect();
    names.sort_unstable();
    names
}

const fn modules() -> [NamedModule<JobContext<'static>>; BUILT_IN.len()] {
    let mut all: [NamedModule<JobContext<'static>>; BUILT_IN.len()] = [("", &[]); BUILT_IN.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = (BUILT_IN[at].name, BUILT_IN[at].functions);
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Modules;

    #[test]
    fn the_table_has_the_parameters_of_every_function() {
        let modules = Modules::built_in();
        for (name, function) in modules.registry.iter() {
            assert_eq!(parameters_of(name), &*function.parameters, "{name}");
        }
        assert_eq!(modules.names(), function_names());
        assert!(
            parameters_of("cmd.run")
                .iter()
                .any(|one| one.name == "stdin")
        );
        for unknown in ["", "cmd", "cmd.", "cmd.walk", "cmd.run.x"] {
            assert_eq!(parameters_of(unknown), &[], "{unknown:?}");
        }
    }
}

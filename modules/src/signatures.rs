//! The parameters of the functions that every minion has, without their code: a command line that asks which of them are
//! secret contains no function. The table is made when this is compiled.

use std::borrow::Cow;

use saline_functions::{Function, Parameter};

use crate::JobContext;
use crate::functions::BUILT_IN;
use crate::modules::Module;

/// A function: its module, its name, and its parameters.
type Signature = (&'static str, &'static str, &'static [Parameter]);

static SIGNATURES: [Signature; count()] = signatures();

/// Returns the parameters of a function that every minion has, by its full name; none of an unknown one.
pub fn parameters_of(fun: &str) -> &'static [Parameter] {
    let Some((module, name)) = fun.split_once('.') else {
        return &[];
    };
    let mut all = SIGNATURES.iter();
    let found = all.find(|(own, function, _)| *own == module && *function == name);
    found.map_or(&[], |(_, _, parameters)| parameters)
}

/// Returns the number of functions.
const fn count() -> usize {
    let (mut module, mut count) = (0, 0);
    while module < BUILT_IN.len() {
        count += BUILT_IN[module].functions.len();
        module += 1;
    }
    count
}

const fn signatures() -> [Signature; count()] {
    let mut all: [Signature; count()] = [("", "", &[]); count()];
    let (mut module, mut at) = (0, 0);
    while module < BUILT_IN.len() {
        let Module {
            name, functions, ..
        } = BUILT_IN[module];
        let mut function = 0;
        while function < functions.len() {
            all[at] = signature(name, functions[function]);
            function += 1;
            at += 1;
        }
        module += 1;
    }
    all
}

const fn signature(
    module: &'static str,
    function: &'static Function<JobContext<'static>>,
) -> Signature {
    match (&function.name, &function.parameters) {
        (Cow::Borrowed(name), Cow::Borrowed(parameters)) => (module, name, parameters),
        _ => panic!("a function that every minion has owns no strings"),
    }
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
        assert_eq!(modules.registry.iter().count(), SIGNATURES.len());
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

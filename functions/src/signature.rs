//! Functions without their code: a program that only asks how functions are called holds none of them. Their tables are
//! made when the program is compiled.

use std::borrow::Cow;

use crate::{Context, Function, Parameter};

/// How a function is called: its names and its parameters.
#[derive(Debug, Clone, Copy)]
pub struct Signature {
    /// The module, which stands before the dot in the full name.
    pub module: &'static str,
    /// The name within the module.
    pub name: &'static str,
    /// The parameters.
    pub parameters: &'static [Parameter],
}

/// A module's name and its functions.
pub type NamedModule<C> = (&'static str, &'static [&'static Function<C>]);

impl Signature {
    /// Returns the number of functions in the modules.
    pub const fn count<C: Context>(modules: &[NamedModule<C>]) -> usize {
        let (mut module, mut count) = (0, 0);
        while module < modules.len() {
            count += modules[module].1.len();
            module += 1;
        }
        count
    }

    /// Returns the signatures of all functions in the modules, whose number is `N`.
    ///
    /// # Panics
    /// When `N` is another number, or a function owns its strings.
    pub const fn all<C: Context, const N: usize>(modules: &[NamedModule<C>]) -> [Self; N] {
        let none = Self {
            module: "",
            name: "",
            parameters: &[],
        };
        let (mut all, mut module, mut at) = ([none; N], 0, 0);
        while module < modules.len() {
            let (name, functions) = modules[module];
            let mut function = 0;
            while function < functions.len() {
                all[at] = Self::of(name, functions[function]);
                function += 1;
                at += 1;
            }
            module += 1;
        }
        assert!(at == N, "the table has room for every function and no more");
        all
    }

    const fn of<C: Context>(module: &'static str, function: &'static Function<C>) -> Self {
        match (&function.name, &function.parameters) {
            (Cow::Borrowed(name), Cow::Borrowed(parameters)) => Self {
                module,
                name,
                parameters,
            },
            _ => panic!("a function that is built in owns no strings"),
        }
    }

    /// Returns the name by which operators call the function.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.module, self.name)
    }
}

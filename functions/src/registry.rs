//! The functions of a daemon, by their full names.

use std::borrow::Cow;
use std::collections::BTreeMap;

use saline_data::Value;

use crate::{Context, Function, Selector};

/// The functions of a daemon, by their full names (`module.function`).
#[derive(Debug)]
pub struct Registry<C: Context>(BTreeMap<String, Function<C>>);

impl<C: Context> Clone for Registry<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: Context> Default for Registry<C> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<C: Context> Registry<C> {
    /// Adds the functions of a module. They replace those of the same name.
    #[must_use]
    pub fn with<'f>(
        mut self,
        module: &str,
        functions: impl IntoIterator<Item = &'f Function<C>>,
    ) -> Self
    where
        C: 'f,
    {
        for function in functions {
            let name = format!("{module}.{}", function.name);
            self.0.insert(name, function.clone());
        }
        self
    }

    /// Adds a function under a second name in its module. Does nothing if there is no function `fun`.
    #[must_use]
    pub fn with_alias(mut self, alias: &'static str, fun: &str) -> Self {
        if let (Some(function), Some((module, _))) = (self.get(fun), fun.split_once('.')) {
            let function = Function {
                name: Cow::Borrowed(alias),
                ..function.clone()
            };
            self.0.insert(format!("{module}.{alias}"), function);
        }
        self
    }

    /// Returns the function of this full name.
    pub fn get(&self, fun: &str) -> Option<&Function<C>> {
        self.0.get(fun)
    }

    /// Returns every function with its full name, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Function<C>)> {
        self.0.iter().map(|(name, function)| (&**name, function))
    }

    /// Returns the functions that one of the selectors selects, all if there are none, in alphabetical order.
    pub fn selected(&self, wanted: &[Selector]) -> impl Iterator<Item = (&str, &Function<C>)> {
        self.iter().filter(move |(name, _)| {
            wanted.is_empty() || wanted.iter().any(|selector| selector.selects(name))
        })
    }

    /// Returns the documentation of the selected functions, by name.
    pub fn documentation(&self, wanted: &[Selector]) -> Value {
        let selected = self.selected(wanted);
        Value::map(selected.map(|(name, f)| (name, Value::from(f.indented_documentation()))))
    }
}

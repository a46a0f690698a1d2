//! How an operator chooses among functions.

use saline_data::Value;
use saline_targeting::Glob;

use crate::{FromValue, Mismatch};

/// A name of a function or of a module, or a glob over names.
#[derive(Debug)]
pub struct Selector {
    text: String,
    glob: Glob,
}

impl Selector {
    /// Whether the function of this full name is chosen: by its name, by its module, or by the glob.
    pub fn selects(&self, fun: &str) -> bool {
        let module = self.text.strip_suffix('.').unwrap_or(&self.text);
        self.glob.matches(fun) || fun.split_once('.').is_some_and(|(m, _)| m == module)
    }
}

impl FromValue for Selector {
    const TAKES: &'static str = "the name of a function or of a module, or a glob";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let text = String::from_value(value.clone())?;
        let glob = Glob::from_value(value)?;
        Ok(Self { text, glob })
    }
}

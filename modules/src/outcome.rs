//! The outcome of a function.

use std::path::Path;

use saline_config::MinionConfig;
use saline_data::nearest;
use saline_data::{Packed, Value};
use saline_functions::{ArgumentError, Failure};
use saline_messages::RETCODE_INTERRUPTED;

use crate::job::Ending;
use crate::{Host, oversize_output};

/// The text of the return of a job that a stop of the minion ended.
pub const INTERRUPTED: &str = "The minion stopped while it ran this job";

/// The retcode of an unknown function.
pub(crate) const RETCODE_NOT_AVAILABLE: i64 = 254;

/// The value and the retcode of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The returned value.
    pub value: Value,
    /// The retcode; 0 for success.
    pub retcode: i64,
}

/// Returns the module of a function.
fn module(fun: &str) -> &str {
    fun.split_once('.').map_or(fun, |(module, _)| module)
}

impl Outcome {
    /// Creates an outcome.
    pub fn new(value: impl Into<Value>, retcode: i64) -> Self {
        Self {
            value: value.into(),
            retcode,
        }
    }

    /// Packs the return of the function `fun`, and returns it with its retcode. When it is too large to be sent, stores it in
    /// a file and returns a text that names the file.
    pub fn pack(self, fun: &str, host: &Host) -> (i64, Packed) {
        let payload = Packed::pack(&self.value);
        // Freed early: it may be large, and the packed copy exists now.
        drop(self.value);
        let (limit, size) = (host.max_payload(), payload.as_bytes().len());
        if size <= limit {
            return (self.retcode, payload);
        }
        let stored = match oversize_output::keep(&host.cache_dir, payload.as_bytes()) {
            Ok(path) => format!("it is stored, as MessagePack, in {}", path.display()),
            Err(error) => format!("it could not be stored: {error}"),
        };
        let why =
            format!("the return of {size} bytes is above the limit of {limit} bytes; {stored}");
        let outcome = Self::of_failure(&Failure::Invocation(why), fun, "");
        (outcome.retcode, Packed::pack(&outcome.value))
    }

    /// Whether the function succeeded.
    pub fn success(&self) -> bool {
        self.retcode == 0
    }

    /// Returns the outcome of an unknown function. Says which of the `known` functions, in alphabetical order, was
    /// meant, or which modules there are.
    pub fn not_available(fun: &str, known: &[&str]) -> Self {
        let mut modules: Vec<&str> = known.iter().map(|name| module(name)).collect();
        modules.dedup();
        let hint = match nearest(fun, known.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None if modules.contains(&module(fun)) => {
                let module = module(fun);
                format!("saline '*' -d {module} lists the functions of this module.")
            }
            None => format!("this minion has the modules {}.", modules.join(", ")),
        };
        Self::new(
            format!("'{fun}' is not available: {hint}"),
            RETCODE_NOT_AVAILABLE,
        )
    }

    /// Returns the outcome of a function whose module was left out, since the machine lacks what it needs.
    pub fn lacking(fun: &str, lacks: &str) -> Self {
        Self::new(
            format!("'{fun}' is not available: this machine has no {lacks}"),
            RETCODE_NOT_AVAILABLE,
        )
    }

    /// Returns the outcome of a function whose module would be the file `path`, had it no extension.
    pub fn misnamed(fun: &str, path: &Path) -> Self {
        let name = path.file_stem().unwrap_or_default().display();
        let rename = match MinionConfig::is_synced_module(path) {
            // The minion has a copy, which the next `saltutil.sync_modules` would make again.
            true => format!(
                "rename _modules/{} among the files of the master to {name} and run saltutil.sync_modules",
                path.file_name().unwrap_or_default().display()
            ),
            false => format!("rename {} to {name}", path.display()),
        };
        Self::new(
            format!(
                "'{fun}' is not available: {rename}, since the executable of a module is named as the module"
            ),
            RETCODE_NOT_AVAILABLE,
        )
    }

    /// Returns the outcome of a failure of the function `fun` with the documentation `doc`. The words before the
    /// reason are Salt's.
    pub fn of_failure(failure: &Failure, fun: &str, doc: &str) -> Self {
        let text = match failure {
            Failure::Arguments(ArgumentError::Unknown { .. }) | Failure::Invocation(_) => {
                format!("ERROR executing '{fun}': {failure}")
            }
            Failure::Arguments(_) => {
                format!("Passed invalid arguments to {fun}: {failure}\n{doc}")
            }
            Failure::Execution(_) => format!("ERROR: {failure}"),
            Failure::Exception(_) => format!("The minion function caused an exception: {failure}"),
            Failure::Ended { text, retcode } => return Self::new(text.as_str(), *retcode),
        };
        Self::new(text, 1)
    }
}

impl<T: Into<Value>> From<T> for Outcome {
    /// Creates a successful outcome.
    fn from(value: T) -> Self {
        Self::new(value, 0)
    }
}

/// Returns the failure of a function that the minion's end interrupted.
pub fn interrupted() -> Failure {
    Failure::Ended {
        text: INTERRUPTED.to_owned(),
        retcode: RETCODE_INTERRUPTED,
    }
}

/// Returns the failure of a function that another job ended while it ran.
pub fn ended(ending: &Ending) -> Failure {
    Failure::Ended {
        text: format!("This job was {ending}"),
        retcode: ending.retcode(),
    }
}

/// Returns the failure of a function that another job ended before it began.
pub fn ended_before_start(ending: &Ending) -> Failure {
    Failure::Ended {
        text: format!("This job was {ending} before it began"),
        retcode: ending.retcode(),
    }
}

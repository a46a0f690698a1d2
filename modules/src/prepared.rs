//! What a minion prepares for a job before its process begins, which cannot ask the master for files.

use std::fmt;

use saline_functions::{BoundArguments, Failure};
use serde::{Deserialize, Serialize};

use crate::JobContext;
use crate::master_files::MasterScript;

/// Prepares what the call of a function with these arguments needs.
pub(crate) type Preparation =
    for<'a> fn(&JobContext<'a>, BoundArguments, &mut Prepared) -> Result<(), Failure>;

/// The scripts of the master that the functions of a job run, each with its content or the reason why there is none.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared(Vec<(MasterScript, Result<Vec<u8>, String>)>);

impl Prepared {
    /// Gets a script.
    ///
    /// # Errors
    /// When the job is ended or the minion stops meanwhile.
    pub(crate) fn add(
        &mut self,
        job: &JobContext<'_>,
        script: MasterScript,
    ) -> Result<(), Failure> {
        let content = match script.read(job) {
            Ok(content) => Ok(content),
            // The function fails with it.
            Err(Failure::Execution(why) | Failure::Invocation(why)) => Err(why),
            Err(failure) => return Err(failure),
        };
        self.0.push((script, content));
        Ok(())
    }

    /// Returns a script that was prepared; none if it was not.
    pub(crate) fn get(&self, script: &MasterScript) -> Option<Result<Vec<u8>, Failure>> {
        let (_, content) = self.0.iter().find(|(own, _)| own == script)?;
        Some(content.clone().map_err(Failure::Execution))
    }
}

// A script may hold a secret.
impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({} scripts)", self.0.len())
    }
}

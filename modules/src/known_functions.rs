//! What the minion tells the master of its functions.

use std::path::Path;

use saline_messages::{MAX_FUNCTIONS_BYTES, MinionFunctions};

use crate::functions::BUILT_IN;
use crate::job::{JobControl, RunningJob};
use crate::{Host, JobContext, Modules};

impl Modules {
    /// Returns the functions that the minion has, as far as it knows them without asking an executable. `synced` is the folder of
    /// the modules that the master has for all minions: nothing else puts modules there, so that those in it are known, while
    /// operators change the other folders at any time. Blocks on the disk.
    pub fn known_functions(&self, synced: &Path) -> MinionFunctions {
        let absent = BUILT_IN
            .iter()
            .filter(|module| self.absent.contains_key(module.name));
        let absent = absent.flat_map(|module| {
            let functions = module.functions.iter();
            functions.map(|function| format!("{}.{}", module.name, function.name))
        });
        let mut known = MinionFunctions {
            built_in: self.names().into_iter().chain(absent).collect(),
            may_grow: self.executables.have_other_folders(synced),
            ..MinionFunctions::default()
        };
        for (module, functions) in self.executables.known() {
            if self.is_built_in(&module) {
                continue;
            }
            match functions {
                Some(names) => {
                    let names = names.into_iter();
                    known
                        .own
                        .extend(names.map(|name| format!("{module}.{name}")));
                }
                None => {
                    known.undescribed.insert(module);
                }
            }
        }
        if known.to_bytes().len() > MAX_FUNCTIONS_BYTES {
            tracing::warn!(
                "the own modules have more functions than the master takes: it does not know them, and refuses no job of an own module"
            );
            (known.own, known.may_grow) = (Default::default(), true);
            known.undescribed.clear();
        }
        known
    }

    /// Returns when each folder of executables was changed last. Blocks on the disk.
    pub fn folder_changes(&self) -> Vec<Option<(i64, i64)>> {
        self.executables.folder_changes()
    }

    /// Asks the executables for their functions that have not been asked yet; the log tells which are refused. Blocks until they
    /// have answered.
    pub fn describe_executables(&self, host: &Host) {
        let function = "sys.list_functions";
        let job = JobControl::new(RunningJob::of_the_minion(function));
        // Nobody else can end it.
        let _ = job.begin();
        let context = JobContext {
            host,
            job: &job,
            function,
            modules: self,
        };
        self.registry(&context);
    }
}

//! The programs with which a master works, which is told where they are.

use std::sync::Arc;

use saline_config::{LoginWay, MasterConfig};
use saline_exec::Program;
use saline_pam::{PamError, PamHelper, PamProcess};

/// Where the programs are that a master starts, and the one that was started before the master gave up the rights of root.
#[derive(Debug)]
pub(crate) struct Programs {
    /// `saline-exec`, and `saline-render` beside it.
    pub(crate) exec: Program,
    /// `saline-pam`, if `external_auth` has `pam`.
    pub(crate) pam: Option<PamProcess>,
}

impl Programs {
    /// Finds the programs, and starts the one that needs the rights of root. Call it while the process has them.
    ///
    /// # Errors
    /// When that one cannot be started.
    pub(crate) fn start(exec: Program, config: &MasterConfig) -> Result<Self, PamError> {
        let wants_pam = config.external_auth.ways.contains_key(&LoginWay::Pam);
        let pam = wants_pam.then(PamProcess::start_beside_this_one);
        Ok(Self {
            exec,
            pam: pam.transpose()?,
        })
    }

    /// Takes `saline-pam` over, if it was started.
    ///
    /// # Errors
    /// When no thread can be made that reads what it says.
    pub(crate) fn take_pam(&mut self) -> Result<Option<Arc<PamHelper>>, PamError> {
        let helper = self.pam.take().map(PamHelper::new).transpose()?;
        Ok(helper.map(Arc::new))
    }
}

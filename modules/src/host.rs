//! The parts of a minion that its functions may use.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use saline_config::MinionConfig;
use saline_data::Value;
use saline_exec::Launcher;
use saline_functions::Failure;
use saline_render::process::{RenderProgram, Renderers};
use saline_schedule::Scheduler;

use crate::event_queue::EventQueue;
use crate::function_changes::FunctionChanges;
use crate::grains::GrainStore;
use crate::job::{JobControl, Running, RunningJob, Stop, Woken};
use crate::local_events::LocalEvents;
use crate::master_files::MasterFiles;
use crate::mine::{MasterMine, MineSettings};
use crate::modules::LiveModules;
use crate::outcome::{ended, interrupted};
use crate::pillar::{MasterPillar, PillarStore};
use crate::prepared::Prepared;
use crate::refused_returns::RefusedReturns;

/// The parts of a minion that its functions may use.
#[derive(Debug)]
pub struct Host {
    /// The facts about the machine.
    pub grains: GrainStore,
    /// The jobs that run now.
    pub running: Running,
    /// The events that wait to be sent to the master.
    pub events: EventQueue,
    /// The jobs that were begun, and the returns that are not stored; none beside a running minion, which
    /// has them.
    pub refused_returns: Option<Arc<dyn RefusedReturns>>,
    /// Asks the master for files; unset beside a running minion, which has the session.
    pub master_files: OnceLock<Box<dyn MasterFiles>>,
    /// The pillar that the minion holds.
    pub pillar: PillarStore,
    /// Asks the master for the pillar; unset where no master takes part.
    pub master_pillar: OnceLock<Box<dyn MasterPillar>>,
    /// Tells when the minion's functions may have changed.
    pub function_changes: FunctionChanges,
    /// What the minion leaves in the mine.
    pub mine: MineSettings,
    /// Asks the master about the mine; unset where no master takes part.
    pub master_mine: OnceLock<Box<dyn MasterMine>>,
    /// Interrupts functions when the minion stops.
    pub stop: Stop,
    /// The events that wait for the minion's own bus.
    pub local_events: LocalEvents,
    /// Whether the minion's own bus takes these; it does not beside a running minion.
    pub has_bus: bool,
    /// The functions of the minion, as they change; unset beside a running minion.
    pub modules: OnceLock<Arc<LiveModules>>,
    /// The jobs that the minion runs by the clock; none beside a running minion, which has them.
    pub schedule: Option<Arc<Scheduler>>,
    /// `cachedir`, where outputs that are too large to be sent are stored.
    pub cache_dir: PathBuf,
    /// `pki_dir`, where the keys are.
    pub pki_dir: PathBuf,
    /// `grains_dirs`, where executables are that print grains.
    pub grains_dirs: Vec<PathBuf>,
    /// Starts commands.
    pub launcher: Launcher,
    /// Renders templates.
    pub(crate) renderers: Renderers,
    /// The number of templates that were rendered.
    pub(crate) renderings: AtomicU64,
    /// What the minion has prepared for the job of this process; unset outside of a job process.
    pub(crate) prepared: OnceLock<Prepared>,
    options: Mutex<Arc<Value>>,
    limit: AtomicUsize,
    output_file_size: AtomicU64,
}

/// An upper bound of the bytes of a return beside its payload and its arguments.
const PAYLOAD_OVERHEAD: usize = 1024;

impl Host {
    /// Creates a host with the folders and the bounds of this configuration.
    pub fn new(
        config: &MinionConfig,
        grains: GrainStore,
        events: EventQueue,
        refused_returns: Option<Arc<dyn RefusedReturns>>,
        stop: Stop,
        launcher: Launcher,
    ) -> Self {
        Self {
            local_events: LocalEvents::new(events.id().clone()),
            has_bus: false,
            grains,
            events,
            refused_returns,
            master_files: OnceLock::new(),
            pillar: PillarStore::default(),
            master_pillar: OnceLock::new(),
            mine: MineSettings::new(config.mine.clone()),
            master_mine: OnceLock::new(),
            modules: OnceLock::new(),
            schedule: None,
            running: Running::default(),
            function_changes: FunctionChanges::default(),
            stop,
            cache_dir: config.paths.cache_dir.clone(),
            pki_dir: config.paths.pki_dir.clone(),
            grains_dirs: config.grains_dirs.clone(),
            renderers: Renderers::new(launcher.clone(), RenderProgram::beside(launcher.program())),
            launcher,
            renderings: AtomicU64::new(0),
            prepared: OnceLock::new(),
            options: Mutex::new(Arc::new(config.shown.clone())),
            limit: AtomicUsize::new(config.max_message_size),
            output_file_size: AtomicU64::new(config.output_file_size),
        }
    }

    /// Takes over what a changed configuration says about functions.
    pub fn reload(&self, config: &MinionConfig) {
        self.output_file_size
            .store(config.output_file_size, Ordering::Relaxed);
        *self.lock_options() = Arc::new(config.shown.clone());
        self.mine.set(config.mine.clone());
    }

    /// Returns every option by its name, with secrets hidden.
    pub fn options(&self) -> Arc<Value> {
        Arc::clone(&self.lock_options())
    }

    /// Collects all grains again, with those that executables print: they run for the job, which can end them.
    pub fn refresh_grains(&self, job: &JobControl) {
        match self.grains_dirs.is_empty() {
            true => self.grains.refresh(),
            false => self.grains.run_executables(&self.grains_dirs, self, job),
        }
    }

    /// Collects all grains again, without a job that asks for it: when the minion starts.
    pub fn collect_printed_grains(&self) {
        let job = JobControl::new(RunningJob::of_the_minion("saltutil.refresh_grains"));
        // Nobody else can end it.
        let _ = job.begin();
        self.refresh_grains(&job);
    }

    /// Waits for `duration` on the thread of a job.
    ///
    /// # Errors
    /// When the minion stops or the job is ended before.
    pub(crate) fn wait(&self, job: &JobControl, duration: Duration) -> Result<(), Failure> {
        match job.wait(&self.stop, duration) {
            Ok(Woken::TimePassed) => Ok(()),
            Ok(Woken::Stopped) => Err(interrupted()),
            Ok(Woken::Ended(ending)) => Err(ended(&ending)),
            Err(error) => Err(Failure::Execution(format!(
                "cannot create an eventfd: {error}"
            ))),
        }
    }

    fn lock_options(&self) -> MutexGuard<'_, Arc<Value>> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the largest message that can be sent, in bytes.
    pub fn max_message(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the largest message, in bytes.
    pub fn set_max_message(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns the largest file of the output of a command, in bytes.
    pub fn output_file_size(&self) -> u64 {
        self.output_file_size.load(Ordering::Relaxed)
    }

    /// Returns the largest payload of a return, in bytes.
    pub fn max_payload(&self) -> usize {
        self.max_message().saturating_sub(PAYLOAD_OVERHEAD)
    }
}

//! systemd, as a job asks it over the D-Bus of the system.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use saline_functions::Failure;
use saline_protocol::transport::Clock;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;
use zbus::export::ordered_stream::OrderedStreamExt;
use zbus::proxy::CacheProperties;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, Proxy};

use super::manager::{LinkChange, ManagerProxy};
use super::unit_name::UnitName;
use crate::JobContext;
use crate::outcome::{ended, interrupted};

/// How long systemd may take to answer a question.
const TIME_TO_ANSWER: Duration = Duration::from_secs(25);

/// How long a unit may take to start or stop. systemd itself gives up after 90 s, unless the unit says otherwise.
const TIME_TO_CHANGE: Duration = Duration::from_secs(600);

const NAME: &str = "org.freedesktop.systemd1";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// What is done to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Start,
    Stop,
    Restart,
    Reload,
}

/// What is done to the files of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileVerb {
    Enable,
    Disable,
    Mask,
    Unmask,
}

/// The state of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitState {
    /// Whether systemd has a file of the unit: `loaded`, `masked`, `not-found` and more.
    pub load: String,
    /// The activity: `active`, `inactive`, `failed` and more.
    pub active: String,
    /// The activity in detail: `running`, `exited`, `auto-restart` and more.
    pub sub: String,
    /// The result of a service: `success`, `exit-code` and more.
    pub result: String,
    /// The type of a service: `simple`, `oneshot` and more.
    pub kind: String,
    /// How often systemd has restarted the service by itself.
    pub restarts: u32,
}

impl UnitState {
    /// Whether the unit runs, as `systemctl is-active` says.
    pub(super) fn is_active(&self) -> bool {
        matches!(&*self.active, "active" | "reloading")
    }

    /// Whether the unit is in this state because a process of it failed.
    fn has_failed_since(&self, before: &Self) -> bool {
        self.active == "failed" || self.sub == "auto-restart" || self.restarts > before.restarts
    }
}

/// A connection to systemd.
pub(super) struct Systemd {
    connection: Connection,
    pub manager: ManagerProxy<'static>,
}

/// Asks systemd on this thread, and waits for what `ask` returns. What changes a unit has longer than a question.
///
/// # Errors
/// When the D-Bus of the system cannot be reached, when systemd refuses or does not answer in time, and when the minion
/// stops or the job is ended meanwhile.
pub(super) fn ask<T>(
    job: &JobContext<'_>,
    changes: bool,
    ask: impl AsyncFnOnce(&Systemd) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let no_runtime =
        |error: io::Error| Failure::Execution(format!("cannot wait for D-Bus: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(no_runtime)?;
    let limit = if changes {
        TIME_TO_CHANGE
    } else {
        TIME_TO_ANSWER
    };
    runtime.block_on(async {
        let stop = job.host.stop.as_fd().try_clone_to_owned().map_err(no_runtime)?;
        let stop = watched(stop).map_err(no_runtime)?;
        let answer = async {
            let systemd = timeout(TIME_TO_ANSWER, Systemd::connect()).await;
            let systemd = systemd.map_err(|_| unreachable(&"it does not answer"))?;
            ask(&systemd.map_err(|error| unreachable(&error))?).await
        };
        tokio::select! {
            answer = timeout(limit, answer) => answer.unwrap_or_else(|_| {
                Err(Failure::Execution(format!("systemd has not finished after {} s", limit.as_secs())))
            }),
            ending = job.job.ended() => Err(ended(&ending)),
            _ = stop.readable() => Err(interrupted()),
        }
    })
}

/// Returns a descriptor that the runtime of this thread watches.
#[allow(
    unsafe_code,
    reason = "tokio asks its caller to keep the descriptor open"
)]
fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps one open descriptor until it is dropped, which `AsyncFd` does after it was deregistered.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}

fn unreachable(why: &dyn std::fmt::Display) -> Failure {
    Failure::Execution(format!(
        "cannot reach systemd over the D-Bus of the system: {why}. Is dbus installed, and dbus.socket active?"
    ))
}

/// Returns the failure of a question that systemd refused.
pub(super) fn refused(error: zbus::Error) -> Failure {
    Failure::Execution(match error {
        zbus::Error::MethodError(_, Some(why), _) => format!("systemd refuses: {why}"),
        error => format!("systemd refuses: {error}"),
    })
}

impl Systemd {
    async fn connect() -> zbus::Result<Self> {
        let connection = zbus::connection::Builder::system().build().await?;
        let manager = ManagerProxy::builder(&connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        Ok(Self {
            connection,
            manager,
        })
    }

    /// Returns the properties of a unit.
    pub(super) async fn properties(
        &self,
        unit: &UnitName,
    ) -> Result<BTreeMap<String, OwnedVariant>, Failure> {
        let path = self
            .manager
            .load_unit(unit.as_str())
            .await
            .map_err(refused)?;
        self.properties_at(&path).await
    }

    async fn properties_at(
        &self,
        unit: &OwnedObjectPath,
    ) -> Result<BTreeMap<String, OwnedVariant>, Failure> {
        // No interface means all of them.
        let answer = self
            .connection
            .call_method(Some(NAME), unit, Some(PROPERTIES), "GetAll", &"")
            .await
            .map_err(refused)?;
        let properties: HashMap<String, OwnedVariant> =
            answer.body().deserialize().map_err(refused)?;
        Ok(properties.into_iter().collect())
    }

    /// Returns the state of a unit. One that systemd does not know is inactive.
    pub(super) async fn state(&self, unit: &UnitName) -> Result<UnitState, Failure> {
        let properties = self.properties(unit).await?;
        let text = |name: &str| {
            let value = properties.get(name).cloned();
            let text = value.and_then(|value| String::try_from(value).ok());
            text.unwrap_or_default()
        };
        let restarts = properties.get("NRestarts").cloned();
        Ok(UnitState {
            load: text("LoadState"),
            active: text("ActiveState"),
            sub: text("SubState"),
            result: text("Result"),
            kind: text("Type"),
            restarts: restarts.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        })
    }

    /// Returns whether the file of a unit is enabled, masked and so on; an empty text if there is none.
    pub(super) async fn file_state(&self, unit: &UnitName) -> Result<String, Failure> {
        match self.manager.get_unit_file_state(unit.as_str()).await {
            Ok(state) => Ok(state),
            Err(zbus::Error::FDO(error)) if matches!(*error, zbus::fdo::Error::FileNotFound(_)) => {
                Ok(String::new())
            }
            Err(zbus::Error::MethodError(name, ..)) if name.ends_with(".NoSuchUnit") => {
                Ok(String::new())
            }
            Err(error) => Err(refused(error)),
        }
    }

    /// Does something to a unit, and waits until it is done. Returns systemd's word for the end: `done`, or how it failed.
    /// Without `waits`, returns `done` once systemd has begun.
    pub(super) async fn change(
        &self,
        verb: Verb,
        unit: &UnitName,
        waits: bool,
    ) -> Result<String, Failure> {
        self.manager.subscribe().await.map_err(refused)?;
        let mut removed = self.manager.receive_job_removed().await.map_err(refused)?;
        let (unit, mode) = (unit.as_str(), "replace");
        let job = match verb {
            Verb::Start => self.manager.start_unit(unit, mode).await,
            Verb::Stop => self.manager.stop_unit(unit, mode).await,
            Verb::Restart => self.manager.restart_unit(unit, mode).await,
            Verb::Reload => self.manager.reload_unit(unit, mode).await,
        };
        let job = job.map_err(refused)?;
        if !waits {
            return Ok("done".to_owned());
        }
        loop {
            let Some(signal) = removed.next().await else {
                return Err(Failure::Execution(
                    "systemd closed the connection".to_owned(),
                ));
            };
            let ended = signal.args().map_err(refused)?;
            if *ended.job() == job {
                return Ok(ended.result().clone());
            }
        }
    }

    /// Watches a unit that has started, for `time` or until it fails. Returns its last state, and whether it failed.
    pub(super) async fn watch(
        &self,
        unit: &UnitName,
        before: &UnitState,
        time: Duration,
    ) -> Result<(UnitState, bool), Failure> {
        let begun = Clock.now();
        let path = self
            .manager
            .load_unit(unit.as_str())
            .await
            .map_err(refused)?;
        let proxy = Proxy::new(&self.connection, NAME, path, PROPERTIES)
            .await
            .map_err(refused)?;
        // The state is read after the signals are listened to: no change is missed.
        let mut changed = proxy
            .receive_signal("PropertiesChanged")
            .await
            .map_err(refused)?;
        loop {
            let state = self.state(unit).await?;
            if state.has_failed_since(before) {
                return Ok((state, true));
            }
            // A process is left to be watched.
            let runs = state.is_active() && state.sub == "running";
            let left = time.saturating_sub(Clock.now().saturating_duration_since(begun));
            if !runs || timeout(left, changed.next()).await.is_err() {
                return Ok((state, false));
            }
        }
    }

    /// Does something to the files of a unit, and lets systemd read them again.
    pub(super) async fn change_files(
        &self,
        verb: FileVerb,
        unit: &UnitName,
        runtime: bool,
    ) -> Result<Vec<LinkChange>, Failure> {
        let (manager, files) = (&self.manager, [unit.as_str()]);
        let changes = match verb {
            FileVerb::Enable => {
                let enabled = manager.enable_unit_files(&files, runtime, false).await;
                enabled.map(|(_, changes)| changes)
            }
            FileVerb::Disable => manager.disable_unit_files(&files, runtime).await,
            FileVerb::Mask => manager.mask_unit_files(&files, runtime, false).await,
            FileVerb::Unmask => manager.unmask_unit_files(&files, runtime).await,
        };
        let changes = changes.map_err(refused)?;
        manager.reload().await.map_err(refused)?;
        Ok(changes)
    }
}

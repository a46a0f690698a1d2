//! Leaves the values of the `mine_functions` with the master: when the minion has its first session, then by the clock, when the
//! functions have changed, and soon after the master could not take them.

use std::sync::Arc;
use std::time::Duration;

use saline_modules::{Host, LiveModules};
use saline_protocol::transport::{Context, jitter};

use crate::link::current_session::CurrentSession;

/// The part of the interval by which updates are spread: minions that began together do not go on together.
const SPREAD: u32 = 10;

/// How long the minion waits before it tries again what the master could not take.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// Updates the mine for as long as the minion runs.
#[derive(Debug)]
pub(crate) struct MineUpdates {
    pub(crate) host: Arc<Host>,
    pub(crate) modules: Arc<LiveModules>,
    pub(crate) session: CurrentSession,
    pub(crate) context: Context,
}

impl MineUpdates {
    /// Runs until the minion stops.
    pub(crate) async fn run(self) {
        let clock = self.context.clock;
        let mut sessions = self.session.subscribe();
        let (mut only_changed, mut due) = (false, clock.now());
        loop {
            // An error means that the minion stops.
            if sessions.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let config = self.host.mine.config();
            let mut pause = config.interval;
            if config.enabled {
                let (host, modules) = (Arc::clone(&self.host), self.modules.now());
                let updating = self
                    .context
                    .spawn_blocking(move || host.update_mine(&modules, only_changed));
                // An error means that it panicked, which the runtime logs.
                if !updating.await.unwrap_or(true) {
                    pause = pause.min(RETRY_DELAY);
                }
            }
            if !only_changed || pause < config.interval {
                due = clock.now() + pause + jitter(pause / SPREAD);
            }
            let left = due.saturating_duration_since(clock.now());
            only_changed = tokio::select! {
                () = self.host.mine.wanted() => true,
                () = clock.pause(left) => false,
            };
        }
    }
}

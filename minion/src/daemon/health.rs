//! How the minion is, for `--health`.

use saline_daemon::Health;

use super::Minion;
use crate::link::connection_state::ConnectionState;

impl Minion {
    /// Returns how the minion is. It is well while it has a session, and its connection is not down.
    pub fn health(&self) -> Health {
        let mut health = Health::of_this_process();
        let connection = self.connection_state();
        health.fact("id", self.id.as_str());
        health.fact("connection", connection.as_str());
        let running = self.host.running.list().len();
        health.fact("jobs_running", running);
        health.fact("jobs_waiting", self.jobs.taken().saturating_sub(running));
        health.fact("returns_unacknowledged", self.spool.unacknowledged());
        let is_connected = match self.state.get() {
            ConnectionState::Down(_) => false,
            state => !state.is_before_a_session() || self.session.get().is_some(),
        };
        if !is_connected {
            health.problem(format!("it has no session with its master: {connection}"));
        }
        health
    }
}

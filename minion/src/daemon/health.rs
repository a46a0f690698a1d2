//! The health of the minion, which `--health` prints.

use saline_daemon::Health;

use super::Minion;

impl Minion {
    /// Returns the health of the minion. A minion is healthy while it has a session whose connection is up.
    pub fn health(&self) -> Health {
        let mut health = Health::of_this_process();
        let connection = self.connection_state();
        health.fact("id", self.id.as_str());
        health.fact("connection", connection.as_str());
        let running = self.host.running.list().len();
        health.fact("jobs_running", running);
        health.fact("jobs_waiting", self.jobs.taken().saturating_sub(running));
        health.fact("returns_unacknowledged", self.spool.unacknowledged());
        match self.session.get() {
            Some(session) if session.is_up() => {}
            Some(session) => health.problem(format!(
                "its connection to the master at {} is down",
                session.endpoint
            )),
            None => health.problem(format!("it has no session with its master: {connection}")),
        }
        health
    }
}

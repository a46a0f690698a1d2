//! The metrics of the minion, which `metrics_listen` and the report on SIGUSR1 show.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use saline_daemon::{Metrics, MetricsSource};

use super::Minion;

#[async_trait]
impl MetricsSource for Minion {
    async fn metrics(&self) -> Metrics {
        self.measured()
    }
}

impl Minion {
    /// Returns the metrics at this moment. Does not wait for the disk.
    pub(super) fn measured(&self) -> Metrics {
        let mut metrics = Metrics::of_this_process("minion", &self.counters);
        let session = self.session.get();
        metrics.gauge(
            "saline_minion_connected",
            "Whether the minion has a session with its master whose connection is up.",
            session.is_some_and(|session| session.is_up()),
        );
        let time = &self.session_loop.clock;
        metrics.gauge(
            "saline_minion_last_contact_age_seconds",
            "How long ago the master answered the last heartbeat. Absent before the first answer.",
            time.age(),
        );
        metrics.gauge(
            "saline_minion_clock_offset_seconds",
            "By how much the master's time is ahead of the clock of this machine; less than zero when it is behind it. Absent \
             before the master's first answer.",
            time.ahead().map(|milliseconds| milliseconds as f64 / 1e3),
        );
        let running = self.host.running.list().len();
        metrics.gauge(
            "saline_minion_jobs_running",
            "Jobs that the minion runs.",
            running,
        );
        metrics.gauge(
            "saline_minion_jobs_waiting",
            "Jobs that wait for a thread, or for the master's word that they may begin.",
            self.jobs.taken().saturating_sub(running),
        );
        metrics.gauge(
            "saline_minion_pillar_errors",
            "Errors of the pillar when the master compiled it last. While there are any, the minion keeps the last pillar without.",
            self.host.pillar.errors(),
        );
        metrics.gauge(
            "saline_minion_returns_unacknowledged",
            "Returns that the master has not acknowledged.",
            self.spool.unacknowledged(),
        );
        metrics.gauge(
            "saline_minion_spool_bytes",
            "The size of the spool, which shrinks now and then. Absent while it is written.",
            self.spool.bytes(),
        );
        metrics.gauge(
            "saline_minion_events_queued",
            "Events that wait for the master.",
            self.host.events.waiting(),
        );
        metrics.gauge(
            "saline_minion_local_events_queued",
            "Events that wait for the minion's own event bus.",
            self.host.local_events.waiting(),
        );
        metrics.counter(
            "saline_minion_local_events",
            "Events that were passed on over the minion's own event bus.",
            self.bus_counts.fired.load(Ordering::Relaxed),
        );
        metrics.counter(
            "saline_minion_local_events_refused",
            "Events that programs on the machine tried to fire on the minion's own event bus, and that were refused.",
            self.bus_counts.refused.load(Ordering::Relaxed),
        );
        metrics.gauge(
            "saline_minion_schedule_jobs",
            "Jobs of the schedule.",
            self.scheduler.len(),
        );
        metrics.counter(
            "saline_minion_schedule_runs",
            "Runs of scheduled jobs that were begun.",
            self.scheduler.runs(),
        );
        metrics.counter(
            "saline_minion_schedule_skips",
            "Runs of scheduled jobs that were due and did not take place: too many were under way, or the time was not right.",
            self.scheduler.skips(),
        );
        metrics.gauge(
            "saline_minion_scheduled_returns_waiting",
            "Returns of scheduled jobs that the master has not acknowledged.",
            self.spool.scheduled_waiting(),
        );
        metrics.counter(
            "saline_minion_scheduled_returns_dropped",
            "Returns of scheduled jobs that were dropped, since too many waited for the master.",
            self.spool.dropped(),
        );
        metrics
    }
}

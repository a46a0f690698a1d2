//! The metrics of the master: what its parts hold and count, read when somebody asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use saline_daemon::{Metrics, MetricsSource};
use saline_messages::KeyState;
use saline_protocol::transport::{Context, Counters};
use saline_schedule::Scheduler;

use crate::bounds::Accounts;
use crate::clock::MasterClock;
use crate::disk_figures::{DiskFigures, DiskReader};
use crate::events::Events;
use crate::fileserver::FileFigures;
use crate::health::ANSWER_TIMEOUT;
use crate::jobs::JobStore;
use crate::mine::Mine;
use crate::pillar::Pillars;
use crate::publisher::MinionPublisher;
use crate::reactions::ReactorFigures;
use crate::returners::{ReturnerFigures, Returners};
use crate::sessions::Sessions;

/// The parts of a master whose metrics are read.
#[derive(Debug)]
pub(crate) struct MasterMetrics {
    pub(crate) context: Context,
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: MasterClock,
    pub(crate) heartbeat: Duration,
    pub(crate) disk: DiskReader,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
    pub(crate) files: Arc<FileFigures>,
    pub(crate) pillars: Pillars,
    pub(crate) mine: Mine,
    pub(crate) schedule: Arc<Scheduler>,
    pub(crate) reactor: Arc<ReactorFigures>,
    pub(crate) refused_handshakes: Arc<AtomicU64>,
    pub(crate) returners: Returners,
}

#[async_trait]
impl MetricsSource for MasterMetrics {
    async fn metrics(&self) -> Metrics {
        let counters = Arc::clone(&self.counters);
        let process = move || Metrics::of_this_process("master", &counters);
        let process = self.context.spawn_blocking(process).await;
        // An error means that the runtime is going down.
        let mut metrics = process.unwrap_or_default();
        let clock = self.context.clock;
        let disk = clock.deadline(clock.after(ANSWER_TIMEOUT), self.disk.read());
        let disk = disk.await.ok().flatten();
        self.minions_and_keys(&mut metrics, disk.as_ref());
        self.jobs_and_store(&mut metrics, disk.as_ref());
        self.events_and_requests(&mut metrics);
        self.files(&mut metrics);
        self.pillars(&mut metrics);
        self.mine(&mut metrics);
        self.clock_and_tasks(&mut metrics);
        self.schedule(&mut metrics);
        self.returners(&mut metrics);
        self.reactor(&mut metrics);
        metrics
    }

    async fn minions(&self) -> Option<Metrics> {
        let minions = self.sessions.heartbeat_age_by_minion();
        let mut metrics = Metrics::default();
        metrics.gauges(
            "saline_master_minion_present",
            "Whether the minion is present. Of minions that were heard since the master started.",
            "minion",
            minions
                .iter()
                .map(|(id, _, is_present)| (id.to_string(), *is_present)),
        );
        metrics.gauges(
            "saline_master_minion_heartbeat_age_seconds",
            "How long ago the minion was heard. Of minions that were heard since the master started.",
            "minion",
            minions.iter().map(|(id, age, _)| (id.to_string(), *age)),
        );
        Some(metrics)
    }
}

impl MasterMetrics {
    fn minions_and_keys(&self, metrics: &mut Metrics, disk: Option<&DiskFigures>) {
        metrics.gauge(
            "saline_master_minions_expected",
            "Minions with an accepted key.",
            disk.and_then(|disk| disk.keys(KeyState::Accepted)),
        );
        metrics.gauge(
            "saline_master_minions_present",
            "Minions that are present: heard within two heartbeats, over a connection that stands.",
            self.sessions.minions(),
        );
        let ages = self.sessions.heartbeat_ages();
        metrics.gauge(
            "saline_master_heartbeat_interval_seconds",
            "How often minions are to be heard: heartbeat_interval.",
            self.heartbeat,
        );
        metrics.gauge(
            "saline_master_heartbeat_age_max_seconds",
            "How long ago the minion was heard that has been silent for the longest time. Of minions with an accepted key that \
             were heard since the master started; /metrics/minions names each.",
            ages.oldest,
        );
        metrics.gauges(
            "saline_master_minions_silent",
            "How many of these minions have been silent for more than so many heartbeats.",
            "heartbeats",
            [
                ("2".to_owned(), ages.silent_2),
                ("10".to_owned(), ages.silent_10),
            ],
        );
        metrics.gauge(
            "saline_master_sessions",
            "Sessions of minions, of programs beside them and of operators.",
            self.sessions.len(),
        );
        metrics.gauges(
            "saline_master_keys",
            "Keys of minions, by their state.",
            "state",
            KeyState::ALL.map(|state| {
                let count = disk.and_then(|disk| disk.keys(state));
                (state.adjective().to_owned(), count)
            }),
        );
        metrics.counter(
            "saline_master_handshakes_refused",
            "Handshakes that were refused, or asked to come again later because their source had too many.",
            self.refused_handshakes.load(Ordering::Relaxed),
        );
    }

    fn jobs_and_store(&self, metrics: &mut Metrics, disk: Option<&DiskFigures>) {
        let counts = self.jobs.counts();
        metrics.counter(
            "saline_master_jobs_published",
            "Jobs that were published.",
            counts.published(),
        );
        metrics.gauge(
            "saline_master_jobs_open",
            "Jobs that a minion may begin, or runs.",
            self.jobs.under_way(),
        );
        metrics.gauge(
            "saline_master_job_minions_open",
            "Minions that may begin a job or run it, of all jobs: one that runs two counts twice.",
            self.jobs.offers(),
        );
        metrics.counters(
            "saline_master_job_ends",
            "Final states that minions reached in jobs. One that expired and returns after all counts twice.",
            "state",
            self.jobs.ends(),
        );
        let (succeeded, failed) = counts.returns();
        metrics.counters(
            "saline_master_returns",
            "Returns that were stored, by their result.",
            "result",
            [("success", succeeded), ("failure", failed)],
        );
        let commits = self.jobs.commits();
        metrics.durations(
            "saline_master_store_commit_seconds",
            "How long each transaction of the job store took.",
            commits.durations.measured(),
        );
        metrics.counter(
            "saline_master_store_commits_failed",
            "Transactions of the job store that failed.",
            commits.failures(),
        );
        metrics.gauge(
            "saline_master_store_queued",
            "Writes that wait for the job store.",
            self.jobs.writes_queued(),
        );
        metrics.gauge(
            "saline_master_store_bytes",
            "The size of the job store.",
            disk.map(|disk| disk.store),
        );
        metrics.gauge(
            "saline_master_store_max_bytes",
            "The size from which the oldest jobs are removed: job_store_size. Absent when there is none.",
            self.jobs.max_bytes(),
        );
        metrics.gauge(
            "saline_master_store_free_bytes",
            "What is free on the file system of the job store.",
            disk.and_then(|disk| disk.free),
        );
    }

    fn events_and_requests(&self, metrics: &mut Metrics) {
        let (own, of_minions) = self.events.queued();
        metrics.gauges(
            "saline_master_events_queued",
            "Events that wait for the event bus, by who fired them.",
            "origin",
            [
                ("master".to_owned(), own),
                ("minions".to_owned(), of_minions),
            ],
        );
        metrics.gauge(
            "saline_master_event_subscribers",
            "Subscriptions to every event of the event bus.",
            self.events.subscribers(),
        );
        metrics.gauge(
            "saline_master_publications_queued",
            "Jobs and keys that wait to be published to minions.",
            self.publisher.queued(),
        );
        let (_, refused) = self.accounts.report();
        metrics.counter(
            "saline_master_requests_refused",
            "Requests of minions that were refused because one minion asked for too much.",
            refused,
        );
    }

    fn files(&self, metrics: &mut Metrics) {
        metrics.counter(
            "saline_master_file_requests",
            "Requests of minions about files.",
            self.files.requests(),
        );
        metrics.counters(
            "saline_master_file_bytes",
            "Bytes of files: sent to minions, handed in by minions, and read for their hashes.",
            "what",
            [
                ("sent", self.files.sent()),
                ("received", self.files.received()),
                ("hashed", self.files.hashed()),
            ],
        );
        metrics.counter(
            "saline_master_files_changed",
            "Parts of files that were not sent because the file had changed since its hash was told, or its hash was forgotten.",
            self.files.changed(),
        );
    }

    fn mine(&self, metrics: &mut Metrics) {
        let figures = self.mine.figures();
        let (entries, bytes) = self.mine.size();
        metrics.gauge(
            "saline_master_mine_entries",
            "Values that minions have left in the mine.",
            entries,
        );
        metrics.gauge(
            "saline_master_mine_bytes",
            "The size of the values in the mine.",
            bytes,
        );
        metrics.counter(
            "saline_master_mine_values_stored",
            "Values that minions stored in the mine. An update sends only those that have changed; mine.send always sends.",
            figures.stored(),
        );
        metrics.counter(
            "saline_master_mine_values_sent",
            "Values of the mine that were sent to minions.",
            figures.sent(),
        );
        metrics.counter(
            "saline_master_mine_requests_refused",
            "Requests about the mine that were refused: there was no room, no rule permits it, the minion has no accepted key any more, the target cannot be used, or the master could not read or write its file.",
            figures.refused(),
        );
        metrics.durations(
            "saline_master_mine_read_seconds",
            "How long the reading of each page of the mine took, once it had its turn.",
            figures.read(),
        );
    }

    fn pillars(&self, metrics: &mut Metrics) {
        let figures = self.pillars.figures();
        metrics.durations(
            "saline_master_pillar_compile_seconds",
            "How long each compilation of a pillar took, once it had its turn.",
            figures.compiled(),
        );
        metrics.counter(
            "saline_master_pillars_failed",
            "Compilations of pillars that had errors: the minion keeps the pillar that it had.",
            figures.failed(),
        );
        metrics.counter(
            "saline_master_pillars_unchanged",
            "Compilations of pillars whose minion had the result already.",
            figures.unchanged(),
        );
        metrics.counter(
            "saline_master_pillar_bytes",
            "Bytes of pillars that were sent to minions.",
            figures.sent(),
        );
        let (minions, bytes) = self.pillars.kept();
        metrics.gauge(
            "saline_master_pillars_kept",
            "Minions of which the last pillar without errors is in memory.",
            minions,
        );
        metrics.gauge(
            "saline_master_pillars_kept_bytes",
            "The size of the pillars in memory.",
            bytes,
        );
        let renderers = self.pillars.renderers();
        metrics.counter(
            "saline_master_render_processes",
            "Processes that were started to render templates.",
            renderers.processes,
        );
        metrics.counters(
            "saline_master_renderings",
            "Files that were rendered, by their result.",
            "result",
            [
                ("success", renderers.rendered),
                ("failure", renderers.failed),
            ],
        );
    }

    fn schedule(&self, metrics: &mut Metrics) {
        metrics.gauge(
            "saline_master_schedule_jobs",
            "Jobs of the schedule.",
            self.schedule.len(),
        );
        metrics.counter(
            "saline_master_schedule_runs",
            "Runs of scheduled jobs that were begun.",
            self.schedule.runs(),
        );
        metrics.counter(
            "saline_master_schedule_skips",
            "Runs of scheduled jobs that were due and did not take place: too many were under way, or the time was not right.",
            self.schedule.skips(),
        );
    }

    fn returners(&self, metrics: &mut Metrics) {
        let figures = self.returners.figures();
        let counts = |count: fn(&ReturnerFigures) -> u64| {
            let counts = figures.iter();
            counts.map(move |one| (one.name().as_str(), count(one)))
        };
        metrics.counters(
            "saline_master_returner_delivered",
            "Jobs, returns and events that a destination outside of the master has taken.",
            "returner",
            counts(ReturnerFigures::delivered),
        );
        metrics.counters(
            "saline_master_returner_refused",
            "Jobs, returns and events that a destination outside of the master will never take: the log names each.",
            "returner",
            counts(ReturnerFigures::refused),
        );
        metrics.counters(
            "saline_master_returner_lost",
            "Jobs, returns and events that were removed from the stores before a destination outside of the master had them.",
            "returner",
            counts(ReturnerFigures::lost),
        );
        metrics.counters(
            "saline_master_returner_failures",
            "Attempts to deliver to a destination outside of the master that failed.",
            "returner",
            counts(ReturnerFigures::failures),
        );
        let now = self.clock.micros();
        let lags = figures.iter();
        metrics.gauges(
            "saline_master_returner_lag_seconds",
            "For how long the oldest record waits that a destination outside of the master has not taken; 0 when nothing waits.",
            "returner",
            lags.map(|one| (one.name().to_string(), one.lag(now))),
        );
    }

    fn reactor(&self, metrics: &mut Metrics) {
        metrics.counter(
            "saline_master_reactor_events",
            "Events to which files of the reactor reacted, or were to.",
            self.reactor.events(),
        );
        metrics.gauge(
            "saline_master_reactor_events_waiting",
            "Events in memory for which the reactor is not done. Further ones may wait on the disk.",
            self.reactor.waiting(),
        );
        metrics.counter(
            "saline_master_reactor_events_lost",
            "Kept events that were lost before the reactor read them. It is not known how many it would have reacted to.",
            self.reactor.lost(),
        );
        metrics.counters(
            "saline_master_reactor_orders",
            "Orders of the reactor: those that were given, files and orders that failed, and files that were not rendered for an \
             event, to end a loop.",
            "outcome",
            self.reactor.outcomes(),
        );
        metrics.durations(
            "saline_master_reactor_render_seconds",
            "How long it took to render a file of the reactor.",
            self.reactor.rendered(),
        );
    }

    fn clock_and_tasks(&self, metrics: &mut Metrics) {
        metrics.gauge(
            "saline_master_clock_offset_seconds",
            "By how much the master's time is ahead of the clock of its machine; less than zero when it is behind it.",
            self.clock.offset() as f64 / 1e6,
        );
        metrics.counter(
            "saline_master_clock_jumps",
            "Times that the clock of the machine was seen to be set by more than two seconds.",
            self.clock.jumps(),
        );
        metrics.gauge(
            "saline_master_tasks",
            "Tasks that the master runs: connections, requests, upkeep.",
            self.context.tracker.len(),
        );
    }
}

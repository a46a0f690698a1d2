//! One run: start, jobs and faults, settling, books.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::{Clock, Registry};
use tokio::task::JoinSet;

use crate::arguments::Arguments;
use crate::books::{self, Book};
use crate::error::Result;
use crate::evidence::{Evidence, read_ledgers};
use crate::faults::Injector;
use crate::file_orders::FileOrders;
use crate::fleet::{
    Fleet, cached_files, database, fetched_files, keep_master_state, last_made, ledgers, store,
};
use crate::plan::{JOB_TTL, Plan};
use crate::publisher::Publisher;
use crate::samplers::{self, Samples};
use crate::store::{self as job_store, Depth};
use crate::timeline::Loss;

/// How long everything is left alone at least when all minions should be back after the last fault.
const MIN_SETTLING: Duration = Duration::from_secs(2);

/// The most time after which nothing may be open any more.
const MAX_SETTLING: Duration = Duration::from_secs(100);

/// How often daemons that ended are started again.
const SUPERVISION: Duration = Duration::from_millis(500);

/// How often the runner checks whether everything has settled.
const SETTLED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What a run needs to be carried out.
#[derive(Debug)]
struct Run {
    return_bound: Duration,
    heartbeat: Duration,
    fleet: Arc<Fleet>,
    publisher: Arc<Publisher>,
    files: Arc<FileOrders>,
    registry: Arc<Registry>,
    samples: Arc<Samples>,
}

/// Carries a plan out below `root`. Returns the evidence and the books.
pub(crate) async fn carry_out(
    arguments: &Arguments,
    plan: &Plan,
    registry: Registry,
    root: &Path,
    own_mounts: Result<(), String>,
) -> Result<(Evidence, Vec<Book>)> {
    let fleet = Fleet::new(root, arguments, own_mounts).await?;
    let run = Run {
        return_bound: arguments.transport.return_bound() + arguments.heartbeat(),
        heartbeat: arguments.heartbeat(),
        publisher: Arc::new(Publisher::new(
            fleet.operator.clone(),
            fleet.timeline.clone(),
        )),
        files: Arc::new(FileOrders::new(fleet.operator.clone())),
        fleet: Arc::new(fleet),
        registry: Arc::new(registry),
        samples: Arc::default(),
    };
    let outcome = tokio::select! {
        outcome = run.go(plan, arguments.length()) => outcome,
        () = interrupted() => {
            run.fleet.timeline.note("interrupted; everything is ended");
            Err(crate::error::ChaosError::Command("interrupted".to_owned()))
        }
    };
    run.fleet.end().await;
    if arguments.keep {
        keep_master_state(root)?;
    }
    let evidence = outcome?;
    let books = books::check(&evidence);
    Ok((evidence, books))
}

/// Waits for Ctrl-C or SIGTERM.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminated.recv() => {}
        caught = tokio::signal::ctrl_c() => if caught.is_err() {
            std::future::pending().await
        },
    }
}

impl Run {
    async fn go(&self, plan: &Plan, length: Duration) -> Result<Evidence> {
        let timeline = &self.fleet.timeline;
        self.fleet.start().await?;
        timeline.note(format_args!(
            "{} minions are there; {} jobs, {} files and {} faults in {:.0} s",
            self.fleet.minions.len(),
            plan.jobs.len(),
            plan.file_orders.len(),
            plan.faults.len(),
            length.as_secs_f64()
        ));
        let mut background = JoinSet::new();
        let fleet = Arc::clone(&self.fleet);
        background.spawn(async move {
            let mut supervision = Clock.interval(SUPERVISION);
            loop {
                supervision.tick().await;
                fleet.restart_ended().await;
            }
        });
        let (fleet, samples) = (Arc::clone(&self.fleet), Arc::clone(&self.samples));
        background.spawn(async move { samplers::presence(&fleet, &samples).await });
        let (fleet, samples) = (Arc::clone(&self.fleet), Arc::clone(&self.samples));
        background.spawn(async move { samplers::usage(&fleet, &samples).await });

        let mut jobs = JoinSet::new();
        self.inject_and_publish(plan, length, &mut jobs).await;
        timeline.note("no more jobs and faults; everything settles");
        self.settle(&mut jobs).await?;
        let evidence = self.gather().await;
        background.shutdown().await;
        evidence
    }

    /// Publishes the jobs, has files fetched and injects the faults, each at its time. Returns when all faults are lifted.
    async fn inject_and_publish(&self, plan: &Plan, length: Duration, jobs: &mut JoinSet<()>) {
        let begin = Clock.now();
        for job in plan.jobs.clone() {
            let publisher = Arc::clone(&self.publisher);
            let timeline = self.fleet.timeline.clone();
            jobs.spawn(async move {
                Clock.until(begin + job.at).await;
                if let Err(error) = publisher.publish(&job).await {
                    timeline.note(format_args!("{}: {error}", job.token));
                }
            });
        }
        for order in plan.file_orders.clone() {
            let (files, fleet) = (Arc::clone(&self.files), Arc::clone(&self.fleet));
            jobs.spawn(async move {
                Clock.until(begin + order.at).await;
                if let Err(error) = files.carry_out(fleet.root(), &order).await {
                    let number = order.number;
                    fleet
                        .timeline
                        .note(format_args!("file order {number}: {error}"));
                }
            });
        }
        let mut faults = JoinSet::new();
        for fault in plan.faults.clone() {
            let (fleet, publisher) = (Arc::clone(&self.fleet), Arc::clone(&self.publisher));
            let registry = Arc::clone(&self.registry);
            faults.spawn(async move {
                Clock.until(begin + fault.at).await;
                let injector = Injector {
                    fleet: &fleet,
                    publisher: &publisher,
                    registry: &registry,
                };
                injector.inject(&fault).await;
            });
        }
        while faults.join_next().await.is_some() {}
        Clock.until(begin + length).await;
    }

    /// Waits until nothing is open any more, and every command line has ended, or long enough.
    async fn settle(&self, jobs: &mut JoinSet<()>) -> Result<()> {
        // At the end presence is judged for every minion.
        let least = Clock.after(self.return_bound.max(JOB_TTL) + MIN_SETTLING);
        let most = Clock.after(MAX_SETTLING + JOB_TTL);
        let mut look = Clock.interval(SETTLED_CHECK_INTERVAL);
        loop {
            look.tick().await;
            while jobs.try_join_next().is_some() {}
            let now = Clock.now();
            if now >= most {
                break;
            }
            if now >= least
                && jobs.is_empty()
                && self.nothing_runs()
                && self.mine_is_complete().await
            {
                break;
            }
        }
        self.publisher.give_up();
        self.files.give_up();
        while jobs.join_next().await.is_some() {}
        Ok(())
    }

    /// Whether every minion has the last value that it made in the mine.
    async fn mine_is_complete(&self) -> bool {
        let (made, mine) = (
            last_made(self.fleet.root()),
            self.fleet.operator.mine().await,
        );
        let (Ok(made), Ok(mine)) = (made, mine) else {
            return false;
        };
        let history = self.fleet.timeline.history();
        let is_gone = |minion: &str| {
            let mut losses = history.losses.iter();
            losses.any(|loss| matches!(loss, Loss::KeyDeleted { minion: number, .. } if minion == format!("m{number}")))
        };
        let mut made = made.iter();
        made.all(|(minion, last)| match mine.get(minion) {
            Some(value) => last.contains(value),
            // Its values went with its key, and may not be there again.
            None => is_gone(minion),
        })
    }

    /// Whether no job runs any more, and every return was delivered.
    fn nothing_runs(&self) -> bool {
        // A store that cannot be read now is read once more.
        let Ok(jobs) = job_store::read(&store(self.fleet.root()), Depth::States) else {
            return false;
        };
        let delivered = job_store::read_delivered(&database(self.fleet.root()));
        let delivered = delivered.unwrap_or_default();
        jobs.iter().all(|(jid, job)| {
            let open = |(minion, state): (&String, &crate::states::State)| {
                *state == crate::states::State::Running && !job.returns.contains_key(minion)
            };
            let is_outside =
                |minion: &String| delivered.contains_key(&(jid.clone(), minion.clone()));
            !job.states.iter().any(open) && job.returns.keys().all(is_outside)
        })
    }

    async fn gather(&self) -> Result<Evidence> {
        let timeline = &self.fleet.timeline;
        let root = self.fleet.root();
        let jobs = job_store::read(&store(root), Depth::Contents)?;
        let (runs, damaged_lines) = read_ledgers(&ledgers(root), timeline)?;
        let lookups = samplers::lookups(&self.fleet.operator, &jobs).await;
        let delivered = job_store::read_delivered(&database(root))?;
        let pillars = self.fleet.operator.pillars().await?;
        let (presence, usage) = self.samples.take();
        Ok(Evidence {
            minions: self.fleet.minions.len(),
            return_bound: self.return_bound,
            heartbeat: self.heartbeat,
            publications: self.publisher.published(),
            runs,
            damaged_lines,
            jobs,
            delivered,
            pillars,
            made: last_made(root)?,
            mine: self.fleet.operator.mine().await?,
            file_orders: self.files.ordered(),
            fetched: fetched_files(root)?,
            cached: cached_files(root)?,
            lookups,
            presence,
            usage,
            history: timeline.history(),
        })
    }
}

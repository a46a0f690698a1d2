//! The state of a running master, and which part of the master works on which piece of it. It is long because it is one list: each
//! part of the master is made here, from the pieces that it needs and no others.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use saline_config::{MasterConfig, ScheduleConfig};
use saline_exec::Program;
use saline_messages::random;
use saline_messages::{MinionId, ProtocolVersions};
use saline_pam::PamHelper;
use saline_protocol::transport::{Context, Counters, Endpoint, Publisher, Registry, ServerControl};
use saline_schedule::{Scheduler, SchedulerFiles};
use tokio::sync::Semaphore;

use crate::audit::Audit;
use crate::authorize::Authorizer;
use crate::batch_scheduler::BatchScheduler;
use crate::bounds::{Accounts, EventWaits, OperatorBudgets, TokenBuckets, report_limiter};
use crate::clock::MasterClock;
use crate::decisions::Decisions;
use crate::disk_figures::DiskReader;
use crate::error::MasterError;
use crate::events::{DurableEvents, Events, MinionEventFirer};
use crate::facts::FactsReader;
use crate::fileserver::FileServer;
use crate::functions::FunctionsTable;
use crate::grains::GrainsTable;
use crate::health::{HealthChecks, TurnProbe};
use crate::job_signer::JobSigner;
use crate::jobs::{JobStore, StoreError};
use crate::keys::{KeyAccess, TokenStore};
use crate::logins::{Credentials, LoginStore, PamAccounts};
use crate::maintenance::Maintenance;
use crate::metrics::MasterMetrics;
use crate::mine::Mine;
use crate::orders::{CancelOrder, KeyOrder, PublishOrder, TargetResolver, withdraw_unfollowed};
use crate::peers::{
    AdmissionControl, DeniedPeers, EndedConnections, KeyWarnings, KeyWatch, PresenceReporter,
    Revocation, WaitingPolls,
};
use crate::pillar::{PillarPrograms, Pillars};
use crate::publisher::MinionPublisher;
use crate::reactions::Reactions;
use crate::reactor::{Reactor, ReactorParts};
use crate::returners::Returners;
use crate::runners::{RunnerParts, Runners};
use crate::schedule::MasterSchedule;
use crate::sessions::Sessions;
use crate::settings::LiveSettings;
use crate::stores::{Stores, durable_filter};
use crate::verbs::{
    CallStore, CallerVerbs, EventsVerb, JobQueries, LastSeenQueries, LoginVerbs, MinionVerbs,
    OperatorVerbs, RunnerVerb, TargetQueries, TokenVerbs, UploadVerbs,
};
use crate::wire_time::milliseconds;

/// The state of a running master. Its fields are private: each part gets clones of the pieces that
/// it needs.
#[derive(Debug)]
pub(crate) struct MasterParts {
    config: MasterConfig,
    settings: LiveSettings,
    decisions: Decisions,
    polls: WaitingPolls,
    event_waits: EventWaits,
    denied: DeniedPeers,
    listeners: Arc<[Endpoint]>,
    registry: Registry,
    versions: ProtocolVersions,
    context: Context,
    clock: MasterClock,
    signer: JobSigner,
    keys: KeyAccess,
    tokens: Arc<TokenStore>,
    logins: Arc<LoginStore>,
    /// `saline-pam`, if users may log in by PAM.
    pam: Option<Arc<PamHelper>>,
    disk: DiskReader,
    jobs: Arc<JobStore>,
    grains: Arc<GrainsTable>,
    functions: Arc<FunctionsTable>,
    accounts: Arc<Accounts>,
    sessions: Arc<Sessions>,
    publisher: MinionPublisher,
    presence: PresenceReporter,
    ended_connections: EndedConnections,
    turn: Arc<TurnProbe>,
    /// How many handshakes were refused, or asked to come again later.
    refused_handshakes: Arc<AtomicU64>,
    /// Has one permit, for whoever revokes minions.
    revoking: Arc<Semaphore>,
    events: Events,
    durable: Arc<DurableEvents>,
    files: FileServer,
    pillars: Pillars,
    mine: Mine,
    returners: Returners,
    reactions: Reactions,
}

impl MasterParts {
    /// Starts the event bus over `bus` and the publication to minions over `publishers`, which are
    /// indexed by listener. `listeners` are the endpoints of requests on the network.
    #[allow(
        clippy::too_many_arguments,
        reason = "what the parts share is made in one place"
    )]
    pub(crate) fn start(
        config: MasterConfig,
        signer: JobSigner,
        stores: Stores,
        publishers: Vec<Arc<dyn Publisher>>,
        controls: Arc<[Arc<dyn ServerControl>]>,
        bus: Arc<dyn Publisher>,
        listeners: Arc<[Endpoint]>,
        registry: Registry,
        programs: PillarPrograms,
        context: &Context,
    ) -> Result<Self, MasterError> {
        let sessions = Arc::new(Sessions::new(
            context.clock,
            config.heartbeat_interval,
            config.max_pending_keys,
        ));
        let publisher = MinionPublisher::start(publishers, Arc::clone(&sessions), context)?;
        let durable = Arc::new(stores.durable);
        let events = Events::start(bus, Arc::clone(&durable), context);
        let jobs = Arc::new(stores.jobs);
        let keys = KeyAccess::new(stores.keys, stores.operators, context.clone());
        let settings = LiveSettings::new(&config);
        let audit = Audit::start(config.audit_file(), settings.clone(), context);
        let decisions = Decisions {
            authorizer: Authorizer::new(settings.clone()),
            audit: audit.map_err(|error| StoreError::io(&config.audit_file(), error))?,
        };
        let grains = Arc::new(stores.grains);
        let facts = FactsReader {
            keys: keys.clone(),
            grains: Arc::clone(&grains),
            settings: settings.clone(),
        };
        let pillars = Pillars::new(settings.clone(), facts.clone(), programs, context);
        let targets = TargetResolver {
            facts,
            pillars: pillars.clone(),
            context: context.clone(),
        };
        let mine = Mine::new(stores.mine, settings.clone(), targets, context);
        let parts = Self {
            reactions: Reactions::new(
                config.reactor.reactions.clone(),
                (Arc::clone(&durable), Arc::clone(&jobs)),
                settings.clone(),
                pillars.shared_renderers(),
                context,
            ),
            pillars,
            mine,
            presence: PresenceReporter {
                clock: context.clock,
                sessions: Arc::clone(&sessions),
                jobs: Arc::clone(&jobs),
                publisher: publisher.clone(),
                events: events.clone(),
                rotated: Arc::default(),
            },
            turn: Arc::default(),
            revoking: Arc::new(Semaphore::new(1)),
            ended_connections: EndedConnections {
                sessions: Arc::clone(&sessions),
                controls,
            },
            publisher,
            events,
            durable,
            files: FileServer::new(&config, settings.clone(), context),
            returners: Returners::new(&config),
            disk: DiskReader::new(Arc::clone(&jobs), keys.clone()),
            jobs,
            grains,
            functions: Arc::new(FunctionsTable::new(config.own_functions_file(), context)),
            clock: stores.clock,
            tokens: Arc::new(stores.tokens),
            logins: Arc::new(stores.logins),
            pam: None,
            keys,
            accounts: Arc::new(Accounts::new(context.clock)),
            context: context.clone(),
            sessions,
            signer,
            settings,
            decisions,
            polls: WaitingPolls::new(context.clock),
            event_waits: EventWaits::new(context.clock),
            denied: DeniedPeers::default(),
            refused_handshakes: Arc::default(),
            listeners,
            registry,
            config,
            versions: ProtocolVersions::OURS,
        };
        parts.end_logins_without_rules();
        parts.reactions.warn_of_missing_files();
        Ok(parts)
    }

    /// Takes over what can change while the master runs. Blocks on the disk when events are to be kept for the first time, or logins
    /// end.
    pub(crate) fn reload(&self, config: &MasterConfig) {
        self.durable.set_filter(durable_filter(config));
        self.settings.set(config);
        // After the settings are in force: a login that was allowed before them is ended here, or checked again.
        self.end_logins_without_rules();
        self.reactions.set(config.reactor.reactions.clone());
        self.reactions.warn_of_missing_files();
        self.sessions.set_max_pending_keys(config.max_pending_keys);
    }

    /// Ends the logins of users for whom no rule is: one who is named again later does not get them back. Blocks on the disk.
    fn end_logins_without_rules(&self) {
        let access = self.settings.access();
        let ended = self.logins.revoke_those(|login| {
            let rules = access.external_rules(login.way, &login.user, &login.groups);
            rules.is_empty()
        });
        match ended {
            Ok(0) => {}
            Ok(ended) => tracing::info!(
                "{ended} logins are ended: external_auth has no rule for their users any more"
            ),
            Err(why) => tracing::error!(
                "logins of users without a rule in external_auth cannot be ended: {why}. They come back if a user is named again: run \
                 saline-run auth.revoke USER before that"
            ),
        }
    }

    /// Returns the polls that wait for operators.
    pub(crate) fn polls(&self) -> &WaitingPolls {
        &self.polls
    }

    /// Returns the requests that wait for events.
    pub(crate) fn event_waits(&self) -> &EventWaits {
        &self.event_waits
    }

    /// Has the parts that are made from now on speak other protocol versions.
    #[must_use]
    pub(crate) fn with_versions(mut self, versions: ProtocolVersions) -> Self {
        self.versions = versions;
        self
    }

    /// Has the parts that are made from now on log users in by PAM.
    #[must_use]
    pub(crate) fn with_pam(mut self, pam: Option<Arc<PamHelper>>) -> Self {
        self.pam = pam;
        self
    }

    /// Returns the sessions of all peers.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Returns what each minion may ask for.
    pub(crate) fn accounts(&self) -> &Arc<Accounts> {
        &self.accounts
    }

    /// Returns the number of handshakes that were refused, or asked to come again later.
    pub(crate) fn refused_handshakes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.refused_handshakes)
    }

    /// Returns the settings that change while the master runs.
    pub(crate) fn settings(&self) -> &LiveSettings {
        &self.settings
    }

    /// Returns the part that cuts the connections of sessions that have ended.
    pub(crate) fn ended_connections(&self) -> EndedConnections {
        self.ended_connections.clone()
    }

    /// Returns the part that decides which peers are let in.
    pub(crate) fn admission(&self) -> AdmissionControl {
        AdmissionControl {
            context: self.context.clone(),
            decisions: self.decisions.clone(),
            settings: self.settings.clone(),
            heartbeat_ms: milliseconds(self.config.heartbeat_interval),
            max_message: self.config.max_message_size as u64,
            versions: self.versions,
            clock: self.clock.clone(),
            keys: self.keys.clone(),
            tokens: Arc::clone(&self.tokens),
            sessions: Arc::clone(&self.sessions),
            publisher: self.publisher.clone(),
            revocation: self.revocation(),
            warnings: KeyWarnings::new(self.context.clock),
            denied: self.denied.clone(),
            limiter: report_limiter(self.context.clock),
            events: self.events.clone(),
        }
    }

    /// Returns the part that carries out the requests of minions.
    pub(crate) fn minion_verbs(&self) -> MinionVerbs {
        let limiter = Arc::new(report_limiter(self.context.clock));
        MinionVerbs {
            clock: self.clock.clone(),
            heartbeat_ms: milliseconds(self.config.heartbeat_interval),
            jobs: Arc::clone(&self.jobs),
            signer: self.signer.clone(),
            sessions: Arc::clone(&self.sessions),
            publisher: self.publisher.clone(),
            grains: Arc::clone(&self.grains),
            functions: Arc::clone(&self.functions),
            minion_events: self.minion_event_firer(&limiter),
            accounts: Arc::clone(&self.accounts),
            presence: self.presence.clone(),
            events: self.events.clone(),
            files: self.files.clone(),
            pillars: self.pillars.clone(),
            mine: self.mine.clone(),
            calls: self.call_store(&limiter),
            limiter,
        }
    }

    fn call_store(&self, limiter: &Arc<TokenBuckets<MinionId>>) -> CallStore {
        CallStore {
            clock: self.clock.clone(),
            identity: Arc::clone(&self.signer.identity),
            jobs: Arc::clone(&self.jobs),
            limiter: Arc::clone(limiter),
            events: self.events.clone(),
            returners: self.returners.clone(),
        }
    }

    /// Returns the part that carries out the requests of callers.
    pub(crate) fn caller_verbs(&self, minion: &MinionVerbs) -> CallerVerbs {
        CallerVerbs {
            store: minion.calls.clone(),
            minion_events: self.minion_event_firer(&minion.limiter),
            pillars: self.pillars.clone(),
            mine: self.mine.clone(),
        }
    }

    /// Returns the part that carries out the requests of operators.
    pub(crate) fn operator_verbs(&self) -> OperatorVerbs {
        OperatorVerbs {
            limiter: report_limiter(self.context.clock),
            budgets: OperatorBudgets::new(self.context.clock),
            authorizer: self.authorizer(),
            decisions: self.decisions.clone(),
            publish: self.publish_verb(),
            runners: RunnerVerb {
                decisions: self.decisions.clone(),
                context: self.context.clone(),
                max_message: self.config.max_message_size,
                runners: Runners::new(self.runner_parts()),
            },
            queries: JobQueries {
                authorizer: self.authorizer(),
                clock: self.clock.clone(),
                max_message: self.config.max_message_size,
                jobs: Arc::clone(&self.jobs),
                sessions: Arc::clone(&self.sessions),
            },
            targets: TargetQueries {
                authorizer: self.authorizer(),
                targets: self.target_resolver(),
            },
            last_seen: LastSeenQueries {
                clock: self.context.clock,
                keys: self.keys.clone(),
                sessions: Arc::clone(&self.sessions),
                denied: self.denied.clone(),
            },
            publisher: self.publisher.clone(),
            tokens: TokenVerbs {
                master: self.signer.identity.public(),
                decisions: self.decisions.clone(),
                tokens: Arc::clone(&self.tokens),
                context: self.context.clone(),
                clock: self.clock.clone(),
            },
            logins: LoginVerbs {
                logins: Arc::clone(&self.logins),
                credentials: Credentials::new(self.context.clone(), self.pam.clone()),
                settings: self.settings.clone(),
                decisions: self.decisions.clone(),
                context: self.context.clone(),
                clock: self.clock.clone(),
            },
            uploads: UploadVerbs {
                decisions: self.decisions.clone(),
                files: self.files.clone(),
            },
            events: EventsVerb {
                authorizer: self.authorizer(),
                jobs: Arc::clone(&self.jobs),
                recent: self.events.recent().clone(),
                waits: self.event_waits.clone(),
                clock: self.context.clock,
                max_message: self.config.max_message_size,
                lookups: Semaphore::new(1),
            },
            cancel: self.cancel_verb(),
            keys: self.key_order(),
        }
    }

    fn key_order(&self) -> KeyOrder {
        KeyOrder {
            decisions: self.decisions.clone(),
            master: self.signer.identity.public(),
            keys: self.keys.clone(),
            jobs: Arc::clone(&self.jobs),
            sessions: Arc::clone(&self.sessions),
            clock: self.context.clock,
            polls: self.polls.clone(),
            denied: self.denied.clone(),
            revocation: self.revocation(),
            events: self.events.clone(),
        }
    }

    /// Returns the part that reacts to events. What was fired until now is not reacted to, unless an earlier start of the
    /// master did so and was not done.
    pub(crate) fn reactor(&self, runners: Runners) -> Reactor {
        Reactor::new(ReactorParts {
            reactions: self.reactions.clone(),
            durable: Arc::clone(&self.durable),
            jobs: Arc::clone(&self.jobs),
            runners,
            publish: self.publish_verb(),
            decisions: self.decisions.clone(),
            context: self.context.clone(),
            workers: self.config.reactor.workers,
            most_events: self.config.reactor.most_events,
        })
    }

    /// Returns the part that runs runners by the clock. Blocks on the disk.
    pub(crate) fn schedule(&self, runners: Runners) -> MasterSchedule {
        let files = SchedulerFiles {
            runs: self.config.schedule_runs(),
            saved: None,
            awaits_pillar: false,
        };
        // Without randomness every master has the same delays, which harms none.
        let seed = random::bytes().map_or(0, u64::from_le_bytes);
        let ScheduleConfig { jobs, missed } = self.config.schedule.clone();
        MasterSchedule {
            scheduler: Arc::new(Scheduler::open(
                files,
                jobs,
                missed,
                seed,
                self.context.clock,
            )),
            runners,
            decisions: self.decisions.clone(),
            context: self.context.clone(),
        }
    }

    /// Returns the part that decides who may do what.
    pub(crate) fn authorizer(&self) -> Authorizer {
        self.decisions.authorizer.clone()
    }

    fn publish_verb(&self) -> PublishOrder {
        PublishOrder {
            decisions: self.decisions.clone(),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            identity: Arc::clone(&self.signer.identity),
            targets: self.target_resolver(),
            sessions: Arc::clone(&self.sessions),
            jobs: Arc::clone(&self.jobs),
            publisher: self.publisher.clone(),
            revocation: self.revocation(),
            events: self.events.clone(),
            returners: self.returners.clone(),
        }
    }

    fn cancel_verb(&self) -> CancelOrder {
        CancelOrder {
            decisions: self.decisions.clone(),
            jobs: Arc::clone(&self.jobs),
            publisher: self.publisher.clone(),
            events: self.events.clone(),
        }
    }

    /// Returns the parts that runners work with.
    pub(crate) fn runner_parts(&self) -> RunnerParts {
        RunnerParts {
            context: self.context.clone(),
            jobs: Arc::clone(&self.jobs),
            sessions: Arc::clone(&self.sessions),
            keys: self.keys.clone(),
            grains: Arc::clone(&self.grains),
            targets: self.target_resolver(),
            events: self.events.clone(),
            authorizer: self.authorizer(),
            audit: self.decisions.audit.clone(),
            durable: Arc::clone(&self.durable),
            publish: self.publish_verb(),
            cancel: self.cancel_verb(),
            key_order: self.key_order(),
            listeners: Arc::clone(&self.listeners),
            registry: self.registry.clone(),
            transport_options: self.config.transport_options.clone(),
            versions: self.versions,
            settings: self.settings.clone(),
            files: self.files.clone(),
            pillars: self.pillars.clone(),
            mine: self.mine.clone(),
            reactions: self.reactions.clone(),
            logins: Arc::clone(&self.logins),
            master_clock: self.clock.clone(),
            job_cache: self.returners.job_cache(&self.context),
        }
    }

    fn minion_event_firer(&self, limiter: &Arc<TokenBuckets<MinionId>>) -> MinionEventFirer {
        let (events, settings) = (self.events.clone(), self.settings.clone());
        MinionEventFirer::new(events, Arc::clone(limiter), settings)
    }

    fn target_resolver(&self) -> TargetResolver {
        TargetResolver {
            facts: FactsReader {
                keys: self.keys.clone(),
                grains: Arc::clone(&self.grains),
                settings: self.settings.clone(),
            },
            pillars: self.pillars.clone(),
            context: self.context.clone(),
        }
    }

    fn revocation(&self) -> Revocation {
        Revocation {
            grains: Arc::clone(&self.grains),
            pillars: self.pillars.clone(),
            mine: self.mine.clone(),
            accounts: Arc::clone(&self.accounts),
            sessions: Arc::clone(&self.sessions),
            jobs: Arc::clone(&self.jobs),
            keys: self.keys.clone(),
            publisher: self.publisher.clone(),
            events: self.events.clone(),
            turn: Arc::clone(&self.revoking),
        }
    }

    /// Returns the part that expires offers, forgets silent sessions and prunes old jobs, and runs the watch.
    pub(crate) fn maintenance(&self, key_watch: KeyWatch) -> Maintenance {
        Maintenance {
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            decisions: self.decisions.clone(),
            jobs: Arc::clone(&self.jobs),
            sessions: Arc::clone(&self.sessions),
            grains: Arc::clone(&self.grains),
            functions: Arc::clone(&self.functions),
            accounts: Arc::clone(&self.accounts),
            events: self.events.clone(),
            durable: Arc::clone(&self.durable),
            files: self.files.clone(),
            presence: self.presence.clone(),
            ended_connections: self.ended_connections(),
            keys: self.keys.clone(),
            key_watch,
            publisher: self.publisher.clone(),
            pam_accounts: PamAccounts {
                pam: self.pam.clone(),
                logins: Arc::clone(&self.logins),
                context: self.context.clone(),
                clock: self.clock.clone(),
            },
        }
    }

    /// Returns the part that checks the health of the master.
    pub(crate) fn health_checks(&self) -> HealthChecks {
        HealthChecks {
            context: self.context.clone(),
            jobs: Arc::clone(&self.jobs),
            sessions: Arc::clone(&self.sessions),
            disk: self.disk.clone(),
            listeners: Arc::clone(&self.listeners),
            turn: Arc::clone(&self.turn),
        }
    }

    /// Withdraws the queued jobs that minions would not accept from this master. To be called once, before minions are served.
    ///
    /// # Errors
    /// When the store fails.
    ///
    /// # Cancel safety
    /// A part of the jobs may be withdrawn when the future is dropped.
    pub(crate) async fn withdraw_unfollowed(&self) -> Result<(), StoreError> {
        withdraw_unfollowed(&self.signer, &self.jobs, &self.events).await
    }

    /// Returns the part that reads the metrics of the master.
    pub(crate) fn metrics(
        &self,
        counters: &Arc<Counters>,
        schedule: &Arc<Scheduler>,
    ) -> MasterMetrics {
        MasterMetrics {
            schedule: Arc::clone(schedule),
            context: self.context.clone(),
            counters: Arc::clone(counters),
            clock: self.clock.clone(),
            heartbeat: self.config.heartbeat_interval,
            disk: self.disk.clone(),
            jobs: Arc::clone(&self.jobs),
            sessions: Arc::clone(&self.sessions),
            accounts: Arc::clone(&self.accounts),
            publisher: self.publisher.clone(),
            events: self.events.clone(),
            files: Arc::clone(self.files.figures()),
            pillars: self.pillars.clone(),
            mine: self.mine.clone(),
            reactor: Arc::clone(self.reactions.figures()),
            refused_handshakes: Arc::clone(&self.refused_handshakes),
            returners: self.returners.clone(),
        }
    }

    /// Begins to deliver what is stored to destinations outside of the master.
    ///
    /// # Errors
    /// As [`Returners::begin`].
    ///
    /// # Cancel safety
    /// As [`Returners::begin`].
    pub(crate) async fn begin_to_return(&self, exec: &Program) -> Result<(), MasterError> {
        let (jobs, durable) = (&self.jobs, &self.durable);
        self.returners
            .begin(exec, jobs, durable, &self.context)
            .await
    }

    /// Returns the part that notices changes of the accepted keys.
    pub(crate) fn key_watch(&self) -> KeyWatch {
        KeyWatch::new(self.clock.clone(), self.keys.clone(), self.revocation())
    }

    /// Returns the part that goes on with batches.
    pub(crate) fn batch_scheduler(&self) -> BatchScheduler {
        BatchScheduler {
            clock: self.clock.clone(),
            jobs: Arc::clone(&self.jobs),
            signer: self.signer.clone(),
            sessions: Arc::clone(&self.sessions),
            publisher: self.publisher.clone(),
            events: self.events.clone(),
        }
    }

    /// Writes the grains and closes the job store when everything else has ended.
    pub(crate) async fn close(&self) {
        self.grains.flush().await;
        if let Some(store) = self.durable.store() {
            store.close().await;
        }
        self.jobs.close().await;
    }
}

#[cfg(test)]
pub(crate) mod testing;

//! Follows a job until no further return can come.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use saline_data::Value;
use saline_messages::{
    Event, EventTag, Jid, JobEvent, MasterTime, MinionId, MinionJobState, OperatorReply,
    OperatorRequest, Published,
};
use saline_protocol::transport::{Delivery, Elapsed, Instant, Subscriber, TopicFilter};

use crate::job_progress::JobProgress;
use crate::master::Master;
use crate::master_absence::MASTER_TIMEOUT;
use crate::store_polls::StorePolls;
use crate::{Absence, Absent, ClientError, MinionReturn, Progress};

/// The shortest time for a sign of life after the master was away: its minions reconnect up to ten
/// seconds apart.
const RECONNECT_TIME: Duration = Duration::from_secs(20);

/// The longest timeout: a clock overflows with a longer one.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(50 * 365 * 86_400);

/// How long a minion of a batch must be gone before it holds the batch up.
const SETTLING_TIME: Duration = Duration::from_secs(1);

/// A published job, as a stream of its progress.
///
/// The event bus is best effort and the store is the truth: returns are taken from events as they
/// come, and from the store at the beginning, after every gap, and when minions show no sign of life.
#[derive(Debug)]
pub struct JobFollower {
    master: Arc<dyn Master>,
    published: Published,
    timeout: Duration,
    state: FollowerState,
    minions: JobProgress,
    /// The job's events; none before the subscription.
    events: Option<Box<dyn Subscriber>>,
    /// Progress that has not been yielded yet.
    found: VecDeque<Progress>,
    /// When minions must have shown a sign of life.
    deadline: Instant,
    /// The highest receipt number of the returns that were read from the store.
    received: u64,
    /// Whether [`Progress::HeldUp`] was reported, and has held since.
    held_up_reported: bool,
    /// The ids of the job's minions that two machines use.
    duplicates: BTreeSet<MinionId>,
    /// The number of the master's sessions when the store was last read: if there are more now, the
    /// master may have been restarted.
    sessions: u64,
}

/// The state of a follower: the step that comes next. Every step may be repeated after an error.
///
/// ```text
/// Subscribing ─> ReadingStore ─> Listening ─> ReadingStore ─> … ─> Ended
///                     ^              │
///                     └─ MasterAway <┘
/// ```
#[derive(Debug, Clone, Copy)]
enum FollowerState {
    /// Subscribe to the job's events.
    Subscribing,
    /// Read returns and states from the store: after the subscription, and after every gap in the
    /// events. With `timed_out`, the deadline has passed, and minions without a sign of life are
    /// given up once the store has been read.
    ReadingStore { timed_out: bool },
    /// Wait for events until the deadline.
    Listening,
    /// Wait for the master, which is away, until this time. The deadline does not count.
    MasterAway { until: Instant },
    /// No further progress can come.
    Ended,
}

/// The state after a gap in the events.
const GAP: FollowerState = FollowerState::ReadingStore { timed_out: false };

impl JobFollower {
    pub(crate) fn new(master: Arc<dyn Master>, published: Published, timeout: Duration) -> Self {
        let mut minions = JobProgress::default();
        minions.update(&published.minions);
        let unknown = published.unknown.iter().map(|name| {
            Progress::Absent(Absent {
                name: name.clone(),
                absence: Absence::NoKey,
            })
        });
        let mut run = Self {
            deadline: master.clock().after(timeout.min(LONGEST_TIMEOUT)),
            sessions: master.sessions(),
            found: unknown.collect(),
            state: FollowerState::Subscribing,
            events: None,
            received: 0,
            held_up_reported: false,
            duplicates: BTreeSet::new(),
            master,
            timeout: timeout.min(LONGEST_TIMEOUT),
            minions,
            published,
        };
        run.conclude();
        run
    }

    /// Returns the job's id; none when no minion matched and nothing was published.
    pub fn jid(&self) -> Option<&Jid> {
        self.published.jid.as_ref()
    }

    /// Returns the master's reply to the publication.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Returns the time until which minions may begin, on the master's clock.
    pub fn expires(&self) -> MasterTime {
        self.published.expires
    }

    /// Returns the ids of the job's minions that two machines, or a machine and a copy of it, use.
    pub fn duplicates(&self) -> impl Iterator<Item = &MinionId> {
        self.duplicates.iter()
    }

    /// Returns the minions that are waited for, in the order of their ids, and whether each is known to run
    /// the job and is present.
    pub fn waited_for(&self) -> impl Iterator<Item = (&MinionId, bool)> {
        self.minions.waited_for()
    }

    /// Returns the next progress; none, from then on, when no further return can come.
    ///
    /// A minion is reported as absent at most once and as returned at most once; one that was given
    /// up may still return while others are waited for.
    ///
    /// # Errors
    /// `MasterGone` when the master has been away for half a minute; others when asking again
    /// cannot help. A later call goes on where this one ended.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Progress>, ClientError> {
        loop {
            self.report_held_up();
            if let Some(progress) = self.found.pop_front() {
                return Ok(Some(progress));
            }
            let Some(jid) = self.published.jid.clone() else {
                return Ok(None);
            };
            self.state = match self.state {
                FollowerState::Subscribing => self.subscribe(&jid).await?,
                FollowerState::ReadingStore { timed_out } => {
                    self.read_store(&jid, timed_out).await?
                }
                FollowerState::Listening => self.listen(&jid, None).await?,
                FollowerState::MasterAway { until } => self.listen(&jid, Some(until)).await?,
                FollowerState::Ended => return Ok(None),
            };
            self.conclude();
        }
    }

    async fn subscribe(&mut self, jid: &Jid) -> Result<FollowerState, ClientError> {
        let topic = Event::topic(&EventTag::below_job(jid))
            .map_err(|_| ClientError::WrongAnswer("a publication"))?;
        let topics = vec![TopicFilter::Prefix(topic)];
        let master = Arc::clone(&self.master);
        self.events = Some(match master.subscribe(topics).await {
            Err(ClientError::NotAllowed(_)) => Box::new(StorePolls::new(self.master.clock())),
            subscribed => subscribed?,
        });
        tracing::trace!(%jid, "subscribed to the job's events");
        Ok(GAP)
    }

    /// Reads from the store the returns that are not known yet, and the state of every minion.
    async fn read_store(
        &mut self,
        jid: &Jid,
        timed_out: bool,
    ) -> Result<FollowerState, ClientError> {
        // Returns first: then a return that is stored meanwhile shows as a state.
        loop {
            let request = OperatorRequest::JobReturns {
                jid: jid.clone(),
                after: self.received,
            };
            let OperatorReply::Returns(page) = ask_about(&*self.master, jid, &request).await?
            else {
                return Err(ClientError::WrongAnswer("JobReturns"));
            };
            let empty = page.returns.is_empty();
            for stored in page.returns {
                self.received = self.received.max(stored.receipt);
                self.returned(MinionReturn::from(stored));
            }
            if !page.more || empty {
                break;
            }
        }
        let sought = self.minions.lacking_returns();
        let (mut silent, mut disputed, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        let mut planned = Vec::new();
        let mut after = None;
        let now = self.master.clock().now();
        loop {
            let request = OperatorRequest::JobStates {
                jid: jid.clone(),
                after,
            };
            let OperatorReply::States(page) = ask_about(&*self.master, jid, &request).await? else {
                return Err(ClientError::WrongAnswer("JobStates"));
            };
            tracing::trace!(states = ?page.states, more = page.more, "from the store");
            self.minions.update(&page.states);
            self.minions.set_acked_until(&page.unconfirmed_since);
            self.duplicates.extend(page.duplicates);
            silent.extend(page.silent);
            planned.extend(page.planned);
            disputed.extend(page.disputed);
            busy.extend(page.busy);
            after = page.states.last().map(|(minion, _)| minion.clone());
            if !page.more || after.is_none() {
                break;
            }
        }
        self.minions.set_gone(&silent, &disputed, now);
        self.minions.set_planned(&planned);
        self.minions.set_busy(&busy);
        let sessions = self.master.sessions();
        let restarted = std::mem::replace(&mut self.sessions, sessions) != sessions;
        if restarted {
            self.extend_deadline();
        }
        let timed_out = timed_out && !restarted;
        // A minion whose return was stored after the returns were read must not be given up: its return is there
        // now. The returns of those that lacked one before were sought in vain, so reading again would not help them.
        if self.minions.lacking_returns() > sought {
            return Ok(FollowerState::ReadingStore { timed_out });
        }
        if timed_out {
            self.deadline = self.minions.judge(now, self.timeout);
            let busy = self.minions.take_busy();
            let told = (!busy.is_empty()).then_some(Progress::Busy(busy));
            self.found.extend(told);
        }
        Ok(FollowerState::Listening)
    }

    /// Waits for an event, until the deadline, or, while the master is away, until `away`.
    async fn listen(
        &mut self,
        jid: &Jid,
        away: Option<Instant>,
    ) -> Result<FollowerState, ClientError> {
        let clock = self.master.clock();
        let until = away.unwrap_or_else(|| self.next_step());
        let Some(events) = &mut self.events else {
            return Ok(FollowerState::Subscribing);
        };
        let delivery = clock.deadline(until, events.next()).await;
        tracing::trace!(?delivery, "from the bus");
        let next = match delivery {
            Ok(Some(Delivery::Message { payload, .. })) => match Event::decode(&payload) {
                Ok(event) => self.apply(jid, event),
                Err(_) => GAP,
            },
            Ok(Some(Delivery::Disconnected)) => self.wait_for_master(),
            Ok(Some(Delivery::Connected)) => {
                self.master.absence().end();
                self.extend_deadline();
                return Ok(GAP);
            }
            Ok(Some(_)) => GAP,
            // The client was shut down, or the master refuses events from now on: the next subscription fails with the reason.
            Ok(None) => {
                self.events = None;
                FollowerState::Subscribing
            }
            Err(Elapsed) if away.is_some() => {
                // A later call waits for the same time again.
                self.master.absence().end();
                self.state = self.wait_for_master();
                return Err(ClientError::MasterGone {
                    endpoint: self.master.endpoint(),
                    gone: MASTER_TIMEOUT,
                });
            }
            // A job that is held up is told of.
            Err(Elapsed) if until < self.deadline => FollowerState::Listening,
            Err(Elapsed) => FollowerState::ReadingStore { timed_out: true },
        };
        // Events that were under way do not end the wait for an absent master.
        Ok(match (next, away) {
            (FollowerState::Listening | FollowerState::ReadingStore { .. }, Some(until)) => {
                FollowerState::MasterAway { until }
            }
            (next, _) => next,
        })
    }

    /// Notes that the master is away, and returns the state in which it is waited for.
    fn wait_for_master(&self) -> FollowerState {
        let until = self.master.absence().begin(self.master.clock().now());
        FollowerState::MasterAway { until }
    }

    /// Gives minions time to reconnect after the master was away: until then their silence says
    /// nothing.
    fn extend_deadline(&mut self) {
        let time = self.timeout.max(RECONNECT_TIME);
        self.deadline = self.deadline.max(self.master.clock().after(time));
    }

    /// Applies an event of this job, and returns the next state.
    fn apply(&mut self, jid: &Jid, event: Event) -> FollowerState {
        let Some(EventTag::Job(about, job_event)) = EventTag::parse(&event.tag) else {
            return FollowerState::Listening;
        };
        if about != *jid {
            return FollowerState::Listening;
        }
        match job_event {
            JobEvent::Returned(minion) => match MinionReturn::from_event(&minion, event.data) {
                Some(returned) => self.returned(returned),
                None => {
                    // The return is too large for the bus: the store has it.
                    self.minions.set(&minion, MinionJobState::Returned);
                    return GAP;
                }
            },
            JobEvent::Started(minion) => self.minions.set(&minion, MinionJobState::Running),
            JobEvent::Declined(minion) => self.minions.set(&minion, MinionJobState::Declined),
            JobEvent::Expired(minion) => self.minions.set(&minion, MinionJobState::Expired),
            JobEvent::State(minion) => {
                let named = event.data.get("state").and_then(Value::as_str);
                let state = MinionJobState::ALL
                    .into_iter()
                    .find(|state| named == Some(state.name()));
                match state {
                    Some(state) => self.minions.set(&minion, state),
                    // Of a later version: the store has the state too.
                    None => return GAP,
                }
            }
            JobEvent::Gone(minion) => {
                self.minions.gone(&minion, self.master.clock().now());
                // Its time starts over, which is worth another line.
                self.held_up_reported = false;
            }
            JobEvent::New => {}
        }
        FollowerState::Listening
    }

    fn returned(&mut self, returned: MinionReturn) {
        if self.minions.returned(&returned.minion) {
            self.found.push_back(Progress::Returned(returned));
        }
    }

    /// Reports the minions that will not return. Ends the run when no minion is waited for.
    fn conclude(&mut self) {
        let absent = self.minions.take_absent();
        self.found.extend(absent.into_iter().map(Progress::Absent));
        if !self.minions.is_waiting() {
            self.state = FollowerState::Ended;
            let given_up = self.minions.take_given_up();
            self.found
                .extend(given_up.into_iter().map(Progress::Absent));
        }
    }

    /// Reports that the job is held up, once for as long as it is. While the master is away, nobody knows.
    fn report_held_up(&mut self) {
        if matches!(self.state, FollowerState::MasterAway { .. }) {
            return;
        }
        let held_up = self.held_up();
        let was_reported = std::mem::replace(&mut self.held_up_reported, held_up.is_some());
        self.found.extend(held_up.filter(|_| !was_reported));
    }

    /// Returns when the next step is due without an event: the deadline, or before it the end of the settling time of those
    /// who hold up a batch.
    fn next_step(&self) -> Instant {
        let held_up = self.minions.held_up();
        let settles = held_up.filter(|held_up| !held_up.has_active && !self.held_up_reported);
        let settles = settles.map(|held_up| held_up.latest + SETTLING_TIME);
        // A time that has passed would be waited for again and again.
        let due = settles.filter(|at| *at > self.master.clock().now());
        due.map_or(self.deadline, |at| at.min(self.deadline))
    }

    /// Returns the progress that the job is held up by minions that are gone, if it is.
    fn held_up(&self) -> Option<Progress> {
        let now = self.master.clock().now();
        // A master that was away has no session of any minion at first.
        if self.deadline > now + self.timeout {
            return None;
        }
        let held_up = self.minions.held_up()?;
        // The master settles at once which minions were away when the batch began.
        if !held_up.has_active && held_up.latest + SETTLING_TIME > now {
            return None;
        }
        let until = self.deadline.max(held_up.latest + self.timeout);
        let within = until.saturating_duration_since(now);
        // Otherwise the master goes on without them.
        let is_bounded_here = held_up.has_active && !held_up.has_present;
        if is_bounded_here && within.is_zero() {
            // They are given up in the next step.
            return None;
        }
        Some(Progress::HeldUp {
            minions: held_up.minions,
            within: is_bounded_here.then_some(within),
            in_turns: held_up.has_awaiting_turn,
        })
    }
}

/// Asks the master about a job.
async fn ask_about(
    master: &dyn Master,
    jid: &Jid,
    request: &OperatorRequest,
) -> Result<OperatorReply, ClientError> {
    match master.ask(request).await? {
        OperatorReply::NoSuchJob => Err(ClientError::NoSuchJob(jid.clone())),
        OperatorReply::Failed(why) => Err(ClientError::Failed(why)),
        OperatorReply::NotAllowed(why) => Err(ClientError::NotAllowed(why)),
        reply => Ok(reply),
    }
}

#[cfg(test)]
mod tests;

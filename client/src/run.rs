//! Following a job until no answer can come any more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use saline_protocol::message::{
    Event, Jid, MasterTime, MinionId, OfferState, OperatorReply, OperatorRequest, Published, Value,
};
use saline_protocol::transport::{Delivery, Elapsed, Instant, Subscriber, TopicFilter};

use crate::link::PATIENCE;
use crate::master::Master;
use crate::standings::Standings;
use crate::{Absence, Absent, ClientError, MinionReturn, Progress};

/// After the master was away its minions come back at their own pace, up to ten seconds apart: so
/// long at least they have for a sign of life.
const RETURN_OF_THE_FLEET: Duration = Duration::from_secs(20);

/// A job under way, as a stream of what becomes known about it.
///
/// The event bus is best effort and the store is the truth: returns are taken from events as they
/// come, and from the store at the beginning, after every gap, and when minions show no sign of life.
#[derive(Debug)]
pub struct Run {
    master: Arc<dyn Master>,
    published: Published,
    timeout: Duration,
    standings: Standings,
    events: Option<Box<dyn Subscriber>>,
    told: VecDeque<Progress>,
    /// The store is to be asked.
    stale: bool,
    /// When minions must have shown a sign of life.
    deadline: Instant,
    /// That time has come: to be judged by what the store says next.
    judging: bool,
    /// How many sessions there had been when the store was last asked: one more, and the master may
    /// have been restarted.
    sessions: u64,
    /// Since when the master is away. The time for a sign of life stands still meanwhile.
    away: Option<Instant>,
    ended: bool,
}

impl Run {
    pub(crate) fn new(master: Arc<dyn Master>, published: Published, timeout: Duration) -> Self {
        let mut standings = Standings::default();
        standings.update(&published.minions, None);
        let mut run = Self {
            deadline: master.clock().after(timeout),
            sessions: master.sessions(),
            master,
            timeout,
            standings,
            events: None,
            told: VecDeque::new(),
            stale: true,
            judging: false,
            away: None,
            ended: false,
            published,
        };
        run.told.extend(run.published.unknown.iter().map(|name| {
            Progress::Absent(Absent {
                name: name.clone(),
                absence: Absence::Unknown,
            })
        }));
        run.conclude();
        run
    }

    /// The job's id; none when no minion matched, and nothing was published.
    pub fn jid(&self) -> Option<&Jid> {
        self.published.jid.as_ref()
    }

    /// What the master said when it took the job.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Until when minions may begin, on the master's clock.
    pub fn expires(&self) -> MasterTime {
        self.published.expires
    }

    /// What becomes known next; none when no answer can come any more, and for ever after.
    ///
    /// A minion is told of as absent at most once and as returned at most once; one that was given
    /// up may still return while others are waited for.
    ///
    /// # Errors
    /// `MasterGone` when the master has been away for half a minute; others when asking again
    /// cannot help. It may be called again then, and goes on where it was.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Progress>, ClientError> {
        loop {
            if let Some(progress) = self.told.pop_front() {
                return Ok(Some(progress));
            }
            let Some(jid) = self.published.jid.clone() else {
                return Ok(None);
            };
            if self.ended {
                return Ok(None);
            }
            if self.events.is_none() {
                self.events = Some(self.subscribe(&jid).await?);
                tracing::trace!(%jid, "subscribed to its events");
                self.stale = true;
            } else if self.stale && self.away.is_none() {
                self.ask_store(&jid).await?;
            } else {
                self.listen(&jid).await?;
            }
            self.conclude();
        }
    }

    async fn subscribe(&self, jid: &Jid) -> Result<Box<dyn Subscriber>, ClientError> {
        let topic = Event::topic(&format!("salt/job/{jid}"))
            .map_err(|_| ClientError::WrongAnswer("a publication"))?;
        self.master
            .subscribe(vec![TopicFilter::Prefix(topic)])
            .await
    }

    /// Takes every return from the store that is not here yet, and where everybody stands.
    async fn ask_store(&mut self, jid: &Jid) -> Result<(), ClientError> {
        let before = self.told.len();
        let mut after = self.standings.settled_until();
        loop {
            let request = OperatorRequest::JobReturns {
                jid: jid.clone(),
                after: after.clone(),
            };
            let page = match self.master.ask(&request).await? {
                OperatorReply::Returns(page) => page,
                OperatorReply::NoSuchJob => return Err(ClientError::NoSuchJob(jid.clone())),
                OperatorReply::Failed(why) => return Err(ClientError::Failed(why)),
                _ => return Err(ClientError::WrongAnswer("JobReturns")),
            };
            let last = page.returns.last().map(|stored| stored.minion.clone());
            for stored in page.returns {
                if self.standings.returned(&stored.minion) {
                    let answer = MinionReturn::from(stored);
                    self.told.push_back(Progress::Returned(answer));
                }
            }
            tracing::trace!(states = ?page.states, more = page.more, "from the store");
            self.standings.update(&page.states, Some(&page.silent));
            if !page.more || last.is_none() {
                break;
            }
            after = last;
        }
        // One that was stored behind the page being read is in the next reading. Without progress
        // there is no point in reading again at once.
        self.stale = self.standings.lacks_a_return() && self.told.len() > before;
        if std::mem::replace(&mut self.sessions, self.master.sessions()) != self.master.sessions() {
            self.give_the_fleet_time();
        }
        if self.judging && !self.stale {
            self.judging = false;
            self.standings.judge();
            self.deadline = self.master.clock().after(self.timeout);
        }
        Ok(())
    }

    /// Waits for an event, the end of the time for a sign of life, or of the patience with a
    /// master that is away.
    async fn listen(&mut self, jid: &Jid) -> Result<(), ClientError> {
        let clock = self.master.clock();
        let Some(events) = &mut self.events else {
            return Ok(());
        };
        let until = self.away.map_or(self.deadline, |since| since + PATIENCE);
        let heard = clock.deadline(until, events.next()).await;
        tracing::trace!(?heard, "from the bus");
        match heard {
            Ok(Some(Delivery::Message { payload, .. })) => {
                match Event::decode(&payload) {
                    Ok(event) => self.hear(jid, event),
                    Err(_) => self.stale = true,
                }
                Ok(())
            }
            Ok(Some(Delivery::Disconnected)) => {
                self.away = Some(clock.now());
                Ok(())
            }
            Ok(Some(Delivery::Connected)) => {
                self.away = None;
                self.stale = true;
                self.give_the_fleet_time();
                Ok(())
            }
            Ok(Some(_)) => {
                self.stale = true;
                Ok(())
            }
            Ok(None) => Err(ClientError::Closed),
            Err(Elapsed) if self.away.is_some() => {
                // Whoever asks again has patience again.
                self.away = Some(clock.now());
                Err(ClientError::MasterGone {
                    endpoint: self.master.endpoint(),
                    gone: PATIENCE,
                })
            }
            Err(Elapsed) => {
                self.judging = true;
                self.stale = true;
                Ok(())
            }
        }
    }

    /// The master was away: until its minions are back, their silence says nothing.
    fn give_the_fleet_time(&mut self) {
        let time = self.timeout.max(RETURN_OF_THE_FLEET);
        self.deadline = self.deadline.max(self.master.clock().after(time));
        self.judging = false;
    }

    /// Takes an event of this job.
    fn hear(&mut self, jid: &Jid, event: Event) {
        let Some((what, minion)) = event
            .tag
            .strip_prefix("salt/job/")
            .and_then(|rest| rest.strip_prefix(jid.as_str()))
            .and_then(|rest| rest.strip_prefix('/'))
            .and_then(|rest| rest.split_once('/'))
        else {
            return;
        };
        let Ok(minion) = MinionId::parse(minion) else {
            return;
        };
        match what {
            "ret" => match returned(&minion, event.data) {
                Some(answer) => {
                    if self.standings.returned(&minion) {
                        self.told.push_back(Progress::Returned(answer));
                    }
                }
                // Too large for the bus, or from a master that tells less: the store has it.
                None => {
                    self.standings.set(&minion, OfferState::Returned);
                    self.stale = true;
                }
            },
            "start" => self.standings.set(&minion, OfferState::Running),
            "declined" => self.standings.set(&minion, OfferState::Declined),
            "expired" => self.standings.set(&minion, OfferState::Expired),
            _ => {}
        }
    }

    /// Tells of those of whom nothing can come; ends when nobody is waited for.
    fn conclude(&mut self) {
        let absent = self.standings.take_absent();
        self.told.extend(absent.into_iter().map(Progress::Absent));
        if !self.standings.is_waiting() && !self.ended {
            self.ended = true;
            let given_up = self.standings.take_given_up();
            self.told.extend(given_up.into_iter().map(Progress::Absent));
        }
    }
}

/// The return that an event's data holds, when it is all there.
fn returned(minion: &MinionId, mut data: Value) -> Option<MinionReturn> {
    let retcode = data.get("retcode")?.as_i64()?;
    let success = data.get("success")?.as_bool()?;
    let Value::Map(entries) = &mut data else {
        return None;
    };
    let value = entries.iter_mut().find(|(key, _)| key == "return")?;
    Some(MinionReturn {
        minion: minion.clone(),
        retcode,
        success,
        value: std::mem::take(&mut value.1),
    })
}

#[cfg(test)]
mod tests;

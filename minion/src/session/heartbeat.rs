//! Heartbeats, and the reconciliation with which a session begins.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saline_channel::publication::PublicationNumbers;
use saline_messages::{
    Class, ExpiryAck, Heartbeat, HeartbeatReply, Jid, JobAccount, Known, MAX_ACCOUNTS, MAX_RUNNING,
    MasterTime, MinionReply, MinionRequest, Reconciliation,
};
use saline_protocol::transport::jitter;

use super::session_loop::{ANSWER_TIMEOUT, ActiveSession, Promised, RETRY_DELAY};
use crate::link::master_time::LocalTime;
use crate::link::minion_session::{AskError, Ended};
use crate::own_jid::is_own;
use crate::spool::LONGEST_EXPIRY;

/// A master that answers no heartbeat for this time, and for three heartbeats at least, is given up.
const MASTER_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest number of jobs that one expiry ack names.
const MAX_ACKED_JOBS: usize = MAX_ACCOUNTS / 2;

/// The largest number of steps of one reconciliation. A master that asks on and on is left.
const STEPS: usize = 10_000;

impl ActiveSession {
    /// Sends a heartbeat at once, and then as often as the master says, whenever `beat` is notified, and when a job has to
    /// wait for another one's end. Once the master has heard the first one, it notices a disk that is put back to what it was
    /// before the session.
    pub(super) async fn heartbeats(&self) {
        let clock = self.parts.context.clock;
        let interval = Duration::from_millis(self.session.welcome.heartbeat_ms);
        let (mut heard, mut timeout) = (clock.now(), MASTER_TIMEOUT.max(interval * 3));
        loop {
            let delay = match self.beat().await {
                Some(interval) => {
                    (heard, timeout) = (clock.now(), MASTER_TIMEOUT.max(interval * 3));
                    interval
                }
                None if clock.now() - heard > timeout => {
                    tracing::warn!(
                        "the master has not answered heartbeats for {} s",
                        timeout.as_secs()
                    );
                    return self.session.end(Ended::Lost);
                }
                // Soon, with jitter so that not all minions ask at once.
                None => RETRY_DELAY + jitter(RETRY_DELAY),
            };
            tokio::select! {
                () = clock.pause(delay) => {}
                () = self.beat.notified() => {}
                () = self.parts.jobs.has_to_wait() => {}
            }
        }
    }

    /// Sends one heartbeat. Returns the delay before the next one, if the master answered.
    async fn beat(&self) -> Option<Duration> {
        let (spool, now) = (Arc::clone(&self.parts.spool), self.parts.clock.reached());
        let note = move || spool.note_heartbeat(now);
        // An error means that the runtime is going down.
        self.parts.context.spawn_blocking(note).await.ok()?;
        let (sent, before) = (LocalTime::now(), self.opener().numbers());
        let ack = self.expiry_ack();
        // There was more to say than fits one ack.
        let is_cut = ack.begun.len() >= MAX_ACKED_JOBS;
        let request = MinionRequest::Heartbeat(self.heartbeat(ack));
        let MinionReply::Heartbeat(reply) = self.ask(&request).await? else {
            self.session.end(Ended::Lost);
            return None;
        };
        let interval = Duration::from_millis(reply.heartbeat_ms.max(1));
        self.take_reply(sent, before, &reply).await;
        if reply.reconcile {
            self.reconcile().await?;
        }
        Some(if is_cut { RETRY_DELAY } else { interval })
    }

    /// Reconciles with the master, and repeats it until it is done. Returns false when the session has
    /// ended.
    pub(super) async fn reconcile_until_done(&self) -> bool {
        let clock = self.parts.context.clock;
        let began = clock.now();
        loop {
            if self.reconcile().await.is_some() {
                return true;
            }
            if self.session.has_ended() {
                return false;
            }
            if clock.now() - began > MASTER_TIMEOUT {
                tracing::warn!(
                    "the master did not complete the reconciliation within {} s; reconnecting",
                    MASTER_TIMEOUT.as_secs()
                );
                return false;
            }
            clock.pause(RETRY_DELAY + jitter(RETRY_DELAY)).await;
        }
    }

    /// Tells the master what the minion knows of its jobs, until the master asks for no more. Returns none
    /// when there was no answer.
    async fn reconcile(&self) -> Option<()> {
        let spool = &self.parts.spool;
        let start = spool.start();
        let mut accounts = Vec::new();
        for _ in 0..STEPS {
            let (sent, before) = (LocalTime::now(), self.opener().numbers());
            let request = MinionRequest::Reconcile(Reconciliation {
                start: start.id,
                predecessors: start.predecessors.clone(),
                predecessor_ended: start.predecessor_ended,
                power_lost: start.power_lost,
                heartbeats_before: start.heartbeats_before,
                heartbeat: self.heartbeat(ExpiryAck::default()),
                accounts: std::mem::take(&mut accounts),
            });
            let MinionReply::Reconciled(reply) = self.ask(&request).await? else {
                self.session.end(Ended::Lost);
                return None;
            };
            self.take_reply(sent, before, &reply.heartbeat).await;
            if reply.asked.is_empty() {
                if self.is_beginning.swap(false, Ordering::Relaxed) {
                    // What an earlier session said and this master does not have was not heard.
                    let said = &reply.heartbeat;
                    spool.begin_session(said.expiry_acked_until, said.clock);
                }
                if !start.reconciled {
                    let spool = Arc::clone(spool);
                    let noted = self
                        .parts
                        .context
                        .spawn_blocking(move || spool.reconciled());
                    // An error means that the runtime is going down.
                    noted.await.ok()?;
                }
                return Some(());
            }
            accounts = self.account(reply.asked).await?;
        }
        tracing::warn!(
            "the master asked for jobs {STEPS} times in one reconciliation; reconnecting"
        );
        self.session.end(Ended::Lost);
        None
    }

    /// Says what is known of these jobs. What is not known is barred: a job that waits for a thread must
    /// not begin after the master was told so. Returns that were set aside are sent again: this master
    /// knows the jobs. Returns none when the runtime is going down.
    async fn account(&self, asked: Vec<Jid>) -> Option<Vec<JobAccount>> {
        let spool = Arc::clone(&self.parts.spool);
        let expires = self.remembered_until();
        let all = move || {
            let account = |jid: Jid| {
                spool.take_up(&jid);
                let known = match spool.bar(&jid, expires) {
                    Known::Barred => Known::No,
                    known => known,
                };
                JobAccount { jid, known }
            };
            asked.into_iter().map(account).collect()
        };
        self.parts.context.spawn_blocking(all).await.ok()
    }

    /// Returns until when a job is remembered that must not begin.
    fn remembered_until(&self) -> MasterTime {
        let now = self.parts.clock.reached().unwrap_or_default();
        now.saturating_add(LONGEST_EXPIRY)
    }

    /// Acknowledges the expiries since the last one: tells which of the jobs were begun.
    fn expiry_ack(&self) -> ExpiryAck {
        let settled = self.promised().expiry_acked_until;
        match self.parts.clock.reached() {
            // Before the first reply nothing is known of what the master was told.
            Some(now) if settled > 0 => {
                let (spool, number) = (&self.parts.spool, self.session.number);
                spool.settle(settled, now, number, MAX_ACKED_JOBS)
            }
            _ => ExpiryAck::default(),
        }
    }

    fn heartbeat(&self, expiry: ExpiryAck) -> Heartbeat {
        let mut running = self.parts.host.running.jids();
        // The master knows nothing of those of the minion's schedule.
        running.retain(|jid| !is_own(jid));
        running.truncate(MAX_RUNNING);
        let waiting = u32::try_from(self.parts.host.running.waiting()).unwrap_or(u32::MAX);
        Heartbeat {
            running,
            waiting,
            epoch: self.opener().epoch(),
            heartbeats_noted: self.parts.spool.heartbeats_noted(),
            expiry,
        }
    }

    /// Sends a request. Returns none when there is no answer.
    async fn ask(&self, request: &MinionRequest) -> Option<MinionReply> {
        match request {
            MinionRequest::Heartbeat(_) => tracing::trace!("sending a heartbeat"),
            _ => tracing::debug!("asking the master: {}", request.name()),
        }
        let asked = self.session.ask(Class::Event, request, ANSWER_TIMEOUT);
        match asked.await {
            Ok(reply) => Some(reply),
            Err(error) => {
                tracing::debug!("a heartbeat was not answered: {error}");
                if let AskError::Busy(after) = error {
                    self.parts.context.clock.pause(after).await;
                }
                None
            }
        }
    }

    /// Takes over what the reply to a heartbeat says, which was sent when the publications were at `before`.
    async fn take_reply(
        &self,
        sent: LocalTime,
        before: PublicationNumbers,
        reply: &HeartbeatReply,
    ) {
        self.parts.clock.take(sent, reply.clock);
        self.parts.spool.settle_until(reply.expiry_acked_until);
        *self.promised() = Promised {
            lease: reply.lease,
            expiry_acked_until: reply.expiry_acked_until,
        };
        {
            let mut opener = self.opener();
            if let Some(group) = &reply.group {
                // Publications of the epochs in between were missed.
                opener.install(group);
                self.catch_up.notify_one();
            }
            let said = PublicationNumbers {
                epoch: reply.epoch,
                last_all: reply.last_all,
                last_own: reply.last_own,
            };
            if opener.missed(said, before) {
                tracing::debug!("publications were missed");
                self.catch_up.notify_one();
            }
        }
        if !reply.cancelled.is_empty() {
            self.bar(reply.cancelled.clone()).await;
        }
    }

    /// Bars cancelled jobs, and says what is known of them.
    async fn bar(&self, cancelled: Vec<Jid>) {
        let spool = Arc::clone(&self.parts.spool);
        let expires = self.remembered_until();
        let bar = move || {
            let account = |jid: Jid| {
                let known = spool.bar(&jid, expires);
                if known == Known::Barred {
                    tracing::info!("job {jid}: cancelled before it began");
                }
                JobAccount { jid, known }
            };
            cancelled.into_iter().map(account).collect::<Vec<_>>()
        };
        // An error means that the runtime is going down.
        if let Ok(accounts) = self.parts.context.spawn_blocking(bar).await {
            // Without an answer the next heartbeat is told the same.
            self.ask(&MinionRequest::Accounts(accounts)).await;
        }
    }
}

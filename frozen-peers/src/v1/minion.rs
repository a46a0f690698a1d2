//! A minion that runs `test.ping`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use saline_protocol::transport::{
    Client, Clock, Delivery, Endpoint, Subscriber, Topic, TopicFilter,
};

use super::cipher::Key;
use super::handshake::role;
use super::header::{Header, class, kind};
use super::keys::{Identity, MasterKeys};
use super::messages::{
    Admission, Body, Claims, ExpiryStatement, GroupKey, Heartbeat, HeartbeatReply, Job, JobAccount,
    JobsPage, Known, MinionReply, MinionRequest, PendingRequest, PublicationAddress,
    Reconciliation, Return, ReturnVerdict, TRUE, Welcome, decode,
};
use super::publication::{own_key, topic_all, topic_of, verified};
use super::session::{Credentials, Failure, Session};
use super::{TEST_TIMEOUT, random};

/// How often a minion polls and sends a heartbeat.
const INTERVAL: Duration = Duration::from_millis(300);

/// A minion with its keys, which it keeps over sessions.
#[derive(Debug)]
pub struct Minion {
    /// Who it is, and what it says of itself.
    pub credentials: Credentials,
    /// The master's keys, from the first contact on.
    pub master: Option<MasterKeys>,
    start: [u8; 16],
}

/// A minion in a session that was accepted.
#[derive(Debug)]
pub struct Connected {
    /// The session.
    pub session: Session,
    /// What the master said.
    pub welcome: Welcome,
    id: String,
    start: [u8; 16],
    group: GroupKey,
    lease: (u64, u64),
    /// Locked for nobody: it lets tasks share a minion.
    subscriber: Option<Mutex<Box<dyn Subscriber>>>,
    last_all: u64,
    last_own: u64,
    /// How many jobs came for all minions, and on the minion's own topic.
    pub came: (usize, usize),
    /// How many new group keys came on the minion's own topic.
    pub rotations: usize,
}

impl Minion {
    /// Creates a minion with new keys.
    pub fn new(id: &str) -> Self {
        Self {
            credentials: Credentials::new(role::MINION, id, Identity::generate()),
            master: None,
            start: random(),
        }
    }

    /// Makes a session: with a first contact, or, when the master is known, with a resumption.
    pub async fn begin(
        &mut self,
        client: &Arc<dyn Client>,
    ) -> Result<(Session, Admission), Failure> {
        match &self.master {
            Some(master) => self.credentials.resume(client, master).await,
            None => {
                let contact = self.credentials.first_contact(client).await;
                let (session, admission, master) = contact;
                self.master = Some(master);
                Ok((session, admission))
            }
        }
    }

    /// Makes a session with a master that accepts the minion, at once or after a while, reconciles, and
    /// subscribes at `endpoint`.
    pub async fn connect(&mut self, client: &Arc<dyn Client>, endpoint: &Endpoint) -> Connected {
        let (session, admission) = self.begin(client).await.unwrap();
        let welcome = match admission {
            Admission::Accepted(welcome) => welcome,
            Admission::Pending => poll(&session).await,
            other => panic!("{other:?}"),
        };
        let mut connected = self.accepted(session, welcome);
        connected.reconcile().await;
        connected.subscribe(endpoint).await;
        connected
    }

    /// Goes on with a session that was accepted.
    pub fn accepted(&self, session: Session, welcome: Welcome) -> Connected {
        let group = welcome
            .group
            .clone()
            .expect("a minion is given the group key");
        Connected {
            session,
            id: self.credentials.id.clone(),
            start: self.start,
            lease: (0, 0),
            subscriber: None,
            last_all: group.last_number,
            last_own: 0,
            group,
            welcome,
            came: (0, 0),
            rotations: 0,
        }
    }
}

/// Polls until the key is accepted.
pub async fn poll(session: &Session) -> Welcome {
    let deadline = Clock.after(TEST_TIMEOUT);
    loop {
        match session.ask(class::EVENT, &PendingRequest::Poll).await {
            MinionReply::Auth(Admission::Accepted(welcome)) => return welcome,
            MinionReply::Auth(Admission::Pending) => {}
            other => panic!("{other:?}"),
        }
        assert!(Clock.now() < deadline, "the key was not accepted");
        Clock.pause(INTERVAL).await;
    }
}

impl Connected {
    /// Sends a request.
    pub async fn ask(&self, request: MinionRequest) -> MinionReply {
        self.session.ask(class::EVENT, &request).await
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            running: Vec::new(),
            epoch: self.group.epoch,
            begun: 0,
            expiry: ExpiryStatement::default(),
        }
    }

    /// Reconciles as a minion that knows nothing of what the master asks for.
    pub async fn reconcile(&mut self) {
        let mut accounts = Vec::new();
        loop {
            let request = MinionRequest::Reconcile(Reconciliation {
                start: self.start,
                predecessors: Vec::new(),
                predecessor_ended: false,
                power_lost: false,
                heartbeat: self.heartbeat(),
                accounts: std::mem::take(&mut accounts),
            });
            let reply = match self.ask(request).await {
                MinionReply::Reconciled(reply) => reply,
                other => panic!("{other:?}"),
            };
            self.take(reply.heartbeat);
            if reply.asked.is_empty() {
                return;
            }
            let account = |jid| JobAccount {
                jid,
                known: Known::No,
            };
            accounts.extend(reply.asked.into_iter().map(account));
        }
    }

    /// Sends a heartbeat.
    pub async fn beat(&mut self) {
        match self.ask(MinionRequest::Heartbeat(self.heartbeat())).await {
            MinionReply::Heartbeat(reply) => self.take(reply),
            other => panic!("{other:?}"),
        }
    }

    fn take(&mut self, reply: HeartbeatReply) {
        self.lease = (reply.lease.after, reply.lease.until);
        if let Some(group) = reply.group {
            self.install(group);
        }
    }

    fn install(&mut self, group: GroupKey) {
        if group.epoch > self.group.epoch {
            self.last_all = group.last_number;
            self.last_own = 0;
            self.group = group;
        }
    }

    /// Subscribes to the minion's own topic and to that of all minions.
    pub async fn subscribe(&mut self, endpoint: &Endpoint) {
        let at = match &self.welcome.publications {
            PublicationAddress::SameConnection => None,
            PublicationAddress::Port(port) => Some(endpoint.clone().with_port(*port)),
            PublicationAddress::Path(path) => Some(Endpoint::local(&endpoint.scheme, path)),
        };
        let topics = [topic_all(), topic_of(&self.id)].map(TopicFilter::Exact);
        let client = &self.session.client;
        let subscribed = client.subscribe(at.as_ref(), topics.to_vec(), Clock.after(TEST_TIMEOUT));
        self.subscriber = Some(Mutex::new(subscribed.await.unwrap()));
    }

    /// Returns the jobs that the minion missed.
    pub async fn missed(&self) -> Vec<Job> {
        let master = self.session.master;
        match self.ask(MinionRequest::PendingJobs { after: None }).await {
            MinionReply::Jobs(JobsPage { jobs, .. }) => {
                jobs.into_iter().map(|job| verified(&master, job)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the next job, sending heartbeats meanwhile. The job is signed by the master.
    pub async fn next_job(&mut self) -> Job {
        let deadline = Clock.after(TEST_TIMEOUT);
        loop {
            assert!(Clock.now() < deadline, "{}: no job came", self.id);
            let subscriber = self.subscriber.as_mut().expect("the minion has subscribed");
            let subscriber = subscriber.get_mut().unwrap();
            let next = Clock.deadline(Clock.after(INTERVAL), subscriber.next());
            match next.await {
                Err(_) => self.beat().await,
                Ok(Some(Delivery::Message { topic, payload })) => {
                    if let Some(job) = self.open(&topic, &payload) {
                        return job;
                    }
                }
                Ok(Some(Delivery::Connected | Delivery::Disconnected)) => {}
                Ok(other) => panic!("{other:?}"),
            }
        }
    }

    /// Opens a publication. Returns the job in it; none when it is something else.
    fn open(&mut self, topic: &Topic, frame: &[u8]) -> Option<Job> {
        let (header, rest) = Header::decode(frame);
        let (clear, sealed) = rest.split_at(16);
        let epoch = u64::from_be_bytes(clear[..8].try_into().unwrap());
        let number = u64::from_be_bytes(clear[8..].try_into().unwrap());
        assert_eq!(
            (header.kind, header.class),
            (kind::PUBLICATION, class::EVENT)
        );
        let is_own = *topic == topic_of(&self.id);
        let key = if is_own {
            assert_eq!(header.session, self.session.id);
            own_key(&self.session.split.responder, epoch)
        } else {
            assert_eq!((header.session, epoch), ([0; 16], self.group.epoch));
            Key::new(&self.group.key)
        };
        let plain = key.open(&header, clear, topic.as_str().as_bytes(), sealed);
        let body = decode(&plain.expect("a publication opens"));
        if let Body::GroupKey(group) = body {
            assert!(is_own && group.epoch == epoch && epoch > self.group.epoch);
            self.install(group);
            self.last_own = number;
            self.rotations += 1;
            return None;
        }
        let last = match is_own {
            true => &mut self.last_own,
            false => &mut self.last_all,
        };
        assert_eq!(number, *last + 1, "the numbers on {topic} leave none out");
        *last = number;
        match body {
            Body::Job(signed) => {
                match is_own {
                    true => self.came.1 += 1,
                    false => self.came.0 += 1,
                }
                Some(verified(&self.session.master, signed))
            }
            _ => None,
        }
    }

    /// Begins a job that came, claiming it where it must, and returns what `test.ping` returns. Returns the
    /// master's verdict.
    pub async fn run(&self, job: Job, is_own: bool) -> ReturnVerdict {
        assert_eq!(job.fun, "test.ping");
        let named = match &job.claims {
            Claims::All | Claims::Always => true,
            Claims::Of(minions) => minions.contains(&self.id),
        };
        let is_covered = self.lease.0 < job.created && job.created <= self.lease.1;
        if named || !(is_own || is_covered) {
            let jid = job.jid.clone();
            let claimed = self.ask(MinionRequest::Claim { jid }).await;
            assert_eq!(claimed, MinionReply::Claimed(true));
        }
        let begun = MinionRequest::Started(vec![job.jid.clone()]);
        assert_eq!(self.ask(begun).await, MinionReply::Done);
        self.give_back(job).await
    }

    /// Returns a job.
    pub async fn give_back(&self, job: Job) -> ReturnVerdict {
        let returns = MinionRequest::Returns(vec![Return {
            jid: job.jid,
            fun: job.fun,
            fun_args: job.arg,
            retcode: 0,
            success: true,
            payload: TRUE.to_vec(),
        }]);
        match self.session.ask(class::RETURN, &returns).await {
            MinionReply::Verdicts(mut verdicts) if verdicts.len() == 1 => verdicts.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the next job, runs it, and returns its jid and the verdict.
    pub async fn serve_one(&mut self) -> (String, ReturnVerdict) {
        let own = self.came.1;
        let job = self.next_job().await;
        let jid = job.jid.clone();
        let is_own = self.came.1 > own;
        (jid, self.run(job, is_own).await)
    }
}

//! An operator on the master's machine.

use std::path::Path;
use std::sync::Arc;

use saline_protocol::transport::{Client, Clock};

use super::handshake::role;
use super::header::class;
use super::keys::{Identity, MasterKeys};
use super::messages::{
    Admission, BatchRequest, Jid, KeyAction, KeyRequest, KeyState, NO_ARGUMENTS, OfferState,
    OperatorReply, OperatorRequest, Published, StoredReturn, Target, TargetKind,
};
use super::session::{Credentials, Session};
use super::{TEST_TIMEOUT, random};

/// How often an operator asks for what has not come yet.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

/// An operator with a session.
#[derive(Debug)]
pub struct Operator {
    session: Session,
}

impl Operator {
    /// Makes a session over the local endpoint with the key of the local operator, `.root_key`, and the
    /// master's `identity.pub`.
    pub async fn connect(client: Arc<dyn Client>, root_key: &Path, master: &Path) -> Self {
        let credentials = Credentials::new(role::OPERATOR, "root", Identity::read(root_key));
        let master = MasterKeys::read(master);
        let resumed = credentials.resume(&client, &master).await;
        let (session, admission) = resumed.unwrap();
        let Admission::Accepted(welcome) = admission else {
            panic!("{admission:?}");
        };
        assert_eq!(welcome.master.protocol, 1);
        assert_eq!(welcome.group, None, "the group key is for minions");
        Self { session }
    }

    /// Sends a request.
    pub async fn ask(&self, request: OperatorRequest) -> OperatorReply {
        self.session.ask(class::BULK, &request).await
    }

    /// Publishes `test.ping` for the minions that a glob matches; with a time in milliseconds also for those that
    /// are away.
    pub async fn publish(&self, glob: &str, ttl_ms: Option<u64>) -> Published {
        let request = OperatorRequest::Publish {
            request_id: random(),
            target: Target {
                kind: TargetKind::Glob,
                expression: glob.to_owned(),
            },
            fun: "test.ping".to_owned(),
            arg: NO_ARGUMENTS.to_vec(),
            user: "frozen".to_owned(),
            ttl_ms,
            private: false,
            subset: None,
            batch: BatchRequest::default(),
        };
        match self.ask(request).await {
            OperatorReply::Published(published) => published,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the job has so many returns, and returns them.
    pub async fn returns(&self, jid: &Jid, count: usize) -> Vec<StoredReturn> {
        let deadline = Clock.after(TEST_TIMEOUT);
        let (mut returns, mut after) = (Vec::new(), 0);
        while returns.len() < count {
            let jid = jid.clone();
            let page = match self.ask(OperatorRequest::JobReturns { jid, after }).await {
                OperatorReply::Returns(page) => page,
                other => panic!("{other:?}"),
            };
            returns.extend(page.returns);
            after = returns.last().map_or(0, |last: &StoredReturn| last.receipt);
            assert!(Clock.now() < deadline, "waited in vain: {returns:?}");
            if !page.more {
                Clock.pause(POLL_INTERVAL).await;
            }
        }
        returns
    }

    /// Waits until so many minions are present.
    pub async fn wait_for_minions(&self, count: usize) {
        let deadline = Clock.after(TEST_TIMEOUT);
        loop {
            let present = match self.ask(OperatorRequest::Running).await {
                OperatorReply::Running(present) => present.len(),
                other => panic!("{other:?}"),
            };
            if present == count {
                return;
            }
            assert!(Clock.now() < deadline, "{present} minions are present");
            Clock.pause(POLL_INTERVAL).await;
        }
    }

    /// Returns the states of the job's minions.
    pub async fn states(&self, jid: &Jid) -> Vec<(String, OfferState)> {
        let (jid, after) = (jid.clone(), None);
        match self.ask(OperatorRequest::JobStates { jid, after }).await {
            OperatorReply::States(page) => page.states,
            other => panic!("{other:?}"),
        }
    }

    /// Accepts the pending key of a minion.
    pub async fn accept(&self, id: &str) {
        self.act(KeyAction::Accept, KeyState::Pending, id).await;
    }

    /// Deletes the accepted key of a minion.
    pub async fn delete(&self, id: &str) {
        self.act(KeyAction::Delete, KeyState::Accepted, id).await;
    }

    async fn act(&self, action: KeyAction, state: KeyState, id: &str) {
        let request = KeyRequest::Act {
            request_id: random(),
            action,
            keys: vec![(state, id.to_owned())],
        };
        match self.ask(OperatorRequest::Keys(request)).await {
            OperatorReply::Keys(reply) => assert_eq!(reply.keys.len(), 1, "{reply:?}"),
            other => panic!("{other:?}"),
        }
    }
}

//! Every verb of every audience, asked by everybody who must not: nothing changes for the minion that it is
//! about, and nothing is told.

mod apis;
mod caller_verbs;
mod callers;
mod replays;
pub mod verbs;

use saline_channel::{ChannelError, MasterTrust};
use saline_data::{Packed, Value};
use saline_messages::{
    Admission, ArgumentPlace, Arguments, Class, Event, FileRefusal, FileReply, GrainsReport,
    Header, Jid, KeyAction, KeyRequest, KeyState, Kind, MinePage, MineReply, MinionJobState,
    MinionPillar, MinionReply, MinionRequest, OperatorReply, OperatorRequest, Outgoing,
    PillarReply, PublishRequest, Refusal, RefusedVerb, RequestId, ReturnVerdict, Role, Secrets,
    SessionId, encode,
};
use saline_protocol::transport::{Clock, Delivery, ErrorKind};
use saline_targeting::{Target, TargetKind};
use serde::Serialize;

use crate::support::{Deployment, Peer, TEST_TIMEOUT, credentials, runner};

/// A master with a minion to which a job is offered, and an operator.
struct Scene {
    deployment: Deployment,
    operator: Peer,
    victim: Peer,
    jid: Jid,
}

impl Scene {
    async fn new() -> Self {
        let deployment = Deployment::start(true).await;
        let operator = deployment.operator().await;
        let victim = deployment.minion("victim").await;
        let jid = operator.publish("victim").await.jid.unwrap();
        Self {
            deployment,
            operator,
            victim,
            jid,
        }
    }

    /// Fails unless everything is as it was in the beginning.
    async fn check(&self, what: &str) {
        let request = OperatorRequest::JobStates {
            jid: self.jid.clone(),
            after: None,
        };
        let OperatorReply::States(page) = self.operator.order(request).await else {
            panic!("{what}: no states");
        };
        assert_eq!(page.states[0].1, MinionJobState::Offered, "{what}");
        let Value::Map(jobs) = runner::value(&self.operator, "jobs.list_jobs", &[]).await else {
            panic!("{what}: no jobs");
        };
        let forged = Some(&Value::from("test.forged"));
        assert!(
            jobs.iter().all(|(_, job)| job.get("Function") != forged),
            "{what}"
        );
        let pending = self.victim.pending().await;
        assert_eq!(pending.len(), 1, "{what}: the job is still the victim's");
    }
}

/// Asks for `verb` in the session of `peer`.
async fn ask<Q: Serialize>(peer: &Peer, verb: &Q) -> Result<MinionReply, ChannelError> {
    let deadline = Clock.after(TEST_TIMEOUT);
    let session = &peer.established.session;
    session
        .ask(&*peer.client, Class::Event, verb, deadline)
        .await
}

async fn ask_operator(peer: &Peer, verb: &OperatorRequest) -> Result<OperatorReply, ChannelError> {
    let deadline = Clock.after(TEST_TIMEOUT);
    let session = &peer.established.session;
    session
        .ask(&*peer.client, Class::Event, verb, deadline)
        .await
}

fn refused(reply: Result<MinionReply, ChannelError>) -> RefusedVerb {
    match reply {
        Ok(MinionReply::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Asks in a session that has ended, and returns why it is refused. Its connection is cut a moment later: what is
/// under way then is asked again.
async fn refusal(peer: &Peer, verb: &impl Serialize) -> RefusedVerb {
    loop {
        match ask(peer, verb).await {
            Ok(MinionReply::Refused(why)) => return why,
            Err(ChannelError::Transport(error)) if error.kind() == ErrorKind::ConnectionLost => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Holds that a reply is an empty page of the mine: nobody has left anything.
pub fn check_nothing_found(reply: &MineReply) {
    let nothing = MinePage {
        entries: Vec::new(),
        more: false,
    };
    assert_eq!(*reply, MineReply::Found(nothing));
}

/// Holds that a reply is a pillar without entries: the master has no files of pillars.
pub fn check_empty_pillar(reply: &PillarReply) {
    let empty = MinionPillar {
        entries: Some(Packed::pack(&Value::Map(Vec::new()))),
        errors: Vec::new(),
    };
    let part = Outgoing::new(empty.to_bytes()).part(0, usize::MAX);
    assert_eq!(*reply, PillarReply::Part(part));
}

#[tokio::test]
async fn nobody_is_answered_without_a_session() {
    let scene = Scene::new().await;
    let stranger = scene.deployment.network().await;
    let minions = verbs::of_minions(&scene.jid);
    let operators = verbs::of_operators(&scene.jid);
    let callers = caller_verbs::of_callers();
    let plain = minions.iter().map(encode);
    let plain = plain.chain(callers.iter().map(encode));
    for body in plain.chain(operators.iter().map(encode)) {
        let header = Header {
            kind: Kind::Record,
            session: SessionId([5; 16]),
            class: Class::Event,
            counter: 1,
        };
        let message = header.with_body(&body);
        let reply = stranger.request(message, Clock.after(TEST_TIMEOUT)).await;
        let reply = reply.unwrap();
        let (header, body) = Header::decode(&reply).unwrap();
        assert_eq!(header.kind, Kind::Refused);
        assert_eq!(Refusal::from_body(body), Refusal::UnknownSession);
    }
    scene.check("nobody").await;
}

#[tokio::test]
async fn a_pending_key_only_polls() {
    let scene = Scene::new().await;
    let deployment = Deployment::start(false).await;
    let pending = deployment.minion("victim").await;
    assert_eq!(pending.established.answer, Admission::Pending(None));
    for verb in verbs::of_minions(&scene.jid) {
        match ask(&pending, &verb).await {
            Ok(MinionReply::Auth(Admission::Pending(None))) => {
                assert!(matches!(verb, MinionRequest::Poll), "{verb:?}");
            }
            reply => assert_eq!(refused(reply), RefusedVerb::Malformed, "{verb:?}"),
        }
    }
    for verb in verbs::of_operators(&scene.jid) {
        assert_eq!(refused(ask(&pending, &verb).await), RefusedVerb::Malformed);
    }
    for verb in caller_verbs::of_callers() {
        assert_eq!(refused(ask(&pending, &verb).await), RefusedVerb::Malformed);
    }
}

#[tokio::test]
async fn another_minion_acts_for_itself_alone() {
    let scene = Scene::new().await;
    let other = scene.deployment.minion("other").await;
    let mut bus = scene.operator.events("event/salt/minion").await;
    for verb in verbs::of_minions(&scene.jid) {
        let reply = ask(&other, &verb).await.unwrap();
        match (&verb, reply) {
            (MinionRequest::Returns(_) | MinionRequest::ReturnPart(_), reply) => {
                let verdicts = MinionReply::Verdicts(vec![ReturnVerdict::NotOffered]);
                assert_eq!(reply, verdicts, "{verb:?}");
            }
            (MinionRequest::Claim { .. }, reply) => assert_eq!(reply, MinionReply::Claimed(false)),
            (MinionRequest::PendingJobs { .. }, MinionReply::Jobs(page)) => {
                assert_eq!(page.jobs, []);
            }
            (MinionRequest::PendingJobs { .. }, reply) => panic!("{reply:?}"),
            (MinionRequest::FireEvents(_), _) => {
                let Some(Delivery::Message { payload, .. }) = bus.next().await else {
                    panic!("the bus ended");
                };
                let event = Event::decode(&payload).unwrap();
                assert_eq!(event.tag, "salt/minion/other/forged");
                assert_eq!(event.data.get("id").unwrap().as_str(), Some("other"));
            }
            (MinionRequest::Grains(_), _) => {
                let target = Target {
                    kind: TargetKind::Grain,
                    expression: "os:forged".to_owned(),
                };
                let asked = OperatorRequest::MatchTarget {
                    target,
                    include_unknown: false,
                };
                let OperatorReply::Matched(matched) = scene.operator.order(asked).await else {
                    panic!("not matched");
                };
                assert_eq!(matched.minions, [other.id()]);
            }
            (MinionRequest::Functions(_), reply) => assert_eq!(reply, MinionReply::Done),
            (MinionRequest::Scheduled(_), reply) => {
                // Under a job of its own, which is the other minion's.
                let verdicts = MinionReply::Verdicts(vec![ReturnVerdict::Stored]);
                assert_eq!(reply, verdicts);
            }
            (MinionRequest::Files(_), reply) => {
                let refused = FileReply::Refused(FileRefusal::NotTaken);
                assert_eq!(reply, MinionReply::Files(refused));
            }
            (MinionRequest::Pillar(_), MinionReply::Pillar(reply)) => {
                check_empty_pillar(&reply);
            }
            (MinionRequest::Pillar(_), reply) => panic!("{reply:?}"),
            (MinionRequest::Mine(_), MinionReply::Mine(reply)) => check_nothing_found(&reply),
            (MinionRequest::Mine(_), reply) => panic!("{reply:?}"),
            (
                MinionRequest::Poll
                | MinionRequest::Heartbeat(_)
                | MinionRequest::Started(_)
                | MinionRequest::Declined { .. }
                | MinionRequest::Reconcile(_)
                | MinionRequest::Accounts(_)
                | MinionRequest::Goodbye(_),
                _,
            ) => {}
        }
        scene.check(&format!("{verb:?}")).await;
    }
}

#[tokio::test]
async fn a_minion_gives_no_order() {
    let scene = Scene::new().await;
    for (number, verb) in verbs::of_operators(&scene.jid).iter().enumerate() {
        let other = scene.deployment.minion(&format!("other{number}")).await;
        // Whatever its bytes mean as a minion's verb, the answer tells nothing of an operator's.
        let reply = ask(&other, verb).await;
        let tells_nothing = match &reply {
            Ok(MinionReply::Refused(RefusedVerb::Malformed) | MinionReply::Done) => true,
            Ok(MinionReply::Verdicts(verdicts)) => verdicts.is_empty(),
            _ => false,
        };
        assert!(tells_nothing, "{verb:?}: {reply:?}");
        scene.check(&format!("{verb:?}")).await;
    }
}

#[tokio::test]
async fn a_replaced_session_and_a_deleted_key_are_told_so() {
    let scene = Scene::new().await;
    let deployment = &scene.deployment;
    let trust = || MasterTrust::Pinned(deployment.master_keys());
    for (id, why) in [
        ("replaced", RefusedVerb::Replaced),
        ("deleted", RefusedVerb::KeyGone),
    ] {
        let old = deployment.minion(id).await;
        if why == RefusedVerb::Replaced {
            let network = deployment.network().await;
            let new = Peer::come(network, old.credentials.clone(), &trust()).await;
            new.reconcile().await;
        } else {
            let deleted = scene
                .operator
                .act(KeyAction::Delete, KeyState::Accepted, id);
            assert_eq!(deleted.await, 1);
        }
        for verb in verbs::of_minions(&scene.jid) {
            assert_eq!(refusal(&old, &verb).await, why, "{verb:?}");
        }
        for verb in verbs::of_operators(&scene.jid) {
            assert_eq!(refusal(&old, &verb).await, why, "{verb:?}");
        }
        scene.check(id).await;
    }
}

#[tokio::test]
async fn a_revoked_operator_gives_no_order() {
    let scene = Scene::new().await;
    let alice = credentials(Role::Operator, "alice");
    let pki = &scene.deployment.config.paths.pki_dir;
    let file = pki.join("operators/alice");
    let pem = alice.identity.public().to_pem();
    std::fs::write(&file, &pem).unwrap();
    let trust = MasterTrust::Pinned(scene.deployment.master_keys());
    for verb in verbs::of_operators(&scene.jid) {
        std::fs::write(&file, &pem).unwrap();
        let network = scene.deployment.network().await;
        let alice = Peer::come(network, alice.clone(), &trust).await;
        let list = OperatorRequest::Keys(KeyRequest::List);
        let reply = ask_operator(&alice, &list).await.unwrap();
        assert!(matches!(reply, OperatorReply::Keys(_)), "{reply:?}");
        std::fs::remove_file(&file).unwrap();
        let reply = ask_operator(&alice, &verb).await.unwrap();
        let gone = OperatorReply::Refused(RefusedVerb::KeyGone);
        assert_eq!(reply, gone, "{verb:?}");
    }
    scene.check("a revoked operator").await;
}

/// Publishes to 65 minions whose role is `web`, and returns whether another minion can open what travels.
async fn is_opened_by_another(
    kind: TargetKind,
    expression: &str,
    private: bool,
    subset: Option<u32>,
) -> bool {
    is_job_opened_by_another((kind, expression), private, subset, None).await
}

/// Whether another minion opens a job that may have a secret.
async fn is_job_opened_by_another(
    (kind, expression): (TargetKind, &str),
    private: bool,
    subset: Option<u32>,
    secret: Option<&str>,
) -> bool {
    let has_role = |role: &str| {
        let grains = Packed::pack(&Value::map([("role", Value::from(role))]));
        MinionRequest::Grains(GrainsReport {
            digest: GrainsReport::digest_of(&grains),
            grains: Some(grains),
        })
    };
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let other = deployment.minion("other").await;
    assert_eq!(other.ask(has_role("db")).await, MinionReply::Done);
    let mut listener = other.listen().await;
    let mut minions = Vec::new();
    for number in 0..65 {
        let minion = deployment.minion(&format!("web{number}")).await;
        assert_eq!(minion.ask(has_role("web")).await, MinionReply::Done);
        minions.push(minion);
    }
    let mut own = minions[0].listen().await;
    let mut arg = Arguments::default();
    let values = secret.map(|value| (ArgumentPlace::named("password"), Value::from(value)));
    let values = values.into_iter().collect();
    let order = OperatorRequest::Publish(PublishRequest {
        secrets: Secrets::set_apart(&mut arg, values).unwrap(),
        arg: arg.pack(),
        private,
        subset,
        ..PublishRequest::new(
            RequestId::random().unwrap(),
            Target {
                kind,
                expression: expression.to_owned(),
            },
            "test.ping",
            "root",
        )
    });
    let published = operator.order(order).await;
    let OperatorReply::Published(published) = published else {
        panic!("{published:?}");
    };
    assert_eq!(own.job().await.jid, published.jid.clone().unwrap());
    // What comes to the other one next, at the latest this.
    let last = operator.publish("other").await.jid.unwrap();
    let seen = listener.job().await.jid;
    assert!(seen == last || Some(&seen) == published.jid.as_ref());
    seen != last
}

#[tokio::test]
async fn a_private_job_is_opened_by_its_minions_alone() {
    assert!(
        is_opened_by_another(TargetKind::Glob, "web*", false, None).await,
        "65 minions share one sealing"
    );
    assert!(!is_opened_by_another(TargetKind::Glob, "web*", true, None).await);
}

#[tokio::test]
async fn a_job_with_a_secret_is_opened_by_its_minions_alone() {
    let web = (TargetKind::Glob, "web*");
    assert!(!is_job_opened_by_another(web, false, None, Some("x")).await);
}

#[tokio::test]
async fn a_job_for_grains_is_opened_by_its_minions_alone() {
    // Another one whose grains have just changed would match it, and run what was not offered to it.
    assert!(!is_opened_by_another(TargetKind::Grain, "role:web", false, None).await);
    assert!(!is_opened_by_another(TargetKind::Grain, "role:web", false, Some(65)).await);
}

//! Which minions a master takes for those of a target: by the grains that they reported, which are bounded, are
//! forgotten with their keys, and may not be known.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod support;

use saline_protocol::message::{
    Arguments, BatchRequest, GrainsReport, KeyAction, KeyState, MinionReply, MinionRequest,
    OperatorReply, OperatorRequest, Packed, Published, RefusedVerb, RequestId, TargetMatches,
    Value,
};
use saline_protocol::target::{GRAINS_MOST, Target, TargetKind};

use support::{Deployment, Peer};

fn role(role: &str) -> Packed {
    Packed::pack(&Value::map([("role", Value::from(role))]))
}

async fn report(minion: &Peer, grains: Packed) -> MinionReply {
    let digest = GrainsReport::digest_of(&grains);
    let report = GrainsReport {
        digest,
        grains: Some(grains),
    };
    minion.ask(MinionRequest::Grains(report)).await
}

fn grain(expression: &str) -> Target {
    Target {
        kind: TargetKind::Grain,
        expression: expression.to_owned(),
    }
}

async fn publish(operator: &Peer, target: Target, subset: Option<u32>) -> Published {
    let order = OperatorRequest::Publish {
        request_id: RequestId::random().unwrap(),
        target,
        fun: "test.ping".into(),
        arg: Arguments::default().pack(),
        user: "root".into(),
        ttl_ms: None,
        private: false,
        subset,
        batch: BatchRequest::default(),
    };
    match operator.order(order).await {
        OperatorReply::Published(published) => published,
        other => panic!("{other:?}"),
    }
}

fn names(published: &Published) -> Vec<&str> {
    published
        .minions
        .iter()
        .map(|(id, _)| id.as_str())
        .collect()
}

async fn matches(operator: &Peer, target: Target) -> TargetMatches {
    match operator.order(OperatorRequest::MatchTarget(target)).await {
        OperatorReply::Matched(matches) => matches,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn minions_without_known_grains_get_the_job_and_are_named() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let (a, b) = (deployment.minion("a").await, deployment.minion("b").await);
    let c = deployment.minion("c").await;
    assert_eq!(report(&a, role("web")).await, MinionReply::Done);
    assert_eq!(report(&b, role("db")).await, MinionReply::Done);

    let published = publish(&operator, grain("role:web"), None).await;
    assert_eq!(names(&published), ["a", "c"]);
    assert_eq!(published.unsure, [c.id()]);
    // Only those that surely match are chosen from, whatever the chance.
    for _ in 0..10 {
        let published = publish(&operator, grain("role:web"), Some(2)).await;
        assert_eq!((names(&published), published.unsure.len()), (vec!["a"], 0));
    }
    let published = publish(&operator, Target::glob("*"), Some(2)).await;
    assert_eq!(published.minions.len(), 2);
    let job = operator.order(OperatorRequest::JobLookup {
        jid: published.jid.unwrap(),
    });
    let OperatorReply::Job(stored) = job.await else {
        panic!("no job");
    };
    assert_eq!(
        stored.job.target.kind,
        TargetKind::List,
        "others must not run it"
    );

    assert_eq!(report(&c, role("db")).await, MinionReply::Done);
    let matched = matches(&operator, grain("role:db")).await;
    assert_eq!(matched.minions, [b.id(), c.id()]);
    assert!(matched.unsure.is_empty());
}

#[tokio::test]
async fn grains_are_bounded_and_go_with_the_key() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let a = deployment.minion("a").await;
    let refused = MinionReply::Refused(RefusedVerb::Malformed);
    let large = Value::map([("role", Value::from("x".repeat(GRAINS_MOST)))]);
    assert_eq!(report(&a, Packed::pack(&large)).await, refused);
    assert_eq!(report(&a, Packed::from_bytes(vec![0xc1])).await, refused);
    assert_eq!(report(&a, role("web")).await, MinionReply::Done);
    assert!(
        matches(&operator, grain("role:web"))
            .await
            .unsure
            .is_empty()
    );

    let page = operator.order(OperatorRequest::Grains {
        target: grain("role:web"),
        after: None,
    });
    let OperatorReply::Grains(page) = page.await else {
        panic!("no page");
    };
    assert_eq!(page.minions, [(a.id(), Some(role("web")))]);
    assert!(!page.more);

    operator
        .act(KeyAction::Delete, KeyState::Accepted, "a")
        .await;
    let again = deployment.minion("a").await;
    let matched = matches(&operator, grain("role:web")).await;
    assert_eq!(
        matched.unsure,
        [again.id()],
        "another machine inherits nothing"
    );
}

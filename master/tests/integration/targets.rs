//! Which minions a master takes for those of a target: by the grains that they reported, which are bounded, are
//! forgotten with their keys, and may not be known.

use std::collections::{BTreeMap, BTreeSet};

use saline_data::{Packed, Value};
use saline_messages::{
    GrainsReport, KeyAction, KeyState, MinionId, MinionReply, MinionRequest, OperatorReply,
    OperatorRequest, PublishRequest, Published, RefusedVerb, RequestId, TargetMatches,
};
use saline_targeting::{Assignment, Assignments, Attribute, MAX_GRAINS, Target, TargetKind};

use crate::support::runner::value;
use crate::support::{Deployment, Peer};

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
    publish_to(operator, target, subset, false).await
}

async fn publish_to(
    operator: &Peer,
    target: Target,
    subset: Option<u32>,
    include_unknown: bool,
) -> Published {
    let order = OperatorRequest::Publish(PublishRequest {
        include_unknown,
        subset,
        ..PublishRequest::new(RequestId::random().unwrap(), target, "test.ping", "root")
    });
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

fn compound(expression: &str) -> Target {
    Target {
        kind: TargetKind::Compound,
        expression: expression.to_owned(),
    }
}

fn match_target(target: Target) -> OperatorRequest {
    OperatorRequest::MatchTarget {
        target,
        include_unknown: false,
    }
}

async fn matches(operator: &Peer, target: Target) -> TargetMatches {
    match operator.order(match_target(target)).await {
        OperatorReply::Matched(matches) => matches,
        other => panic!("{other:?}"),
    }
}

/// Returns a published job as `jobs.list_job` shows it.
async fn stored(operator: &Peer, published: &Published) -> Value {
    let jid = published.jid.as_ref().unwrap();
    value(operator, "jobs.list_job", &[jid.as_str()]).await
}

#[tokio::test]
async fn minions_without_known_grains_are_named_and_asked_only_where_that_is_wanted() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let (a, b) = (deployment.minion("a").await, deployment.minion("b").await);
    let c = deployment.minion("c").await;
    assert_eq!(report(&a, role("web")).await, MinionReply::Done);
    assert_eq!(report(&b, role("db")).await, MinionReply::Done);

    let published = publish(&operator, grain("role:web"), None).await;
    assert_eq!(names(&published), ["a"]);
    assert_eq!(published.without_grains, [c.id()]);
    let published = publish_to(&operator, grain("role:web"), None, true).await;
    assert_eq!(names(&published), ["a", "c"]);
    assert_eq!(published.without_grains, [c.id()]);
    // What is not known is not known of its opposite either.
    for (expression, included, unknown) in [
        ("not G@role:web", vec!["b"], vec!["c"]),
        ("* and not G@role:web", vec!["b"], vec!["c"]),
        ("G@role:web or c", vec!["a", "c"], vec![]),
        ("G@role:web and not c", vec!["a"], vec![]),
        ("S@10.0.0.0/8", vec![], vec!["c"]),
    ] {
        let published = publish(&operator, compound(expression), None).await;
        let unsure: Vec<&str> = published
            .without_grains
            .iter()
            .map(MinionId::as_str)
            .collect();
        assert_eq!(
            (names(&published), unsure),
            (included, unknown),
            "{expression}"
        );
    }
    // Only those that surely match are chosen from, whatever the chance.
    for _ in 0..10 {
        let published = publish(&operator, grain("role:web"), Some(2)).await;
        assert_eq!(names(&published), ["a"]);
        let published = publish_to(&operator, grain("role:web"), Some(1), true).await;
        let chosen = names(&published);
        assert!(chosen == ["a"] || chosen == ["c"], "{chosen:?}");
        assert_eq!(published.without_grains.is_empty(), chosen == ["a"]);
    }
    let published = publish(&operator, Target::glob("*"), Some(2)).await;
    assert_eq!(published.minions.len(), 2);
    let job = stored(&operator, &published).await;
    assert_eq!(
        job.get("Target-type"),
        Some(&Value::from("list")),
        "others must not run it"
    );

    assert_eq!(report(&c, role("db")).await, MinionReply::Done);
    let matched = matches(&operator, grain("role:db")).await;
    assert_eq!(matched.minions, [b.id(), c.id()]);
    assert!(matched.without_grains.is_empty());
}

#[tokio::test]
async fn grains_are_bounded_and_go_with_the_key() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let a = deployment.minion("a").await;
    let refused = MinionReply::Refused(RefusedVerb::Malformed);
    let large = Value::map([("role", Value::from("x".repeat(MAX_GRAINS)))]);
    assert_eq!(report(&a, Packed::pack(&large)).await, refused);
    assert_eq!(report(&a, Packed::from_bytes(vec![0xc1])).await, refused);
    assert_eq!(report(&a, role("web")).await, MinionReply::Done);
    assert!(
        matches(&operator, grain("role:web"))
            .await
            .without_grains
            .is_empty()
    );

    let grains = value(&operator, "cache.grains", &["a"]).await;
    assert_eq!(grains.get("a"), Some(&role("web").unpack().unwrap()));

    operator
        .act(KeyAction::Delete, KeyState::Accepted, "a")
        .await;
    let again = deployment.minion("a").await;
    let matched = matches(&operator, grain("role:web")).await;
    assert_eq!(
        matched.without_grains,
        [again.id()],
        "another machine inherits nothing"
    );
}

/// Returns the expression with which a text of many `a` takes too many steps.
fn hard(kind: TargetKind, before: &str) -> Target {
    Target {
        kind,
        expression: format!("{before}web$|(?:a|aa)+(?!b)c"),
    }
}

#[tokio::test]
async fn a_minion_whose_grains_take_too_many_steps_decides_about_itself_alone() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let (honest, liar) = (deployment.minion("a").await, deployment.minion("b").await);
    assert_eq!(report(&honest, role("web")).await, MinionReply::Done);
    let long = "a".repeat(200);
    assert_eq!(report(&liar, role(&long)).await, MinionReply::Done);
    let target = hard(TargetKind::GrainPcre, "role:");
    let published = publish(&operator, target.clone(), None).await;
    assert_eq!(names(&published), ["a"]);
    assert_eq!(
        matches(&operator, target.clone()).await.minions,
        [honest.id()]
    );
    // What it is not counted for is not counted for the opposite either.
    let not = Target {
        kind: TargetKind::Compound,
        expression: format!("* and not P@{}", target.expression),
    };
    let refused = operator.order(match_target(not)).await;
    let OperatorReply::BadTarget(why) = refused else {
        panic!("{refused:?}");
    };
    // Nobody else matches: the operator is told why.
    assert!(why.contains("given up at minion b"), "{why}");
}

#[tokio::test]
async fn an_id_that_takes_too_many_steps_decides_about_itself_alone() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let (honest, _) = (
        deployment.minion("web").await,
        deployment.minion(&"a".repeat(200)).await,
    );
    let matched = matches(&operator, hard(TargetKind::Pcre, "")).await;
    assert_eq!(matched.minions, [honest.id()]);
}

#[tokio::test]
async fn grains_that_the_master_does_not_get_are_not_known_any_more() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let a = deployment.minion("a").await;
    assert_eq!(report(&a, role("web")).await, MinionReply::Done);
    let is_known = async || {
        let matched = matches(&operator, grain("role:web")).await;
        let is_known = matched.without_grains.is_empty();
        assert_eq!(matched.minions.len(), usize::from(is_known));
        is_known
    };
    assert!(is_known().await);
    // They have grown above the bound, so that the minion tells their digest alone.
    let large = Value::map([("role", Value::from("x".repeat(MAX_GRAINS)))]);
    let grown = GrainsReport {
        digest: GrainsReport::digest_of(&Packed::pack(&large)),
        grains: None,
    };
    let told = a.ask(MinionRequest::Grains(grown.clone())).await;
    assert_eq!(told, MinionReply::SendAll);
    assert!(!is_known().await);
    // One that sends them all the same.
    assert_eq!(report(&a, role("web")).await, MinionReply::Done);
    assert!(is_known().await);
    let refused = MinionReply::Refused(RefusedVerb::Malformed);
    assert_eq!(report(&a, Packed::pack(&large)).await, refused);
    assert!(!is_known().await);
}

/// Assigns a role and an attribute to a glob.
fn assignment(glob: &str, role: &str, site: &str) -> Assignment {
    let site = Attribute {
        value: Value::from(site),
        place: format!("minions.d/{glob}:1:1"),
    };
    Assignment {
        glob: glob.to_owned(),
        place: String::new(),
        roles: BTreeSet::from([role.to_owned()]),
        attributes: BTreeMap::from([("site".to_owned(), site)]),
    }
}

fn assigned(expression: &str) -> Target {
    Target {
        kind: TargetKind::Assigned,
        expression: expression.to_owned(),
    }
}

#[tokio::test]
async fn what_is_assigned_follows_from_ids_whatever_a_minion_says() {
    let deployment = Deployment::start_with(|config| {
        config.auto_accept = true;
        let assignments = vec![
            assignment("web*", "web", "berlin"),
            assignment("db1", "db", "paris"),
            assignment("absent", "db", "paris"),
            assignment("*-b", "canary", "paris"),
        ];
        config.assignments = Assignments::new(assignments).unwrap();
    })
    .await;
    let operator = deployment.operator().await;
    let (web, liar) = (
        deployment.minion("web1").await,
        deployment.minion("db1").await,
    );
    let claims = Packed::pack(&Value::map([
        ("roles", Value::from("web")),
        ("site", Value::from("berlin")),
    ]));
    assert_eq!(report(&liar, claims).await, MinionReply::Done);

    let published = publish(&operator, assigned("roles:web"), None).await;
    assert_eq!(names(&published), ["web1"]);
    assert!(published.without_grains.is_empty());
    let job = stored(&operator, &published).await;
    let target = ["Target", "Target-type"].map(|name| job.get(name).and_then(Value::as_str));
    assert_eq!(
        target,
        [Some("web*"), Some("compound")],
        "as minions match it"
    );
    // To an id without a key something may be assigned beforehand.
    let published = publish(&operator, assigned("roles:db"), None).await;
    assert_eq!(
        (names(&published), published.unknown.len()),
        (vec!["db1"], 0)
    );
    let matched = matches(&operator, compound("* and not A@site:berlin")).await;
    assert_eq!(matched.minions, [liar.id()]);
    assert!(
        matches(&operator, assigned("roles:nosuch"))
            .await
            .minions
            .is_empty()
    );

    // Nobody knows where this one is.
    let both = deployment.minion("web-b").await;
    let refused = operator.order(match_target(assigned("roles:web"))).await;
    let OperatorReply::BadTarget(why) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(
        why,
        "minions.d/*-b:1:1: attribute \"site\" of minion web-b has another value here than at minions.d/web*:1:1; a \
         minion has one value of each attribute"
    );
    assert_eq!(
        matches(&operator, Target::glob("web*")).await.minions,
        [both.id(), web.id()]
    );
}

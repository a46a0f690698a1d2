//! Targets by pillar: whom they include, and that no minion decides about that.

use saline_targeting::{NodegroupDefinition, Nodegroups, Target, TargetKind};

use super::*;
use crate::facts::IncludedMinions;
use crate::orders::ResolvedTarget;

impl Scene {
    async fn resolve(&self, expression: &str) -> ResolvedTarget {
        let targets = &self.master.state.runner_parts().targets;
        let target = Target {
            kind: TargetKind::Compound,
            expression: expression.to_owned(),
        };
        targets.resolve(target, false).await.unwrap()
    }

    /// Returns the minions that a compound target includes, and those whose pillars are not known.
    async fn included(&self, expression: &str) -> (String, String) {
        let resolved = self.resolve(expression).await;
        let join = |ids: &[MinionId]| {
            let ids: Vec<&str> = ids.iter().map(MinionId::as_str).collect();
            ids.join(" ")
        };
        (join(&resolved.minions), join(&resolved.without_pillar))
    }

    async fn expect_included(&self, expression: &str, included: &str, unknown: &str) {
        let expected = (included.to_owned(), unknown.to_owned());
        assert_eq!(self.included(expression).await, expected, "{expression}");
    }

    fn compiled(&self) -> u64 {
        self.pillars.figures().compiled().count()
    }
}

const TOP: &str = "base: {'*': [common], 'web*': [web]}\n";

#[tokio::test]
async fn a_target_chooses_by_the_pillars_that_the_master_compiles() {
    let scene = Scene::new(|config| {
        let web = NodegroupDefinition::Expression("I@role:web and not db*".to_owned());
        config.nodegroups = Nodegroups::new(BTreeMap::from([("web".to_owned(), web)])).unwrap();
    })
    .await;
    scene.write("top.sls", TOP);
    scene.write("common.sls", "port: 80\n");
    scene.write(
        "web.sls",
        "role: [web, cache]\napps: {shop: {tier: gold}}\n",
    );
    for (expression, included) in [
        ("I@role:web", "web1"),
        ("I@role:w*", "web1"),
        ("J@role:(web|db)$", "web1"),
        ("I|@apps|shop|tier|gold", "web1"),
        ("not I@role:web", "db1"),
        ("I@port:80 and not I@none:*", "db1 web1"),
        ("N@web", "web1"),
        ("I@role:db", ""),
    ] {
        scene.expect_included(expression, included, "").await;
    }
    let resolved = scene.resolve("I@port:80").await;
    assert!(matches!(resolved.minions, IncludedMinions::ByTrusted(_)));
    let target = resolved.target.target();
    assert_eq!(
        (target.kind, target.expression.as_str()),
        (TargetKind::List, "db1,web1")
    );
    // Grains that are no trusted ones decide beside it, and the minion judges them again.
    scene.report("web1", "{rack: a}");
    let resolved = scene.resolve("I@role:web and G@rack:a").await;
    assert!(matches!(resolved.minions, IncludedMinions::ByClaimed(_)));
    assert_eq!(resolved.target.target().expression, "* and G@rack:a");
}

#[tokio::test]
async fn pillars_are_looked_at_where_nothing_else_decides() {
    let scene = Scene::new(|_| {}).await;
    scene.write("top.sls", TOP);
    scene.write("common.sls", "port: 80\n");
    scene.write("web.sls", "role: web\n");
    scene
        .expect_included("web* and I@role:web or db1", "db1 web1", "")
        .await;
    assert_eq!(scene.compiled(), 1);
}

#[tokio::test]
async fn a_change_counts_though_the_minion_does_not_ask() {
    let scene = Scene::new(|_| {}).await;
    scene.write("top.sls", TOP);
    scene.write("common.sls", "port: 80\n");
    for role in ["web", "db", "web"] {
        scene.write("web.sls", &format!("role: {role}\n"));
        let included = if role == "web" { "web1" } else { "" };
        scene.expect_included("I@role:web", included, "").await;
        scene
            .expect_included(
                "not I@role:web and web*",
                if role == "web" { "" } else { "web1" },
                "",
            )
            .await;
    }
}

#[tokio::test]
async fn no_environment_that_a_minion_names_changes_whom_targets_include() {
    let scene = Scene::new(|_| {}).await;
    scene.write("top.sls", TOP);
    scene.write("common.sls", "environment: {{ opts.saltenv }}\n");
    scene.write("web.sls", "role: web\n");
    let request = PillarRequest::Compile {
        saltenv: Some("secret".to_owned()),
        pillarenv: None,
        known: None,
        bytes: 10_000,
    };
    let answer = scene.pillars.answer(&id("web1"), request).await;
    assert!(matches!(answer, PillarAnswer::Reply(PillarReply::Part(_))));
    scene.expect_included("I@environment:secret", "", "").await;
    scene
        .expect_included("I@environment:base", "db1 web1", "")
        .await;
}

#[tokio::test]
async fn a_pillar_with_errors_is_the_last_good_one_or_not_known() {
    let scene = Scene::new(|_| {}).await;
    scene.write("top.sls", TOP);
    scene.write("common.sls", "port: 80\n");
    scene.write("web.sls", "role: {{ nothing }}\n");
    scene.expect_included("I@role:web", "", "web1").await;
    scene.expect_included("not I@role:web", "db1", "web1").await;
    scene.write("web.sls", "role: web\n");
    scene.expect_included("I@role:web", "web1", "").await;
    scene.write("web.sls", "role: {{ nothing }}\n");
    scene.expect_included("I@role:web", "web1", "").await;
}

/// A scene whose pillars come from a command: a file that was just written is compared again.
async fn without_files() -> Scene {
    Scene::new(|config| {
        let command = r#"echo '{"id": "%s"}'"#.to_owned();
        config.pillar.external = vec![ExternalPillar::CmdJson(command)];
    })
    .await
}

#[tokio::test]
async fn a_pillar_is_compiled_again_when_what_it_comes_from_has_changed() {
    let scene = without_files().await;
    for _ in 0..2 {
        scene.expect_included("I@id:web1", "web1", "").await;
    }
    assert_eq!(scene.compiled(), 2);
    // What a minion asked for counts too.
    scene.expect("db1", "{id: db1}").await;
    scene.expect_included("I@id:db1", "db1", "").await;
    assert_eq!(scene.compiled(), 3);
    scene.write("top.sls", "base: {'*': []}\n");
    scene.expect_included("I@id:db1", "db1", "").await;
    assert_eq!(scene.compiled(), 5);
}

#[tokio::test]
async fn what_is_not_compiled_in_time_is_not_known() {
    let scene = without_files().await;
    scene
        .expect_included("web1 and I@id:web1", "web1", "")
        .await;
    let target = Target {
        kind: TargetKind::Pillar,
        expression: "id:web1".to_owned(),
    };
    let target = Arc::new(target.compile().unwrap());
    let ids = ["web1", "db1"].map(id).to_vec();
    let matching = scene
        .pillars
        .match_target_within(Duration::ZERO, ids, &target);
    let known = matching.await;
    assert!(matches!(known[..], [Some(Ok(_)), None]), "{known:?}");
}

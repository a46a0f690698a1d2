//! Pillars, asked for as minions ask. `saline-render` and `saline-exec` are this test program, started again.

mod gone;
mod targets;
mod too_large;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use saline_channel::PublicIdentity;
use saline_config::{ExternalPillar, MasterConfig, ShownOptions};
use saline_data::{Value, yaml};
use saline_messages::{GrainsReport, Incoming, MAX_PILLAR, MinionPillar};
use saline_targeting::{Assignment, Assignments, Attribute};

use super::*;
use crate::parts::testing::TestMaster;

fn entry(test: &str) -> [String; 4] {
    ["--exact", test, "--ignored", "--nocapture"].map(str::to_owned)
}

#[test]
#[ignore = "not a test: it is the program saline-exec, which the tests start"]
fn saline_exec() {
    std::process::exit(i32::from(saline_exec::main() != ExitCode::SUCCESS));
}

#[test]
#[ignore = "not a test: it is the program saline-render, which the tests start"]
fn saline_render() {
    let code = saline_render::process::main();
    std::process::exit(i32::from(code != ExitCode::SUCCESS));
}

impl PillarPrograms {
    /// Returns the programs that this test program contains.
    pub(crate) fn in_this_test() -> Self {
        let exec = entry("pillar::tests::saline_exec");
        let exec = Program::this_one(&exec.each_ref().map(String::as_str));
        let render = entry("pillar::tests::saline_render");
        Self {
            launcher: Launcher::new(exec, Vec::new()),
            render: RenderProgram::this_one(&render.each_ref().map(String::as_str)),
        }
    }
}

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

/// Accepts a key under an id, as an operator does who copies it.
fn accept(master: &TestMaster, id: &str) {
    let path = master.pki_dir.join("minions").join(id);
    std::fs::write(path, PublicIdentity([1; 32]).to_pem()).unwrap();
}

/// A master with these accepted minions, and a folder of pillars.
struct Scene {
    master: TestMaster,
    pillars: Pillars,
}

impl Scene {
    async fn new(change: impl FnOnce(&mut MasterConfig)) -> Self {
        let master = TestMaster::start(|config| {
            let attribute = Attribute {
                value: "berlin".into(),
                place: "a:1:1".to_owned(),
            };
            config.assignments = Assignments::new(vec![Assignment {
                glob: "web*".to_owned(),
                place: "a:1:1".to_owned(),
                roles: ["web".to_owned()].into(),
                attributes: BTreeMap::from([("site".to_owned(), attribute)]),
            }])
            .unwrap();
            config.trusted_grains = ["os".to_owned()].into();
            change(config);
        })
        .await;
        for minion in ["web1", "db1"] {
            accept(&master, minion);
        }
        Self {
            pillars: master.state.minion_verbs().pillars,
            master,
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.master.root().join("srv/pillar").join(below)
    }

    /// Writes a file of pillars.
    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Has a minion report grains.
    fn report(&self, minion: &str, grains: &str) {
        let grains = Packed::pack(&yaml::parse(grains).unwrap());
        let report = GrainsReport {
            digest: GrainsReport::digest_of(&grains),
            grains: Some(grains),
        };
        self.master
            .state
            .runner_parts()
            .grains
            .take(&id(minion), &report);
    }

    async fn ask(&self, minion: &str, known: Option<TransferId>, bytes: u32) -> PillarAnswer {
        let request = PillarRequest::Compile {
            saltenv: None,
            pillarenv: None,
            known,
            bytes,
        };
        self.pillars.answer(&id(minion), request).await
    }

    /// Fetches the pillar of a minion in parts, and returns its entries and its errors.
    async fn pillar(&self, minion: &str) -> (Option<Value>, Vec<String>) {
        self.pillar_in_parts(minion, 50).await
    }

    /// Fetches the pillar of a minion in parts of so many bytes.
    async fn pillar_in_parts(&self, minion: &str, bytes: u32) -> (Option<Value>, Vec<String>) {
        let mut answer = self.ask(minion, None, bytes).await;
        let mut incoming: Option<Incoming> = None;
        loop {
            let PillarAnswer::Reply(PillarReply::Part(part)) = answer else {
                panic!("{answer:?}");
            };
            let incoming = incoming.get_or_insert_with(|| Incoming::of(&part).unwrap());
            assert!(part.total <= MAX_PILLAR as u64);
            incoming.take(&part).unwrap();
            if let Some(whole) = incoming.whole() {
                let pillar = MinionPillar::from_bytes(whole).unwrap();
                return (pillar.entries.map(|it| it.unpack().unwrap()), pillar.errors);
            }
            let next = PillarRequest::Part {
                transfer: part.transfer,
                offset: incoming.received(),
                bytes,
            };
            answer = self.pillars.answer(&id(minion), next).await;
        }
    }

    async fn expect(&self, minion: &str, expected: &str) {
        let (entries, errors) = self.pillar(minion).await;
        assert_eq!(errors, [""; 0], "{minion}");
        assert_eq!(entries, Some(yaml::parse(expected).unwrap()), "{minion}");
    }
}

const TOP: &str = "base:\n  '*': [common]\n  'A@site:berlin': [berlin]\n  'db*': [db]\n";

impl Scene {
    fn write_tree(&self) {
        self.write("top.sls", TOP);
        self.write(
            "common.sls",
            "who: {{ grains.id }}\nlong: {{ 'x' * 200 }}\n",
        );
        self.write("berlin.sls", "site: {{ assigned.site }}\nsecret: of-web\n");
        self.write("db.sls", "secret: of-db\n");
    }
}

fn long() -> String {
    "x".repeat(200)
}

#[tokio::test]
async fn a_minion_gets_its_own_pillar_whatever_it_says_of_itself() {
    let scene = Scene::new(|_| {}).await;
    scene.expect("web1", "{}").await;
    scene.write_tree();
    let of_db = format!("{{who: db1, long: {}, secret: of-db}}", long());
    let of_web = format!(
        "{{who: web1, long: {}, site: berlin, secret: of-web}}",
        long()
    );
    scene.expect("web1", &of_web).await;
    scene.expect("db1", &of_db).await;
    scene.report("db1", "{id: web1, site: berlin, os: Debian, host: web1}");
    scene.expect("db1", &of_db).await;
    // A target over what it says of itself is for nobody.
    scene.write("top.sls", &format!("{TOP}  'G@host:db1': [berlin]\n"));
    let (entries, errors) = scene.pillar("db1").await;
    assert_eq!(
        entries,
        Some(yaml::parse(&of_db).unwrap()),
        "the last good one"
    );
    assert!(errors[0].contains("trusted_grains"), "{errors:?}");
    // One over a trusted grain is for those of whom it is true.
    scene.write(
        "top.sls",
        "base:\n  'G@os:Debian': [db]\n  'not G@os:Debian': [berlin]\n",
    );
    scene.expect("db1", "{secret: of-db}").await;
    scene.expect("web1", "{}").await;
    let stranger = scene.ask("stranger", None, 100).await;
    let failed = PillarReply::Refused(PillarRefusal::Failed);
    assert!(matches!(stranger, PillarAnswer::Reply(reply) if reply == failed));
}

#[tokio::test]
async fn a_pillar_with_errors_keeps_the_last_good_one_and_tells_the_place() {
    let scene = Scene::new(|_| {}).await;
    scene.write("top.sls", "base: {'*': [a, b]}\n");
    scene.write("a.sls", "a: 1\n");
    scene.write("b.sls", "b:\n  - {{ nothing }}\n");
    let error = format!(
        "{}:2:8: `nothing` is undefined",
        scene.path("b.sls").display()
    );
    assert_eq!(scene.pillar("web1").await, (None, vec![error.clone()]));
    scene.write("b.sls", "b: 1\n");
    scene.expect("web1", "{a: 1, b: 1}").await;
    scene.write("b.sls", "b:\n  - {{ nothing }}\n");
    scene.write("a.sls", "a: 2\n");
    let last = yaml::parse("{a: 1, b: 1}").unwrap();
    assert_eq!(scene.pillar("web1").await, (Some(last), vec![error]));
    scene.write("b.sls", "b: 2\n");
    scene.expect("web1", "{a: 2, b: 2}").await;
    // What was another machine's is not given to one that has the id now.
    scene.write("b.sls", "b: {{ nothing }}\n");
    scene.pillars.forget(&id("web1"));
    assert_eq!(scene.pillar("web1").await.0, None);
}

#[tokio::test]
async fn what_a_minion_has_already_is_not_sent() {
    let scene = Scene::new(|_| {}).await;
    scene.write_tree();
    let PillarAnswer::Reply(PillarReply::Part(part)) = scene.ask("web1", None, 10_000).await else {
        panic!("no part");
    };
    let again = scene.ask("web1", Some(part.transfer), 10_000).await;
    assert!(matches!(again, PillarAnswer::Reply(PillarReply::Unchanged)));
    assert_eq!(scene.pillars.figures().unchanged(), 1);
    let other = scene.ask("db1", Some(part.transfer), 10_000).await;
    assert!(
        matches!(other, PillarAnswer::Reply(PillarReply::Part(other)) if other.transfer != part.transfer)
    );
    // It came whole, so there is no other part; and that of another minion is nobody's.
    let request = PillarRequest::Part {
        transfer: part.transfer,
        offset: 0,
        bytes: 10,
    };
    for minion in ["web1", "db1"] {
        let answer = scene.pillars.answer(&id(minion), request.clone()).await;
        assert!(matches!(answer, PillarAnswer::Reply(PillarReply::Changed)));
    }
}

#[tokio::test]
async fn a_change_of_any_file_is_seen_at_once_and_nothing_else_is_read_again() {
    let scene = Scene::new(|_| {}).await;
    scene.write("top.sls", "base: {'*': [a]}\n");
    scene.write(
        "a.sls",
        "{% include 'b.jinja' %}\n{% include 'c.jinja' ignore missing %}\n",
    );
    for number in 0..5 {
        scene.write("b.jinja", &format!("b: {number}"));
        scene.expect("web1", &format!("{{b: {number}}}")).await;
        scene.expect("db1", &format!("{{b: {number}}}")).await;
    }
    scene.write("c.jinja", "c: 1");
    scene.expect("web1", "{b: 4, c: 1}").await;
    std::fs::remove_file(scene.path("c.jinja")).unwrap();
    scene.expect("web1", "{b: 4}").await;
    // Another file takes the place of one, with the same length.
    scene.write("new", "b: 5");
    std::fs::rename(scene.path("new"), scene.path("b.jinja")).unwrap();
    scene.expect("web1", "{b: 5}").await;
}

#[tokio::test]
async fn a_template_that_does_not_end_costs_one_pillar() {
    let scene = Scene::new(|_| {}).await;
    scene.write("top.sls", "base: {'*': [a]}\n");
    scene.write("a.sls", "a: {{ grains.id }}\n");
    scene.expect("web1", "{a: web1}").await;
    scene.write(
        "a.sls",
        "{% for i in range(100000000) %}{% for j in range(100000000) %}{% endfor %}{% endfor %}",
    );
    let (entries, errors) = scene.pillar("web1").await;
    assert_eq!((entries.is_some(), errors.len()), (true, 1), "{errors:?}");
    scene.write("a.sls", "a: 1\n");
    scene.expect("web1", "{a: 1}").await;
}

#[tokio::test]
async fn environments_are_told_apart() {
    let scene = Scene::new(|config| {
        let root = config.paths.root_dir.join("srv/pillar");
        let roots = ["base", "dev"].map(|name| (name.to_owned(), vec![root.join(name)]));
        config.pillar.roots = Some(roots.into());
    })
    .await;
    scene.write("base/top.sls", "base: {'*': [a]}\n");
    scene.write("base/a.sls", "a: base\n");
    scene.write("dev/top.sls", "dev: {'*': [a]}\n");
    scene.write("dev/a.sls", "a: dev\n");
    let ask = |pillarenv: Option<&str>| {
        let asked = AskedEnvironments {
            pillarenv: pillarenv.map(str::to_owned),
            ..AskedEnvironments::default()
        };
        let pillars = scene.pillars.clone();
        async move { pillars.compile(&id("web1"), &asked).await }
    };
    for (pillarenv, expected) in [(None, "dev"), (Some("base"), "base"), (Some("dev"), "dev")] {
        let pillar = ask(pillarenv).await.unwrap();
        assert_eq!(pillar.entries, [("a".to_owned(), Value::from(expected))]);
    }
    let error = ask(Some("prod")).await.unwrap_err().to_string();
    let expected = "there is no environment \"prod\" in pillar_roots, which has: base, dev";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_minion_gets_no_environment_that_is_kept_from_it_by_naming_it() {
    let scene = Scene::new(|config| {
        let root = config.paths.root_dir.join("srv/pillar");
        let roots = ["base", "prod"].map(|name| (name.to_owned(), vec![root.join(name)]));
        config.pillar.roots = Some(roots.into());
        let files = ["base", "prod"].map(|name| (name.to_owned(), Vec::new()));
        config.files.roots = Some(files.into());
        let web2 = saline_targeting::Target::glob("web2");
        config.files.access = [("prod".to_owned(), web2)].into();
    })
    .await;
    scene.write("prod/top.sls", "prod: {'*': [a]}\n");
    scene.write("prod/a.sls", "a: prod\n");
    accept(&scene.master, "web2");
    for (minion, names) in [("web1", true), ("web1", false), ("web2", true)] {
        let prod = || "prod".to_owned();
        let request = PillarRequest::Compile {
            saltenv: (!names).then(prod),
            pillarenv: names.then(prod),
            known: None,
            bytes: 1000,
        };
        let answer = scene.pillars.answer(&id(minion), request).await;
        let refused = matches!(
            answer,
            PillarAnswer::Reply(PillarReply::Refused(PillarRefusal::NoEnvironment))
        );
        assert_eq!(refused, minion == "web1", "{answer:?}");
    }
}

#[tokio::test]
async fn external_sources_are_merged_over_the_files() {
    let scene = Scene::new(|config| {
        let command = r#"test "$1" != x; echo '{"from": {"command": "%s"}, "a": 2}'"#;
        config.pillar.external = vec![
            ExternalPillar::CmdJson(command.to_owned()),
            ExternalPillar::FileTree {
                root: config.paths.root_dir.join("srv/tree"),
                keep_newline: false,
            },
        ];
    })
    .await;
    scene.write("top.sls", "base: {'*': [a]}\n");
    scene.write("a.sls", "a: 1\nfrom: {file: a}\n");
    scene.write("../tree/hosts/web1/ssl/key", "a\nb\n");
    scene.write("../tree/hosts/web1/plain", "");
    scene.write("../tree/hosts/db1/other", "secret\n");
    scene
        .expect(
            "web1",
            "{a: 2, from: {file: a, command: web1}, plain: '', ssl: {key: \"a\\nb\"}}",
        )
        .await;
}

#[tokio::test]
async fn an_external_source_that_fails_is_told_without_what_it_printed() {
    for (command, expected) in [
        (
            "echo secret; echo trying >&2; printf 'no route\\033\\n\\n' >&2; exit 3",
            "the cmd_json echo of ext_pillar failed with the exit code 3: no route",
        ),
        (
            "/bin/echo secret",
            "the cmd_json /bin/echo of ext_pillar printed something else than JSON",
        ),
        (
            "TOKEN=secret echo [1]",
            "the cmd_json echo of ext_pillar printed JSON that is not a mapping",
        ),
        (
            "head -c 1000000 /dev/zero >&2; echo the end >&2; exit 1",
            "the cmd_json head of ext_pillar failed with the exit code 1: the end",
        ),
    ] {
        let scene = Scene::new(|config| {
            config.pillar.external = vec![ExternalPillar::CmdJson(command.to_owned())];
        })
        .await;
        assert_eq!(
            scene.pillar("web1").await,
            (None, vec![expected.to_owned()])
        );
    }
}

#[tokio::test]
async fn one_minion_has_one_compilation_at_a_time() {
    let scene = Scene::new(|_| {}).await;
    scene.write_tree();
    let (one, other, third) = tokio::join!(
        scene.ask("web1", None, 10_000),
        scene.ask("web1", None, 10_000),
        scene.ask("db1", None, 10_000),
    );
    assert!(matches!(one, PillarAnswer::Reply(PillarReply::Part(_))));
    assert!(matches!(other, PillarAnswer::Busy(_)));
    assert!(matches!(third, PillarAnswer::Reply(PillarReply::Part(_))));
    scene.ask("web1", None, 10_000).await;
}

#[tokio::test]
async fn what_will_not_render_is_found_in_all_files() {
    let scene = Scene::new(|_| {}).await;
    scene.write_tree();
    assert!(
        scene
            .pillars
            .lint(None, BTreeSet::new())
            .await
            .unwrap()
            .is_empty()
    );
    scene.write("py.sls", "#!py\n");
    scene.write(
        "deep/macros.jinja",
        "{% macro x() %}{{ 1|nosuch }}{% endmacro %}",
    );
    scene.write("deep/not_yaml.jinja", "a: b: c");
    scene.write("README", "{% if");
    let found = scene.pillars.lint(None, BTreeSet::new()).await.unwrap();
    let found: Vec<String> = found
        .into_iter()
        .map(|file| format!("{}: {}", file.path, file.findings.join("; ")))
        .collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("deep/macros.jinja: 1:"), "{found:?}");
    assert!(
        found[1].contains("py.sls: 1:1: the renderer \"py\" is absent"),
        "{found:?}"
    );
}

#[tokio::test]
async fn an_untrusted_grain_with_a_default_is_told_and_a_trusted_one_is_not() {
    let scene = Scene::new(|config| config.trusted_grains = ["os".to_owned()].into()).await;
    let template = "a: {{ grains.get('os', 1) }}\nb: {{ salt['grains.get']('id') }}\nc: {{ grains.get('rack', 1) }}\n";
    scene.write("grains.sls", template);
    let lint = async |believed: &[&str]| {
        let believed = believed.iter().map(|name| (*name).to_owned()).collect();
        let found = scene.pillars.lint(None, believed).await.unwrap();
        let findings: Vec<String> = found.into_iter().flat_map(|file| file.findings).collect();
        findings
    };
    let found = lint(&[]).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("3:7: the grain rack is not in trusted_grains"),
        "{found:?}"
    );
    assert!(lint(&["rack"]).await.is_empty());
}

/// Run with `--release -- --ignored --nocapture` for a figure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a benchmark"]
async fn a_thousand_pillars() {
    let scene = Scene::new(|_| {}).await;
    scene.write(
        "top.sls",
        "base:\n  '*': [common, users]\n  'A@roles:web': [web]\n",
    );
    scene.write("common.sls", "{% set os = 'x' %}\nntp: [a, b]\nhost: {{ grains.id }}\n{% for i in range(20) %}k{{ i }}: v{{ i }}\n{% endfor %}");
    scene.write("users.sls", "users:\n{% for u in ['a', 'b', 'c'] %}  {{ u }}: {shell: /bin/bash, uid: {{ loop.index }}}\n{% endfor %}");
    scene.write(
        "web.sls",
        "include: [common]\nweb: {port: 80, site: {{ assigned.site }}}\n",
    );
    let ids: Vec<MinionId> = (0..1000)
        .map(|number| id(&format!("web{number}")))
        .collect();
    for minion in &ids {
        accept(&scene.master, minion.as_str());
    }
    let began = saline_protocol::transport::Clock.now();
    let mut asked = Vec::new();
    for minion in ids {
        let pillars = scene.pillars.clone();
        let (sender, answer) = tokio::sync::oneshot::channel();
        scene.master.context.spawn(async move {
            let request = PillarRequest::Compile {
                saltenv: None,
                pillarenv: None,
                known: None,
                bytes: 100_000,
            };
            let _ = sender.send(pillars.answer(&minion, request).await);
        });
        asked.push(answer);
    }
    let mut busy = 0;
    for answer in asked {
        match answer.await.unwrap() {
            PillarAnswer::Reply(PillarReply::Part(_)) => {}
            PillarAnswer::Busy(_) => busy += 1,
            other => panic!("{other:?}"),
        }
    }
    let took = saline_protocol::transport::Clock.now() - began;
    println!("1000 pillars in {took:?}, {busy} busy");
}

#[tokio::test]
async fn the_pillar_shows_the_options_of_the_master_that_it_is_told_to_show() {
    let shown = |option: ShownOptions| async {
        let scene = Scene::new(|config| {
            config.options = Value::map([
                ("timeout", Value::Int(5)),
                ("ext_pillar", "** hidden **".into()),
                ("publisher_acl", Value::map([("ann", Value::Null)])),
                ("pki_dir", "/etc/saline/pki/master".into()),
                ("tcp", Value::map([("keyfile", Value::from("/x"))])),
                ("interface", "::".into()),
            ]);
            config.pillar.shown_options = option;
        })
        .await;
        scene.write("top.sls", "base: {'*': [a]}");
        scene.write("a.sls", "{a: 1, master: from a file}");
        let (minion, asked) = (id("web1"), AskedEnvironments::default());
        let pillar = scene.pillars.compile(&minion, &asked).await.unwrap();
        assert_eq!(pillar.errors, [""; 0]);
        Value::Map(pillar.entries)
    };
    let master = |value| Value::map([("a", Value::Int(1)), ("master", value)]);
    let none = shown(ShownOptions::Nothing).await;
    assert_eq!(none, master("from a file".into()));
    let timeout = ("timeout", Value::Int(5));
    let all = Value::map([timeout.clone(), ("interface", "::".into())]);
    assert_eq!(shown(ShownOptions::All).await, master(all));
    // The loader takes no secret; it is not shown all the same.
    let names = ["timeout", "ext_pillar", "pki_dir"].map(str::to_owned);
    let named = shown(ShownOptions::Named(names.into())).await;
    assert_eq!(named, master(Value::map([timeout])));
}

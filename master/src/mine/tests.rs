//! The mine, asked as minions ask.

use std::path::PathBuf;

use saline_channel::PublicIdentity;
use saline_config::{MasterConfig, MineRule};
use saline_data::Value;
use saline_messages::{GrainsReport, MAX_MINE_BYTES, MAX_MINE_ENTRIES, MAX_MINE_VALUE_BYTES};
use saline_protocol::transport::Clock;
use saline_targeting::{TargetKind, TextPattern};

use super::*;
use crate::parts::testing::TestMaster;

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

fn value(name: &str, value: impl Into<Value>, allowed: Option<Target>) -> MineEntry {
    MineEntry {
        name: name.to_owned(),
        value: Packed::pack(&value.into()),
        allowed,
    }
}

fn target(kind: TargetKind, expression: &str) -> Target {
    let expression = expression.to_owned();
    Target { kind, expression }
}

/// A master with accepted minions.
struct Scene {
    master: TestMaster,
    mine: Mine,
}

impl Scene {
    async fn new(change: impl FnOnce(&mut MasterConfig)) -> Self {
        let master = TestMaster::start(|config| {
            config.trusted_grains = ["os".to_owned()].into();
            change(config);
        })
        .await;
        let scene = Self {
            mine: master.state.minion_verbs().mine,
            master,
        };
        for minion in ["db1", "web1", "web2"] {
            scene.accept(minion);
        }
        scene
    }

    /// Accepts a key under an id, as an operator does who copies it.
    fn accept(&self, minion: &str) {
        let path = self.master.pki_dir.join("minions").join(minion);
        std::fs::write(path, PublicIdentity([1; 32]).to_pem()).unwrap();
    }

    /// Has a minion report grains.
    fn report(&self, minion: &str, grains: &str) {
        let grains = Packed::pack(&saline_data::yaml::parse(grains).unwrap());
        let report = GrainsReport {
            digest: GrainsReport::digest_of(&grains),
            grains: Some(grains),
        };
        let parts = self.master.state.runner_parts();
        parts.grains.take(&id(minion), &report);
    }

    async fn ask(&self, minion: &str, request: MineRequest) -> MineReply {
        match self.mine.answer(&id(minion), request).await {
            MineAnswer::Reply(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    async fn store(&self, minion: &str, entries: &[MineEntry]) -> MineReply {
        self.ask(minion, MineRequest::Store(entries.to_vec())).await
    }

    /// Asks for one page, and returns it.
    async fn page(
        &self,
        minion: &str,
        target: Target,
        functions: &[&str],
        after: Option<(u32, MinionId)>,
        bytes: u32,
    ) -> Result<MinePage, MineRefusal> {
        let request = MineRequest::Get {
            target,
            functions: functions.iter().map(|&name| name.to_owned()).collect(),
            after,
            bytes,
        };
        match self.ask(minion, request).await {
            MineReply::Found(page) => Ok(page),
            MineReply::Refused(why) => Err(why),
            other => panic!("{other:?}"),
        }
    }

    /// Asks for everything in small pages, and returns it in one line.
    async fn get(&self, minion: &str, target: Target, functions: &[&str]) -> String {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self
                .page(minion, target.clone(), functions, after, 60)
                .await
                .unwrap();
            for entry in &page.entries {
                let value = entry.value.unpack().unwrap();
                found.push(format!(
                    "{}:{}={}",
                    functions[entry.function as usize],
                    entry.minion,
                    value.as_str().unwrap_or("?")
                ));
            }
            if !page.more {
                return found.join(" ");
            }
            after = page
                .entries
                .last()
                .map(|entry| (entry.function, entry.minion.clone()));
        }
    }
}

fn everybody() -> Target {
    Target::glob("*")
}

#[tokio::test]
async fn a_minion_sends_only_what_has_changed() {
    let scene = Scene::new(|_| {}).await;
    let (a, b) = (value("a", "1", None), value("b", "1", None));
    let offer = |entries: &[&MineEntry], forget_others| MineRequest::Offer {
        entries: entries
            .iter()
            .map(|entry| (entry.name.clone(), entry.digest()))
            .collect(),
        forget_others,
    };
    let wanted = |numbers: &[u32]| MineReply::Wanted(numbers.to_vec());
    assert_eq!(
        scene.ask("web1", offer(&[&a, &b], false)).await,
        wanted(&[0, 1])
    );
    assert_eq!(
        scene.store("web1", &[a.clone(), b.clone()]).await,
        MineReply::Done
    );
    assert_eq!(
        scene.ask("web1", offer(&[&a, &b], false)).await,
        wanted(&[])
    );
    assert_eq!(scene.ask("web2", offer(&[&a], false)).await, wanted(&[0]));
    let changed = value("b", "2", None);
    assert_eq!(
        scene.ask("web1", offer(&[&a, &changed], false)).await,
        wanted(&[1])
    );
    let narrowed = value("a", "1", Some(Target::glob("db*")));
    assert_eq!(
        scene.ask("web1", offer(&[&narrowed], false)).await,
        wanted(&[0])
    );
    assert_eq!(scene.mine.size(), (2, 2 * a.size() as u64));
    assert_eq!(scene.ask("web1", offer(&[&b], true)).await, wanted(&[]));
    assert_eq!(scene.get("db1", everybody(), &["a", "b"]).await, "b:web1=1");
    assert_eq!(scene.mine.size(), (1, b.size() as u64));
}

#[tokio::test]
async fn values_are_found_by_target_in_pages_and_go_when_their_minion_says_so() {
    let scene = Scene::new(|_| {}).await;
    for minion in ["db1", "web1", "web2"] {
        let entries = [value("a", minion, None), value("b", minion, None)];
        assert_eq!(scene.store(minion, &entries).await, MineReply::Done);
    }
    scene.report("web1", "{os: Debian, role: x}");
    let get = |target, functions| scene.get("db1", target, functions);
    assert_eq!(
        get(everybody(), &["a"]).await,
        "a:db1=db1 a:web1=web1 a:web2=web2"
    );
    assert_eq!(
        get(Target::glob("web*"), &["b", "none", "a"]).await,
        "b:web1=web1 b:web2=web2 a:web1=web1 a:web2=web2"
    );
    assert_eq!(
        get(target(TargetKind::Grain, "role:x"), &["a"]).await,
        "a:web1=web1"
    );
    assert_eq!(get(Target::list(["absent"]), &["a"]).await, "");
    assert_eq!(get(everybody(), &[]).await, "");
    let compound = target(TargetKind::Compound, "web* and");
    let refused = scene.page("db1", compound, &["a"], None, 60).await;
    assert!(
        matches!(refused, Err(MineRefusal::Target(_))),
        "{refused:?}"
    );

    let delete = MineRequest::Delete("a".to_owned());
    assert_eq!(scene.ask("web1", delete).await, MineReply::Done);
    assert_eq!(
        get(Target::glob("web*"), &["a", "b"]).await,
        "a:web2=web2 b:web1=web1 b:web2=web2"
    );
    assert_eq!(scene.ask("web2", MineRequest::Flush).await, MineReply::Done);
    assert_eq!(get(Target::glob("web*"), &["a", "b"]).await, "b:web1=web1");
}

#[tokio::test]
async fn allow_tgt_names_the_minions_that_may_get_a_value() {
    let scene = Scene::new(|_| {}).await;
    scene.report("web2", "{os: Debian, role: web}");
    let debian = target(TargetKind::Grain, "os:Debian");
    let entries = [
        value("all", "1", None),
        value("by_id", "1", Some(Target::glob("web*"))),
        value("by_os", "1", Some(debian)),
    ];
    assert_eq!(scene.store("db1", &entries).await, MineReply::Done);
    let get = |minion| scene.get(minion, Target::list(["db1"]), &["all", "by_id", "by_os"]);
    assert_eq!(
        get("web1").await,
        "all:db1=1 by_id:db1=1",
        "its grains are not known"
    );
    assert_eq!(get("web2").await, "all:db1=1 by_id:db1=1 by_os:db1=1");
    assert_eq!(
        get("db1").await,
        "all:db1=1 by_id:db1=1 by_os:db1=1",
        "its own"
    );
    scene.report("web2", "{os: Arch, role: web}");
    assert_eq!(get("web2").await, "all:db1=1 by_id:db1=1");
}

#[tokio::test]
async fn an_allow_tgt_over_pillars_compares_with_whole_values() {
    let scene = Scene::new(|_| {}).await;
    let folder = scene.master.root().join("srv/pillar");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("top.sls", "base: {web1: [lb], web2: [lb2]}\n"),
        ("lb.sls", "role: lb\n"),
        ("lb2.sls", "role: lb2\n"),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let entries = [
        value(
            "exact",
            "1",
            Some(target(TargetKind::PillarExact, "role:lb")),
        ),
        value("same", "1", Some(target(TargetKind::Pillar, "role:lb*"))),
        value("all", "1", None),
    ];
    assert_eq!(scene.store("db1", &entries).await, MineReply::Done);
    let get = |minion| scene.get(minion, Target::list(["db1"]), &["all", "exact", "same"]);
    assert_eq!(get("web1").await, "all:db1=1 exact:db1=1");
    assert_eq!(get("web2").await, "all:db1=1", "a pattern matches nothing");
    std::fs::write(folder.join("lb2.sls"), "role: lb\n").unwrap();
    assert_eq!(get("web2").await, "all:db1=1 exact:db1=1");
    for pattern in [
        target(TargetKind::PillarPcre, "role:lb.*"),
        target(TargetKind::Compound, "I@role:lb"),
    ] {
        let refused = scene
            .store("db1", &[value("exact", "2", Some(pattern))])
            .await;
        assert!(matches!(
            refused,
            MineReply::Refused(MineRefusal::Allowed { .. })
        ));
    }
}

#[tokio::test]
async fn an_allow_tgt_over_what_minions_claim_is_refused_and_what_was_there_goes() {
    let scene = Scene::new(|_| {}).await;
    scene.report("web1", "{role: web}");
    assert_eq!(
        scene.store("db1", &[value("a", "1", None)]).await,
        MineReply::Done
    );
    let claimed = target(TargetKind::Grain, "role:web");
    match scene.store("db1", &[value("a", "2", Some(claimed))]).await {
        MineReply::Refused(MineRefusal::Allowed { name, why }) => {
            assert_eq!(name, "a");
            assert!(why.contains("trusted_grains"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.get("web1", everybody(), &["a"]).await, "");
}

#[tokio::test]
async fn mine_get_says_who_may_get_what() {
    let pattern = |text: &str| TextPattern::glob_else_regex(text).unwrap();
    let scene = Scene::new(|config| {
        config.mine_get = Some(vec![MineRule {
            minions: pattern("web*"),
            functions: vec![pattern("network.*")],
        }]);
    })
    .await;
    let entries = [value("network.x", "1", None), value("secret", "1", None)];
    assert_eq!(scene.store("db1", &entries).await, MineReply::Done);
    let functions = ["secret", "network.x"];
    assert_eq!(
        scene.get("web1", everybody(), &functions).await,
        "network.x:db1=1"
    );
    for (minion, functions) in [("db1", &functions[..]), ("web1", &["secret"])] {
        let refused = scene.page(minion, everybody(), functions, None, 60).await;
        assert_eq!(refused, Err(MineRefusal::NotAllowed), "{minion}");
    }
}

#[tokio::test]
async fn a_minion_without_a_key_learns_nothing_of_rules_and_targets() {
    let pattern = |text: &str| TextPattern::glob_else_regex(text).unwrap();
    let scene = Scene::new(|config| {
        config.mine_get = Some(vec![MineRule {
            minions: pattern("web*"),
            functions: vec![pattern("network.*")],
        }]);
    })
    .await;
    std::fs::remove_file(scene.master.pki_dir.join("minions/web1")).unwrap();
    let malformed = target(TargetKind::Compound, "web* and");
    for (target, function) in [
        (everybody(), "network.x"),
        (everybody(), "secret"),
        (malformed, "network.x"),
    ] {
        let refused = scene.page("web1", target, &[function], None, 60).await;
        assert_eq!(refused, Err(MineRefusal::NoKey), "{function}");
    }
}

#[tokio::test]
async fn a_minion_has_bounded_room() {
    let scene = Scene::new(|_| {}).await;
    let large = |name: &str| MineEntry {
        name: name.to_owned(),
        value: Packed::from_bytes(vec![0xc0; MAX_MINE_VALUE_BYTES - 10]),
        allowed: None,
    };
    let full = MineReply::Refused(MineRefusal::NoRoom);
    for number in 0..MAX_MINE_BYTES / MAX_MINE_VALUE_BYTES {
        let stored = scene.store("web1", &[large(&number.to_string())]).await;
        assert_eq!(stored, MineReply::Done);
    }
    let before = scene.mine.size();
    assert_eq!(scene.store("web1", &[large("more")]).await, full);
    assert_eq!(scene.mine.size(), before);
    // One in the place of another takes no more room.
    assert_eq!(scene.store("web1", &[large("0")]).await, MineReply::Done);
    assert_eq!(scene.store("web2", &[large("more")]).await, MineReply::Done);

    let many = |from: usize, count: usize| -> Vec<MineEntry> {
        let names = from..from + count;
        names.map(|n| value(&format!("n{n}"), "1", None)).collect()
    };
    assert_eq!(
        scene.store("db1", &many(0, MAX_MINE_ENTRIES)).await,
        MineReply::Done
    );
    assert_eq!(scene.store("db1", &many(MAX_MINE_ENTRIES, 1)).await, full);
    assert!(matches!(
        scene
            .mine
            .answer(
                &id("db1"),
                MineRequest::Store(many(0, MAX_MINE_ENTRIES + 1))
            )
            .await,
        MineAnswer::Malformed
    ));
    // A value that is larger than the page comes alone.
    let page = scene
        .page("db1", everybody(), &["more", "n1"], None, 60)
        .await
        .unwrap();
    assert_eq!((page.entries.len(), page.more), (1, true));
    assert_eq!(scene.mine.figures().refused(), 2);
}

#[tokio::test]
async fn what_a_minion_left_is_there_after_a_restart_and_goes_when_it_is_forgotten() {
    let scene = Scene::new(|_| {}).await;
    assert_eq!(
        scene.store("web1", &[value("a", "1", None)]).await,
        MineReply::Done
    );
    assert_eq!(
        scene.store("web2", &[value("a", "2", None)]).await,
        MineReply::Done
    );
    let path: PathBuf = scene
        .master
        .root()
        .join("var/lib/saline/master/mine.sqlite");
    let opened = MineStore::open(&path).unwrap();
    assert_eq!(opened.size().0, 2);
    assert_eq!(opened.minions().unwrap(), ["web1", "web2"]);
    drop(opened);

    scene.mine.retain(|minion| *minion == id("web1")).await;
    assert_eq!(scene.get("db1", everybody(), &["a"]).await, "a:web1=1");
    scene.mine.forget(&id("web1"), None).await.unwrap();
    assert_eq!(scene.mine.size().0, 0);
}

#[test]
fn a_damaged_file_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.sqlite");
    saline_private_files::write(&path, &[b'x'; 8192]).unwrap();
    let MineFile(opened) = MineFile::open(&path).unwrap();
    assert_eq!(opened.size(), (0, 0));
    let entry = value("a", "1", None);
    assert!(opened.store(&id("web1"), &[entry]).unwrap());
    let aside = std::fs::read(folder.path().join("mine.sqlite.damaged")).unwrap();
    assert_eq!(aside, [b'x'; 8192]);
}

#[tokio::test]
async fn one_request_of_a_minion_is_carried_out_at_a_time() {
    let scene = Scene::new(|_| {}).await;
    let held = scene.mine.0.concurrency.begin(&id("web1"));
    let asked = scene.mine.answer(&id("web1"), MineRequest::Flush).await;
    assert!(matches!(asked, MineAnswer::Busy(_)), "{asked:?}");
    assert_eq!(scene.ask("web2", MineRequest::Flush).await, MineReply::Done);
    drop(held);
    assert_eq!(scene.ask("web1", MineRequest::Flush).await, MineReply::Done);
}

/// Measures how long the values of ten thousand minions take that a grain chooses.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: run it alone, in release, with --nocapture"]
async fn ten_thousand_values_by_grain() {
    const MINIONS: usize = 10_000;
    let scene = Scene::new(|_| {}).await;
    for number in 0..MINIONS {
        let minion = format!("m{number:05}");
        scene.accept(&minion);
        scene.report(
            &minion,
            "{os: Debian, role: web, cpus: 8, ip: [10.0.0.1, '::1']}",
        );
        let entries = [value(
            "network.ip_addrs",
            "10.0.0.1 and some more text",
            None,
        )];
        let store = &scene.mine.0.store;
        assert!(store.store(&id(&minion), &entries).unwrap());
    }
    let began = Clock.now();
    let accepted = scene.mine.0.targets.facts.accepted().await.unwrap();
    println!(
        "{} accepted keys: {:?}",
        accepted.len(),
        Clock.now() - began
    );
    for _ in 0..5 {
        let (began, mut found, mut pages, mut after) = (Clock.now(), 0, 0, None);
        loop {
            let by_grain = target(TargetKind::Grain, "role:web");
            let page = scene
                .page("db1", by_grain, &["network.ip_addrs"], after, 256 * 1024)
                .await
                .unwrap();
            found += page.entries.len();
            pages += 1;
            after = page.entries.last().map(|entry| (0, entry.minion.clone()));
            if !page.more {
                break;
            }
        }
        println!("{found} values in {pages} pages: {:?}", Clock.now() - began);
        assert_eq!(found, MINIONS);
    }
}

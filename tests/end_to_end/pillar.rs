//! The pillars of minions: compiled by the master, and each its minion's own.

use std::fs;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use saline_testing::{CommandOutput, Fleet};

/// Writes a file below the folder of the master, and returns its path as the master says it.
fn write(fleet: &Fleet, below: &str, text: &str) -> String {
    let path = fleet.path("master").join(below);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Writes a file of `minions.d`.
fn assign(fleet: &Fleet, text: &str) {
    let folder = fleet.config().join("minions.d");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("fleet.yaml"), text).unwrap();
}

fn runner(fleet: &Fleet, arguments: &[&str]) -> CommandOutput {
    fleet.run("saline-run", arguments)
}

/// Returns what a runner returned.
fn json(output: &CommandOutput) -> serde_json::Value {
    serde_json::from_str(&output.stdout).unwrap()
}

/// Returns the pillar that the master compiles for a minion, with its values.
fn pillar(fleet: &Fleet, minion: &str) -> serde_json::Value {
    let shown = ["pillar.show_pillar", minion, "unmask=True", "--out", "json"];
    json(&runner(fleet, &shown).expect(0))
}

/// Returns the blocks between fences of a page.
fn blocks(page: &str) -> Vec<&str> {
    let fenced = page.split("```").skip(1).step_by(2);
    fenced
        .map(|block| block.split_once('\n').unwrap().1)
        .collect()
}

#[test]
fn the_example_of_the_page_is_what_the_master_compiles() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pillar.md");
    let page = fs::read_to_string(page).unwrap();
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    let blocks = blocks(&page);
    for block in &blocks {
        if let Some((path, text)) = block
            .strip_prefix("# /srv/pillar/")
            .and_then(|rest| rest.split_once('\n'))
        {
            write(&fleet, &format!("srv/pillar/{path}"), text);
        }
    }
    assign(&fleet, "web*: {roles: [web], attributes: {site: berlin}}\n");
    fleet.start_master();
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    let of_page = blocks
        .iter()
        .find_map(|block| block.strip_prefix("$ saline-run pillar.show_pillar web1 unmask=True\n"));
    let shown = ["pillar.show_pillar", "web1", "unmask=True"];
    let shown = runner(&fleet, &shown).expect(0).stdout;
    assert_eq!(Some(shown.as_str()), of_page);

    // The page shows what `pillar.lint` says of such a file.
    let path = write(&fleet, "srv/pillar/secrets.sls", "#!yaml|gpg\na: 1\n");
    let said = runner(&fleet, &["pillar.lint"]).expect(1).stdout;
    let said = said.replace(&path, "/srv/pillar/secrets.sls");
    let of_page = blocks
        .iter()
        .find_map(|block| block.strip_prefix("$ saline-run pillar.lint\n"));
    assert_eq!(Some(said.as_str()), of_page);

    // No top file reaches it. What is wrong is told once.
    let other = "a: {{ b }}\nc: {{ '%s' % 1 }}\nd: |\n  -----BEGIN PGP MESSAGE-----\n";
    fs::write(&path, other).unwrap();
    let said = json(&runner(&fleet, &["pillar.lint", "--out", "json"]).expect(1));
    let error = format!("{path}:1:7: `b` is undefined");
    assert_eq!(
        said["_errors"],
        serde_json::json!({error: ["no accepted minion"]})
    );
    let findings: Vec<&str> = said[&path]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    assert!(
        findings[0].starts_with("2:7: % formats no text here"),
        "{findings:?}"
    );
    assert!(
        findings[1].starts_with("4:3: a minion gets this PGP message as it is"),
        "{findings:?}"
    );
    assert_eq!(findings.len(), 2);

    // What no file says by itself shows in the pillars of minions.
    fs::remove_file(path).unwrap();
    assert_eq!(runner(&fleet, &["pillar.lint"]).expect(0).stderr, "");
    write(
        &fleet,
        "srv/pillar/top.sls",
        "base:\n  '*': [all]\n  'db*': [gone]\n",
    );
    write(&fleet, "srv/pillar/all.sls", "include: [missing]\n");
    let linted = runner(&fleet, &["pillar.lint", "--out", "json"]).expect(1);
    let at = |file: &str| {
        fleet
            .path(&format!("master/srv/pillar/{file}"))
            .display()
            .to_string()
    };
    let missing = "base has no file missing.sls and no missing/init.sls";
    let missing = format!("{}:1:11: {missing}", at("all.sls"));
    let gone = "base has no file gone.sls and no gone/init.sls";
    let gone = format!("{}:3:11: {gone}", at("top.sls"));
    assert_eq!(
        json(&linted),
        serde_json::json!({"_errors": {missing: ["web1"], gone: ["no accepted minion"]}})
    );
}

#[test]
fn a_tree_is_linted_without_minions() {
    let mut fleet = Fleet::new("tcp", "trusted_grains: [os_family, rack]\n");
    write(
        &fleet,
        "srv/pillar/top.sls",
        "base:\n  'web*': [web]\n  'A@roles:db':\n    - db\n    - gone\n  'G@os:Debian': [web]\n",
    );
    write(
        &fleet,
        "srv/pillar/web.sls",
        "a: {{ {'Debian': 1}[grains.os_family] }}\nr: {{ grains.rack }}\nsite: {{ assigned.site }}\n",
    );
    let db = "include:\n  - .missing\nb: {{ grains.os }}\n";
    write(&fleet, "srv/pillar/db.sls", db);
    assign(&fleet, "web*: {attributes: {site: berlin}}\n");
    fleet.start_master();
    let lint = |more: &[&str]| {
        let all = [&["pillar.lint", "--out", "json"], more].concat();
        let found = json(&runner(&fleet, &all).expect(1));
        let errors = found["_errors"].as_object().unwrap().clone();
        let folder = fleet.path("master/srv/pillar").display().to_string();
        let errors = errors.into_iter().map(|(error, minions)| {
            assert_eq!(minions, serde_json::json!(["a made-up minion"]));
            error.replace(&folder, "")
        });
        let mut errors: Vec<String> = errors.collect();
        errors.sort();
        errors
    };
    let gone = "/top.sls:5:7: base has no file gone.sls and no gone/init.sls";
    let missing = "/db.sls:2:5: base has no file missing.sls and no missing/init.sls";
    let found = lint(&[]);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("/db.sls:3:7: "), "{found:?}");
    assert_eq!(found[1], gone);
    assert!(
        found[2].starts_with("/top.sls:6:3: the target \"G@os:Debian\": it looks at grains"),
        "{found:?}"
    );
    let found = lint(&["grains={os: Fedora, os_family: RedHat}"]);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0], missing);
    assert_eq!(found[1], gone);
    assert!(found[2].starts_with("/web.sls:1:"), "{found:?}");
}

#[test]
fn a_pillar_is_its_minions_own_and_is_shown_by_mistake_nowhere() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\nmetrics_listen: 127.0.0.1:0\n");
    write(
        &fleet,
        "srv/pillar/top.sls",
        "base:\n  web1: [web]\n  db1: [db]\n  'A@site:berlin': [berlin]\n",
    );
    write(&fleet, "srv/pillar/web.sls", "password: of-web-1f3a\n");
    write(&fleet, "srv/pillar/db.sls", "password: of-db-77c2\n");
    write(
        &fleet,
        "srv/pillar/berlin.sls",
        "site: {{ assigned.site }}\n",
    );
    assign(&fleet, "db*: {attributes: {site: berlin}}\n");
    fleet.start_master();
    // One says that it is the other.
    let lies = "grains: {id: db1, host: db1, site: berlin, password: x}\n";
    fleet.start_minion_with("web1", lies);
    fleet.start_minion("db1");
    for minion in ["web1", "db1"] {
        fleet.minions[minion].log.wait_for("subscribed", 1);
    }
    let of_web = serde_json::json!({"password": "of-web-1f3a"});
    let of_db = serde_json::json!({"password": "of-db-77c2", "site": "berlin"});
    assert_eq!(pillar(&fleet, "web1"), of_web);
    assert_eq!(pillar(&fleet, "db1"), of_db);
    let masked = ["pillar.show_pillar", "db1", "--out", "json"];
    let masked = json(&runner(&fleet, &masked).expect(0));
    let stars = "**********";
    assert_eq!(
        masked,
        serde_json::json!({"password": stars, "site": stars})
    );
    let top = ["pillar.show_top", "db1", "--out", "json"];
    let top = json(&runner(&fleet, &top).expect(0));
    assert_eq!(top, serde_json::json!({"base": ["db", "berlin"]}));

    // What was newly assigned counts at once.
    assign(&fleet, "web*: {attributes: {site: berlin}}\n");
    fleet.master().signal(Signal::HUP);
    fleet.master().log.wait_for("changed: minions.d", 1);
    assert_eq!(
        pillar(&fleet, "db1"),
        serde_json::json!({"password": "of-db-77c2"})
    );

    // What targets search for in pillars is a value too.
    let by_pillar = ["-I", "password:of-db-77c2", "test.ping"];
    let said = fleet.saline(&by_pillar).expect(0).stdout;
    assert!(said.contains("db1") && !said.contains("web1"), "{said}");
    let compound = ["-C", "web1 and I@password:of-web-1f3a", "test.ping"];
    fleet.saline(&compound).expect(0);
    let audit = fs::read_to_string(fleet.path("master/var/log/saline/master-audit.log")).unwrap();
    for target in ["password:**********", "web1 and I@password:**********"] {
        let target = format!("\"target\": \"{target}\"");
        assert!(audit.contains(&target), "{target} is not in {audit}");
    }

    // A run whose return is kept does not keep what is secret.
    let kept = ["--async", "pillar.show_pillar", "db1", "unmask=True"];
    let said = runner(&fleet, &kept).expect(0);
    let jid = said
        .stdout
        .split_whitespace()
        .find(|word| word.len() == 20 && word.bytes().all(|byte| byte.is_ascii_digit()));
    let jid = jid.unwrap_or_else(|| panic!("no jid in {said:?}"));
    fleet
        .master()
        .log
        .wait_for(&format!("runner {jid}: pillar.show_pillar has ended"), 1);
    let looked = runner(&fleet, &["jobs.lookup_jid", jid]).expect(0);
    assert!(
        looked.stdout.contains("the return was secret"),
        "{looked:?}"
    );
    let unknown = runner(&fleet, &["pillar.show_pillar", "other"]).expect(1);
    assert!(
        unknown.stderr.contains("no accepted key has the id other"),
        "{unknown:?}"
    );

    assert_eq!(fleet.master.take().unwrap().terminate(), Some(0));
    for secret in ["of-db-77c2", "of-web-1f3a"] {
        let found = files_with(&fleet.path("master/var"), secret);
        assert_eq!(found, [""; 0], "{secret}");
    }
}

/// Returns the files below a folder that contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if path.is_file() {
            let content = fs::read(&path).unwrap();
            if content
                .windows(text.len())
                .any(|window| window == text.as_bytes())
            {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

/// Returns the processes that render for a master.
fn renderers(fleet: &Fleet) -> Vec<Pid> {
    let children = |pid: u32| {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let pids = fs::read_to_string(path).unwrap_or_default();
        let pids: Vec<u32> = pids
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect();
        pids
    };
    let of_threads = |pid: u32| -> Vec<u32> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
        let lists: Vec<String> = lists.flatten().collect();
        lists
            .iter()
            .flat_map(|list| list.split_whitespace())
            .map(|pid| pid.parse().unwrap())
            .collect()
    };
    let execs = of_threads(fleet.master().pid());
    let pids = execs.into_iter().flat_map(children);
    let renders = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "saline-render")
    };
    pids.filter(renders)
        .filter_map(|pid| Pid::from_raw(pid.cast_signed()))
        .collect()
}

/// Kills the renderers of the master, waits until they are gone, and returns how many there were.
fn kill_renderers(fleet: &Fleet) -> usize {
    let running = renderers(fleet);
    for pid in &running {
        let ended = pidfd_open(*pid, PidfdFlags::empty()).unwrap();
        kill_process(*pid, Signal::KILL).unwrap();
        poll(&mut [PollFd::new(&ended, PollFlags::IN)], None).unwrap();
    }
    running.len()
}

#[test]
fn renderers_that_are_killed_or_stopped_do_not_stop_the_master() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    write(&fleet, "srv/pillar/top.sls", "base: {'*': [a]}\n");
    write(&fleet, "srv/pillar/a.sls", "a: {{ grains.id }}\n");
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let of_m1 = serde_json::json!({"a": "m1"});
    assert_eq!(pillar(&fleet, "m1"), of_m1);
    // Those that wait for an order when they are killed cost nothing.
    assert!(kill_renderers(&fleet) > 0);
    assert_eq!(pillar(&fleet, "m1"), of_m1);
    for pid in renderers(&fleet) {
        kill_process(pid, Signal::STOP).unwrap();
    }
    let show = ["pillar.show_pillar", "m1", "--out", "json"];
    let mut asking = fleet.command("saline-run", &show);
    let asking = asking.stdout(std::process::Stdio::piped()).spawn().unwrap();
    // The master does everything else meanwhile.
    fleet.saline(&["m1", "test.ping"]).expect(0);
    let late = CommandOutput::from(asking.wait_with_output().unwrap()).expect(1);
    assert!(
        late.stdout.contains("it takes longer than 10 s"),
        "{late:?}"
    );
    // Another one that is stopped would make the next pillar late too.
    kill_renderers(&fleet);
    assert_eq!(pillar(&fleet, "m1"), of_m1);
    assert_eq!(fleet.master.take().unwrap().terminate(), Some(0));
}

#[test]
fn a_template_that_does_not_render_is_told_with_its_place() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    write(&fleet, "srv/pillar/top.sls", "base: {'*': [a, b]}\n");
    write(&fleet, "srv/pillar/a.sls", "a: 1\n");
    let path = write(&fleet, "srv/pillar/b.sls", "b:\n  c: {{ nothing }}\n");
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let show = ["pillar.show_pillar", "m1", "--out", "json"];
    let shown = json(&runner(&fleet, &show).expect(1));
    let expected = format!("{path}:2:9: `nothing` is undefined");
    assert_eq!(shown["_errors"], serde_json::json!([expected]));
}

#[test]
fn a_top_file_that_goes_leaves_minions_their_pillars() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    let top = write(&fleet, "srv/pillar/top.sls", "base: {'*': ['a*']}\n");
    write(&fleet, "srv/pillar/a.sls", "a: 1\n");
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"]
        .log
        .wait_for("the master has sent the pillar", 1);
    let held = || {
        let got = fleet.saline(&["m1", "pillar.get", "a", "unmask=True", "--out", "json"]);
        json(&got.expect(0))["m1"].clone()
    };
    assert_eq!(held(), 1);
    fs::remove_file(&top).unwrap();
    let errors = |minion: &str| {
        let shown = ["pillar.show_pillar", minion, "--out", "json"];
        json(&runner(&fleet, &shown).expect(1))["_errors"].to_string()
    };
    let folder = fleet.path("master/srv/pillar").display().to_string();
    let gone = format!("the top.sls of the environment base has gone from {folder}: ");
    assert!(errors("m1").contains(&gone), "{}", errors("m1"));
    let refreshed = fleet.saline(&["m1", "saltutil.refresh_pillar"]).expect(1);
    let told = format!("so the minion keeps the last one without any: {gone}");
    assert!(refreshed.stdout.contains(&told), "{}", refreshed.stdout);
    let warned = format!("the minion keeps what it had: {gone}");
    fleet.master().log.wait_for(&warned, 1);
    assert_eq!(held(), 1);
    // A master that has started since knows of no top file, and finds files that are for nobody.
    assert_eq!(fleet.master.take().unwrap().terminate(), Some(0));
    fleet.start_master();
    let none = format!("the minion keeps what it had: there is no top.sls in {folder}");
    fleet.master().log.wait_for(&none, 1);
    let got = fleet.saline(&["m1", "pillar.get", "a", "unmask=True", "--out", "json"]);
    assert_eq!(json(&got.expect(0))["m1"], 1);
    // An empty one says that this is meant.
    fs::write(&top, "").unwrap();
    assert_eq!(pillar(&fleet, "m1"), serde_json::json!({}));
}

#[test]
fn a_check_warns_of_pillars_that_minions_may_read() {
    let mut fleet = Fleet::new("tcp", "");
    fleet.start_master();
    let checked = fleet.run("saline-master", &["--check"]).expect(0);
    assert!(!checked.stderr.contains("may read"), "{}", checked.stderr);
    let files = fleet.path("master/srv").display().to_string();
    fleet.master_options += &format!("file_roots: {{base: [{files}]}}\n");
    fleet.write_master_config();
    let checked = fleet.run("saline-master", &["--check"]).expect(0);
    let warning =
        format!("minions may read all pillars: the folder {files}/pillar of pillar_roots");
    assert!(checked.stderr.contains(&warning), "{}", checked.stderr);
}

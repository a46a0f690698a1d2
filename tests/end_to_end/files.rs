//! Files of the master on minions, and files of minions at the master.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use saline_protocol::transport::Clock;
use saline_testing::links::{Carries, Link};
use saline_testing::{Fleet, TEST_TIMEOUT};

/// The size of the large file in bytes.
const LARGE: usize = 6_000_000;

/// Bytes a second over the slow link.
const RATE: u64 = 1_500_000;

/// Returns bytes of which no two parts are alike.
pub(crate) fn content(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Writes a file of the environment `base`, and returns its path.
pub(crate) fn serve(fleet: &Fleet, path: &str, content: &[u8]) -> PathBuf {
    let path = fleet.path("master/srv/saline").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

/// Calls a function of m1 and returns what it returned.
pub(crate) fn call(fleet: &Fleet, arguments: &[&str]) -> serde_json::Value {
    let all = [&["m1"], arguments, &["--out", "json"]].concat();
    let said = fleet.saline(&all).expect(0);
    let mut json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    json["m1"].take()
}

/// Calls a function of m1 that fails, and returns what it says.
pub(crate) fn fail(fleet: &Fleet, arguments: &[&str]) -> String {
    let all = [&["m1"], arguments, &["--out", "json"]].concat();
    let said = fleet.saline(&all).expect(1);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    json["m1"].as_str().unwrap().to_owned()
}

pub(crate) fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_of_the_master_is_put_at_a_path() {
    for transport in ["tcp", "quic", "zeromq"] {
        let fleet = Fleet::with_minions(transport, &["m1"]);
        let large = content(700_000);
        for (name, bytes) in [
            ("empty", &b""[..]),
            ("small", b"hello"),
            ("deep/large", &large),
        ] {
            let served = serve(&fleet, name, bytes);
            // The set-user-ID bit stays on the master.
            fs::set_permissions(&served, fs::Permissions::from_mode(0o4750)).unwrap();
            let dest = fleet.path("dest").join(name);
            let (url, to) = (format!("salt://{name}"), dest.to_str().unwrap());
            let returned = call(&fleet, &["cp.get_file", &url, to, "makedirs=True"]);
            assert_eq!(returned, to);
            assert!(fs::read(&dest).unwrap() == bytes, "{transport}: {name}");
            assert_eq!(mode(&dest), 0o750);
        }
        let cached = call(&fleet, &["cp.is_cached", "salt://small"]);
        assert!(
            cached.as_str().unwrap().ends_with("files/base/small"),
            "{cached}"
        );
    }
}

#[test]
fn functions_of_cp_tell_and_bring_what_the_master_has() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.master_options += &format!(
        "file_roots:\n  base: [{0}/first, {0}/second]\n  prod: [{0}/prod]\nfile_env_access: {{prod: 'm2 or A@roles:db'}}\n\
         file_ignore_glob: ['*.pyc']\n",
        fleet.root().display()
    );
    for (path, text) in [
        ("first/a/one", "1"),
        ("first/both", "first"),
        ("first/cache.pyc", ""),
        ("second/both", "second"),
        ("second/a/two", "2"),
        ("prod/secret", "s"),
    ] {
        let path = fleet.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::create_dir(fleet.path("first/empty")).unwrap();
    symlink("a/one", fleet.path("first/link")).unwrap();
    symlink("../prod/secret", fleet.path("first/out")).unwrap();
    fs::create_dir_all(fleet.config().join("minions.d")).unwrap();
    fleet.start_master();
    for id in ["m1", "m2"] {
        fleet.start_minion(id);
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(
        call(&fleet, &["cp.list_master"]),
        json(r#"["a/one", "a/two", "both", "link"]"#)
    );
    assert_eq!(
        call(&fleet, &["cp.list_master_dirs"]),
        json(r#"["a", "empty"]"#)
    );
    assert_eq!(
        call(&fleet, &["cp.list_master_symlinks"]),
        json(r#"["link"]"#)
    );
    assert_eq!(
        call(&fleet, &["cp.list_master", "prefix=a"]),
        json(r#"["a/one", "a/two"]"#)
    );
    assert_eq!(call(&fleet, &["cp.get_file_str", "salt://both"]), "first");
    assert_eq!(call(&fleet, &["cp.get_file_str", "salt://link"]), "1");
    let one = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";
    assert_eq!(call(&fleet, &["cp.hash_file", "salt://a/one"])["hsum"], one);
    fs::set_permissions(fleet.path("first/a/one"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(call(&fleet, &["cp.stat_file", "salt://a/one"]), "0640");
    let dest = fleet.path("dest");
    fs::create_dir(&dest).unwrap();
    call(&fleet, &["cp.get_dir", "salt://a", dest.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(dest.join("a/two")).unwrap(), "2");
    let cached = call(&fleet, &["cp.cache_dir", "salt://a", "include_pat=*one"]);
    assert_eq!(cached.as_array().unwrap().len(), 1, "{cached}");

    // Who may read an environment.
    assert_eq!(call(&fleet, &["cp.envs"]), json(r#"["base"]"#));
    let no_environment = "the master has no such environment, or this minion may not read it";
    for wrong in [
        vec!["cp.get_file_str", "salt://secret?saltenv=prod"],
        vec!["cp.list_master", "prod"],
        vec!["cp.hash_file", "salt://secret", "saltenv=prod"],
        vec!["cp.get_file_str", "salt://x", "saltenv=absent"],
    ] {
        let said = fail(&fleet, &wrong);
        let named = wrong.iter().any(|word| word.contains("absent"));
        let name = if named { "absent" } else { "prod" };
        let told = format!("environment \"{name}\": {no_environment}; cp.envs shows");
        assert!(said.contains(&told), "{wrong:?}: {said}");
    }
    let said = fleet
        .saline(&["m2", "cp.get_file_str", "salt://secret", "prod"])
        .expect(0);
    assert_eq!(said.stdout, "m2:\n    s\n");
    fs::write(
        fleet.config().join("minions.d/db.yaml"),
        "m1: {roles: [db]}\n",
    )
    .unwrap();
    fleet.master().signal(Signal::HUP);
    fleet.master().log.wait_for("configuration reloaded", 1);
    assert_eq!(
        call(&fleet, &["cp.get_file_str", "salt://secret?saltenv=prod"]),
        "s"
    );

    // Nothing leads out, and what is left out is not there.
    assert!(fail(&fleet, &["cp.get_file_str", "salt://out"]).contains("leads out of the roots"));
    assert!(fail(&fleet, &["cp.get_file_str", "salt://cache.pyc"]).contains("no such file"));
    assert!(fail(&fleet, &["cp.get_file_str", "salt://a"]).contains("no such file"));
    for wrong in ["salt://../prod/secret", "salt:///etc/passwd"] {
        let said = fleet.saline(&["m1", "cp.get_file_str", wrong]).expect(1);
        assert!(
            said.stdout.contains("a file of the master"),
            "{}",
            said.stdout
        );
    }
    let absent = dest.join("absent/file");
    let why = fail(
        &fleet,
        &["cp.get_file", "salt://both", absent.to_str().unwrap()],
    );
    assert!(why.contains("makedirs=True"), "{why}");
    let why = fail(&fleet, &["cp.get_url", "https://example.org/x", "/tmp/x"]);
    assert!(why.contains("https:// is not supported"), "{why}");

    // The runner.
    let listed = fleet
        .run("saline-run", &["fileserver.file_list", "--out", "json"])
        .expect(0);
    assert_eq!(
        json(&listed.stdout),
        json(r#"["a/one", "a/two", "both", "link"]"#)
    );
    let envs = fleet
        .run("saline-run", &["fileserver.envs", "--out", "json"])
        .expect(0);
    assert_eq!(json(&envs.stdout), json(r#"["base", "prod"]"#));
    fs::write(fleet.path("first/new"), "n").unwrap();
    fleet.run("saline-run", &["fileserver.update"]).expect(0);
    let listed = fleet
        .run("saline-run", &["fileserver.file_list", "--out", "json"])
        .expect(0);
    assert!(listed.stdout.contains("\"new\""), "{}", listed.stdout);
    let unknown = fleet
        .run("saline-run", &["fileserver.dir_list", "absent"])
        .expect(1);
    assert!(
        format!("{}{}", unknown.stdout, unknown.stderr).contains("which has: base, prod"),
        "{unknown:?}"
    );
}

#[test]
fn what_is_cached_is_checked_and_a_file_that_is_there_keeps_its_mode() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let served = serve(&fleet, "app.conf", b"one");
    let dest = fleet.path("app.conf");
    let get = ["cp.get_file", "salt://app.conf", dest.to_str().unwrap()];
    call(&fleet, &get);
    fs::set_permissions(&dest, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&served, "two").unwrap();
    let test = [&get[..], &["test=True"]].concat();
    assert_eq!(call(&fleet, &test)["changed"], true);
    call(&fleet, &get);
    assert_eq!(
        (fs::read_to_string(&dest).unwrap(), mode(&dest)),
        ("two".to_owned(), 0o600)
    );
    assert_eq!(call(&fleet, &test)["changed"], false);
    // Somebody wrote into the cache: its hash is another, and the file is fetched again.
    let cached = call(&fleet, &["cp.is_cached", "salt://app.conf"]);
    fs::write(cached.as_str().unwrap(), "bad").unwrap();
    call(&fleet, &get);
    assert_eq!(fs::read_to_string(&dest).unwrap(), "two");
}

#[test]
fn a_cached_folder_makes_room_for_a_file_and_a_file_for_a_folder() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let served = serve(&fleet, "app/conf/main", b"in a folder");
    let get = |url: &str| call(&fleet, &["cp.get_file_str", url]);
    assert_eq!(get("salt://app/conf/main"), "in a folder");
    fs::remove_dir_all(served.ancestors().nth(2).unwrap()).unwrap();
    serve(&fleet, "app", b"a file");
    assert_eq!(get("salt://app"), "a file");
    fs::remove_file(fleet.path("master/srv/saline/app")).unwrap();
    serve(&fleet, "app/conf", b"a folder again");
    assert_eq!(get("salt://app/conf"), "a folder again");
}

#[test]
fn a_minion_hands_files_in_only_where_it_may() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let log = fleet.path("log/app.log");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    let bytes = content(400_000);
    fs::write(&log, &bytes).unwrap();
    let push = ["cp.push", log.to_str().unwrap()];
    let test = [&push[..], &["test=True"]].concat();
    for call in [&push[..], &test] {
        let said = fail(&fleet, call);
        let told = format!(
            "cannot hand in {}: the master takes no files of minions: set `file_recv: True`",
            log.display()
        );
        assert!(said.contains(&told), "{said}");
    }
    fleet.master_options += "file_recv: True\nfile_recv_max_size: 1\n";
    fleet.write_master_config();
    fleet.master().signal(Signal::HUP);
    fleet.master().log.wait_for("configuration reloaded", 1);
    assert_eq!(call(&fleet, &test), true);
    let received = fleet.path("master/var/cache/saline/master/minions/m1/files");
    let stored = received.join(log.strip_prefix("/").unwrap());
    assert_eq!(fs::read_dir(&received).unwrap().count(), 0);
    assert_eq!(call(&fleet, &push), true);
    assert!(fs::read(&stored).unwrap() == bytes);
    assert_eq!(mode(&stored), 0o600);
    let named = [&push[..], &["upload_path=/logs/today"]].concat();
    assert_eq!(call(&fleet, &named), true);
    assert!(fs::read(received.join("logs/today")).unwrap() == bytes);
    let folder = log.parent().unwrap().to_str().unwrap();
    fs::write(log.with_file_name("other.txt"), "x").unwrap();
    let dir = ["cp.push_dir", folder, "glob=*.txt", "upload_path=all"];
    assert_eq!(call(&fleet, &dir), true);
    assert_eq!(
        fs::read_to_string(received.join("all/other.txt")).unwrap(),
        "x"
    );
    for (to, why) in [
        ("../../m2/files/x", "the path is absolute"),
        ("a/../../x", "the path is absolute"),
    ] {
        let upload = format!("upload_path={to}");
        let wrong = [&push[..], &[&upload]].concat();
        assert!(fail(&fleet, &wrong).contains(why), "{to}");
    }
    fs::write(&log, content(1_100_000)).unwrap();
    for call in [&push[..], &test] {
        let said = fail(&fleet, call);
        let told = format!(
            "cannot hand in {}: it has 1100000 bytes, which is more than the master takes: raise file_recv_max_size",
            log.display()
        );
        assert!(said.contains(&told), "{said}");
    }
    // An empty file is not handed in by a test either.
    let empty = log.with_file_name("empty");
    fs::write(&empty, "").unwrap();
    let test = [
        "cp.push",
        empty.to_str().unwrap(),
        "test=True",
        "upload_path=empty",
    ];
    assert_eq!(call(&fleet, &test), true);
    assert!(!received.join("empty").exists());
}

/// A minion behind a slow link that fetches a large file, of which something has arrived.
async fn fetch_under_way() -> (Fleet, Link, Vec<u8>) {
    let metrics = "auto_accept: True\nmetrics_listen: 127.0.0.1:0\n";
    let mut fleet = Fleet::new("tcp", metrics);
    let bytes = content(LARGE);
    serve(&fleet, "large", &bytes);
    fleet.start_master();
    let master = fleet.port();
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let route = (at(0), at(master));
    let link = Link::open(Carries::Streams, &[route]).await.unwrap();
    link.set(|now| now.bytes_a_second = Some(RATE));
    fleet.use_port(link.address().unwrap().port());
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet.use_port(master);
    let dest = fleet.path("large");
    let get = [
        "m1",
        "cp.get_file",
        "salt://large",
        dest.to_str().unwrap(),
        "--async",
    ];
    fleet.saline(&get).expect(0);
    let end = Clock.after(TEST_TIMEOUT);
    while partial(&fleet) < LARGE as u64 / 2 {
        assert!(Clock.now() < end, "nothing arrives");
        Clock.pause(std::time::Duration::from_millis(20)).await;
    }
    // What is under way stays that, however busy the machine is.
    link.set(|now| now.bytes_a_second = Some(RATE / 10));
    (fleet, link, bytes)
}

/// Returns how many bytes of the large file the minion has.
fn partial(fleet: &Fleet) -> u64 {
    let folder = fleet.path("m1/var/cache/saline/minion/files/base");
    let Ok(found) = fs::read_dir(folder) else {
        return 0;
    };
    let parts = found.filter_map(Result::ok);
    let parts = parts.filter(|each| each.file_name().to_string_lossy().contains("part"));
    parts
        .filter_map(|part| part.metadata().ok())
        .map(|part| part.len())
        .sum()
}

/// Returns how many bytes of files the master has sent since its start.
fn sent(fleet: &Fleet) -> u64 {
    let line = fleet.master().log.wait_for("metrics are served", 1);
    let (_, address) = line.split_once("http://127.0.0.1:").unwrap();
    let port: u16 = address.split('/').next().unwrap().parse().unwrap();
    let page = crate::monitoring::page(port, "/metrics");
    let name = "saline_master_file_bytes_total{what=\"sent\"} ";
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    // A float, as every metric.
    let bytes: f64 = line.unwrap_or_else(|| panic!("{page}")).parse().unwrap();
    bytes as u64
}

/// Waits until the file is there, and checks that it is whole.
async fn arrived(fleet: &Fleet, bytes: &[u8]) {
    let end = Clock.after(TEST_TIMEOUT);
    let dest = fleet.path("large");
    while !dest.exists() {
        assert!(Clock.now() < end, "the file does not arrive");
        Clock.pause(std::time::Duration::from_millis(20)).await;
    }
    assert!(fs::read(&dest).unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_transfer_goes_on_after_a_lost_connection_and_a_restart_of_the_master() {
    let (mut fleet, link, bytes) = fetch_under_way().await;
    link.cut();
    fleet.minions["m1"].log.wait_for("is back", 1);
    fleet.kill_master();
    link.set(|now| now.bytes_a_second = None);
    fleet.start_master();
    arrived(&fleet, &bytes).await;
    let sent = sent(&fleet);
    assert!(
        sent > 0 && sent < LARGE as u64 * 2 / 3,
        "{sent} bytes after the restart"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_transfer_goes_on_after_a_restart_of_its_minion() {
    let (mut fleet, link, bytes) = fetch_under_way().await;
    fleet.minions.get_mut("m1").unwrap().kill();
    let had = partial(&fleet);
    link.set(|now| now.bytes_a_second = None);
    assert!(had > 0 && !fleet.path("large").exists());
    let (before, master) = (sent(&fleet), fleet.port());
    fleet.use_port(link.address().unwrap().port());
    fleet.start_minion("m1");
    fleet.use_port(master);
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let dest = fleet.path("large");
    call(
        &fleet,
        &["cp.get_file", "salt://large", dest.to_str().unwrap()],
    );
    arrived(&fleet, &bytes).await;
    let sent = sent(&fleet) - before;
    // Two parts may still have been asked for.
    assert!(
        sent <= LARGE as u64 - had + 2 * 256 * 1024,
        "{sent} bytes after the restart, and {had} were there"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_file_that_changes_while_it_is_sent_arrives_as_it_is_at_last() {
    let (fleet, link, _) = fetch_under_way().await;
    let new = content(LARGE / 2);
    serve(&fleet, "new", &new);
    let folder = fleet.path("master/srv/saline");
    fs::rename(folder.join("new"), folder.join("large")).unwrap();
    link.set(|now| now.bytes_a_second = None);
    arrived(&fleet, &new).await;
    fleet.minions["m1"]
        .log
        .wait_for("changed while it was sent", 1);
}

#[test]
fn modules_of_the_master_are_synced_and_used_at_once() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let script = |word: &str| {
        format!(
            "#!/bin/sh\nif [ \"$1\" = --describe ]; then\n    printf '%s' '{{\"functions\": {{\"word\": {{}}}}}}'\n    exit\nfi\n\
             printf '\"%s\"' {word}\n"
        )
    };
    serve(&fleet, "_modules/speaker", script("one").as_bytes());
    serve(&fleet, "_modules/below/other", b"no module");
    let sync = ["saltutil.sync_modules"];
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(call(&fleet, &sync), json(r#"["modules.speaker"]"#));
    assert_eq!(call(&fleet, &["speaker.word"]), "one");
    assert_eq!(call(&fleet, &sync), json("[]"));
    serve(&fleet, "_modules/speaker", script("two").as_bytes());
    assert_eq!(
        call(&fleet, &["saltutil.sync_modules", "test=True"]),
        json(r#"["modules.speaker"]"#)
    );
    assert_eq!(call(&fleet, &["speaker.word"]), "one");
    call(&fleet, &sync);
    assert_eq!(call(&fleet, &["speaker.word"]), "two");
    fs::remove_file(fleet.path("master/srv/saline/_modules/speaker")).unwrap();
    fleet.run("saline-run", &["fileserver.update"]).expect(0);
    assert_eq!(call(&fleet, &sync), json("[]"));
    fleet.saline(&["m1", "speaker.word"]).expect(1);
}

/// Returns the words of a line of a shell with single quotes, with the folders of the machine below `root`.
fn words(line: &str, root: &Path) -> Vec<String> {
    let mut words = vec![String::new()];
    for (number, part) in line.split('\'').enumerate() {
        let mut pieces = match number % 2 {
            0 => part.split(' ').collect::<Vec<_>>(),
            _ => vec![part],
        }
        .into_iter();
        words
            .last_mut()
            .unwrap()
            .push_str(pieces.next().unwrap_or_default());
        words.extend(pieces.map(str::to_owned));
    }
    let is_here = |word: &str| {
        ["/etc", "/var", "/root"]
            .iter()
            .any(|top| word.starts_with(top))
    };
    let below = |word: String| match is_here(&word) {
        true => format!("{}{word}", root.display()),
        false => word,
    };
    words.into_iter().map(below).collect()
}

#[test]
fn the_example_of_the_page_about_files_works() {
    let page = include_str!("../../docs/files.md");
    let mut blocks = page.split("```").skip(1).step_by(2);
    let config = blocks.next().unwrap();
    let config = config.strip_prefix("yaml\n# /etc/saline/master\n").unwrap();
    let commands = blocks.next().unwrap();
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    let root = fleet.path("machine");
    fleet.master_options += &config.replace("/srv/", &format!("{}/srv/", root.display()));
    for (path, text) in [
        ("srv/saline/nginx/app.conf", "app"),
        ("srv/saline/nginx/site.jinja", "listen {{ port }};\n"),
        ("srv/saline/scripts/report.sh", "echo \"$1\"\n"),
        ("srv/saline-shared/shared", ""),
        ("srv/saline-prod/app", ""),
        ("var/log/app.log", "log"),
        ("root/motd", "welcome"),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fleet.start_master();
    // One alone: two on one machine would write the same files.
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    let mut said = String::new();
    for line in commands.lines().filter(|line| !line.is_empty()) {
        let words = words(line, &root);
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let output = fleet.run(&words[0], &arguments).expect(0);
        said += &format!("{line}\n{}", output.stdout);
    }
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    assert_eq!(read("etc/nginx/conf.d/app.conf"), "app");
    assert_eq!(read("etc/nginx/app.conf"), "app");
    assert_eq!(read("etc/nginx/site.conf"), "listen 8080;\n");
    assert_eq!(read("etc/motd"), "welcome");
    assert!(
        said.contains("weekly") && said.contains("- app\n"),
        "{said}"
    );
}

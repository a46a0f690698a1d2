//! What the files say ends up in the configuration, later files over earlier ones.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use crate::folder::{
    SCHEMES, folder, master, master_restrictions, master_warnings, minion, minion_restrictions,
    minion_warnings, read_by_itself,
};
use insta::assert_snapshot;
use saline_config::{JobStoreSize, LogFormat, LogLevel, MasterConfig, MinionConfig};
use saline_data::Value;
use saline_messages::MinionId;
use saline_protocol::transport::{HostPort, OptionValue};
use saline_protocol::transport::{Tls, VerifyPeer};

#[test]
fn a_folder_without_files_gives_the_defaults() {
    let dir = folder(&[]);
    let loaded = MasterConfig::load(dir.path(), SCHEMES).unwrap();
    assert_eq!(loaded.config, MasterConfig::default());
    assert!(loaded.warnings.is_empty());
    let loaded = MinionConfig::load(dir.path(), SCHEMES).unwrap();
    assert_eq!(loaded.config.folder.as_deref(), Some(dir.path()));
    assert_eq!(loaded.config.shown, loaded.options);
    assert_eq!(read_by_itself(loaded.config), MinionConfig::default());
    assert_eq!(master("# nothing\n"), MasterConfig::default());
    assert_eq!(minion("---\n"), MinionConfig::default());
}

#[test]
fn every_option_of_a_master() {
    let loaded = master(
        "interface: '::'\npublish_port: 0\nret_port: '4606'\ntransport: [zeromq, quic]\n\
         ipc_transport: tcp\nworker_threads: 3\nauto_accept: True\nopen_mode: yes\ntimeout: 0.5\n\
         keep_jobs_seconds: 3600\nheartbeat_interval: 2.5\njob_ttl: 90\nmax_message_size: 65536\nkeepalive_interval: 20\n\
         max_minions: 7\nmax_pending_keys: 8\npending_key_days: 9\nminion_event_rate: 0\nminion_event_bytes: 10\nlog_level: debug\nlog_file: /var/log/x\n\
         pidfile: /run/x.pid\n",
    );
    let mut expected = MasterConfig::default();
    expected.interface = "::".to_owned();
    (expected.publish_port, expected.ret_port) = (0, 4606);
    expected.transport = vec!["zeromq".to_owned(), "quic".to_owned()];
    expected.ipc_transport = Some("tcp".to_owned());
    expected.worker_threads = Some(3);
    (expected.auto_accept, expected.open_mode) = (true, true);
    expected.timeout = Duration::from_millis(500);
    expected.keep_jobs = Duration::from_secs(3600);
    expected.heartbeat_interval = Duration::from_millis(2500);
    expected.job_ttl = Duration::from_secs(90);
    expected.max_message_size = 65536;
    expected.keepalive_interval = Duration::from_secs(20);
    (expected.max_minions, expected.max_pending_keys) = (7, 8);
    (expected.minion_event_rate, expected.minion_event_bytes) = (None, Some(10));
    expected.pending_key_expiry = Some(Duration::from_secs(9 * 86_400));
    expected.logging.level = LogLevel::Debug;
    expected.logging.file = Some("/var/log/x".into());
    expected.paths.pid_file = Some("/run/x.pid".into());
    assert_eq!(loaded, expected);
}

#[test]
fn nodegroups_of_later_files_are_added() {
    let dir = folder(&[
        ("master", "nodegroups:\n  web: [web1, 2]\n  old: x\n"),
        ("master.d/x.conf", "nodegroups: {old: 'not N@web'}\n"),
        ("master.d/y.conf", "nodegroups:\n"),
    ]);
    let loaded = MasterConfig::load(dir.path(), SCHEMES).unwrap();
    let groups = loaded.config.nodegroups;
    let written = |name| groups.get(name).map(ToString::to_string);
    assert_eq!(written("web").as_deref(), Some("web1 or 2"));
    assert_eq!(written("old").as_deref(), Some("not ( web1 or 2 )"));
    assert_eq!(groups.names().collect::<Vec<_>>(), ["old", "web"]);
}

#[test]
fn every_option_of_a_minion() {
    let finger = ["1f"; 32].join(":");
    let loaded = minion(&format!(
        "master: [a, 'b:99', '::1', '[::2]:98']\nmaster_port: 4606\nid: web-1\ntransport: quic\n\
         master_finger: {finger}\nacceptance_wait_time: 1\nacceptance_wait_time_max: 60\n\
         recon_default: 100\nrecon_max: 5000\nmax_message_size: 4096\nkeepalive_interval: 300\nprocess_count_max: 4\n\
         spool_sync: always\ngrains: {{role: web, n: [1]}}\nlog_level: quiet\n",
    ));
    let mut expected = MinionConfig::default();
    let masters = [("a", 4606), ("b", 99), ("::1", 4606), ("::2", 98)];
    expected.master = masters.map(|(host, port)| HostPort::new(host, port)).into();
    expected.master_port = 4606;
    expected.id = Some(MinionId::parse("web-1").unwrap());
    expected.transport = vec!["quic".to_owned()];
    expected.master_finger = Some(finger);
    expected.acceptance_wait = Duration::from_secs(1);
    expected.acceptance_wait_max = Duration::from_secs(60);
    expected.reconnect_first = Duration::from_millis(100);
    expected.reconnect_max = Duration::from_secs(5);
    expected.max_message_size = 4096;
    expected.keepalive_interval = Duration::from_secs(300);
    expected.process_count_max = 4;
    expected.spool_sync_always = true;
    expected.grains = vec![
        ("role".to_owned(), "web".into()),
        ("n".to_owned(), Value::List(vec![Value::Int(1)])),
    ];
    expected.logging.level = LogLevel::Quiet;
    assert_eq!(loaded, expected);
}

#[test]
fn values_with_a_meaning_of_their_own() {
    assert_eq!(minion("process_count_max: -1\n").process_count_max, 128);
    assert_eq!(
        minion("master_port: 1\n").master,
        [HostPort::new("salt", 1)]
    );
    assert_eq!(
        minion("id: ''\nmaster_finger: ''\ngrains:\n"),
        MinionConfig::default()
    );
    assert_eq!(minion("recon_default: 20000\n").reconnect_max.as_secs(), 20);
    let master = master("keep_jobs_seconds: 0\nlog_file:\npidfile:\nworker_threads:\n");
    assert_eq!(master.keep_jobs.as_secs(), 50 * 365 * 86_400);
    assert_eq!((master.logging.file, master.worker_threads), (None, None));
}

#[test]
fn paths_stand_under_the_root() {
    let loaded = master(
        "root_dir: /srv/root\nlog_file: /var/log/saline/master\npidfile: run/pid\n\
         sock_dir: /srv/root/sockets\n",
    );
    let paths = loaded.paths;
    assert_eq!(paths.root_dir, Path::new("/srv/root"));
    assert_eq!(paths.pki_dir, Path::new("/srv/root/etc/saline/pki/master"));
    assert_eq!(
        paths.cache_dir,
        Path::new("/srv/root/var/cache/saline/master")
    );
    assert_eq!(
        paths.state_dir,
        Path::new("/srv/root/var/lib/saline/master")
    );
    assert_eq!(paths.sock_dir, Path::new("/srv/root/sockets"));
    assert_eq!(
        paths.pid_file.as_deref(),
        Some(Path::new("/srv/root/run/pid"))
    );
    let log_file = loaded.logging.file;
    assert_eq!(
        log_file.as_deref(),
        Some(Path::new("/srv/root/var/log/saline/master"))
    );
    let loaded = minion("pki_dir: /keys\ncachedir: cache\nstate_dir: /state\n");
    assert_eq!(loaded.paths.pki_dir, Path::new("/keys"));
    assert_eq!(loaded.paths.cache_dir, Path::new("/cache"));
    assert_eq!(loaded.paths.state_dir, Path::new("/state"));
}

#[test]
fn later_files_count() {
    let dir = folder(&[
        (
            "minion",
            "id: main\nmaster: one\nrecon_max: 1\ngrains: {a: 1, deep: {x: 1}}\ninclude: more/*\n",
        ),
        ("minion.d/10-b.conf", "id: b\nmaster: two\n"),
        (
            "minion.d/05-a.conf",
            "id: a\nmaster: three\nrecon_max: 3\ngrains: {deep: {y: 2}}\n",
        ),
        ("minion.d/ignored.txt", "id: ignored\n"),
        ("minion.d/.hidden.conf", "id: hidden\n"),
        ("more/first", "id: included\ninclude: [../nested.conf]\n"),
        ("nested.conf", "id: nested\n"),
    ]);
    let config = MinionConfig::load(dir.path(), SCHEMES).unwrap().config;
    assert_eq!(config.id.unwrap().as_str(), "nested");
    assert_eq!(config.master, [HostPort::new("two", 4506)]);
    assert_eq!(config.reconnect_max, Duration::from_millis(200));
    let deep = Value::map([("x", Value::Int(1)), ("y", Value::Int(2))]);
    assert_eq!(config.grains[1], ("deep".to_owned(), deep));
    assert_eq!(config.grains.len(), 2);
}

#[test]
fn default_include_can_be_changed_and_switched_off() {
    for (line, port) in [
        ("", 1),
        ("default_include: other.d/*.conf\n", 2),
        ("default_include: [master.d/*.conf, other.d/*.conf]\n", 2),
        ("default_include:\n", 4506),
        ("default_include: ''\n", 4506),
    ] {
        let dir = folder(&[
            ("master", line),
            ("master.d/x.conf", "ret_port: 1\n"),
            ("other.d/x.conf", "ret_port: 2\n"),
        ]);
        let loaded = MasterConfig::load(dir.path(), SCHEMES).unwrap();
        assert_eq!(loaded.config.ret_port, port, "{line}");
    }
    // Also without a main file.
    let dir = folder(&[("master.d/x.conf", "ret_port: 1\n")]);
    assert_eq!(
        MasterConfig::load(dir.path(), SCHEMES)
            .unwrap()
            .config
            .ret_port,
        1
    );
}

#[test]
fn sections_of_transports_are_kept() {
    let dir = folder(&[
        (
            "master",
            "tcp: {ret_port: 4507, tls: yes, token: abc, servers: [n1, n2]}\nzeromq:\n  backlog: 10\nquic:\n",
        ),
        ("master.d/x.conf", "tcp: {ret_port: 4508}\n"),
    ]);
    let config = MasterConfig::load(dir.path(), SCHEMES).unwrap().config;
    assert_eq!(config.ports("tcp").0, 4508);
    let mut options = config.transport_options;
    let mut tcp = options.remove("tcp").unwrap();
    tcp.sort_by(|a, b| a.0.cmp(&b.0));
    let servers = vec!["n1".to_owned(), "n2".to_owned()];
    let expected = [
        ("servers".to_owned(), OptionValue::List(servers)),
        ("tls".to_owned(), OptionValue::Bool(true)),
        ("token".to_owned(), OptionValue::Text("abc".to_owned())),
    ];
    assert_eq!(tcp, expected);
    assert_eq!(
        options["zeromq"],
        [("backlog".to_owned(), OptionValue::Integer(10))]
    );
    assert!(options["quic"].is_empty());
}

#[test]
fn what_has_no_effect_is_named_once() {
    assert_snapshot!(master_warnings("fileserver_backend: {}\n"), @r#"DIR/master:1:1: option "fileserver_backend" of Salt is not supported, and has no effect"#);
    assert_snapshot!(master_warnings("interface: 127.0.0.1\nfileserver_backend: {}\npillar_cache: true\nhash_type: md5\n"), @"DIR/master:2:1: 3 options of Salt are not supported, and have no effect: fileserver_backend, pillar_cache, hash_type");
    assert_snapshot!(master_warnings("process_count_max: 1\n"), @r#"DIR/master:1:1: option "process_count_max" is one of the minion, and has no effect here"#);
    assert_snapshot!(minion_warnings("job_ttl: 3\nmaster_type: failover\n"), @r#"DIR/minion:1:1: option "job_ttl" is one of the master, and has no effect here | DIR/minion:2:1: option "master_type" of Salt has no effect: the addresses in `master` are tried in their order"#);
    assert_snapshot!(master_warnings("file_roots: {prod: [/srv/prod]}\nfile_env_access: {prod: w*, prd: w*, base: w*}\n"), @r#"DIR/master:2:29: option "file_env_access" has a rule for the environment "prd", which neither file_roots nor pillar_roots has; did you mean "prod"?"#);
    assert_snapshot!(master_warnings("include: absent.d/*\n"), @r#"DIR/master:1:10: include "absent.d/*" matches no file"#);
    let dir = folder(&[("master.d/a.conf", "default_include: b/*\n")]);
    let warnings = MasterConfig::load(dir.path(), SCHEMES).unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].ends_with("a.conf:1:1: default_include has no effect in an included file"));
}

#[test]
fn what_saline_has_instead_is_named() {
    assert_snapshot!(master_warnings("keep_jobs: 24\ngather_job_timeout: 3\nfileserver_backend: {}\n"), @r#"DIR/master:1:1: option "keep_jobs" of Salt has no effect: write `keep_jobs_seconds: 86400` | DIR/master:2:1: option "gather_job_timeout" of Salt has no effect: `timeout` says how long a command waits for a minion without a sign of life | DIR/master:3:1: option "fileserver_backend" of Salt is not supported, and has no effect"#);
    assert_snapshot!(master_warnings("keep_jobs: [x]\n"), @r#"DIR/master:1:1: option "keep_jobs" of Salt has no effect: write `keep_jobs_seconds`"#);
}

#[test]
fn sizes_and_times_may_have_units() {
    let text = "job_store_size: 10G\nkeep_jobs_seconds: 1d\ntimeout: 0.5m\nmax_message_size: 64 MiB\njob_ttl: '90'\n";
    let config = MasterConfig::load(folder(&[("master", text)]).path(), SCHEMES)
        .unwrap()
        .config;
    assert_eq!(config.job_store_size, JobStoreSize::Bytes(10 << 30));
    assert_eq!(config.max_message_size, 64 << 20);
    let times = [config.keep_jobs, config.timeout, config.job_ttl];
    assert_eq!(times.map(|time| time.as_secs()), [86_400, 30, 90]);
    let text = "recon_max: 5s\nrecon_default: 500\n";
    let config = MinionConfig::load(folder(&[("minion", text)]).path(), SCHEMES)
        .unwrap()
        .config;
    let times = [config.reconnect_max, config.reconnect_first];
    assert_eq!(times.map(|time| time.as_millis()), [5_000, 500]);
}

#[test]
fn an_option_that_restricts_keeps_a_daemon_from_starting() {
    assert_snapshot!(minion_restrictions("user: nobody-of-this-name\n"), @r#"DIR/minion:1:1: option "user" of Salt restricts what the minion does, and Saline does not have it: remove it, or start the daemon as that user"#);
    assert_eq!(master_restrictions("user: nobody-of-this-name\n"), "");
    assert_snapshot!(master_restrictions("timeout: 3\ndisable_modules:\n  - test\nautosign_grains_dir: /x\n"), @r#"DIR/master:2:1: option "disable_modules" of Salt restricts what the master does, and Saline does not have it: remove it, or set it to an empty value if you can do without it; DIR/master:4:1: option "autosign_grains_dir" of Salt restricts what the master does, and Saline does not have it: remove it, or accept by other means: a grain is what a minion says of itself, so whoever knows its value would be accepted; `saline-key --make-token` makes tokens that do what it is for, and `autosign_file` accepts by ids"#);
    assert_snapshot!(master_restrictions("verify_master_pubkey_sign: True\n"), @r#"DIR/master:1:1: option "verify_master_pubkey_sign" of Salt restricts what the master does, and Saline does not have it: remove it, or set it to False: every message is authenticated without it"#);
    for off in [
        "client_acl_verify: False\n",
        "disable_modules: []\n",
        "master_sign_pubkey: False\n",
    ] {
        assert_eq!(master_restrictions(off), "", "{off}");
        assert!(!master_warnings(off).is_empty(), "{off}");
    }
    let name = std::fs::read_to_string("/etc/passwd").unwrap();
    let uid = rustix::process::geteuid().as_raw().to_string();
    let own = name
        .lines()
        .find(|line| line.split(':').nth(2) == Some(&uid))
        .unwrap();
    let own = own.split(':').next().unwrap();
    let own = format!("user: {own}\n");
    assert_eq!(minion_restrictions(&own), "", "it is in effect");
    for off in ["user:\n", "user: ''\n"] {
        assert_eq!(minion_restrictions(off), "", "{off}");
    }
}

#[test]
fn every_option_is_told_with_its_value_or_its_default() {
    let dir = folder(&[(
        "master",
        "timeout: 7\ntcp: {nodelay: False}\nfileserver_backend: {}\n",
    )]);
    let options = MasterConfig::load(dir.path(), SCHEMES).unwrap().options;
    assert_eq!(options.get("timeout"), Some(&Value::Int(7)));
    assert_eq!(options.get("ret_port"), Some(&Value::Int(4506)));
    assert_eq!(options.get("pidfile"), Some(&Value::Null));
    assert_eq!(options.get("fileserver_backend"), None);
    for option in MasterConfig::OPTIONS {
        assert!(options.get(option.name).is_some(), "{}", option.name);
    }
}

#[test]
fn ssl_names_files_that_are_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, name).unwrap();
        path.display().to_string()
    };
    let text = format!(
        "ssl:\n  certfile: {}\n  keyfile: {}\n  ca_certs: {}\n  cert_reqs: CERT_REQUIRED\n",
        file("chain"),
        file("key"),
        file("authorities")
    );
    std::fs::write(folder.path().join("master"), &text).unwrap();
    let key = folder.path().join("key");
    let load = |mode| {
        std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        MasterConfig::load(folder.path(), &[]).unwrap()
    };
    for mode in [0o644, 0o640] {
        let warnings = load(mode).warnings;
        let warning = warnings.concat();
        assert_eq!(warnings.len(), 1, "{warning}");
        assert!(
            warning.contains("master:3:12: option \"ssl:keyfile\"")
                && warning.contains("chmod 600"),
            "{warning}"
        );
    }
    assert_eq!(load(0o400).warnings, [""; 0]);
    let config = load(0o600).config;
    let expected = Tls::new()
        .with_certificate(b"chain", b"key")
        .with_authorities(b"authorities", VerifyPeer::Required);
    assert_eq!(config.tls, Some(expected));

    for (text, complaint) in [
        (
            "ssl: {certfile: /nope/chain, keyfile: /nope/key}",
            "names /nope/chain",
        ),
        ("ssl: {cert_reqs: CERT_REQUIRED}", "needs ca_certs"),
        ("ssl: {cert_reqs: maybe}", "CERT_OPTIONAL"),
        ("ssl: {certfiel: x}", "known are: certfile"),
        ("ssl: 5", "takes a mapping"),
    ] {
        std::fs::write(folder.path().join("master"), text).unwrap();
        let error = MasterConfig::load(folder.path(), &[])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(complaint) && error.contains("master:1:"),
            "{error}"
        );
    }
}

#[test]
fn what_every_user_can_change_is_no_configuration_of_root() {
    let dir = folder(&[
        ("master", "ret_port: 1\n"),
        ("master.d/a.conf", "ret_port: 2\n"),
    ]);
    let is_root = std::fs::metadata(dir.path()).unwrap().uid() == 0;
    for (name, usual) in [
        ("", 0o700),
        ("master", 0o644),
        ("master.d", 0o755),
        ("master.d/a.conf", 0o644),
    ] {
        let path = dir.path().join(name);
        let set_mode =
            |mode| std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        set_mode(usual | 0o022);
        let told = match MasterConfig::load(dir.path(), SCHEMES) {
            Ok(loaded) => {
                assert!(!is_root, "{name:?} was obeyed");
                loaded.warnings.concat()
            }
            Err(error) => error.to_string(),
        };
        let shown = path.display().to_string();
        let shown = shown.trim_end_matches('/');
        assert!(
            told.contains(shown) && told.contains("chmod o-w") && !told.contains('\n'),
            "{told}"
        );
        // A group that the operator chose may write.
        set_mode(usual | 0o020);
        let loaded = MasterConfig::load(dir.path(), SCHEMES).unwrap();
        assert_eq!(loaded.warnings, [""; 0]);
        assert_eq!(loaded.config.ret_port, 2);
        set_mode(usual);
    }
}

#[test]
fn what_belongs_to_another_user_is_told() {
    let dir = folder(&[("master", "ret_port: 1\n")]);
    let path = dir.path().join("master");
    if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
        // Only root gives files away.
        return;
    }
    let warnings = MasterConfig::load(dir.path(), SCHEMES).unwrap().warnings;
    let warning = warnings.concat();
    assert_eq!(warnings.len(), 1, "{warning}");
    assert!(
        warning.contains("12345") && warning.contains("chown"),
        "{warning}"
    );
}

#[test]
fn each_transport_has_ports_of_its_own() {
    let loaded = master(
        "transport: [zeromq, tcp, quic]\nret_port: 5006\ntcp: {ret_port: 4507, backlog: 9}\nquic:\n  publish_port: '0'\n",
    );
    assert_eq!(loaded.ports("zeromq"), (5006, 4505));
    assert_eq!(loaded.ports("tcp"), (4507, 4505));
    assert_eq!(loaded.ports("quic"), (5006, 0));
    let tcp = &loaded.transport_options["tcp"];
    assert_eq!(tcp, &[("backlog".to_owned(), OptionValue::Integer(9))]);

    let loaded = minion("master: [a, 'b:99']\nmaster_port: 4606\ntcp: {master_port: 4507}\n");
    let at = |port_a, port_b| vec![HostPort::new("a", port_a), HostPort::new("b", port_b)];
    assert_eq!(loaded.masters("zeromq"), at(4606, 99));
    assert_eq!(loaded.masters("tcp"), at(4507, 4507));

    let dir = folder(&[("master", "tcp: {ret_port: 70000}\n")]);
    let error = MasterConfig::load(dir.path(), SCHEMES).unwrap_err();
    let said = "option \"tcp:ret_port\" takes a port from 0 (any free one) to 65535, not 70000";
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
fn the_log_has_a_level_and_a_format_of_its_own_in_a_file() {
    let text = "log_level: error\nlog_level_logfile: debug\nlog_fmt_console: json\n";
    let console = master(text).logging;
    assert_eq!(console.effective_level(), LogLevel::Error);
    assert_eq!(console.format(), &LogFormat::Json);
    let file = master(&format!("{text}log_file: /x\n")).logging;
    assert_eq!(file.effective_level(), LogLevel::Debug);
    assert_eq!(file.format(), &LogFormat::Text);
}

#[test]
fn rules_that_are_wrong_are_refused_with_their_place() {
    let refused = |options: &str| {
        let dir = folder(&[("master", options)]);
        let error = MasterConfig::load(dir.path(), SCHEMES).unwrap_err();
        let text = error.to_string();
        text[text.find("master:").unwrap()..].to_owned()
    };
    assert_snapshot!(refused("publisher_acl: [fred]\n"), @r#"master:1:16: option "publisher_acl" takes a mapping of names to lists of rules, not a list"#);
    assert_snapshot!(refused("publisher_acl:\n  fred:\n    - 'test.(ping'\n"), @r#"master:3:7: option "publisher_acl" has "test.(ping", which is not a valid pattern of names: not a regular expression: unclosed group"#);
    assert_snapshot!(refused("publisher_acl:\n  fred:\n    - 'web[*':\n      - test.ping\n"), @r#"master:3:7: option "publisher_acl" names minions "web[*": not a glob: unclosed character class; missing ']'"#);
    assert_snapshot!(refused("publisher_acl:\n  fred:\n    - '@runners'\n"), @r#"master:3:7: option "publisher_acl" does not know "@runners": there are @all, @events, @jobs, @runner and @wheel"#);
    assert_snapshot!(refused("operators:\n  alice:\n    - '@wheel': [key.accept]\n"), @r#"master:3:7: option "operators" has a list of functions below "@wheel", which takes none: write '@wheel' alone, as a rule"#);
    assert_snapshot!(refused("publisher_acl:\n  fr*d: [test.ping]\n"), @r#"master:2:3: option "publisher_acl" names "fr*d", which is neither a name nor `*` for everybody else"#);
    assert_snapshot!(refused("publisher_acl:\n  fred:\n    - pkg.install:\n        arg: [a]\n"), @r#"master:4:9: option "publisher_acl" takes `args` (a list) and `kwargs` (a mapping) of a function, not "arg""#);
    assert_snapshot!(refused("publisher_acl:\n  fred:\n    - web*:\n      - pkg.install:\n          args: ['(']\n"), @r#"master:5:18: option "publisher_acl" has "(", which is not a valid regular expression: not a regular expression: unclosed group"#);
    assert_snapshot!(refused("publisher_acl_blacklist:\n  groups: [a]\n"), @r#"master:2:3: option "publisher_acl_blacklist" takes a mapping with `users` and `modules`, which are lists of patterns"#);
    assert_snapshot!(refused("operators:\n  ops%: [test.ping]\n"), @r#"master:2:3: option "operators" names "ops%": this option takes no groups"#);
}

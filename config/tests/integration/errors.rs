//! Every error is one line that says where, what, and what is taken instead.

use std::path::Path;

use crate::folder::{SCHEMES, folder, master_error, minion_error};
use insta::assert_snapshot;
use proptest::prelude::*;
use saline_config::{ConfigError, MasterConfig, MinionConfig};

fn error(text: &str) -> String {
    master_error(&[("master", text)])
}

#[test]
fn folders_and_files() {
    let loaded = MasterConfig::load(Path::new("/nonexistent/saline"), SCHEMES);
    assert_snapshot!(loaded.unwrap_err(), @"there is no configuration folder /nonexistent/saline; -c DIR names another");
    let dir = folder(&[("file", "")]);
    let loaded = MinionConfig::load(&dir.path().join("file"), SCHEMES);
    assert!(matches!(loaded, Err(ConfigError::NoFolder { .. })));
    assert_snapshot!(master_error(&[("master/x", "")]), @"cannot read DIR/master: Is a directory (os error 21)");
    assert_snapshot!(master_error(&[("master.d/x.conf/y", "")]), @"cannot read DIR/master.d/x.conf: Is a directory (os error 21)");
    assert_snapshot!(master_error(&[("master", "a: 1\n"), ("master.d/x.conf", "")]), @r#"DIR/master:1:1: unknown option "a""#);
    assert_snapshot!(master_error(&[("master.d/x.conf", "ret_port: 1\nret_prot: 2\n")]), @r#"DIR/master.d/x.conf:2:1: unknown option "ret_prot"; did you mean "ret_port"?"#);
}

#[test]
fn names() {
    assert_snapshot!(error("interfce: ::\n"), @"DIR/master:1:12: mapping values are not allowed in this context (text with a colon before a space needs quotes)");
    assert_snapshot!(error("# a comment\n\n  zeromp: {a: 1}\n"), @r#"DIR/master:3:3: unknown option "zeromp"; did you mean "zeromq"?"#);
    assert_snapshot!(error("completely_different: 1\n"), @r#"DIR/master:1:1: unknown option "completely_different""#);
    assert_snapshot!(error("ret-port: 1\n"), @r#"DIR/master:1:1: unknown option "ret-port"; did you mean "ret_port"?"#);
    assert_snapshot!(error("pillar_safe_grains: [os]\n"), @r#"DIR/master:1:1: unknown option "pillar_safe_grains"; did you mean "trusted_grains"?"#);
    // The value may be a secret; its place and the names of sources are not.
    assert_snapshot!(error("ext_pillar:\n  - cmd_json: a\n  - cmd_jsn: b\n"), @r#"DIR/master:3:5: option "ext_pillar" has the source "cmd_jsn", which is unknown; did you mean "cmd_json"?"#);
    assert_snapshot!(error("ext_pillar:\n  - git: b\n"), @r#"DIR/master:2:5: option "ext_pillar" has the source "git", which is unknown: there are cmd_json and file_tree"#);
    assert_snapshot!(error("ext_pillar:\n  - file_tree: {rootdir: /srv/x}\n"), @r#"DIR/master:2:17: option "ext_pillar" has the keyword of file_tree "rootdir", which is unknown; did you mean "root_dir"?"#);
    assert_snapshot!(error("ext_pillar:\n  - cmd_json: [curl, -u, a]\n"), @r#"DIR/master:2:5: option "ext_pillar" takes a list of `cmd_json: COMMAND` and `file_tree: {root_dir: PATH}`, not the value here"#);
    assert_snapshot!(error("ext_pillar:\n  - curl -u a: b\n"), @r#"DIR/master:2:5: option "ext_pillar" takes a list of `cmd_json: COMMAND` and `file_tree: {root_dir: PATH}`, not the value here"#);
    assert_snapshot!(minion_error("mine_functions:\n  test.ping: []\n  ips: {mine_functon: network.ip_addrs}\n"), @r#"DIR/minion:3:3: option "mine_functions" is wrong: "ips" has "mine_functon"; did you mean "mine_function"?"#);
    assert_snapshot!(minion_error("mine_functions:\n  - test.ping\n  - ips\n"), @r#"DIR/minion:3:5: option "mine_functions" is wrong: "ips" is not a function: a function is MODULE.NAME, and an alias needs mine_function"#);
    assert_snapshot!(minion_error("mine_functions:\n  test.ping: {allow_tgt: 'os:x', allow_tgt_type: grian}\n"), @r#"DIR/minion:2:3: option "mine_functions" is wrong: "test.ping": allow_tgt_type is not a valid kind of target; did you mean "grain"?"#);
    assert_snapshot!(error("'': 1\n"), @r#"DIR/master:1:1: unknown option """#);
    assert_snapshot!(minion_error("master_prot: 1\n"), @r#"DIR/minion:1:1: unknown option "master_prot"; did you mean "master_port"?"#);
}

#[test]
fn syntax() {
    assert_snapshot!(error("interface: ::\nret_port: [1\n"), @"DIR/master:1:13: mapping values are not allowed in this context (text with a colon before a space needs quotes)");
    assert_snapshot!(error("ret_port: 1\nret_port: 2\n"), @r#"DIR/master:2:1: "ret_port" occurs twice, first in line 1"#);
    assert_snapshot!(error("just text\n"), @r#"DIR/master:1:1: "just text" has no colon after its name; did you mean "just: text"?"#);
    assert_snapshot!(error("- a\n- b\n"), @"DIR/master:1:1: expected options, each as `name: value`");
    assert_snapshot!(error("a: b: c\n"), @"DIR/master:1:5: mapping values are not allowed in this context (text with a colon before a space needs quotes)");
    assert_snapshot!(error("interface: !!python/name:os.system x\n"), @"DIR/master:1:36: the tag is not known: put a text that begins with ! between quotes");
    let dir = folder(&[]);
    std::fs::write(dir.path().join("master"), b"# \xc3\xa9\nid: \xff\n").unwrap();
    let error = MasterConfig::load(dir.path(), SCHEMES)
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("master:2:5: this is not UTF-8 text"),
        "{error}"
    );
}

#[test]
fn what_the_parser_does_not_say_well() {
    assert_snapshot!(error("\n# A comment.\n\tret_port: 1\n"), @"DIR/master:3:1: the line begins with a tab; YAML is indented with spaces");
    assert_snapshot!(error("\tret_port: 1\ninterface: '::'\n"), @"DIR/master:1:1: the line begins with a tab; YAML is indented with spaces");
    assert_snapshot!(error("interface: '::'\ntcp:\n  ret_port: 1\n\n\tbacklog: 3\n"), @"DIR/master:5:1: the line begins with a tab; YAML is indented with spaces");
    assert_snapshot!(error("ret_port 16999\ninterface: '::'\n"), @r#"DIR/master:1:1: "ret_port 16999" has no colon after its name; did you mean "ret_port: 16999"?"#);
    assert_snapshot!(error("# a b\ninterface: '::'\nret_port = 16999\n"), @r#"DIR/master:3:1: "ret_port = 16999" has no colon after its name; did you mean "ret_port: 16999"?"#);
    assert_snapshot!(error("ret_port 16999\n"), @r#"DIR/master:1:1: "ret_port 16999" has no colon after its name; did you mean "ret_port: 16999"?"#);
    assert_snapshot!(error(&format!("token {}\na: : b\n", "x".repeat(100))), @r#"DIR/master:1:1: no colon follows the name "token""#);
    assert_snapshot!(error("nodegroups:\n  a: 'web* and\n  b'\n  c: : d\n"), @"DIR/master:3:3: invalid indentation in multiline quoted scalar");
}

#[test]
fn all_mistakes_are_told_at_once() {
    assert_snapshot!(error("ret_prot: 1\ntimeout: x\ntcp: 5\njob_ttl: -1\n"), @r#"4 mistakes: DIR/master:1:1: unknown option "ret_prot"; did you mean "ret_port"?; DIR/master:2:10: option "timeout" takes a number of seconds, or a time such as 90s, 15m or 1d: from 0.001 to fifty years, not the text "x"; DIR/master:3:6: section "tcp" takes a mapping of the transport's options; DIR/master:4:10: option "job_ttl" takes a number of seconds, or a time such as 90s, 15m or 1d: from 0.001 to fifty years, not -1"#);
    let many: String = (0..30).map(|number| format!("a{number}: 1\n")).collect();
    let error = error(&many);
    assert!(
        error.starts_with("30 mistakes: ") && error.ends_with("; and 10 more"),
        "{error}"
    );
}

#[test]
fn an_interface_is_given_by_its_address() {
    // Every machine has it.
    assert_snapshot!(error("interface: lo\n"), @r#"DIR/master:1:12: option "interface" takes an address to listen on, and "lo" is the name of a network interface: `ip -brief address show lo` prints its addresses"#);
}

#[test]
fn values_of_a_master() {
    assert_snapshot!(error("ret_port: 65536\n"), @r#"DIR/master:1:11: option "ret_port" takes a port from 0 (any free one) to 65535, not 65536"#);
    assert_snapshot!(error("publish_port: -1\n"), @r#"DIR/master:1:15: option "publish_port" takes a port from 0 (any free one) to 65535, not -1"#);
    assert_snapshot!(error("ret_port: abc\n"), @r#"DIR/master:1:11: option "ret_port" takes a port from 0 (any free one) to 65535, not the text "abc""#);
    assert_snapshot!(error("ret_port: 1.5\n"), @r#"DIR/master:1:11: option "ret_port" takes a port from 0 (any free one) to 65535, not 1.5"#);
    assert_snapshot!(error("ret_port:\n  - 1\n"), @r#"DIR/master:2:3: option "ret_port" takes a port from 0 (any free one) to 65535, not a list"#);
    assert_snapshot!(error("interface: 10\n"), @r#"DIR/master:1:12: option "interface" takes an address to listen on (in quotes when it looks like something else), not 10"#);
    assert_snapshot!(error("interface:\n"), @r#"DIR/master:1:10: option "interface" takes an address to listen on, not nothing"#);
    assert_snapshot!(error("interface: a b\n"), @r#"DIR/master:1:12: option "interface" takes an address to listen on, not "a b""#);
    assert_snapshot!(error("auto_accept: maybe\n"), @r#"DIR/master:1:14: option "auto_accept" takes True or False, not the text "maybe""#);
    assert_snapshot!(error("open_mode: 1\n"), @r#"DIR/master:1:12: option "open_mode" takes True or False, not 1"#);
    assert_snapshot!(error("timeout: 0\n"), @r#"DIR/master:1:10: option "timeout" takes a number of seconds, or a time such as 90s, 15m or 1d: from 0.001 to fifty years, not 0"#);
    assert_snapshot!(error("job_ttl: -5\n"), @r#"DIR/master:1:10: option "job_ttl" takes a number of seconds, or a time such as 90s, 15m or 1d: from 0.001 to fifty years, not -5"#);
    assert_snapshot!(error("heartbeat_interval: .inf\n"), @r#"DIR/master:1:21: option "heartbeat_interval" takes a number of seconds, or a time such as 90s, 15m or 1d: from 0.1 to fifty years, not inf"#);
    assert_snapshot!(error("heartbeat_interval: .nan\n"), @r#"DIR/master:1:21: option "heartbeat_interval" takes a number of seconds, or a time such as 90s, 15m or 1d: from 0.1 to fifty years, not NaN"#);
    assert_snapshot!(error("keep_jobs_seconds: 1 day\n"), @r#"DIR/master:1:20: option "keep_jobs_seconds" takes a number of seconds, or a time such as 90s, 15m or 1d: 0, or from 0.001 to fifty years, not the text "1 day""#);
    assert_snapshot!(error("keep_jobs_seconds: 99999999999\n"), @r#"DIR/master:1:20: option "keep_jobs_seconds" takes a number of seconds, or a time such as 90s, 15m or 1d: 0, or from 0.001 to fifty years, not 99999999999"#);
    assert_snapshot!(error("worker_threads: 0\n"), @r#"DIR/master:1:17: option "worker_threads" takes a number of threads from 1 to 1024, not 0"#);
    assert_snapshot!(error("max_message_size: 100\n"), @r#"DIR/master:1:19: option "max_message_size" takes bytes, from 4096 to 2147483647, not 100"#);
    assert_snapshot!(error("keepalive_interval: 0\n"), @r#"DIR/master:1:21: option "keepalive_interval" takes seconds, from 1 to 300, not 0"#);
    assert_snapshot!(error("max_message_size: 64 MB\n"), @r#"DIR/master:1:19: option "max_message_size" takes bytes, from 4096 to 2147483647 (64K, 10M and 10G are sizes too), not the text "64 MB""#);
    assert_snapshot!(error("max_minions: -1\n"), @r#"DIR/master:1:14: option "max_minions" takes a number of minions (0 means unlimited), not -1"#);
    assert_snapshot!(error("max_pending_keys: 0\n"), @r#"DIR/master:1:19: option "max_pending_keys" takes a number of keys, 1 or more, not 0"#);
    assert_snapshot!(error("log_level: loud\n"), @r#"DIR/master:1:12: option "log_level" takes a level: unknown log level "loud"; known are: quiet, critical, error, warning, info, profile, debug, trace, garbage, all"#);
    assert_snapshot!(error("log_level: no\n"), @r#"DIR/master:1:12: option "log_level" takes the name of a level (in quotes when it looks like something else), not False"#);
    assert_snapshot!(error("log_file: file:///dev/log\n"), @r#"DIR/master:1:11: option "log_file" takes a path, not a URL such as "file:///dev/log""#);
    assert_snapshot!(error("pki_dir: {}\n"), @r#"DIR/master:1:10: option "pki_dir" takes a path, not a mapping"#);
    assert_snapshot!(error("root_dir: ''\n"), @r#"DIR/master:1:11: option "root_dir" takes a path, not an empty text"#);
    assert_snapshot!(error("include: {a: b}\n"), @r#"DIR/master:1:10: option "include" takes a pattern of files, not a mapping"#);
    assert_snapshot!(error("include: '[a'\n"), @r#"DIR/master:1:10: "[a" is not a pattern of files: unclosed character class; missing ']'"#);
    assert_snapshot!(error("default_include: 5\n"), @r#"DIR/master:1:18: option "default_include" takes a pattern of files (in quotes when it looks like something else), not 5"#);
}

#[test]
fn nodegroups() {
    let refused = |groups: &str| {
        error(&format!(
            "nodegroups:\n  {}\n",
            groups.replace('\n', "\n  ")
        ))
    };
    assert_snapshot!(refused("web: 'web* and'"), @r#"DIR/master:2:3: option "nodegroups" has a wrong definition of "web": the target is malformed: expected a term after `and`"#);
    assert_snapshot!(refused("a: N@b\nb: N@a"), @r#"DIR/master:2:3: option "nodegroups" has groups that name each other in a circle: a → b → a"#);
    assert_snapshot!(refused("a: N@b"), @r#"DIR/master:2:3: option "nodegroups" has a wrong definition of "a": the master's configuration has no nodegroup "b""#);
    assert_snapshot!(refused("a: {b: c}"), @r#"DIR/master:2:3: option "nodegroups" takes a mapping of names to compound expressions, or to lists of their words; that of "a" is neither"#);
    assert_snapshot!(error("nodegroups: 3\n"), @r#"DIR/master:1:13: option "nodegroups" takes a mapping of names to compound expressions, or to lists of their words, not 3"#);
}

#[test]
fn values_of_a_minion() {
    assert_snapshot!(minion_error("master: ''\n"), @r#"DIR/minion:1:9: option "master" takes a host, host:port, or a list of them, not an empty text"#);
    assert_snapshot!(minion_error("master: []\n"), @r#"DIR/minion:1:9: option "master" takes a host, host:port, or a list of them, not an empty list"#);
    assert_snapshot!(minion_error("master:\n  - a\n  - b:0\n"), @r#"DIR/minion:3:5: option "master" takes a port from 1 to 65535 in "b:0""#);
    assert_snapshot!(minion_error("master: 'a:b'\n"), @r#"DIR/minion:1:9: option "master" takes a host or host:port, not "a:b""#);
    assert_snapshot!(minion_error("master: [a, 5]\n"), @r#"DIR/minion:1:13: option "master" takes a host, host:port, or a list of them (in quotes when it looks like something else), not 5"#);
    assert_snapshot!(minion_error("master_port: 0\n"), @r#"DIR/minion:1:14: option "master_port" takes a port from 1 to 65535, not 0"#);
    assert_snapshot!(minion_error("id: a/b\n"), @r#"DIR/minion:1:5: option "id" takes an id: minion id "a/b": an id is made of letters, digits, dots, dashes and underscores"#);
    assert_snapshot!(minion_error("id: 1234\n"), @r#"DIR/minion:1:5: option "id" takes an id (in quotes when it looks like something else), not 1234"#);
    assert_snapshot!(minion_error("master_finger: [a]\n"), @r#"DIR/minion:1:16: option "master_finger" takes a fingerprint, not a list"#);
    assert_snapshot!(minion_error("recon_default: 0\n"), @r#"DIR/minion:1:16: option "recon_default" takes a number of milliseconds, or a time such as 90s, 15m or 1d: from 1 to fifty years, not 0"#);
    assert_snapshot!(minion_error("acceptance_wait_time_max: -1\n"), @r#"DIR/minion:1:27: option "acceptance_wait_time_max" takes a number of seconds, or a time such as 90s, 15m or 1d: 0, or from 0.001 to fifty years, not -1"#);
    assert_snapshot!(minion_error("process_count_max: 0\n"), @r#"DIR/minion:1:20: option "process_count_max" takes a number of jobs from 1 to 65535, or -1 for the default, not 0"#);
    assert_snapshot!(minion_error("spool_sync: sometimes\n"), @r#"DIR/minion:1:13: option "spool_sync" takes `crash` or `always`, not the text "sometimes""#);
    assert_snapshot!(minion_error("grains: [a]\n"), @r#"DIR/minion:1:9: option "grains" takes a mapping of names to values, not a list"#);
}

#[test]
fn transports() {
    assert_snapshot!(error("transport: zermq\n"), @r#"DIR/master:1:12: option "transport" names no transport: "zermq"; did you mean "zeromq"? known are: quic, tcp, zeromq"#);
    assert_snapshot!(error("transport:\n  - tcp\n  - websocket\n"), @r#"DIR/master:3:5: option "transport" names no transport: "websocket"; known are: quic, tcp, zeromq"#);
    assert_snapshot!(error("transport: [tcp, tcp]\n"), @r#"DIR/master:1:12: option "transport" names "tcp" twice"#);
    assert_snapshot!(error("transport: []\n"), @r#"DIR/master:1:12: option "transport" takes the name of a transport or a list of them, not an empty list"#);
    assert_snapshot!(error("ipc_transport: ipc\n"), @r#"DIR/master:1:16: option "ipc_transport" names no transport: "ipc"; known are: quic, tcp, zeromq"#);
    assert_snapshot!(error("tcp: 5\n"), @r#"DIR/master:1:6: section "tcp" takes a mapping of the transport's options"#);
    assert_snapshot!(error("tcp: {backlog: -1}\n"), @r#"DIR/master:1:16: option "backlog" of "tcp" takes True or False, a whole number from 0, text, or a list of texts"#);
    assert_snapshot!(error("tcp: {ret_port: -1}\n"), @r#"DIR/master:1:17: option "tcp:ret_port" takes a port from 0 (any free one) to 65535, not -1"#);
    assert_snapshot!(error("tcp: {token: [hunter2, 1]}\n"), @r#"DIR/master:1:14: option "token" of "tcp" takes True or False, a whole number from 0, text, or a list of texts"#);
}

#[test]
fn includes() {
    let circle = [
        ("master", "include: a.conf\n"),
        ("a.conf", "include: master\n"),
    ];
    assert_snapshot!(master_error(&circle), @"DIR/a.conf:1:10: include of DIR/master goes round in a circle");
    assert_snapshot!(master_error(&[("master", "include: master\n")]), @"DIR/master:1:10: include of DIR/master goes round in a circle");
    // Each file includes the next one twice.
    let mut files = vec![("master".to_owned(), "include: f0\n".to_owned())];
    for i in 0..40 {
        files.push((format!("f{i}"), format!("include: [f{0}, ./f{0}]\n", i + 1)));
    }
    let files: Vec<_> = files
        .iter()
        .map(|(n, t)| (n.as_str(), t.as_str()))
        .collect();
    let error = master_error(&files);
    assert!(
        error.contains("more than 1000 files are included"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn any_bytes_of_a_file_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let dir = folder(&[]);
        std::fs::write(dir.path().join("master"), bytes).unwrap();
        if let Err(error) = MasterConfig::load(dir.path(), SCHEMES) {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn any_value_of_any_option_is_read_or_refused(
        option in 0..MinionConfig::OPTIONS.len(),
        value in prop_oneof!["\\PC{0,20}", "-?[0-9.]{1,30}", "\\[[a-z0-9:, ]*\\]"],
    ) {
        let name = MinionConfig::OPTIONS[option].name;
        // Patterns may name files outside of the test.
        prop_assume!(!name.contains("include"));
        let dir = folder(&[("minion", &format!("{name}: {value}\n"))]);
        if let Err(error) = MinionConfig::load(dir.path(), SCHEMES) {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
            prop_assert!(error.to_string().starts_with(&*dir.path().to_string_lossy()), "{error}");
        }
    }
}

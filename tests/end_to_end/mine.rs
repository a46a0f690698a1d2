//! What minions leave with the master for each other.

use std::fs;
use std::path::Path;
use std::process::Command;

use saline_testing::{CommandOutput, Fleet};
use serde_json::{Value, json};

/// What the log of a minion says when the pillar is there.
const PILLAR: &str = "the master has sent the pillar";

/// Calls a function of a minion, and returns what it returned.
fn call(fleet: &Fleet, id: &str, arguments: &[&str], code: i32) -> Value {
    let all = [&[id], arguments, &["--out", "json"]].concat();
    let said = fleet.saline(&all).expect(code);
    let mut json: Value = serde_json::from_str(&said.stdout).unwrap();
    json[id].take()
}

fn runner(fleet: &Fleet, arguments: &[&str]) -> Value {
    let all = [arguments, &["--out", "json"]].concat();
    let said = fleet.run("saline-run", &all).expect(0);
    serde_json::from_str(&said.stdout).unwrap()
}

/// Calls with the configuration of a minion.
fn saline_call(fleet: &Fleet, id: &str, arguments: &[&str]) -> CommandOutput {
    let folder = fleet.minion_config(id);
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-call"));
    command.arg("-c").arg(folder).args(arguments);
    CommandOutput::from(command.output().unwrap())
}

/// Starts a minion, and waits until it is present.
fn start(fleet: &mut Fleet, id: &str, options: &str) {
    fleet.start_minion_with(id, options);
    fleet.minions[id].log.wait_for("subscribed", 1);
}

/// Waits until the minion has left values by itself, and checks that these are all.
fn wait_for_values(fleet: &Fleet, id: &str, expected: &Value) {
    fleet.minions[id]
        .log
        .wait_for("values of the mine were sent", 1);
    assert_eq!(runner(fleet, &["cache.mine", id])[id], *expected);
}

#[test]
fn the_example_of_the_page_is_what_minions_get() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/mine.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> = page
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').unwrap().1)
        .collect();
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    for block in &blocks {
        if let Some((path, text)) = block
            .strip_prefix("# /srv/pillar/")
            .and_then(|rest| rest.split_once('\n'))
        {
            let path = fleet.path("master/srv/pillar").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    fleet.start_master();
    for (id, address) in [("web1", "192.0.2.11"), ("web2", "192.0.2.12")] {
        let grains = format!("grains: {{address: {address}, port: 8080}}\n");
        start(&mut fleet, id, &grains);
    }
    for id in ["lb1", "db1"] {
        start(&mut fleet, id, "");
    }
    for (id, address) in [("web1", "192.0.2.11"), ("web2", "192.0.2.12")] {
        let values = json!({"test.ping": true, "address": address, "port": 8080});
        wait_for_values(&fleet, id, &values);
    }
    let mut shown = 0;
    for block in &blocks {
        let Some((line, expected)) = block
            .strip_prefix("$ ")
            .and_then(|block| block.split_once('\n'))
        else {
            continue;
        };
        let words: Vec<&str> = line
            .split(' ')
            .map(|word| word.trim_matches('\''))
            .collect();
        let said = fleet.run(words[0], &words[1..]).expect(0);
        assert_eq!(said.stdout, expected, "{line}");
        shown += 1;
    }
    assert_eq!(shown, 4);
}

#[test]
fn values_outlive_the_master_and_the_minion_and_go_with_the_key() {
    for transport in ["tcp", "quic", "zeromq"] {
        let mut fleet = Fleet::new(transport, "auto_accept: True\n");
        fleet.start_master();
        let functions = "mine_functions: {own: {mine_function: test.echo, text: of m1}}\n";
        start(&mut fleet, "m1", functions);
        start(&mut fleet, "m2", "");
        wait_for_values(&fleet, "m1", &json!({"own": "of m1"}));
        let send = ["mine.send", "sent", "mine_function=test.echo", "hello"];
        assert_eq!(call(&fleet, "m1", &send, 0), true);

        fleet.kill_master();
        fleet.start_master();
        for id in ["m1", "m2"] {
            fleet.minions[id].log.wait_for("subscribed", 2);
        }
        let get = |fleet: &Fleet| call(fleet, "m2", &["mine.get", "*", "own,sent"], 0);
        let expected = json!({"own": {"m1": "of m1"}, "sent": {"m1": "hello"}});
        assert_eq!(get(&fleet), expected);

        // A minion that starts again sends nothing: the master has it.
        let minion = fleet.minions.remove("m1");
        drop(minion);
        start(&mut fleet, "m1", functions);
        assert_eq!(call(&fleet, "m1", &["mine.update"], 0), true);
        assert_eq!(get(&fleet), expected);
        assert_eq!(
            call(
                &fleet,
                "m1",
                &["mine.get", "*", "own", "exclude_minion=True"],
                0
            ),
            json!({})
        );
        let beside = saline_call(&fleet, "m2", &["mine.get", "m1", "sent", "--out", "json"]);
        let beside: Value = serde_json::from_str(&beside.expect(0).stdout).unwrap();
        assert_eq!(beside, json!({"local": {"m1": "hello"}}));
        assert_eq!(call(&fleet, "m1", &["mine.delete", "sent"], 0), true);
        assert_eq!(get(&fleet), json!({"own": {"m1": "of m1"}}));

        // A minion that is let in again sends what has gone with its key.
        let delete = ["-y", "-d", "m1"];
        fleet.run("saline-key", &delete).expect(0);
        wait_for_values(&fleet, "m1", &json!({"own": "of m1"}));
        drop(fleet.minions.remove("m1"));
        fleet.run("saline-key", &delete).expect(0);
        assert_eq!(runner(&fleet, &["cache.mine"]), json!({}));
    }
}

#[test]
fn rules_of_the_master_and_of_the_value_decide_and_hidden_values_stay_hidden() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.master_options += "mine_get: {'m*': ['test.*', '.*'], 'x*': [nothing]}\n";
    let pillar = fleet.path("master/srv/pillar");
    fs::create_dir_all(&pillar).unwrap();
    fs::write(pillar.join("top.sls"), "base: {'m1': [a]}\n").unwrap();
    fs::write(
        pillar.join("a.sls"),
        "password: hunter2\nmine_functions:\n  hidden: {mine_function: pillar.get, key: password}\n  shown: {mine_function: pillar.get, key: password, unmask: True, allow_tgt: m2}\n  claimed: {mine_function: test.ping, allow_tgt: 'role:x', allow_tgt_type: grain}\n",
    )
    .unwrap();
    fleet.start_master();
    start(&mut fleet, "m1", "");
    fleet.minions["m1"].log.wait_for(PILLAR, 1);
    let values = json!({"hidden": "**********", "shown": "hunter2"});
    wait_for_values(&fleet, "m1", &values);
    fleet.minions["m1"]
        .log
        .wait_for("allow_tgt of claimed cannot be used", 1);
    for id in ["m2", "m3", "x1"] {
        start(&mut fleet, id, "grains: {role: x, id: m2}\n");
    }
    let get = |id| call(&fleet, id, &["mine.get", "m1", "shown,hidden,claimed"], 0);
    assert_eq!(
        get("m2"),
        json!({"hidden": {"m1": "**********"}, "shown": {"m1": "hunter2"}})
    );
    assert_eq!(get("m3"), json!({"hidden": {"m1": "**********"}}));
    let refused = call(&fleet, "x1", &["mine.get", "m1", "hidden"], 1);
    assert!(refused.as_str().unwrap().contains("mine_get"), "{refused}");
    // With the order of an operator, who sees everything.
    assert_eq!(
        runner(&fleet, &["mine.get", "*", "shown"]),
        json!({"m1": "hunter2"})
    );
    assert_eq!(
        runner(
            &fleet,
            &["cache.clear_mine_func", "m1", "clear_mine_func_flag=shown"]
        ),
        true
    );
    assert_eq!(runner(&fleet, &["mine.get", "*", "shown"]), json!({}));
    let log = fleet.master.as_ref().unwrap().log.text();
    assert!(!log.contains("hunter2"));
}

#[test]
fn options_of_the_master_are_in_the_pillar_where_it_says_so() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.master_options += "pillar_opts: [job_ttl, timeout]\njob_ttl: 77\n";
    fleet.start_master();
    start(&mut fleet, "m1", "");
    let get = |key, more: &[&str]| {
        let all = [&["config.get", key], more].concat();
        call(&fleet, "m1", &all, 0)
    };
    assert_eq!(get("job_ttl", &["unmask=True"]), 77);
    assert_eq!(get("job_ttl", &[]), "**********");
    assert_eq!(get("job_ttl", &["omit_master=True"]), "");
    assert_eq!(get("keep_jobs_seconds", &[]), "");
    let shown = call(&fleet, "m1", &["pillar.get", "master", "unmask=True"], 0);
    assert_eq!(shown, json!({"timeout": 5, "job_ttl": 77}));
}

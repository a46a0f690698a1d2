//! A job that goes on without the client that began it.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::events::Listener;
use super::http::Api;
use super::users::{fleet_with_users, log_in};

#[test]
fn a_client_that_left_finds_the_whole_result_of_its_job_by_the_jid() {
    let fleet = fleet_with_users(&["web1", "web2"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let header = format!("X-Auth-Token: {alice}");
    let mut listener = Listener::start(&api, &["-H", &header]);

    // One minion waits for the one pipe, and the other for the other.
    let folder = fleet.path("pipes");
    fs::create_dir(&folder).unwrap();
    let pipes = ["first", "second"].map(|name| folder.join(format!("{name}.pipe")));
    for pipe in &pipes {
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    let folder = folder.display();
    let line = format!(
        "if mkdir {folder}/taken; then cat {folder}/first.pipe; else cat {folder}/second.pipe; fi 2>/dev/null"
    );
    let chunk = json!({
        "client": "local", "tgt": "*", "fun": "cmd.run", "arg": [line], "kwarg": {"python_shell": true},
    });
    let mut client = begin(&api, &header, &chunk);
    let new = listener.find("/new");
    let jid = new.data["data"]["jid"].as_str().unwrap().to_owned();
    fs::write(&pipes[0], "from the first\n").unwrap();
    let returned = listener.find_any(&[&format!("/{jid}/ret/web1"), &format!("/{jid}/ret/web2")]);
    client.kill().unwrap();
    client.wait().unwrap();

    // What has returned is there at once, with whom the job is for.
    let first = returned.data["data"]["id"].as_str().unwrap();
    let job = |api: &Api| api.get(&format!("/jobs/{jid}"), &alice).expect(200);
    let partly = job(&api);
    assert_eq!(partly["return"], json!([{first: "from the first"}]));
    assert_eq!(partly["info"][0]["Minions"], json!(["web1", "web2"]));

    fs::write(&pipes[1], "from the second\n").unwrap();
    let second = if first == "web1" { "web2" } else { "web1" };
    listener.find(&format!("/{jid}/ret/{second}"));
    let whole = job(&api);
    let both = json!([{first: "from the first", second: "from the second"}]);
    assert_eq!(whole["return"], both, "{whole}");
    // Another API knows it too: what a client began is the master's.
    drop(api);
    assert_eq!(job(&Api::start(&fleet))["return"], both);
}

/// Starts a client that asks for chunks, and may go before it has the answer.
fn begin(api: &Api, header: &str, chunks: &Value) -> Child {
    let mut client = Command::new("curl");
    client.args(["-s", "--max-time", "60", "--noproxy", "*", "-H", header]);
    client.args(["-H", "Content-Type: application/json"]);
    client.args(["--data-binary", &chunks.to_string(), &api.url]);
    client.stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn the_chunks_that_are_left_when_the_client_goes_are_not_begun() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let header = format!("X-Auth-Token: {alice}");
    let mut listener = Listener::start(&api, &["-H", &header]);
    let chunks = json!([
        { "client": "local", "tgt": "web1", "fun": "cmd.run", "arg": ["sleep 60"] },
        { "client": "local", "tgt": "web1", "fun": "test.version" },
    ]);
    let mut client = begin(&api, &header, &chunks);
    let new = listener.find("/new");
    assert_eq!(new.data["data"]["fun"], "cmd.run");
    client.kill().unwrap();
    client.wait().unwrap();
    api.daemon.log.wait_for("POST /: unanswered", 1);

    // The next job is that of somebody else, also when the first has ended.
    let jid = new.data["data"]["jid"].as_str().unwrap();
    let killed = ["web1", "saltutil.kill_job", jid];
    fleet.saline(&killed).expect(0);
    let next = listener.find("/new");
    assert_eq!(next.data["data"]["fun"], "saltutil.kill_job");
    listener.find(&format!("/{jid}/ret/web1"));
    fleet.saline(&["web1", "test.ping"]).expect(0);
    let next = listener.find("/new");
    assert_eq!(next.data["data"]["fun"], "test.ping");
}

#[test]
fn the_return_of_a_run_whose_client_left_is_found_by_its_jid() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let header = format!("X-Auth-Token: {alice}");
    let mut listener = Listener::start(&api, &["-H", &header]);
    // A minion that does not answer has the run wait.
    let minion = Pid::from_raw(fleet.minions["web1"].pid().cast_signed()).unwrap();
    kill_process(minion, Signal::STOP).unwrap();
    let chunk = json!({ "client": "runner", "fun": "doc.execution", "arg": ["test.ping"] });
    let mut client = begin(&api, &header, &chunk);
    let new = listener.find("/new");
    assert!(new.tag.starts_with("salt/run/"), "{new:?}");
    let jid = new.data["data"]["jid"].as_str().unwrap().to_owned();
    client.kill().unwrap();
    client.wait().unwrap();
    let stored = format!("runner {jid}: nobody waits for it any more");
    api.daemon.log.wait_for(&stored, 1);
    kill_process(minion, Signal::CONT).unwrap();
    listener.find(&format!("salt/run/{jid}/ret"));
    let found = api.get(&format!("/jobs/{jid}"), &alice).expect(200);
    assert_eq!(found["info"][0]["Function"], "runner.doc.execution");
    let (_, returned) = found["return"][0]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    assert!(returned.is_object(), "{found}");
    // To somebody else it is refused, as a job is.
    let bob = log_in(&api, "bob");
    let refused = api.get(&format!("/jobs/{jid}"), &bob);
    assert_eq!(refused.status, 401, "{refused:?}");
    let wheel = json!({ "client": "wheel_async", "fun": "key.list_all" });
    let wheel = api.post("/", &alice, &wheel).expect(200);
    let jid = wheel["return"][0]["jid"].as_str().unwrap();
    api.get(&format!("/jobs/{jid}"), &alice).expect(200);
    let refused = api.get(&format!("/jobs/{jid}"), &bob);
    assert_eq!(refused.status, 401, "{refused:?}");

    // One that was waited for is stored nowhere, and the refusal says so.
    let waited = json!({ "client": "wheel", "fun": "key.list_all" });
    let waited = api.post("/", &alice, &waited).expect(200);
    let jid = waited["return"][0]["data"]["jid"].as_str().unwrap();
    let absent = api.get(&format!("/jobs/{jid}"), &alice);
    assert_eq!(absent.status, 404, "{absent:?}");
    assert!(absent.body.contains("somebody waited for"), "{absent:?}");
}

//! A job that goes on without the client that began it.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;

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
    let mut client = Command::new("curl");
    client.args(["-s", "--max-time", "60", "--noproxy", "*", "-H", &header]);
    client.args(["-H", "Content-Type: application/json"]);
    client.args(["--data-binary", &chunk.to_string(), &api.url]);
    let mut client = client.stdout(Stdio::null()).spawn().unwrap();
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

//! The event bus in another language: `examples/event-listener/listen.py` at a real master.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use saline_testing::Fleet;

const LISTENER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/examples/event-listener/listen.py"
);

#[test]
fn a_python_listener_prints_what_happens_to_a_job() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|said| said.status.success()) {
        println!("skipped: there is no python3 on this machine");
        return;
    }
    let mut fleet = Fleet::new("tcp", "auto_accept: True\nipc_transport: tcp\n");
    fleet.start_master();
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);

    let mut listener = Command::new("python3")
        .arg(LISTENER)
        .arg("--socket")
        .arg(fleet.path("master/run/saline/master/master_event_pull.ipc"))
        .args(["--origin", "--count", "2", "salt/job"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says so when the master has confirmed: what happens from now on is not missed.
    let mut stderr = BufReader::new(listener.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line, "listening\n");

    fleet.saline(&["web1", "test.ping"]).expect(0);
    let said = listener.wait_with_output().unwrap();
    assert!(said.status.success());
    let text = String::from_utf8(said.stdout).unwrap();
    let events: Vec<(&str, serde_json::Value, serde_json::Value)> = text
        .lines()
        .map(|line| {
            let [tag, origin, data] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else {
                panic!("a tag, an origin and data: {line}");
            };
            let json = |text| serde_json::from_str(text).unwrap();
            (tag, json(origin), json(data))
        })
        .collect();
    let [(new, ordered, job), (returned, answered, answer)] = &events[..] else {
        panic!("two events were asked for: {text}");
    };
    let jid = job["jid"].as_str().unwrap();
    assert_eq!(*new, format!("salt/job/{jid}/new"));
    assert_eq!(job["fun"], "test.ping");
    assert_eq!(job["minions"], serde_json::json!(["web1"]));
    assert!(job["_stamp"].is_string());
    assert_eq!(*returned, format!("salt/job/{jid}/ret/web1"));
    assert_eq!(answer["return"], true);
    assert_eq!(
        *ordered,
        serde_json::json!({"kind": "operator", "id": "root"})
    );
    assert_eq!(
        *answered,
        serde_json::json!({"kind": "minion", "id": "web1"})
    );
}

//! salt-pepper, a client that was written for Salt's API. It is installed from PyPI for this test; where that cannot be, the test
//! says so.

use std::path::Path;
use std::process::{Command, Output};

use saline_testing::Fleet;
use serde_json::{Value, json};

use super::http::Api;
use super::users::fleet_with_users;

/// Installs pepper into a folder of the fleet. Returns whether it is there.
fn install(fleet: &Fleet) -> bool {
    let installed = Command::new("python3")
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ])
        .args(["--timeout", "10", "--retries", "0", "--target"])
        .arg(fleet.path("pepper"))
        .arg("salt-pepper==0.7.6")
        .output();
    match installed {
        Ok(output) if output.status.success() => true,
        other => {
            eprintln!("SKIPPED: salt-pepper cannot be installed by pip: {other:?}");
            false
        }
    }
}

fn pepper(folder: &Path, api: &Api, arguments: &[&str]) -> Output {
    let credentials = ["-a", "auto", "--username", "alice", "--password", "any"];
    let mut pepper = Command::new("python3");
    pepper
        .args(["-c", "from pepper.script import Pepper; Pepper()()"])
        .env("PYTHONPATH", folder)
        .env("HOME", folder)
        .env("NO_PROXY", "*")
        .args(["-u", &api.url])
        .args(credentials)
        .args(arguments);
    pepper.output().unwrap()
}

#[test]
fn pepper_asks_each_client() {
    let fleet = fleet_with_users(&["web1", "web2"]);
    if !install(&fleet) {
        return;
    }
    let api = Api::start(&fleet);
    let folder = fleet.path("pepper");
    let said = |arguments: &[&str]| -> Value {
        let output = pepper(&folder, &api, arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    let ping = said(&["*", "test.ping"]);
    assert_eq!(ping["return"][0]["web1"]["ret"], true, "{ping}");
    let list = said(&["-L", "web1,web2", "test.ping"]);
    assert_eq!(list["return"][0].as_object().unwrap().len(), 2, "{list}");
    let begun = said(&["--client", "local_async", "*", "test.ping"]);
    assert_eq!(
        begun["return"][0]["minions"],
        json!(["web1", "web2"]),
        "{begun}"
    );
    let batch = said(&["--batch", "1", "*", "test.ping"]);
    assert_eq!(batch["return"].as_array().unwrap().len(), 2, "{batch}");
    let up = said(&["--client", "runner", "manage.up"]);
    assert_eq!(
        up["return"][0]["data"]["return"],
        json!(["web1", "web2"]),
        "{up}"
    );
    let keys = said(&["--client", "wheel", "key.list_all"]);
    assert_eq!(
        keys["return"][0]["data"]["return"]["minions"],
        json!(["web1", "web2"]),
        "{keys}"
    );
}

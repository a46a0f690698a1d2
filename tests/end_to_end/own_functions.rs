//! Functions of the operator's own: executables in `module_dirs` of a minion.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use saline_testing::Fleet;

#[test]
fn an_executable_answers_through_the_master_and_is_listed_and_documented() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    let folder = fleet.path("modules");
    fs::create_dir(&folder).unwrap();
    let script = concat!(
        "#!/bin/sh\n",
        "if [ \"$1\" = --describe ]; then\n",
        "    printf '%s' '{\"functions\": {\"who\": {\"documentation\": \"Says who asks.\", \"parameters\": [{\"name\": \"name\"}]}}}'\n",
        "    exit\n",
        "fi\n",
        "cat\n",
    );
    let path = folder.join("greeter");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    fleet.start_master();
    let options = format!("module_dirs: [{}]\n", folder.display());
    fleet.start_minion_with("m1", &options);
    fleet.minions["m1"].log.wait_for("subscribed", 1);

    let said = fleet
        .saline(&["m1", "greeter.who", "anna", "--out", "json"])
        .expect(0);
    let said: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(said["m1"]["kwargs"], serde_json::json!({"name": "anna"}));
    let doc = fleet.saline(&["m1", "-d", "greeter"]).expect(0);
    assert_eq!(doc.stdout, "greeter.who:\n\n    Says who asks.\n\n");
    let many = fleet.saline(&["m1", "greeter.who", "a", "b"]).expect(1);
    assert!(
        many.stdout
            .contains("Passed invalid arguments to greeter.who"),
        "{}",
        many.stdout
    );
}

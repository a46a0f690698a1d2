//! `saline-run manage.*`: the minions that are present, and those that are not.

use rustix::process::Signal;
use saline_testing::Fleet;

saline_testing::over_each_transport!(minions_are_up_while_they_speak);

fn minions_are_up_while_they_speak(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1", "m2", "m3"]);
    let manage = |fleet: &Fleet, function: &str, out: &str| {
        let function = format!("manage.{function}");
        let said = fleet.run("saline-run", &[&function, "--out", out]);
        let said = said.expect(0);
        assert_eq!(said.stderr, "");
        said.stdout
    };
    let all = "down:\nup:\n    - m1\n    - m2\n    - m3\n";
    assert_eq!(manage(&fleet, "status", "nested"), all);
    assert_eq!(manage(&fleet, "down", "json"), "[]\n");

    // One says goodbye, and another one falls silent.
    assert_eq!(fleet.minions.get_mut("m2").unwrap().terminate(), Some(0));
    fleet.master().log.wait_for("minion m2 says goodbye", 1);
    fleet.minions["m3"].signal(Signal::STOP);
    fleet.master().log.wait_for("minion gone: m3", 1);
    let some = "down:\n    - m2\n    - m3\nup:\n    - m1\n";
    assert_eq!(manage(&fleet, "status", "nested"), some);
    assert_eq!(
        manage(&fleet, "status", "raw"),
        "{'up': ['m1'], 'down': ['m2', 'm3']}\n"
    );
    let json: serde_json::Value = serde_json::from_str(&manage(&fleet, "status", "json")).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"up": ["m1"], "down": ["m2", "m3"]})
    );
    for up in ["up", "present", "alived"] {
        assert_eq!(manage(&fleet, up, "nested"), "- m1\n", "{up}");
    }
    for down in ["down", "not_alived"] {
        assert_eq!(manage(&fleet, down, "nested"), "- m2\n- m3\n", "{down}");
    }
    fleet.run("saline-key", &["-y", "-d", "m2"]).expect(0);
    assert_eq!(manage(&fleet, "down", "raw"), "['m3']\n");

    fleet.minions["m3"].signal(Signal::CONT);
    fleet.master().log.wait_for("minion m3 is back", 1);
    assert_eq!(manage(&fleet, "up", "raw"), "['m1', 'm3']\n");
}

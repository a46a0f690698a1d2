//! Orders of functions that minions do not know: the master refuses those that no minion can run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use saline_testing::{CommandOutput, Fleet};

/// The exit code of an order that the master does not take.
const REFUSED: i32 = 1;

/// Writes an executable with a function `word`, which returns the name of the executable.
fn write_module(folder: &Path, name: &str) {
    fs::create_dir_all(folder).unwrap();
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --describe ]; then\n    printf '%s' '{{\"functions\": {{\"word\": {{}}}}}}'\n    exit\nfi\n\
         printf '\"%s\"' {name}\n"
    );
    let path = folder.join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Has all minions report their functions: the function returns when the master knows them.
fn report(fleet: &Fleet) {
    fleet.saline(&["*", "saltutil.sync_modules"]).expect(0);
}

fn jobs(fleet: &Fleet) -> usize {
    let listed = fleet.run("saline-run", &["jobs.list_jobs", "--out", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.expect(0).stdout).unwrap();
    listed.as_object().unwrap().len()
}

fn refused(said: CommandOutput) -> String {
    let said = said.expect(REFUSED);
    assert_eq!(said.stdout, "");
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    said.stderr
}

#[test]
fn a_function_that_no_minion_can_know_is_refused_once_and_starts_no_job() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    let folder = fleet.path("modules");
    write_module(&folder, "speaker");
    fs::create_dir_all(fleet.path("master/srv/saline")).unwrap();
    fleet.start_master();
    fleet.start_minion_with("m1", &format!("module_dirs: [{}]\n", folder.display()));
    fleet.start_minion("m2");
    for id in ["m1", "m2"] {
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    report(&fleet);
    let before = jobs(&fleet);

    let said = refused(fleet.saline(&["*", "test.pnig"]));
    assert_eq!(
        said,
        "ERROR: 'test.pnig' is not available on any of the 2 minions: did you mean test.ping?\n"
    );
    let said = refused(fleet.saline(&["m2", "speaker.word"]));
    assert!(
        said.starts_with(
            "ERROR: 'speaker.word' is not available on m2: known are the modules beacons, cmd, "
        ),
        "{said}"
    );
    let said = refused(fleet.saline(&["*", "test.ping,test.sleeep", ",", "1"]));
    assert!(
        said.contains("'test.sleeep' is not available") && !said.contains("'test.ping'"),
        "{said}"
    );
    let said = refused(fleet.saline(&["*", "test.pnig", "--ttl", "1h"]));
    assert!(said.contains("did you mean test.ping?"), "{said}");
    assert_eq!(jobs(&fleet), before, "no job was made");

    // One of them knows it, and the other tells that it does not.
    let said = fleet.saline(&["*", "speaker.word"]).expect(1);
    assert!(
        said.stdout.contains("m1:\n    speaker\n"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout
            .contains("'speaker.word' is not available: this minion has the modules"),
        "{}",
        said.stdout
    );
    // An operator may put a module into the folder at any time, so that m1 is always asked.
    fleet.saline(&["m1", "later.word"]).expect(1);
    write_module(&folder, "later");
    let said = fleet.saline(&["m1", "later.word"]).expect(0);
    assert!(said.stdout.contains("later"), "{}", said.stdout);
    assert_eq!(jobs(&fleet), before + 3);

    // A minion that is away may be of another version when it gets the job.
    fleet.minions.remove("m2").unwrap().terminate();
    let waiting = fleet.saline(&["m2", "test.pnig", "--ttl", "1h", "--async"]);
    waiting.expect(0);
}

#[test]
fn completion_knows_the_functions_that_minions_reported() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    let folder = fleet.path("modules");
    write_module(&folder, "speaker");
    fleet.start_master();
    fleet.start_minion_with("m1", &format!("module_dirs: [{}]\n", folder.display()));
    let config = fleet.config().display().to_string();
    let asked = ["--complete", "4", "saline", "-c", &config, "*", "spe"];
    // The master writes the names within a second.
    let program = fleet.command("saline", &[]).get_program().to_owned();
    let completed = (0..10_000).find_map(|_| {
        let said = Command::new(&program).args(asked).output().unwrap().stdout;
        (!said.is_empty()).then(|| String::from_utf8(said).unwrap())
    });
    assert_eq!(completed.as_deref(), Some("speaker.word\n"));
}

#[test]
fn a_module_of_the_master_can_be_called_as_soon_as_its_sync_has_returned() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let folder = fleet.path("master/srv/saline/_modules");
    fs::create_dir_all(&folder).unwrap();
    report(&fleet);
    for name in ["first", "second", "third", "fourth"] {
        let function = format!("{name}.word");
        refused(fleet.saline(&["m1", &function]));
        write_module(&folder, name);
        fleet.run("saline-run", &["fileserver.update"]).expect(0);
        report(&fleet);
        let said = fleet.saline(&["m1", &function]).expect(0);
        assert!(said.stdout.contains(name), "{}", said.stdout);
    }
    fs::remove_file(folder.join("second")).unwrap();
    fleet.run("saline-run", &["fileserver.update"]).expect(0);
    report(&fleet);
    refused(fleet.saline(&["m1", "second.word"]));
    fleet.saline(&["m1", "third.word"]).expect(0);
}

//! The option `schedule`.

use saline_config::{MasterConfig, MinionConfig};

use crate::folder::{SCHEMES, folder, minion, minion_error};

#[test]
fn mistakes_are_told_with_their_place_and_the_nearest_keyword() {
    for (text, error) in [
        (
            "schedule:\n  a:\n    function: test.ping\n    secnds: 5\n",
            r#"DIR/minion:4:5: job "a" of the schedule: unknown keyword "secnds"; did you mean "seconds"?"#,
        ),
        (
            "schedule:\n  a:\n    function: test.ping\n",
            r#"DIR/minion:2:3: job "a" of the schedule: a job needs a time: seconds, minutes, hours, days, cron, when or once"#,
        ),
        (
            "schedule:\n  a: {function: test.ping, cron: '* *'}\n",
            r#"DIR/minion:2:28: job "a" of the schedule: "* *" is not a line of cron: it has 2 fields, and such a line has five"#,
        ),
        (
            "schedule: [a]\n",
            r#"DIR/minion:1:11: option "schedule" takes a mapping of names to jobs, not a list"#,
        ),
        (
            "schedule_missed: run\n",
            r#"DIR/minion:1:18: option "schedule_missed" takes `skip` or `run_once`, not the text "run""#,
        ),
    ] {
        assert_eq!(minion_error(text), error);
    }
}

#[test]
fn jobs_of_later_files_are_added_and_take_the_place_of_others() {
    let dir = folder(&[
        (
            "minion",
            "schedule: {a: {function: test.ping, seconds: 1}, b: {function: test.ping, seconds: 1}}\n",
        ),
        (
            "minion.d/x.conf",
            "schedule: {b: {function: test.version, seconds: 1}, c: {function: test.ping, seconds: 1}}\n",
        ),
    ]);
    let loaded = MinionConfig::load(dir.path(), SCHEMES).unwrap();
    let jobs = loaded.config.schedule.jobs;
    let jobs: Vec<_> = jobs
        .iter()
        .map(|(name, job)| (name.as_str(), job.function.as_str()))
        .collect();
    assert_eq!(
        jobs,
        [
            ("a", "test.ping"),
            ("b", "test.version"),
            ("c", "test.ping")
        ]
    );
}

/// The examples of the page about schedules are configuration files.
#[test]
fn the_examples_of_the_documentation_are_read() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/schedules.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert_eq!(blocks.len(), 2);
    let jobs = minion(blocks[0]).schedule.jobs;
    assert_eq!(
        jobs.iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        ["disk", "backup", "report"]
    );
    let master = folder(&[("master", blocks[1])]);
    let master = MasterConfig::load(master.path(), SCHEMES).unwrap();
    assert_eq!(master.config.schedule.jobs[0].0, "backup");
    // Every keyword is in the table, and no other.
    let table: std::collections::BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .take_while(|line| !line.contains("schedule_missed"))
        .flat_map(|line| {
            line.split('|')
                .nth(1)
                .unwrap()
                .split('`')
                .skip(1)
                .step_by(2)
        })
        .filter(|word| !["skip", "run_once"].contains(word))
        .collect();
    assert_eq!(table, saline_schedule::KEYWORDS.into_iter().collect());
}

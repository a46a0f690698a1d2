//! The benchmarks run: every transport is measured beside its bare library, and the results are
//! printed.

use std::process::{Command, Output};

use serde_json::Value;

#[test]
fn targets_are_resolved_and_measured() {
    let out = bench(&["targets", "--minions", "200", "--repeat", "3"]);
    assert!(out.status.success(), "{out:?}");
    let said = String::from_utf8(out.stdout).unwrap();
    // Of 200 minions a third has Debian; web and db and cache are three quarters of those.
    assert!(said.contains("200 minions"), "{said}");
    assert!(said.contains("50   glob: web*"), "{said}");
    assert!(said.contains("67   grain: os:Deb*"), "{said}");
    let out = bench(&[
        "targets",
        "--minions",
        "200",
        "--repeat",
        "1",
        "--limit",
        "0",
    ]);
    assert!(!out.status.success(), "{out:?}");
}

#[test]
fn searches_of_the_job_store_are_measured() {
    let small = [
        "runners",
        "--returns",
        "400",
        "--minions",
        "2",
        "--repeat",
        "2",
    ];
    let out = bench(&small);
    assert!(out.status.success(), "{out:?}");
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.contains("200 jobs with 400 returns"), "{said}");
    // Every tenth job calls it, and one of twenty has a ticket of its own.
    for line in [
        "20   jobs.list_jobs search_function=test.version",
        "0   jobs.list_jobs search_function=*.nothing",
        "1   jobs.list_jobs search_metadata='{ticket: 100}'",
        "1   jobs.list_jobs start_time=",
        "1   jobs.last_run function=grains.items",
        "2   jobs.exit_success jid=",
    ] {
        assert!(said.contains(&format!(" {line}")), "{line}: {said}");
    }
    let out = bench(&[&small[..], &["--limit", "0"]].concat());
    assert!(!out.status.success(), "{out:?}");
}

#[test]
fn the_http_api_is_measured_beside_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.json");
    let small = [
        "http",
        "--logins",
        "2",
        "--jobs",
        "8",
        "--listeners",
        "1,3",
        "--deliveries",
        "60",
        "--repeat",
        "1",
        "--json",
    ];
    let out = bench(&[&small[..], &[file.to_str().unwrap()]].concat());
    assert!(out.status.success(), "{out:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>().unwrap();
    let value = |bench: &str| {
        let line = lines.iter().find(|line| line["bench"] == bench);
        line.unwrap_or_else(|| panic!("{bench}: {text}"))["value"]
            .as_f64()
            .unwrap()
    };
    for bench in [
        "logins by file",
        "logins by sharedsecret",
        "requests by token (GET /stats)",
        "job starts over HTTP, 8 under way",
        "the same through saline-client",
        "over HTTP for one through saline-client",
        "events to 1 listening over HTTP, all",
        "events to 3 listening over HTTP, all",
    ] {
        assert!(value(bench) > 0.0, "{bench}: {text}");
    }
    assert_eq!(value("those of them that were lost in gaps"), 0.0, "{text}");
    for wrong in [
        ["--logins", "46"],
        ["--jobs", "100000"],
        ["--listeners", "0"],
        ["--transport", "carrier-pigeon"],
    ] {
        assert!(!bench(&[&["http"][..], &wrong].concat()).status.success());
    }
}

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-bench"));
    command.args(arguments).output().unwrap()
}

/// Runs a tiny share of the plan and returns the lines of JSON.
fn measured(backend: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.json");
    let file = file.to_str().unwrap();
    let out = bench(&[
        "transports",
        "--quick",
        "--backend",
        backend,
        "--json",
        file,
        "--subscribers",
        "3",
        "--outstanding",
        "8",
        "--bytes",
        "64",
        "--seconds",
        "0.05",
    ]);
    assert!(out.status.success(), "{out:?}");
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn check(backend: &str, beside_bare: bool) {
    let lines = measured(backend);
    let benches: Vec<_> = lines.iter().map(|line| &line["bench"]).collect();
    assert_eq!(benches, ["requests", "fan_out"]);
    for line in &lines {
        assert_eq!(line["backend"], backend);
        assert_eq!(line["bytes"], 64);
        assert!(line["per_second"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line["cpu_us"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line["delivered"].as_u64().unwrap() > 0, "{line}");
        assert_eq!(line["lost"], 0, "{line}");
        for field in ["bare_per_second", "ratio", "bare_cpu_us"] {
            assert_eq!(line[field].is_number(), beside_bare, "{field} of {line}");
        }
        if beside_bare {
            assert_eq!(line["bare_lost"], 0, "{line}");
        }
        let in_a_loop = ["tcp", "quic"].contains(&backend) && line["bench"] == "requests";
        assert_eq!(line["loop_per_second"].is_number(), in_a_loop, "{line}");
    }
    let numbers = |line: &Value| {
        ["clients", "outstanding", "subscribers"].map(|field| line[field].as_u64().unwrap())
    };
    assert_eq!(numbers(&lines[0]), [1, 8, 0]);
    assert_eq!(numbers(&lines[1]), [3, 0, 3]);
}

#[test]
fn inproc_is_measured_alone() {
    check("inproc", false);
}

#[test]
fn tcp_is_measured_beside_tokio() {
    check("tcp", true);
}

#[test]
fn quic_is_measured_beside_quinn() {
    check("quic", true);
}

#[test]
fn zeromq_is_measured_beside_libzmq() {
    check("zeromq", true);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for arguments in [
        &["transports", "--backend", "carrier-pigeon"][..],
        &["transports", "--subscribers", "0"],
        &["transports", "--seconds", "-1"],
        &["transports", "--only", "nothing"],
        &[],
    ] {
        assert!(!bench(arguments).status.success(), "{arguments:?}");
    }
    assert!(bench(&["transports", "--help"]).status.success());
}

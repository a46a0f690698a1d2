//! The metrics of the daemons, as those see them who ask; the alerts and the documentation that name them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use saline_data::{Value, yaml};
use saline_protocol::transport::Clock;
use saline_testing::{Daemon, Fleet, TEST_TIMEOUT};

use crate::http_api::elsewhere::configured;

/// The line of the documentation below which the tables are.
const GENERATED: &str = "SALINE_WRITE_DOCS=1 cargo test --test end_to_end monitoring -->\n";

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Sends a request over a connection, and returns the status and the body. None when the answer is cut.
fn ask(mut stream: impl Read + Write, path: &str) -> Option<(u16, String)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    (length.parse() == Ok(body.len())).then(|| (status, body.to_owned()))
}

/// Returns a page of the daemon that listens at this port.
pub(crate) fn page(port: u16, path: &str) -> String {
    let (status, body) = ask(TcpStream::connect(("127.0.0.1", port)).unwrap(), path).unwrap();
    assert_eq!(status, 200, "{body}");
    body
}

/// Returns the port at which the daemon serves its metrics.
pub(crate) fn port_of(daemon: &Daemon) -> u16 {
    let line = daemon.log.wait_for("metrics are served", 1);
    let (_, address) = line.split_once("http://127.0.0.1:").unwrap();
    address.split('/').next().unwrap().parse().unwrap()
}

/// Asks again until the page has this line.
fn wait_for(port: u16, line: &str) -> String {
    let end = Clock.after(TEST_TIMEOUT);
    loop {
        let page = page(port, "/metrics");
        if page.lines().any(|each| each == line) {
            return page;
        }
        assert!(Clock.now() < end, "{line}:\n{page}");
    }
}

/// Starts a master and the minion m1, which serve metrics on ports that the system chooses.
fn fleet() -> (Fleet, u16, u16) {
    let metrics = "metrics_listen: 127.0.0.1:0\n";
    let returner = "returner.local.file: /var/log/saline/returns.json\n";
    let mut fleet = Fleet::new("tcp", &format!("auto_accept: True\n{returner}{metrics}"));
    fleet.start_master();
    fleet.start_minion_with("m1", metrics);
    let minion = &fleet.minions["m1"];
    minion.log.wait_for("subscribed", 1);
    let ports = (port_of(fleet.master()), port_of(minion));
    (fleet, ports.0, ports.1)
}

#[test]
fn both_daemons_tell_what_happened() {
    let (fleet, master, minion) = fleet();
    fleet.saline(&["m1", "test.ping"]).expect(0);
    fleet.saline(&["m1", "cmd.run", "exit 3"]).expect(1);
    let page_of_master = wait_for(
        master,
        "saline_master_returns_total{result=\"failure\"} 1.0",
    );
    for line in [
        "saline_build_info{daemon=\"master\",version=\"0.1.0\"} 1.0",
        "saline_master_minions_expected 1.0",
        "saline_master_minions_present 1.0",
        "saline_master_minions_silent{heartbeats=\"10\"} 0.0",
        "saline_master_heartbeat_interval_seconds 2.0",
        "saline_master_keys{state=\"accepted\"} 1.0",
        "saline_master_keys{state=\"pending\"} 0.0",
        "saline_master_jobs_published_total 2.0",
        "saline_master_jobs_open 0.0",
        "saline_master_job_ends_total{state=\"returned\"} 2.0",
        "saline_master_returns_total{result=\"success\"} 1.0",
        "saline_master_store_commits_failed_total 0.0",
        "saline_master_event_subscribers 0.0",
        "saline_master_handshakes_refused_total 0.0",
        "saline_master_clock_jumps_total 0.0",
    ] {
        assert!(
            page_of_master.lines().any(|each| each == line),
            "{line}:\n{page_of_master}"
        );
    }
    let value = |page: &str, name: &str| -> f64 {
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name}:\n{page}"))
            .parse()
            .unwrap()
    };
    for name in [
        "saline_master_store_bytes",
        "saline_master_store_free_bytes",
        "saline_master_store_max_bytes",
        "saline_master_store_commit_seconds_count",
        "saline_transport_requests_received_total",
        "process_resident_memory_bytes",
    ] {
        assert!(
            value(&page_of_master, name) > 0.0,
            "{name}:\n{page_of_master}"
        );
    }
    let each = page(master, "/metrics/minions");
    assert!(
        each.contains("saline_master_minion_present{minion=\"m1\"} 1.0\n"),
        "{each}"
    );
    assert!(
        each.contains("saline_master_minion_heartbeat_age_seconds{minion=\"m1\"} "),
        "{each}"
    );

    wait_for(minion, "saline_minion_returns_unacknowledged 0.0");
    // A return is acknowledged while its job still comes to its end.
    let page_of_minion = wait_for(minion, "saline_minion_jobs_running 0.0");
    for line in [
        "saline_build_info{daemon=\"minion\",version=\"0.1.0\"} 1.0",
        "saline_minion_connected 1.0",
        "saline_minion_returns_unacknowledged 0.0",
        "saline_minion_jobs_waiting 0.0",
        "saline_minion_events_queued 0.0",
    ] {
        assert!(
            page_of_minion.lines().any(|each| each == line),
            "{line}:\n{page_of_minion}"
        );
    }
    assert!(value(&page_of_minion, "saline_minion_clock_offset_seconds").abs() < 2.0);
    assert!(value(&page_of_minion, "saline_minion_last_contact_age_seconds") < 60.0);
    assert!(value(&page_of_minion, "saline_minion_spool_bytes") > 0.0);
}

#[test]
fn a_minion_that_is_gone_is_missed() {
    let (mut fleet, master, _) = fleet();
    fleet.minions.get_mut("m1").unwrap().kill();
    let page = wait_for(master, "saline_master_minions_present 0.0");
    assert!(
        page.contains("\nsaline_master_minions_expected 1.0\n"),
        "{page}"
    );
    wait_for(master, "saline_master_minions_silent{heartbeats=\"2\"} 1.0");
}

#[test]
fn the_documentation_has_every_metric() {
    let (fleet, master, minion) = fleet();
    let listen = "metrics_listen: 127.0.0.1:0\n";
    let mut api = configured(&fleet, "tcp", listen);
    let api = Daemon::spawn(api.args(["-l", "info"]));
    let api = page(port_of(&api), "/metrics");
    let mut tables = String::new();
    for (title, pages) in [
        (
            "Of each daemon",
            vec![page(master, "/metrics"), page(minion, "/metrics")],
        ),
        (
            "Of the master",
            vec![page(master, "/metrics"), page(master, "/metrics/minions")],
        ),
        ("Of the minion", vec![page(minion, "/metrics")]),
        ("Of the API", vec![api]),
    ] {
        let prefixes = ["saline_master_", "saline_minion_", "saline_api_"];
        let of_role = |name: &str| match title {
            "Of the master" => name.starts_with(prefixes[0]),
            "Of the minion" => name.starts_with(prefixes[1]),
            "Of the API" => name.starts_with(prefixes[2]),
            _ => !prefixes.iter().any(|prefix| name.starts_with(prefix)),
        };
        let mut rows = BTreeMap::new();
        for line in pages.iter().flat_map(|page| page.lines()) {
            if let Some((name, help)) = line
                .strip_prefix("# HELP ")
                .and_then(|rest| rest.split_once(' '))
                && of_role(name)
            {
                let kind = format!("\n# TYPE {name} ");
                let kind = pages
                    .iter()
                    .find_map(|page| page.split_once(&kind)?.1.lines().next());
                rows.insert(name.to_owned(), (kind.unwrap().to_owned(), help.to_owned()));
            }
        }
        assert!(!rows.is_empty());
        let _ = write!(
            tables,
            "\n## {title}\n\n| metric | kind | what it is |\n|---|---|---|\n"
        );
        for (name, (kind, help)) in rows {
            let _ = writeln!(tables, "| `{name}` | {kind} | {help} |");
        }
    }
    let path = file("docs/monitoring.md");
    let text = fs::read_to_string(&path).unwrap();
    let (head, written) = text.split_once(GENERATED).unwrap();
    if std::env::var_os("SALINE_WRITE_DOCS").is_some() {
        fs::write(&path, format!("{head}{GENERATED}{tables}")).unwrap();
    } else {
        assert!(written == tables, "run {GENERATED}");
    }
}

#[test]
fn every_alert_uses_metrics_that_daemons_have() {
    let (_fleet, master, minion) = fleet();
    let mut there = BTreeSet::new();
    for page in [
        page(master, "/metrics"),
        page(master, "/metrics/minions"),
        page(minion, "/metrics"),
    ] {
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        let names = samples.filter_map(|line| line.split(['{', ' ']).next());
        there.extend(names.map(str::to_owned));
    }
    let read = |path: &str| yaml::parse(&fs::read_to_string(file(path)).unwrap()).unwrap();
    let alerts = read("examples/monitoring/alerts.yml");
    let list = |value: &Value, name: &str| match value.get(name) {
        Some(Value::List(items)) => items.clone(),
        other => panic!("{name}: {other:?}"),
    };
    let mut rules = 0;
    for rule in list(&alerts, "groups")
        .iter()
        .flat_map(|group| list(group, "rules"))
    {
        let Some(Value::Text(expression)) = rule.get("expr") else {
            panic!("{rule:?}");
        };
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let metrics =
            words.filter(|word| word.starts_with("saline_") || word.starts_with("process_"));
        for metric in metrics {
            assert!(there.contains(metric), "{metric} of {expression}");
        }
        let annotations = rule.get("annotations").unwrap();
        assert!(annotations.get("summary").is_some(), "{rule:?}");
        rules += 1;
    }
    assert!(rules > 10);
    let scrapes = read("examples/monitoring/prometheus.yml");
    assert_eq!(list(&scrapes, "scrape_configs").len(), 3);

    let promtool = Command::new("promtool")
        .args(["check", "config", "prometheus.yml"])
        .current_dir(file("examples/monitoring"))
        .output();
    match promtool {
        Ok(checked) => assert!(
            checked.status.success(),
            "{}",
            String::from_utf8_lossy(&checked.stderr)
        ),
        Err(_) => println!("skipped: there is no promtool on this machine"),
    }
}

#[test]
fn a_program_of_somebody_else_reads_both_kinds_of_address() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: there is no curl on this machine");
        return;
    }
    let mut fleet = Fleet::new("tcp", "auto_accept: True\nmetrics_listen: /m.sock\n");
    fleet.start_master();
    fleet.start_minion_with("m1", "metrics_listen: 127.0.0.1:0\n");
    let port = port_of(&fleet.minions["m1"]);
    let curl = |arguments: &[&str]| {
        let said = Command::new("curl")
            .args(["-sSf"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            said.status.success(),
            "{}",
            String::from_utf8_lossy(&said.stderr)
        );
        String::from_utf8(said.stdout).unwrap()
    };
    let socket = fleet.path("master/m.sock");
    let page = curl(&[
        "--unix-socket",
        socket.to_str().unwrap(),
        "http://localhost/metrics",
    ]);
    assert!(page.contains("daemon=\"master\""), "{page}");
    let page = curl(&[&format!("http://127.0.0.1:{port}/metrics")]);
    assert!(page.contains("daemon=\"minion\""), "{page}");
    assert_eq!(fleet.master.as_mut().unwrap().terminate(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn a_scrape_during_a_restart_is_whole_or_none() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\nmetrics_listen: /m.sock\n");
    fleet.start_master();
    let socket = fleet.path("master/m.sock");
    let scrape = || ask(UnixStream::connect(&socket).ok()?, "/metrics");
    let is_over = AtomicBool::new(false);
    let (tell, told) = sync_channel(0);
    // What is told may be of a scrape that began before the call: the second one began after it.
    let wait_for_scrapes = || (0..2).for_each(|_| told.recv_timeout(TEST_TIMEOUT).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if let Some((status, page)) = scrape() {
                    assert_eq!(status, 200, "{page}");
                    assert!(page.contains("\nsaline_master_tasks "), "{page}");
                    // Nobody waits for this one.
                    let _ = tell.try_send(());
                }
            }
        });
        let _end = SetOnDrop(&is_over);
        wait_for_scrapes();
        // It leaves its socket behind.
        fleet.kill_master();
        fleet.start_master();
        wait_for_scrapes();
        assert_eq!(fleet.master.as_mut().unwrap().terminate(), Some(0));
        fleet.start_master();
        wait_for_scrapes();
    });
}

/// Ends a thread also when the test that waits for it fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn two_hundred_silent_clients_cost_their_connections_alone() {
    let (fleet, master, _) = fleet();
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(("127.0.0.1", master)).unwrap())
        .collect();
    fleet.saline(&["m1", "test.ping"]).expect(0);
    assert!(page(master, "/metrics").contains("saline_master_minions_present 1.0"));
    drop(silent);
}

#[test]
fn a_check_names_an_address_that_cannot_be_bound() {
    let (fleet, ..) = fleet();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let told = format!("metrics_listen: cannot listen on {address}: ");
    let mut second = Fleet::new("tcp", &format!("metrics_listen: {address}\n"));
    second.write_master_config();
    let checked = second.run("saline-master", &["--check"]).expect(1);
    assert!(checked.stderr.contains(&told), "{}", checked.stderr);

    // A daemon that cannot serve them does its work all the same.
    second.start_master();
    second.master().log.wait_for(&told, 1);
    second.saline(&["nobody", "test.ping"]);

    let config = fleet.minion_config("m1").join("minion");
    let text = fs::read_to_string(&config).unwrap();
    let text = text.replace(
        "metrics_listen: 127.0.0.1:0",
        &format!("metrics_listen: {address}"),
    );
    fs::write(&config, text.replace("/m1", "/m2")).unwrap();
    let checked = crate::service::minion(&fleet, "m1", "--check").expect(1);
    assert!(checked.stderr.contains(&told), "{}", checked.stderr);
}

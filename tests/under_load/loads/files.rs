//! Many minions that fetch a large file at once: the master's memory stays bounded, and another minion is pinged meanwhile.
//!
//! `SALINE_FILES_LOAD=100x100` has a hundred minions fetch 100 MiB each, to measure with a release build:
//! `cargo test --release --test under_load files:: -- --nocapture`.
#![allow(
    clippy::disallowed_methods,
    reason = "times are measured by the clock of the machine; nothing here sleeps"
)]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use saline_client::{Client, JobSpec, Progress};
use saline_config::MasterConfig;
use saline_data::Value;
use saline_testing::Fleet;
use saline_testing::processes::resident_bytes;

/// How many minions fetch, and how many MiB, unless the variable says otherwise.
const USUAL: (usize, usize) = (20, 10);

const MIB: u64 = 1 << 20;

/// What the master may need more while it sends: the bytes that are on their way, and the buffers of the connections.
const MOST_GROWTH: u64 = 64 * MIB;

/// In a debug build on two busy cores. A release build is measured.
const MOST_PING: Duration = Duration::from_secs(2);

fn sizes() -> (usize, usize) {
    let Ok(text) = std::env::var("SALINE_FILES_LOAD") else {
        return USUAL;
    };
    let (minions, mib) = text.split_once('x').unwrap();
    (minions.parse().unwrap(), mib.parse().unwrap())
}

/// Pings a minion, and returns how long that took.
async fn ping(client: &Client) -> Duration {
    let begin = Instant::now();
    let spec = JobSpec::glob("pinged", "test.ping").unwrap();
    let mut run = client.run(spec).await.unwrap();
    let mut returned = 0;
    while let Some(progress) = run.next().await.unwrap() {
        returned += usize::from(matches!(progress, Progress::Returned(_)));
    }
    assert_eq!(returned, 1, "the ping has no return");
    begin.elapsed()
}

/// Has all minions that fetch bring the file into their caches. Returns how many did.
async fn fetch(client: &Client) -> usize {
    let mut spec = JobSpec::glob("fetch*", "cp.cache_file").unwrap();
    spec.arg.positional.push(Value::from("salt://large"));
    let mut run = client.run(spec).await.unwrap();
    let mut returned = 0;
    while let Some(progress) = run.next().await.unwrap() {
        match progress {
            Progress::Returned(answer) => {
                let path = answer.value.as_str().unwrap_or_default();
                assert!(path.ends_with("files/base/large"), "{answer:?}");
                returned += 1;
            }
            Progress::Absent(absent) => panic!("{absent:?}"),
            _ => {}
        }
    }
    returned
}

#[test]
fn minions_that_fetch_a_large_file_take_little_of_the_master_and_delay_no_ping() {
    let _turn = crate::alone();
    let (minions, mib) = sizes();
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    let served = fleet.path("master/srv/saline/large");
    fs::create_dir_all(served.parent().unwrap()).unwrap();
    let block: Vec<u8> = (0..MIB).map(|at| (at % 251) as u8).collect();
    fs::write(&served, block.repeat(mib)).unwrap();
    fleet.start_master();
    let names: Vec<String> = (0..minions)
        .map(|number| format!("fetch{number}"))
        .collect();
    for name in names.iter().map(String::as_str).chain(["pinged"]) {
        fleet.start_minion(name);
    }
    for minion in fleet.minions.values() {
        minion.log.wait_for("subscribed", 1);
    }
    let registry = saline_transports::registry();
    let schemes: Vec<&str> = registry.schemes().collect();
    let config = MasterConfig::load(&fleet.config(), &schemes)
        .unwrap()
        .config;
    let master = fleet.master().pid();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (fetched, took, mut pings, grown) = runtime.block_on(async {
        let client = Client::connect(&config, &registry).await.unwrap();
        ping(&client).await;
        let before = resident_bytes(master).unwrap();
        let (done, begin) = (AtomicBool::new(false), Instant::now());
        let fetching = async {
            let fetched = fetch(&client).await;
            done.store(true, Ordering::Relaxed);
            (fetched, begin.elapsed())
        };
        let pinging = async {
            let (mut pings, mut most) = (Vec::new(), before);
            while !done.load(Ordering::Relaxed) {
                pings.push(ping(&client).await);
                most = most.max(resident_bytes(master).unwrap());
            }
            (pings, most.saturating_sub(before))
        };
        let ((fetched, took), (pings, grown)) = tokio::join!(fetching, pinging);
        client.shutdown().await;
        (fetched, took, pings, grown)
    });
    pings.sort();
    let at = |percent: usize| pings[(pings.len() * percent / 100).min(pings.len() - 1)];
    println!(
        "{minions} minions fetched {mib} MiB each in {took:.1?}; the master grew by {} MiB; {} pings, half of them within \
         {:.1?} and 99 of 100 within {:.1?}",
        grown / MIB,
        pings.len(),
        at(50),
        at(99)
    );
    assert_eq!(fetched, minions);
    for name in &names {
        let cached = format!("{name}/var/cache/saline/minion/files/base/large");
        let length = fs::metadata(fleet.path(&cached)).unwrap().len();
        assert_eq!(length, mib as u64 * MIB, "{name}");
    }
    assert!(
        grown < MOST_GROWTH,
        "the master grew by {} MiB",
        grown / MIB
    );
    assert!(at(50) < MOST_PING, "{pings:?}");
}

//! What is acknowledged is there after kill -9. The test runs itself again as the process that is
//! killed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::*;
use tokio::task::JoinSet;

/// Where the process that is killed has its store; it does nothing without.
const VICTIM: &str = "SALINE_TEST_VICTIM_STORE";

/// Who is killed after that many acknowledgements.
const ENOUGH: usize = 3_000;

/// Publishes and returns for ever, and prints what was acknowledged.
#[test]
fn the_victim() {
    let Some(path) = std::env::var_os(VICTIM) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let settings = settings(path.into());
        let store = Arc::new(JobStore::open(settings, MasterClock::new(Clock)).unwrap());
        let names = names(50);
        let offers = offered(&names);
        loop {
            let job = job(&store);
            publish(&store, &job, &offers).await;
            let mut tasks = JoinSet::new();
            for name in &names {
                let (store, minion, jid) = (Arc::clone(&store), id(name), job.jid.clone());
                tasks.spawn(async move {
                    let answer = returned(&jid, &Value::from(minion.as_str()));
                    let verdict = store_one(&store, &minion, answer).await.unwrap();
                    assert_eq!(verdict, ReturnVerdict::Stored);
                    println!("ack {jid} {minion}");
                });
            }
            while tasks.join_next().await.is_some() {}
        }
    });
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    let place = Place::new();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["jobs::tests::kill::the_victim", "--exact", "--nocapture"])
        .env(VICTIM, &place.settings.folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    for line in BufReader::new(victim.stdout.take().unwrap()).lines() {
        let Ok(line) = line else { break };
        if let Some((jid, minion)) = line
            .strip_prefix("ack ")
            .and_then(|rest| rest.split_once(' '))
            .filter(|(jid, minion)| jid.len() == 20 && minion.len() == 5)
        {
            acknowledged.push((Jid::parse(jid).unwrap(), id(minion)));
        }
        if acknowledged.len() == ENOUGH {
            // SIGKILL. What it had printed by then is read to the end.
            victim.kill().unwrap();
        }
    }
    victim.wait().unwrap();
    assert!(acknowledged.len() >= ENOUGH);

    let store = place.open();
    for (jid, minion) in &acknowledged {
        let again = store_one(&store, minion, returned(jid, &Value::Null)).await;
        assert_eq!(again.unwrap(), ReturnVerdict::Duplicate, "{jid} {minion}");
    }
    let last = &acknowledged.last().unwrap().0;
    let page = store.returns(last, 0, 1 << 20).await.unwrap().unwrap();
    for found in &page.returns {
        let text = found.payload.unpack().unwrap();
        assert_eq!(text.as_str().unwrap(), found.minion.as_str());
    }
    assert!(store.next_jid() > *last);
}

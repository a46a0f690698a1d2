//! What a publication and a return cost, in statements: counts, and no times.

use std::cell::RefCell;

use super::*;
use crate::disk::writer::StoreFile as At;
use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};

thread_local! {
    /// The statements that this thread has run: each store has a thread of its own that writes.
    static STATEMENTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes every statement that the connection runs.
pub(crate) fn trace(connection: &mut Connection) {
    let traced = connection.trace_v2(
        TraceEventCodes::SQLITE_TRACE_STMT,
        Some(|event: TraceEvent<'_>| {
            if let TraceEvent::Stmt(_, sql) = event {
                let first_words: Vec<&str> = sql.split_whitespace().take(3).collect();
                STATEMENTS.with_borrow_mut(|all| all.push(first_words.join(" ")));
            }
        }),
    );
    traced.unwrap();
}

/// Takes the statements that the store has written since the last call.
pub(super) async fn taken(store: &JobStore) -> Vec<String> {
    let act = |_: &Connection| Ok(STATEMENTS.take());
    let mut taken = store.writer.call(At::Newest, 0, act, |_| {}).await.unwrap();
    // The beginning of this very transaction, and the end of the one of the last call.
    assert_eq!(taken.pop().as_deref(), Some("BEGIN IMMEDIATE"));
    if taken.first().is_some_and(|first| first == "COMMIT") {
        taken.remove(0);
    }
    taken
}

#[tokio::test]
async fn a_publication_and_a_return_are_one_statement_each() {
    let place = Place::new();
    let store = place.open();
    taken(&store).await;
    let names = names(1_000);
    let offers = offered(&names);
    let job = job(&store);
    publish(&store, &job, &offers).await;
    assert_eq!(
        taken(&store).await,
        ["BEGIN IMMEDIATE", "INSERT INTO jobs", "COMMIT"]
    );

    let verdict = answer(&store, "m0000", &job.jid, &Value::Bool(true)).await;
    assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    assert_eq!(
        taken(&store).await,
        ["BEGIN IMMEDIATE", "INSERT INTO returns", "COMMIT"]
    );

    // Nothing is written when a minion begins, and what is written later is one statement a minion.
    for name in &names[1..100] {
        let minion = id(name);
        let begun = store.set_state(&job.jid, &minion, MinionJobState::Running);
        assert!(begun.await.unwrap());
    }
    assert_eq!(taken(&store).await, Vec::<String>::new());
    store.flush().await.unwrap();
    let written = taken(&store).await;
    let (first, last) = (written.first().unwrap(), written.last().unwrap());
    assert_eq!(
        (first.as_str(), last.as_str()),
        ("BEGIN IMMEDIATE", "COMMIT")
    );
    let changes = &written[1..written.len() - 1];
    assert!(changes.len() == 99 && changes.iter().all(|sql| sql == "INSERT INTO state_changes"));

    // The return of one that began takes its change away.
    answer(&store, "m0001", &job.jid, &Value::Null)
        .await
        .unwrap();
    taken(&store).await;
    store.flush().await.unwrap();
    assert_eq!(
        taken(&store).await,
        ["BEGIN IMMEDIATE", "DELETE FROM state_changes", "COMMIT"]
    );

    // Nor when a job expires, is looked up, or a minion comes back.
    assert_eq!(store.expire(job.expires), []);
    assert_eq!(store.expire(u64::MAX / 2), []);
    store.flush().await.unwrap();
    let back = store
        .pending_jobs(&id("m0999"), None, job.expires, u64::MAX)
        .await;
    assert_eq!(back.unwrap().jobs, []);
    assert_eq!(states(&store, &job.jid).await.len(), 1_000);
    assert_eq!(taken(&store).await, Vec::<String>::new());
}

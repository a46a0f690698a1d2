//! The destinations `local` and `sqlite3`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use saline_data::json;

use super::*;
use crate::DeliveryError;

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines()
        .map(|line| json::read(line.as_bytes()).unwrap())
        .collect()
}

#[tokio::test]
async fn a_file_gets_a_line_for_each_record_also_after_it_was_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("returns.json");
    let file = path.clone();
    let mut local = destination(ReturnerName::Local, |config| config.local_file = Some(file));
    local.deliver(&batch()).await.unwrap();
    let written = lines(&path);
    let kinds: Vec<&str> = written
        .iter()
        .map(|line| line.get("kind").unwrap().as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["job", "return", "return", "event", "return"]);
    assert_eq!(
        written[0].get("minions"),
        Some(&Value::texts(["web1", "web2"]))
    );
    assert_eq!(
        written[1].get("return"),
        Some(&Value::from("nul \0 and ünïcode"))
    );
    assert_eq!(written[3].get("tag"), Some(&Value::from("salt/auth")));
    assert_eq!(written[4].get("return"), None);

    fs::rename(&path, folder.path().join("returns.json.1")).unwrap();
    local.deliver(&[event(5, "salt/key")]).await.unwrap();
    assert_eq!(lines(&path).len(), 1);
}

#[tokio::test]
async fn a_line_that_a_crash_left_without_an_end_spoils_no_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("returns.json");
    saline_private_files::write(&path, b"{\"kind\": \"ev").unwrap();
    let file = path.clone();
    let mut local = destination(ReturnerName::Local, |config| config.local_file = Some(file));
    local.deliver(&[event(0, "salt/key")]).await.unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "{\"kind\": \"ev");
    assert!(json::read(lines[1].as_bytes()).is_ok());
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent/returns.json");
    let file = path.clone();
    let mut local = destination(ReturnerName::Local, |config| config.local_file = Some(file));
    let failed = local.deliver(&batch()).await.unwrap_err();
    assert!(
        matches!(&failed, DeliveryError::Away(why) if why.contains("absent")),
        "{failed}"
    );
    fs::create_dir(path.parent().unwrap()).unwrap();
    local.deliver(&batch()).await.unwrap();
    assert_eq!(lines(&path).len(), 5);
}

#[tokio::test]
async fn a_database_of_sqlite_takes_a_record_that_comes_again_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("returns.sqlite");
    let file = path.clone();
    let open = || {
        let file = file.clone();
        destination(ReturnerName::Sqlite3, |config| {
            config.sqlite3_database = Some(file)
        })
    };
    let mut sqlite = open();
    sqlite.deliver(&batch()).await.unwrap();
    sqlite.deliver(&batch()).await.unwrap();
    // As after a restart of the master.
    open().deliver(&batch()).await.unwrap();
    sqlite.deliver(&[later_return("web2")]).await.unwrap();
    // What was stored before does not come back.
    sqlite.deliver(&batch()).await.unwrap();
    let connection = Connection::open(&path).unwrap();
    let row = |sql: &str| -> String { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
    let counts =
        "SELECT (SELECT count(*) FROM jobs) || ' ' || (SELECT count(*) FROM returns) || ' ' ||
                         (SELECT count(*) FROM events)";
    assert_eq!(row(counts), "1 3 1");
    assert_eq!(
        row("SELECT published || ' ' || fun || ' ' || arg FROM jobs"),
        r#"2026-11-21T10:13:20Z test.echo ["a b", 7]"#
    );
    assert_eq!(
        row("SELECT tag || ' ' || data FROM events"),
        r#"salt/auth {"act": "accept"}"#
    );
    assert_eq!(
        row("SELECT group_concat(minion) FROM returns WHERE return IS NULL"),
        "web3"
    );
    assert_eq!(
        row("SELECT return || ' ' || received FROM returns WHERE minion = 'web2'"),
        r#""later" 2026-11-21T10:13:20.00002Z"#
    );
}

#[tokio::test]
async fn a_database_of_version_1_takes_events_that_share_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("returns.sqlite");
    saline_private_files::write(&path, b"").unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "PRAGMA application_id = 1396788338; PRAGMA user_version = 1;
             CREATE TABLE events (number INTEGER NOT NULL PRIMARY KEY, fired TEXT NOT NULL, tag TEXT NOT NULL,
                                  origin TEXT NOT NULL, data TEXT NOT NULL);
             CREATE INDEX events_of_tag ON events (tag, number);
             INSERT INTO events VALUES (7, '', 'a/b', '{}', '{}');",
        )
        .unwrap();
    let file = path.clone();
    let mut sqlite = destination(ReturnerName::Sqlite3, |config| {
        config.sqlite3_database = Some(file)
    });
    for _ in 0..2 {
        sqlite.deliver(&events_with_one_number(9)).await.unwrap();
    }
    let connection = Connection::open(&path).unwrap();
    let rows: String = connection
        .query_row(
            "SELECT group_concat(number || ' ' || tag, ', ') FROM (SELECT * FROM events ORDER BY number, tag)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(
        rows,
        "7 a/b, 1795256000000009 salt/job/new, 1795256000000009 salt/key"
    );
}

#[tokio::test]
async fn a_database_of_sqlite_that_was_exchanged_is_opened_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("returns.sqlite");
    let count = |path: &Path| -> u32 {
        let connection = Connection::open(path).unwrap();
        connection
            .query_row("SELECT count(*) FROM events", [], |row| row.get(0))
            .unwrap()
    };
    let file = path.clone();
    let mut sqlite = destination(ReturnerName::Sqlite3, |config| {
        config.sqlite3_database = Some(file)
    });
    sqlite.deliver(&[event(1, "a/b")]).await.unwrap();
    let moved = folder.path().join("moved.sqlite");
    let copy = folder.path().join("copy.sqlite");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&path, &moved).unwrap();
    fs::rename(&copy, &path).unwrap();
    sqlite.deliver(&[event(2, "a/b")]).await.unwrap();
    assert_eq!((count(&moved), count(&path)), (1, 2));

    fs::remove_file(&path).unwrap();
    sqlite.deliver(&[event(3, "a/b")]).await.unwrap();
    assert_eq!((count(&moved), count(&path)), (1, 1));
}

#[tokio::test]
async fn a_delivery_that_waits_for_a_database_is_the_only_one_and_its_late_result_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("returns.sqlite");
    let context = Context::default();
    let mut sqlite = crate::sqlite3::Sqlite3::new(path.clone(), context.clone());
    sqlite.deliver(&[event(1, "a/b")]).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let batch = [event(2, "a/b")];
    let hanging = sqlite.deliver(&batch);
    tokio::time::timeout(Duration::ZERO, hanging)
        .await
        .unwrap_err();
    let failed = sqlite.deliver(&batch).await.unwrap_err();
    assert!(
        matches!(&failed, DeliveryError::Away(why) if why.contains("returns.sqlite: the disk does not answer")),
        "{failed}"
    );
    assert_eq!(context.tracker.len(), 1);
    other.execute_batch("COMMIT").unwrap();
    sqlite.deliver(&batch).await.unwrap();
    let count = "SELECT count(*) FROM events";
    let count: u32 = other.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(count, 2);
}

#[tokio::test]
async fn a_database_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.sqlite");
    saline_private_files::write(&path, b"").unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE jobs (x)")
        .unwrap();
    let mut sqlite = destination(ReturnerName::Sqlite3, |config| {
        config.sqlite3_database = Some(path)
    });
    let failed = sqlite.deliver(&batch()).await.unwrap_err();
    assert!(
        matches!(&failed, DeliveryError::Away(why) if why.contains("another program")),
        "{failed}"
    );
}

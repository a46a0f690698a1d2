//! Jobs and returns that are read back from the databases.

use saline_config::PostgresSchema;
use saline_testing::PostgresServer;

use super::*;
use crate::{CachedJob, CachedReturn, JobCache, NoValue};

/// Above every jid of these tests.
const END: &str = "99999999999999999999";

/// Delivers records to a database, and opens it to read.
async fn opened(
    name: ReturnerName,
    records: &[Record],
    change: impl Fn(&mut ReturnerConfig),
) -> crate::OpenJobCache {
    if !records.is_empty() {
        let mut database = destination(name, &change);
        database.deliver(records).await.unwrap();
    }
    let mut config = ReturnerConfig {
        master_job_cache: Some(name),
        ..ReturnerConfig::default()
    };
    change(&mut config);
    let cache = JobCache::of(&config, &Context::default()).unwrap();
    assert_eq!(cache.name(), name);
    cache.open().await.unwrap()
}

/// What must hold of every database; `nul` is what it makes of a NUL.
async fn is_read_back(name: ReturnerName, nul: &str, change: impl Fn(&mut ReturnerConfig)) {
    let mut empty = opened(name, &[], &change).await;
    assert_eq!(empty.job("20261121000000000000").await, Ok(None));
    assert_eq!(empty.jobs("", END).await, Ok(vec![]));
    drop(empty);

    let mut records = batch();
    records.extend((1..1_200).map(job));
    let mut cache = opened(name, &records, &change).await;
    let jid = "20261121000000000000";
    let expected = CachedJob {
        jid: jid.to_owned(),
        fun: "test.echo".to_owned(),
        arg: Value::List(vec![Value::from("a b"), Value::Int(7)]),
        target: "web*".to_owned(),
        target_kind: "glob".to_owned(),
        user: "anna".to_owned(),
        operator: "root".to_owned(),
        minions: vec!["web1".to_owned(), "web2".to_owned()],
    };
    assert_eq!(cache.job(jid).await, Ok(Some(expected.clone())));
    assert_eq!(cache.job("20261121000000999999").await, Ok(None));

    let returns = cache.returns(jid, "").await.unwrap();
    let returned = |minion: &str, value: Option<String>| CachedReturn {
        minion: minion.to_owned(),
        value: value.map(Value::from).ok_or(NoValue::TooLarge),
        retcode: 0,
        success: true,
    };
    assert_eq!(
        returns[0],
        returned("web1", Some(format!("nul {nul} and ünïcode")))
    );
    assert_eq!(returns[2], returned("web3", None));
    assert_eq!(cache.returns(jid, "web2").await.unwrap(), returns[2..]);
    assert_eq!(cache.returns(jid, "web3").await, Ok(vec![]));

    let (mut before, mut jids) = (END.to_owned(), Vec::new());
    loop {
        let page = cache.jobs("20261121000000000100", &before).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 500);
        before.clone_from(&last.jid);
        jids.extend(page.into_iter().map(|job| job.jid));
    }
    let wanted = (100..1_200).rev().map(|n| format!("20261121{n:012}"));
    assert_eq!(jids, wanted.collect::<Vec<_>>());

    // A page has bounded bytes, and one return at least.
    let large = |minion: &str| {
        let text = "x".repeat(5 * 1024 * 1024);
        super::returned(0, minion, Some(Value::from(text)))
    };
    let records = ["a", "b", "c"].map(large);
    drop(cache);
    let mut cache = opened(name, &records, &change).await;
    let ids = |returns: Vec<CachedReturn>| {
        let ids = returns.into_iter().map(|one| one.minion);
        ids.collect::<Vec<_>>()
    };
    let page = cache.returns(jid, "").await.unwrap();
    assert_eq!(ids(page), ["a", "b"]);
    let page = cache.returns(jid, "b").await.unwrap();
    assert_eq!(ids(page), ["c", "web1", "web2", "web3"]);
}

#[tokio::test]
async fn a_database_of_sqlite_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("returns.sqlite");
    is_read_back(ReturnerName::Sqlite3, "\0", |config| {
        config.sqlite3_database = Some(path.clone());
    })
    .await;
}

#[tokio::test]
async fn a_database_of_postgres_is_read_back_from_the_tables_of_either_schema() {
    for schema in [PostgresSchema::Saline, PostgresSchema::Salt] {
        let Some(server) = PostgresServer::start() else {
            return;
        };
        is_read_back(ReturnerName::Postgres, "\u{fffd}", |config| {
            config.postgres.host = server.socket_folder().to_str().unwrap().to_owned();
            config.postgres.passwd = Some("salt".into());
            config.postgres.schema = schema;
        })
        .await;
    }
}

#[tokio::test]
async fn rows_that_salt_wrote_are_read_as_far_as_they_say_something() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let change = |config: &mut ReturnerConfig| {
        config.postgres.host = server.socket_folder().to_str().unwrap().to_owned();
        config.postgres.passwd = Some("salt".into());
        config.postgres.schema = PostgresSchema::Salt;
    };
    drop(opened(ReturnerName::Postgres, &batch(), change).await);
    server.query(
        r#"INSERT INTO jids VALUES ('20250101000000000000', '{"fun": "test.ping", "tgt": ["a", "b"], "tgt_type": "list", "user": "sudo_anna", "Minions": ["a", "b"]}'),
                                   ('20250101000000000001', 'no JSON');
           INSERT INTO salt_returns (fun, jid, return, full_ret, id, success) VALUES
               ('test.ping', '20250101000000000000', 'true', '{"return": true, "retcode": 0}', 'a', 'True'),
               ('test.ping', '20250101000000000000', 'true', '{"return": true, "retcode": 0}', 'a', 'True'),
               ('test.ping', '20250101000000000000', '[1]', NULL, 'b', 'False'),
               ('test.ping', '20250101000000000000', 'no JSON', NULL, 'c', 'True'),
               ('test.ping', '20250101000000000000', 'true', 'no JSON', 'd', 'True'),
               ('test.ping', '20250101000000000000', 'true', '[]', 'e', 'True'),
               ('test.ping', '20250101000000000000', 'null', '{"retcode": 0}', 'f', 'True')"#,
    );
    let mut cache = opened(ReturnerName::Postgres, &[], change).await;
    let job = cache.job("20250101000000000000").await.unwrap().unwrap();
    assert_eq!(
        (job.fun.as_str(), job.target.as_str(), job.operator.as_str()),
        ("test.ping", r#"["a", "b"]"#, "")
    );
    assert_eq!(job.minions, ["a", "b"]);
    let unreadable = cache.job("20250101000000000001").await.unwrap().unwrap();
    assert_eq!(unreadable.fun, "");
    let returns = cache.returns("20250101000000000000", "").await.unwrap();
    let told: Vec<_> = returns
        .iter()
        .map(|one| (one.minion.as_str(), one.value.clone(), one.success))
        .collect();
    assert_eq!(
        told,
        [
            ("a", Ok(Value::Bool(true)), true),
            ("b", Ok(Value::List(vec![Value::Int(1)])), false),
            ("c", Err(NoValue::Unreadable), true),
            ("d", Err(NoValue::Unreadable), true),
            ("e", Err(NoValue::Unreadable), true),
            ("f", Err(NoValue::TooLarge), true),
        ]
    );
}

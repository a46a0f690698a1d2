//! The destination `postgres`, with a server of its own in each test.

use std::path::Path;

use saline_config::{PostgresSchema, PostgresTls};
use saline_testing::PostgresServer;

use super::*;
use crate::DeliveryError;

fn postgres(server: &PostgresServer, schema: PostgresSchema) -> Box<dyn Destination> {
    with_password(server, schema, "salt")
}

fn with_password(
    server: &PostgresServer,
    schema: PostgresSchema,
    password: &str,
) -> Box<dyn Destination> {
    destination(ReturnerName::Postgres, |config| {
        config.postgres.host = server.socket_folder().to_str().unwrap().to_owned();
        config.postgres.passwd = Some(password.into());
        config.postgres.schema = schema;
    })
}

#[tokio::test]
async fn our_tables_are_made_and_take_a_record_that_comes_again_once() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let mut database = postgres(&server, PostgresSchema::Saline);
    database.deliver(&batch()).await.unwrap();
    database.deliver(&batch()).await.unwrap();
    // As after a restart of the master.
    postgres(&server, PostgresSchema::Saline)
        .deliver(&batch())
        .await
        .unwrap();
    // Beside the one that it replaces, as after a failure in the midst of a batch.
    let replaced = [returned(2, "web2", None), later_return("web2")];
    database.deliver(&replaced).await.unwrap();
    database.deliver(&batch()).await.unwrap();
    assert_eq!(server.query("SELECT version FROM saline_schema"), "2");
    assert_eq!(
        server.query("SELECT jid, published AT TIME ZONE 'UTC', fun, arg, tgt, tgt_type, username, operator, minions FROM saline_jobs"),
        r#"20261121000000000000|2026-11-21 10:13:20|test.echo|["a b", 7]|web*|glob|anna|root|["web1", "web2"]"#
    );
    assert_eq!(
        server.query("SELECT minion, received AT TIME ZONE 'UTC', fun_args, return, retcode, success FROM saline_returns ORDER BY minion"),
        "web1|2026-11-21 10:13:20.000001|[\"a b\", 7]|\"nul \u{fffd} and ünïcode\"|0|t\n\
         web2|2026-11-21 10:13:20.00002|[\"a b\", 7]|\"later\"|0|t\n\
         web3|2026-11-21 10:13:20.000004|[\"a b\", 7]||0|t"
    );
    assert_eq!(
        server.query("SELECT number, tag, origin, data FROM saline_events"),
        r#"1795256000000003|salt/auth|{"kind": "master"}|{"act": "accept"}"#
    );
}

#[tokio::test]
async fn events_that_share_a_number_are_both_there_also_in_tables_of_version_1() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    server.query(
        "CREATE TABLE saline_schema (version integer NOT NULL);
         INSERT INTO saline_schema VALUES (1);
         CREATE TABLE saline_events (number bigint PRIMARY KEY, fired timestamptz NOT NULL, tag text NOT NULL,
                                     origin jsonb NOT NULL, data jsonb NOT NULL);
         INSERT INTO saline_events VALUES (7, now(), 'a/b', '{}', '{}')",
    );
    let events = events_with_one_number(9);
    postgres(&server, PostgresSchema::Saline)
        .deliver(&events)
        .await
        .unwrap();
    postgres(&server, PostgresSchema::Saline)
        .deliver(&events)
        .await
        .unwrap();
    assert_eq!(
        server.query("SELECT number, tag FROM saline_events ORDER BY number, tag"),
        "7|a/b\n1795256000000009|salt/job/new\n1795256000000009|salt/key"
    );
    assert_eq!(server.query("SELECT version FROM saline_schema"), "2");
}

#[tokio::test]
async fn tables_of_a_later_version_are_left_alone() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    postgres(&server, PostgresSchema::Saline)
        .deliver(&batch())
        .await
        .unwrap();
    server.query("UPDATE saline_schema SET version = 99");
    let failed = postgres(&server, PostgresSchema::Saline)
        .deliver(&batch())
        .await
        .unwrap_err();
    assert!(
        matches!(&failed, DeliveryError::Away(why) if why.contains("version 99")),
        "{failed}"
    );
}

#[tokio::test]
async fn the_tables_of_salt_take_a_record_that_comes_again_once() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    // As Salt's documentation has an operator make it.
    server.query(
        "CREATE TABLE salt_returns (fun varchar(50) NOT NULL, jid varchar(255) NOT NULL, return text NOT NULL, full_ret text,
             id varchar(255) NOT NULL, success varchar(10) NOT NULL, alter_time timestamptz DEFAULT now())",
    );
    let mut database = postgres(&server, PostgresSchema::Salt);
    database.deliver(&batch()).await.unwrap();
    database.deliver(&batch()).await.unwrap();
    let twice: Vec<Record> = vec![
        returned(1, "web1", None),
        returned(9, "web4", None),
        event(9, "salt/auth"),
    ];
    database.deliver(&twice).await.unwrap();
    let replaced = [returned(2, "web2", None), later_return("web2")];
    database.deliver(&replaced).await.unwrap();
    database.deliver(&batch()).await.unwrap();
    let load: String = server.query("SELECT load::json ->> 'fun' FROM jids");
    assert_eq!(load, "test.echo");
    assert_eq!(
        server.query("SELECT fun, jid, id, success, return FROM salt_returns ORDER BY id"),
        "test.echo|20261121000000000000|web1|true|\"nul \u{fffd} and ünïcode\"\n\
         test.echo|20261121000000000000|web2|true|\"later\"\n\
         test.echo|20261121000000000000|web3|true|null\n\
         test.echo|20261121000000000000|web4|true|null"
    );
    let full = "SELECT count(*) FROM salt_returns WHERE full_ret::json ->> 'id' = id AND alter_time < '2026-11-22'";
    assert_eq!(server.query(full), "4");
    assert_eq!(
        server.query("SELECT tag, data FROM salt_events"),
        "salt/auth|{\"act\": \"accept\"}\nsalt/auth|{\"act\": \"accept\"}"
    );
    assert_eq!(
        server.query(
            "SELECT count(DISTINCT master_id) FROM salt_events WHERE master_id LIKE '%\\_master'"
        ),
        "1"
    );
}

#[tokio::test]
async fn a_server_that_was_killed_takes_the_batch_when_it_is_back() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let mut database = postgres(&server, PostgresSchema::Saline);
    database.deliver(&batch()).await.unwrap();
    server.kill();
    for _ in 0..2 {
        let failed = database.deliver(&[event(7, "a/b")]).await.unwrap_err();
        assert!(matches!(failed, DeliveryError::Away(_)), "{failed}");
    }
    server.restart();
    database
        .deliver(&[event(7, "a/b"), event(8, "a/c")])
        .await
        .unwrap();
    assert_eq!(server.query("SELECT count(*) FROM saline_events"), "3");
}

#[tokio::test]
async fn a_wrong_password_is_told_without_showing_it() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let mut database = with_password(&server, PostgresSchema::Saline, "hunter2");
    let failed = database.deliver(&batch()).await.unwrap_err().to_string();
    assert!(
        failed.contains("password authentication failed"),
        "{failed}"
    );
    assert!(
        !failed.contains("hunter2") && !format!("{database:?}").contains("hunter2"),
        "{failed}"
    );
}

#[tokio::test]
async fn what_the_database_cannot_hold_is_refused() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    server.query(
        "CREATE TABLE salt_returns (fun varchar(4) NOT NULL, jid varchar(255) NOT NULL, return text NOT NULL, full_ret text,
             id varchar(255) NOT NULL, success varchar(10) NOT NULL, alter_time timestamptz DEFAULT now())",
    );
    let failed = postgres(&server, PostgresSchema::Salt)
        .deliver(&batch())
        .await
        .unwrap_err();
    assert!(matches!(failed, DeliveryError::Refused(_)), "{failed}");
}

/// Returns a port that is free. PostgreSQL has no way to choose one by itself.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A destination that must reach `host` over TLS.
fn over_tls(host: &str, port: u16, authorities: Option<&Path>) -> Box<dyn Destination> {
    destination(ReturnerName::Postgres, |config| {
        config.postgres.host = host.to_owned();
        config.postgres.port = port;
        config.postgres.passwd = Some("salt".into());
        config.postgres.sslmode = Some(PostgresTls::VerifyFull);
        config.postgres.authorities = authorities.map(Path::to_owned);
    })
}

/// Has a destination refuse to deliver, and to say `why`.
async fn is_not_delivered(mut database: Box<dyn Destination>, why: &[&str]) {
    let failed = database.deliver(&batch()).await.unwrap_err();
    assert!(matches!(failed, DeliveryError::Away(_)), "{failed}");
    let told = failed.to_string();
    assert!(why.iter().all(|part| told.contains(part)), "{told}");
}

/// Gives a server this certificate, and returns its options.
fn with_tls(place: &Path, certificate: &rcgen::Certificate, key: &rcgen::KeyPair) -> String {
    let (certificate_file, key_file) = (place.join("server.pem"), place.join("server.key"));
    std::fs::write(&certificate_file, certificate.pem()).unwrap();
    saline_private_files::write(&key_file, key.serialize_pem().as_bytes()).unwrap();
    format!(
        "-c listen_addresses=localhost -c ssl=on -c ssl_cert_file={} -c ssl_key_file={}",
        certificate_file.display(),
        key_file.display()
    )
}

#[tokio::test]
async fn a_server_over_tls_must_have_a_certificate_of_an_authority_for_its_name() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    std::fs::write(&authority, certificate.pem()).unwrap();
    let port = free_port();
    let options = |place: &Path| with_tls(place, &certificate, &key);
    let Some(server) = PostgresServer::start_on(port, options) else {
        return;
    };
    let by_address = over_tls("127.0.0.1", port, Some(&authority));
    let named = ["127.0.0.1", "set returner.postgres.host to a name in"];
    is_not_delivered(by_address, &named).await;
    let strange = folder.path().join("strange.pem");
    let strange_key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let pem = params.self_signed(&strange_key).unwrap().pem();
    std::fs::write(&strange, pem).unwrap();
    let by_another = over_tls("localhost", port, Some(&strange));
    let named = [
        "invalid peer certificate",
        "in returner.postgres.sslrootcert",
    ];
    is_not_delivered(by_another, &named).await;
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for unread in [&folder.path().join("absent.pem"), folder.path(), &empty] {
        let shown = format!("(sslrootcert) cannot be read from {}: ", unread.display());
        is_not_delivered(over_tls("localhost", port, Some(unread)), &[&shown]).await;
    }
    let tables = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'saline%'";
    assert_eq!(server.query(tables), "0", "nothing was delivered");
    let mut right = over_tls("localhost", port, Some(&authority));
    right.deliver(&batch()).await.unwrap();
    assert_eq!(server.query("SELECT count(*) FROM saline_returns"), "3");
    let encrypted = "SELECT version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                     WHERE application_name = 'saline-master'";
    assert_eq!(server.query(encrypted), "TLSv1.3");
}

#[tokio::test]
async fn an_expired_certificate_is_told_with_what_to_do() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    let port = free_port();
    let options = |place: &Path| with_tls(place, &certificate, &key);
    let Some(server) = PostgresServer::start_on(port, options) else {
        return;
    };
    let authority = server.socket_folder().join("ca.pem");
    std::fs::write(&authority, certificate.pem()).unwrap();
    let told = [
        "invalid peer certificate",
        "; that server needs a new certificate",
    ];
    is_not_delivered(over_tls("localhost", port, Some(&authority)), &told).await;
}

#[tokio::test]
async fn a_server_without_tls_gets_nothing_where_tls_is_wanted() {
    let port = free_port();
    let listens = "-c listen_addresses=localhost".to_owned();
    let Some(server) = PostgresServer::start_on(port, |_| listens) else {
        return;
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let authority = server.socket_folder().join("ca.pem");
    std::fs::write(&authority, params.self_signed(&key).unwrap().pem()).unwrap();
    let named = ["does not support TLS", "sslmode: disable"];
    for host in ["localhost", server.socket_folder().to_str().unwrap()] {
        is_not_delivered(over_tls(host, port, Some(&authority)), &named).await;
    }
    let tables = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'saline%'";
    assert_eq!(server.query(tables), "0");
}

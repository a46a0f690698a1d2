//! The options about destinations outside of the master.

use saline_config::{MasterConfig, PostgresTls, ReturnerName};
use saline_data::Value;

use crate::folder::{SCHEMES, folder, master, master_error};

#[test]
fn mistakes_are_told_with_their_place_and_the_nearest_name() {
    for (text, error) in [
        (
            "ext_job_cache: postgre\n",
            r#"DIR/master:1:16: option "ext_job_cache" names no destination: "postgre"; did you mean "postgres"? known are: executable, http, local, postgres, sqlite3"#,
        ),
        (
            "event_return: [local]\n",
            r#"DIR/master:1:16: option "event_return" names local, which needs "returner.local.file""#,
        ),
        (
            "returner.postgres.hots: db\n",
            r#"DIR/master:1:1: unknown option "returner.postgres.hots"; did you mean "returner.postgres.host"?"#,
        ),
        (
            "master_job_cache: pgjsonb\n",
            r#"DIR/master:1:19: option "master_job_cache" takes local_cache, postgres or sqlite3, not "pgjsonb""#,
        ),
        (
            "master_job_cache: sqlite3\n",
            r#"DIR/master:1:19: option "master_job_cache" names sqlite3, which needs "returner.sqlite3.database""#,
        ),
        (
            "master_job_cache: http\n",
            r#"DIR/master:1:19: option "master_job_cache" takes local_cache, postgres or sqlite3: jobs cannot be read back from http, which `ext_job_cache: http` delivers to"#,
        ),
        (
            "returner.postgres.passwd: 1234\n",
            r#"DIR/master:1:27: option "returner.postgres.passwd" takes a password, not the value here"#,
        ),
        (
            "returner.postgres.sslmode: require\n",
            r#"DIR/master:1:28: option "returner.postgres.sslmode" takes disable or verify-full, not the text "require""#,
        ),
        (
            "returner.executable.command: take-records\n",
            r#"DIR/master:1:30: option "returner.executable.command" takes the whole path of a program, from / on"#,
        ),
        (
            "returner.http.url: https://user:hunter2@example.org/\n",
            "DIR/master:1:20: option \"returner.http.url\" takes an address without a user and a password: \
             `returner.http.authorization` has the value of the header that tells them",
        ),
        (
            "returner.http.url: https://[::1]:65536/in\n",
            "DIR/master:1:20: option \"returner.http.url\" takes an address whose port is a number from 1 to 65535",
        ),
        (
            "returner.http.url: http://a.example:0\n",
            "DIR/master:1:20: option \"returner.http.url\" takes an address whose port is a number from 1 to 65535",
        ),
        (
            "event_return_whitelist: '['\n",
            r#"DIR/master:1:25: option "event_return_whitelist" takes globs, and "[" is not one"#,
        ),
    ] {
        let told = master_error(&[("master", text)]);
        assert!(told.starts_with(error), "{told}\n{error}");
    }
}

#[test]
fn an_address_may_have_a_port() {
    for url in [
        "http://a.example:65535/x?y=1:99999",
        "https://[::1]:1",
        "https://[fe80::1]/",
        "http://a.example",
    ] {
        let config = master(&format!("returner.http.url: '{url}'\n"));
        assert_eq!(config.returners.http.url, url);
    }
}

#[test]
fn a_destination_may_be_set_after_the_option_that_names_it() {
    let config = master(
        "ext_job_cache: [sqlite3, local]\nreturner.sqlite3.database: /a\nreturner.local.file: /b\n",
    );
    let names = [ReturnerName::Local, ReturnerName::Sqlite3];
    assert_eq!(config.returners.ext_job_cache, names);
    assert_eq!(config.returners.configured(), names);
    assert_eq!(master("").returners.configured(), []);
}

#[test]
fn files_of_destinations_are_below_the_root() {
    let config = master("root_dir: /r\nreturner.sqlite3.database: /a\nreturner.local.file: /b\n");
    let path = |path: &str| Some(path.into());
    assert_eq!(config.returners.sqlite3_database, path("/r/a"));
    assert_eq!(config.returners.local_file, path("/r/b"));
}

#[test]
fn a_connection_that_leaves_the_machine_is_encrypted() {
    for (host, tls) in [
        ("/run/postgresql", PostgresTls::Disable),
        ("localhost", PostgresTls::Disable),
        ("db.example.org", PostgresTls::VerifyFull),
        ("192.0.2.1", PostgresTls::VerifyFull),
    ] {
        let config = master(&format!("returner.postgres.host: {host}\n"));
        assert_eq!(config.returners.postgres.tls(), tls, "{host}");
    }
    let authorities = "returner.postgres.host: localhost\nreturner.postgres.sslrootcert: /ca.pem\n";
    let config = master(authorities);
    assert_eq!(config.returners.postgres.tls(), PostgresTls::VerifyFull);
    // PostgreSQL never encrypts these.
    let config = master(&authorities.replace("localhost", "/run/postgresql"));
    assert_eq!(config.returners.postgres.tls(), PostgresTls::Disable);
}

#[test]
fn passwords_are_not_shown() {
    let text = "returner.postgres.passwd: hunter2\nreturner.http.authorization: Bearer hunter3\n";
    let folder = folder(&[("master", text)]);
    let loaded = MasterConfig::load(folder.path(), SCHEMES).unwrap();
    let shown = format!("{:?} {:?}", loaded.options, loaded.config.returners);
    assert!(!shown.contains("hunter"), "{shown}");
    let hidden = Some(&Value::from("** hidden **"));
    assert_eq!(loaded.options.get("returner.postgres.passwd"), hidden);
    let passwd = loaded.config.returners.postgres.passwd.unwrap();
    assert_eq!(passwd.expose(), "hunter2");
}

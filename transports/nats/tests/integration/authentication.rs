//! Logins, and what NATS refuses.

use saline_protocol::transport::ErrorKind;
use saline_testing::NatsServer;

use crate::support::nats_keys::{Key, Kind, operator_mode};
use crate::support::{Host, Section, ask, client, connect};

/// A server and a client log in with this section, and the server names the client's user as its source.
async fn works(server: &NatsServer, section: Section<'_>, source: &str) {
    let host = Host::start(server, section).await;
    let client = client(server, section).await;
    assert_eq!(ask(&client, "hello").await.unwrap(), "hello");
    assert_eq!(host.source(), source);
}

#[tokio::test]
async fn without_a_login_everybody_is_one_source() {
    let Some(server) = NatsServer::start("") else {
        return;
    };
    works(&server, &[], "account anybody").await;
}

#[tokio::test]
async fn a_token_makes_everybody_one_source() {
    let Some(server) = NatsServer::start("authorization { token: s3cret }\n") else {
        return;
    };
    works(&server, &[("token", "s3cret")], "account anybody").await;
    let error = connect(&server, &[("token", "hunter2")]).await.unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_user_is_the_source() {
    let users = "authorization { users = [{ user: \"web1.example\", password: pw }] }\n";
    let Some(server) = NatsServer::start(users) else {
        return;
    };
    let section = [("user", "web1.example"), ("password", "pw")];
    works(&server, &section, "account web1_example").await;
}

#[tokio::test]
async fn a_login_that_is_refused_names_the_server_and_the_user() {
    let users = "authorization { users = [{ user: web1, password: pw }] }\n";
    let Some(server) = NatsServer::start(users) else {
        return;
    };
    let section = [("user", "web1"), ("password", "hunter2")];
    let of_client = connect(&server, &section).await.unwrap_err();
    assert_eq!(of_client.kind(), ErrorKind::Unreachable);
    let of_server = Host::try_start(&server, &section, None).await;
    let of_server = of_server.err().unwrap();
    assert_eq!(of_server.kind(), ErrorKind::Refused);
    for error in [of_client.to_string(), of_server.to_string()] {
        let address = server.address().to_string();
        assert!(error.contains(&address), "{error}");
        assert!(error.contains("login of web1"), "{error}");
        assert!(error.contains("Authorization Violation"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn an_nkey_is_the_source() {
    let key = Key::new(Kind::User, 7);
    let users = format!(
        "authorization {{ users = [{{ nkey: {} }}] }}\n",
        key.public()
    );
    let Some(server) = NatsServer::start(&users) else {
        return;
    };
    let file = server.folder().join("minion.nk");
    std::fs::write(&file, format!("{}\n", key.seed())).unwrap();
    let section = [("nkey", file.to_str().unwrap())];
    let source = format!("account {}", key.public());
    works(&server, &section, &source).await;
    std::fs::write(&file, Key::new(Kind::User, 8).seed()).unwrap();
    let error = connect(&server, &section).await.unwrap_err();
    assert!(error.to_string().contains("Authorization"), "{error}");
}

#[tokio::test]
async fn the_name_in_credentials_is_the_source() {
    let (configuration, credentials) = operator_mode("web1");
    let Some(server) = NatsServer::start(&configuration) else {
        return;
    };
    let file = server.folder().join("minion.creds");
    std::fs::write(&file, credentials).unwrap();
    let section = [("credentials", file.to_str().unwrap())];
    works(&server, &section, "account web1").await;
}

/// A configuration of a server with a master and one minion, each of which may publish and subscribe to these.
fn permissions(master: [&str; 2], minion: [&str; 2]) -> String {
    let user = |user, [publish, subscribe]: [&str; 2]| {
        format!(
            "{{ user: {user}, password: pw, permissions: {{ publish: [{publish}], subscribe: [{subscribe}] }} }}\n"
        )
    };
    format!(
        "authorization {{ users = [\n{}{}] }}\n",
        user("master", master),
        user("web1", minion)
    )
}

/// What the page on NATS says that a master and a minion need.
const MASTER: [&str; 2] = [
    r#""saline.down.>", "saline.all", "saline.who.master""#,
    r#""saline.hello.*", "saline.up.>", "saline.who.*", "saline.down.master.*""#,
];
const MINION: [&str; 2] = [
    r#""saline.hello.web1", "saline.up.web1.>""#,
    r#""saline.down.web1.*", "saline.all""#,
];

const AS_MASTER: Section<'static> = &[("user", "master"), ("password", "pw")];
const AS_MINION: Section<'static> = &[("user", "web1"), ("password", "pw")];

#[tokio::test]
async fn the_documented_permissions_suffice() {
    let Some(server) = NatsServer::start(&permissions(MASTER, MINION)) else {
        return;
    };
    let host = Host::start(&server, AS_MASTER).await;
    let client = client(&server, AS_MINION).await;
    assert_eq!(ask(&client, vec![7; 1 << 20]).await.unwrap().len(), 1 << 20);
    assert_eq!(host.source(), "account web1");
}

#[tokio::test]
async fn a_permission_that_a_master_lacks_is_named_when_it_starts() {
    for (publish, subscribe, subject) in [
        (0, "saline.hello.*", "saline.hello.*"),
        (0, "saline.up.>", "saline.up.*."),
        (0, "saline.who.*", "saline.who.*"),
        (0, "saline.down.master.*", "saline.down.master."),
        (1, "saline.down.>", "saline.down.master."),
        (1, "saline.all", "saline.all"),
        (1, "saline.who.master", "saline.who.master"),
    ] {
        let without = format!("\"{subscribe}\"");
        let [may_publish, may_subscribe] = MASTER;
        let master = match publish {
            1 => [&may_publish.replace(&without, "none"), may_subscribe],
            _ => [may_publish, &may_subscribe.replace(&without, "none")],
        };
        let Some(server) = NatsServer::start(&permissions(master, MINION)) else {
            return;
        };
        let error = Host::try_start(&server, AS_MASTER, None)
            .await
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        let error = error.to_string();
        assert!(error.contains(&server.address().to_string()), "{error}");
        assert!(error.contains("user master"), "{error}");
        assert!(
            error.contains(&format!("\"{subject}")),
            "{subject}: {error}"
        );
    }
}

#[tokio::test]
async fn a_permission_that_a_minion_lacks_is_named() {
    for (publish, permission, subject) in [
        (1, "saline.hello.web1", "saline.hello.web1"),
        (1, "saline.up.web1.>", "saline.up.web1."),
        (0, "saline.down.web1.*", "saline.down.web1."),
        (0, "saline.all", "saline.all"),
    ] {
        let without = format!("\"{permission}\"");
        let [may_publish, may_subscribe] = MINION;
        let minion = match publish {
            1 => [&may_publish.replace(&without, "none"), may_subscribe],
            _ => [may_publish, &may_subscribe.replace(&without, "none")],
        };
        let Some(server) = NatsServer::start(&permissions(MASTER, minion)) else {
            return;
        };
        let _host = Host::start(&server, AS_MASTER).await;
        let error = connect(&server, AS_MINION).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        let error = error.to_string();
        assert!(error.contains("user web1"), "{error}");
        assert!(
            error.contains(&format!("\"{subject}")),
            "{subject}: {error}"
        );
    }
}

//! The permissions that `nats.permissions` prints are exactly those that a master and its minions need.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use saline_testing::{Fleet, NatsServer, TEST_TIMEOUT};

use super::{json, present_within};

/// Returns the text that a master prints for minions that log in as these users.
fn printed(users: &[&str]) -> String {
    // Not served over yet: the servers are set up before.
    let options = "nats: {subject: saline.e2e, user: boss, password: pw-boss}\n";
    let mut fleet = Fleet::new("tcp", options);
    fleet.start_master();
    let arguments = [&["nats.permissions"], users].concat();
    fleet.run("saline-run", &arguments).expect(0).stdout
}

/// Returns the section of a user.
fn section(server: &NatsServer, user: &str) -> String {
    let open = NatsServer::section(&[server.address()], "saline.e2e");
    let login = format!(", user: {user}, password: pw-{user}}}");
    open.replace('}', &login)
}

/// A client of NATS that says whatever it likes.
struct Stranger(TcpStream);

impl Stranger {
    fn log_in(at: SocketAddr, user: &str) -> Self {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let mut stranger = Self(stream);
        let answer = stranger.say(&format!(
            "CONNECT {{\"user\":\"{user}\",\"pass\":\"pw-{user}\",\"verbose\":false}}\r\n"
        ));
        assert!(!answer.contains("-ERR"), "{answer}");
        stranger
    }

    /// Returns what the server says until it has taken `line`.
    fn say(&mut self, line: &str) -> String {
        let all = format!("{line}PING\r\n");
        self.0.write_all(all.as_bytes()).unwrap();
        let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
        while !heard.windows(6).any(|end| end == b"PONG\r\n") {
            let read = self.0.read(&mut buffer).unwrap();
            assert_ne!(read, 0, "cut: {}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8_lossy(&heard).into_owned()
    }

    fn may_publish(&mut self, subject: &str) -> bool {
        let answer = self.say(&format!("PUB {subject} 1\r\nx\r\n"));
        !answer.contains("Permissions Violation for Publish")
    }

    fn may_subscribe(&mut self, subject: &str) -> bool {
        let answer = self.say(&format!("SUB {subject} 7\r\nUNSUB 7\r\n"));
        !answer.contains("Permissions Violation for Subscription")
    }
}

/// Serves over a server of NATS whose configuration includes the passwords and exactly the printed text, as `docs/nats.md` says, and
/// one minion with the id and the user `minion`.
fn serve(printed: &str, users: &[&str], minion: &str) -> Option<(NatsServer, Fleet)> {
    let passwords = users.iter().chain(&["boss"]);
    let passwords: String = passwords
        .map(|user| format!("password_{user}: \"pw-{user}\"\n"))
        .collect();
    let text = format!("{passwords}{printed}");
    let server = NatsServer::start_including("saline-users.conf", &text)?;
    let options = format!("auto_accept: True\n{}", section(&server, "boss"));
    let mut fleet = Fleet::new("nats", &options);
    fleet.start_master();
    fleet.start_minion_with(minion, &section(&server, minion));
    present_within(TEST_TIMEOUT, &fleet, &[minion]);
    let said = json(&fleet, "saline", &[minion, "test.ping", "--static"]);
    assert_eq!(said, serde_json::json!({ minion: true }));
    Some((server, fleet))
}

#[test]
fn a_minion_with_a_user_of_its_own_works_and_another_one_touches_nothing_of_it() {
    let users = ["web1", "bad"];
    let Some((server, fleet)) = serve(&printed(&users), &users, "web1") else {
        return;
    };
    // Where its connections come from is the user.
    let up = json(&fleet, "saline-run", &["manage.up", "show_ip=True"]);
    assert_eq!(up, serde_json::json!({"web1": "account web1"}));
    let keys = fleet.run("saline-key", &["-L", "-v"]).expect(0).stdout;
    assert!(keys.contains("(account web1, heard "), "{keys}");

    let mut bad = Stranger::log_in(server.address(), "bad");
    for own in ["saline.e2e.hello.bad", "saline.e2e.up.bad.i.c"] {
        assert!(bad.may_publish(own), "{own}");
    }
    for own in ["saline.e2e.down.bad.c", "saline.e2e.all"] {
        assert!(bad.may_subscribe(own), "{own}");
    }
    for of_others in [
        "saline.e2e.hello.web1",
        "saline.e2e.up.web1.i.c",
        "saline.e2e.down.web1.c",
        "saline.e2e.down.bad.c",
        "saline.e2e.all",
        "saline.e2e.who.boss",
        "saline.e2e.who.bad",
    ] {
        assert!(!bad.may_publish(of_others), "{of_others}");
    }
    for of_others in [
        ">",
        "saline.e2e.>",
        "saline.e2e.down.web1.c",
        "saline.e2e.down.*.*",
        "saline.e2e.up.>",
        "saline.e2e.hello.*",
        "saline.e2e.who.*",
        "saline.other.all",
    ] {
        assert!(!bad.may_subscribe(of_others), "{of_others}");
    }
    let said = json(&fleet, "saline", &["web1", "test.ping", "--static"]);
    assert_eq!(said, serde_json::json!({"web1": true}));
}

#[test]
fn minions_that_share_a_user_cannot_pose_as_the_master_and_can_end_connections_of_each_other() {
    let Some((server, mut fleet)) = serve(&printed(&[]), &["minion"], "minion") else {
        return;
    };
    let mut shared = Stranger::log_in(server.address(), "minion");
    for of_master in [
        "saline.e2e.down.minion.c",
        "saline.e2e.all",
        "saline.e2e.who.minion",
    ] {
        assert!(!shared.may_publish(of_master), "{of_master}");
    }
    for of_master in ["saline.e2e.up.>", "saline.e2e.hello.*", "saline.e2e.who.*"] {
        assert!(!shared.may_subscribe(of_master), "{of_master}");
    }
    // That is what one user for all costs: each hears what is sent to the others, encrypted, and where they send.
    let answer = shared.say("SUB saline.e2e.down.minion.* 8\r\n");
    assert!(!answer.contains("-ERR"), "{answer}");
    fleet.start_minion_with("other", &section(&server, "minion"));
    let log = &fleet.minions["other"].log;
    log.wait_for("subscribed", 1);
    let heard = shared.say("");
    let is_up = |word: &&str| word.starts_with("saline.e2e.up.minion.");
    let up = heard.split(' ').rfind(is_up).unwrap();
    shared.say(&format!("PUB {up} 1\r\nx\r\n"));
    log.wait_for("the connection to the master is down", 1);
}

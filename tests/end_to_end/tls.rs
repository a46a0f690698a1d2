//! `ssl` in the files of a real master and its minions. The operators' page is `docs/tls.md`, and its
//! five lines of openssl make the certificates here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use saline_testing::Fleet;

/// The commands of `docs/tls.md`, as they stand there.
fn commands() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tls.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```sh\n").expect("a block of commands");
    let (block, _) = rest.split_once("```").expect("its end");
    block.to_owned()
}

/// A folder with what those commands make.
fn certificates(fleet: &Fleet) -> PathBuf {
    let folder = fleet.path("tls");
    std::fs::create_dir_all(&folder).unwrap();
    let made = Command::new("sh")
        .args(["-e", "-c", &commands()])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    folder
}

/// `ssl` with the certificate of `who`, or with none.
fn ssl(folder: &Path, who: Option<&str>) -> String {
    let at = |file: String| folder.join(file).display().to_string();
    let mut text = format!(
        "ssl:\n  ca_certs: {}\n  cert_reqs: CERT_REQUIRED\n",
        at("ca.crt".into())
    );
    if let Some(who) = who {
        text += &format!(
            "  certfile: {}\n  keyfile: {}\n",
            at(format!("{who}.crt")),
            at(format!("{who}.key"))
        );
    }
    text
}

fn with_certificates(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    let folder = certificates(&fleet);
    fleet.master_options = format!("auto_accept: True\n{}", ssl(&folder, Some("master")));
    fleet.start_master();
    fleet.start_minion_with("good", &ssl(&folder, Some("minion")));
    fleet.minions["good"].log.wait_for("subscribed", 1);

    fleet.start_minion_with("bare", &ssl(&folder, None));
    fleet.minions["bare"].log.wait_for("this side has none", 1);
    fleet.master().log.wait_for("shows no certificate", 1);

    let said = fleet.saline(&["*", "test.ping"]).expect(0);
    assert!(said.stdout.contains("good"), "{}", said.stdout);
    assert!(!said.stdout.contains("bare"), "{}", said.stdout);
    assert_eq!(fleet.minions["bare"].log.count("subscribed"), 0);
}

fn without_certificates(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "auto_accept: True\nssl: True\n");
    fleet.start_master();
    fleet.start_minion_with("m1", "ssl: True\n");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let said = fleet.saline(&["m1", "test.ping"]).expect(0);
    assert!(said.stdout.contains("True"), "{}", said.stdout);
}

mod tcp {
    #[test]
    fn mutual_tls_lets_in_who_has_a_certificate() {
        super::with_certificates("tcp");
    }

    #[test]
    fn ssl_true_needs_no_files() {
        super::without_certificates("tcp");
    }

    #[test]
    fn a_minion_without_ssl_learns_that_the_master_has_it() {
        let mut fleet = super::Fleet::new("tcp", "auto_accept: True\nssl: True\n");
        fleet.start_master();
        fleet.start_minion("clear");
        let log = &fleet.minions["clear"].log;
        log.wait_for("the server speaks TLS, and ssl is not set here", 1);
        fleet.master().log.wait_for("does not speak TLS", 1);
    }
}

mod quic {
    #[test]
    fn mutual_tls_lets_in_who_has_a_certificate() {
        super::with_certificates("quic");
    }

    #[test]
    fn ssl_true_needs_no_files() {
        super::without_certificates("quic");
    }
}

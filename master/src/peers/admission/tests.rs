use saline_channel::Identity;

use super::*;
use crate::authorize::LocalUser;
use crate::decisions::Details;
use crate::parts::testing::{CapturedLog, TestMaster};

fn key() -> PublicIdentity {
    Identity::generate().unwrap().public()
}

#[tokio::test]
async fn a_denied_key_has_one_line_in_the_audit_file() {
    let master = TestMaster::start(|config| config.auto_accept = true).await;
    let admission = master.state.admission();
    let id = MinionId::parse("web1").unwrap();
    let (own, other) = (key(), key());
    let accepted = admission.minion(&id, own, Source::Process, None).await;
    assert!(accepted.is_accepted());
    for _ in 0..2 {
        let denied = admission.minion(&id, other, Source::Process, None).await;
        assert_eq!(denied, Admission::Denied);
    }
    // It is written after the others, and waited for.
    admission
        .decisions
        .note_own_act("auto_accept", Details::default())
        .await;
    let lines = admission.decisions.audit.tail(10).await.unwrap();
    let denied = format!("deny, fingerprint {}", other.fingerprint());
    let about: Vec<_> = lines.iter().filter(|line| line.contains(&denied)).collect();
    assert_eq!(about.len(), 1, "{lines:?}");
    assert!(about[0].contains(r#""minions": ["web1"]"#), "{lines:?}");
}

#[tokio::test]
async fn a_user_that_gets_no_session_is_told_why_and_has_a_line() {
    let rules = "publisher_acl: {ann: [test.ping]}\npublisher_acl_blacklist: {users: [mallory]}\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("master"), rules).unwrap();
    let read = saline_config::MasterConfig::load(folder.path(), &[]).unwrap();
    let master = TestMaster::start(|config| {
        config.publisher_acl = read.config.publisher_acl;
        config.publisher_acl_blacklist = read.config.publisher_acl_blacklist;
    })
    .await;
    let admission = master.state.admission();
    for (name, told) in [
        ("ann", Admission::Accepted(())),
        ("eve", Admission::Rejected),
        ("mallory", Admission::Denied),
    ] {
        let user = LocalUser {
            uid: 1000,
            name: name.to_owned(),
            groups: Vec::new(),
        };
        let decision = admission.admit_user(Arc::new(user)).await;
        assert_eq!(decision.admission, told, "{name}");
    }
    admission
        .decisions
        .note_own_act("auto_accept", Details::default())
        .await;
    let lines = admission.decisions.audit.tail(10).await.unwrap();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].contains("local user eve") && lines[0].contains("no rule of publisher_acl"));
    assert!(
        lines[1].contains("publisher_acl_blacklist: users: mallory"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn names_of_strangers_do_not_fill_the_log() {
    let master = TestMaster::start(|config| config.max_minions = 1).await;
    let admission = master.state.admission();
    let (logged, _guard) = CapturedLog::from_now_on();
    let proven = VerifiedPeer {
        role: Role::Operator,
        id: String::new(),
        identity: key(),
        noise: [1; 32],
        issued: 0,
        versions: ProtocolVersions::OURS,
        software: SOFTWARE.to_owned(),
        attempted: None,
        token: None,
    };
    for number in 0..3_000 {
        let id = format!("operator{number}");
        let proven = VerifiedPeer {
            id,
            ..proven.clone()
        };
        let refused = admission.operator(&proven, ListenerKind::Network).await;
        assert_eq!(refused, Ok(Admission::Rejected));
    }
    let lines = logged.text().matches("refused operator").count();
    assert!((1_000..1_500).contains(&lines), "{lines}");
}

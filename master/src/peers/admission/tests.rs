use saline_channel::Identity;

use super::*;
use crate::parts::testing::TestMaster;

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
    admission.decisions.note_own_act(Details::default()).await;
    let lines = admission.decisions.audit.tail(10).await.unwrap();
    let denied = format!("deny, fingerprint {}", other.fingerprint());
    let about: Vec<_> = lines.iter().filter(|line| line.contains(&denied)).collect();
    assert_eq!(about.len(), 1, "{lines:?}");
    assert!(about[0].contains(r#""minions": ["web1"]"#), "{lines:?}");
}

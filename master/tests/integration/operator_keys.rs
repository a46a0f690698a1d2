//! Operators whose keys cannot be read for a moment, as when the master may open no more files.

use saline_channel::{ChannelError, MasterTrust, establish};
use saline_messages::{Admission, KeyRequest, OperatorReply, OperatorRequest, RefusedVerb, Role};
use saline_protocol::transport::Clock;

use crate::support::{Deployment, Peer, TEST_TIMEOUT, credentials};

#[tokio::test]
async fn an_operator_whose_key_cannot_be_read_now_is_not_told_that_it_is_gone() {
    let deployment = Deployment::start(true).await;
    let folder = deployment.config.paths.pki_dir.join("operators");
    let credentials = credentials(Role::Operator, "alice");
    let key = credentials.identity.public().to_pem();
    std::fs::write(folder.join("alice"), key).unwrap();
    let trust = MasterTrust::Pinned(deployment.master_keys());
    let network = deployment.network().await;
    let alice = Peer::come(network.clone(), credentials.clone(), &trust).await;
    let list = || alice.order(OperatorRequest::Keys(KeyRequest::List));
    assert!(matches!(list().await, OperatorReply::Keys(_)));

    // Whatever is asked for below a file fails, and not because it is not there.
    let aside = folder.with_extension("aside");
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "").unwrap();
    match list().await {
        OperatorReply::Failed(why) => assert!(why.contains("try again"), "{why}"),
        other => panic!("{other:?}"),
    }
    let deadline = || Clock.after(TEST_TIMEOUT);
    let resumed = establish(&*network, &credentials, &trust, deadline()).await;
    assert!(
        matches!(resumed, Err(ChannelError::Busy { .. })),
        "{resumed:?}"
    );
    let first = MasterTrust::FirstUse { finger: None };
    let met = establish(&*network, &credentials, &first, deadline()).await;
    assert_eq!(met.unwrap().answer, Admission::Full);

    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    assert!(matches!(list().await, OperatorReply::Keys(_)), "it stands");
    std::fs::remove_file(folder.join("alice")).unwrap();
    assert_eq!(
        list().await,
        OperatorReply::Refused(RefusedVerb::KeyGone),
        "and ends with its key"
    );
}

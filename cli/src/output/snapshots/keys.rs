//! Snapshots of `key`.

use saline_messages::KeyState;

use super::*;
use crate::output::keys::{self, Heading, Line};

#[test]
fn keys_under_their_headings() {
    let line = |name: &str| Line {
        name: name.into(),
        detail: None,
        remark: None,
    };
    let groups = [
        (
            Heading::State(KeyState::Accepted),
            vec![line("m000"), line("m001")],
        ),
        (Heading::State(KeyState::Denied), vec![]),
        (Heading::State(KeyState::Pending), vec![]),
        (Heading::State(KeyState::Rejected), vec![line("m002")]),
    ];
    let show = |style| String::from_utf8_lossy(&keys::render(&groups, style)).replace('\x1b', "␛");
    insta::assert_snapshot!(show(PLAIN), @"
    Accepted Keys:
    m000
    m001
    Denied Keys:
    Unaccepted Keys:
    Rejected Keys:
    m002
    ");
    insta::assert_snapshot!(show(COLOURED), @"
    ␛[0;1;32mAccepted Keys:␛[0;0m
    ␛[0;32mm000␛[0;0m
    ␛[0;32mm001␛[0;0m
    ␛[0;1;35mDenied Keys:␛[0;0m
    ␛[0;1;31mUnaccepted Keys:␛[0;0m
    ␛[0;1;34mRejected Keys:␛[0;0m
    ␛[0;34mm002␛[0;0m
    ");
    let finger = [(
        Heading::Local,
        vec![Line {
            name: "master.pub".into(),
            detail: Some("56:20".into()),
            remark: None,
        }],
    )];
    insta::assert_snapshot!(String::from_utf8_lossy(&keys::render(&finger, PLAIN)), @"
    Local Keys:
    master.pub:  56:20
    ");
    let remarked = |detail: Option<&str>| Line {
        name: "m000".into(),
        detail: detail.map(str::to_owned),
        remark: Some("192.0.2.1, heard 3 s ago".into()),
    };
    let details = [None, Some("56:20"), Some("-----BEGIN\n-----END")];
    let remarked = [(
        Heading::State(KeyState::Pending),
        details.map(remarked).to_vec(),
    )];
    insta::assert_snapshot!(String::from_utf8_lossy(&keys::render(&remarked, PLAIN)), @"
    Unaccepted Keys:
    m000  (192.0.2.1, heard 3 s ago)
    m000:  56:20  (192.0.2.1, heard 3 s ago)
    m000:  -----BEGIN
    -----END
    (192.0.2.1, heard 3 s ago)
    ");
}

#[test]
fn keys_as_data() {
    let data = Value::map([
        ("minions_pre", Value::texts(["web2"])),
        ("minions", Value::map([("web1", "12:34".into())])),
    ]);
    let shown_keys = Format::Key.render(&data, PLAIN, false).unwrap_or_default();
    insta::assert_snapshot!(String::from_utf8_lossy(&shown_keys), @"
    Accepted Keys:
    web1:  12:34
    Unaccepted Keys:
    web2
    ");
    insta::assert_snapshot!(shown(Format::Key, Value::Bool(true)), @"
    m000:
        True
    ");
}

//! `saline-key`.

use super::*;

#[test]
fn keys() {
    let fleet = Fleet::with_minions("tcp", &MINIONS);
    let key = |words: &[&str]| {
        let said = fleet.run("saline-key", words);
        shown(&fleet, said)
    };
    insta::assert_snapshot!(key(&["-L"]), @"
    --- stdout
    Accepted Keys:
    m000
    m001
    m002
    Denied Keys:
    Unaccepted Keys:
    Rejected Keys:
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(key(&["-L", "--out=json"]), @r#"
    --- stdout
    {
        "minions_pre": [],
        "minions_rejected": [],
        "minions": [
            "m000",
            "m001",
            "m002"
        ],
        "minions_denied": []
    }
    --- stderr
    --- exit 0
    "#);
    insta::assert_snapshot!(key(&["-f", "m000"]), @"
    --- stdout
    Accepted Keys:
    m000:  KEY
    --- stderr
    --- exit 0
    ");
}

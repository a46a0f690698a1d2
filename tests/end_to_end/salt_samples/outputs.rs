//! The outputs.

use super::*;

#[test]
fn pings_in_every_format() {
    let fleet = Fleet::with_minions("tcp", &MINIONS);
    let ping = |target: &str, more: &[&str]| {
        let said = fleet.saline(&[&[target, "test.ping"], more].concat());
        shown(&fleet, sorted(said))
    };
    insta::assert_snapshot!(ping("*", &[]), @"
    --- stdout
    m000:
        True
    m001:
        True
    m002:
        True
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(ping("m00[0-1]", &["--out=json"]), @r#"
    --- stdout
    {
        "m000": true
    }
    {
        "m001": true
    }
    --- stderr
    --- exit 0
    "#);
    insta::assert_snapshot!(ping("*", &["--out=json", "--static"]), @r#"
    --- stdout
    {
        "m000": true,
        "m001": true,
        "m002": true
    }
    --- stderr
    --- exit 0
    "#);
    insta::assert_snapshot!(ping("m00[0-1]", &["--out=raw"]), @"
    --- stdout
    {'m000': True}
    {'m001': True}
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(ping("m00[0-1]", &["--out=txt"]), @"
    --- stdout
    m000: True
    m001: True
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(ping("m00[0-1]", &["--out=yaml"]), @"
    --- stdout
    m000: true
    m001: true
    --- stderr
    --- exit 0
    ");
    let said = fleet.saline(&["m000", "test.ping", "--summary"]);
    insta::assert_snapshot!(shown(&fleet, said), @"
    --- stdout
    m000:
        True


    -------------------------------------------
    Summary
    -------------------------------------------
    # of minions targeted: 1
    # of minions returned: 1
    # of minions that did not return: 0
    # of minions with errors: 0
    -------------------------------------------
    --- stderr
    --- exit 0
    ");
    let said = fleet.saline(&["m000", "test.ping", "-v"]);
    insta::assert_snapshot!(shown(&fleet, said), @"
    --- stdout
    Executing job with jid JID
    -------------------------------------------

    m000:
        True
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(ping("*", &["--async"]), @"
    --- stdout
    Executed command with job ID: JID
    --- stderr
    --- exit 0
    ");
}

//! Snapshots of `nested`.

use super::*;

#[test]
fn nested_scalars_and_texts() {
    insta::assert_snapshot!(shown(Format::Nested, Value::Bool(true)), @"
    m000:
        True
    ");
    insta::assert_snapshot!(shown(Format::Nested, "hi\nerr\n\n".into()), @"
    m000:
        hi
        err
    ");
    insta::assert_snapshot!(shown(Format::Nested, "".into()), @"m000:");
}

#[test]
fn nested_everything() {
    insta::assert_snapshot!(shown(Format::Nested, everything()), @"
    m000:
        ----------
        empty list:
        empty map:
            ----------
        empty text:
        large:
            18446744073709551615
        lines:
            one
           ·
              two ä
        nested:
            - 1
            |_
              - 2
              |_
                - None
            |_
              ----------
              j:
                  ----------
                  i:
                      1.5
              k:
                  - v
            |_
              ----------
        no:
            False
        none:
            None
        pi:
            3.0
        texts:
            - a
            - b
              c
        yes:
            True
        zero:
            0
    ");
}

#[test]
fn nested_run_all() {
    let value = Value::map([
        ("stdout", "hi".into()),
        ("pid", Value::Int(22023)),
        ("retcode", Value::Int(3)),
        ("stderr", "err".into()),
    ]);
    insta::assert_snapshot!(shown(Format::Nested, value), @"
    m000:
        ----------
        pid:
            22023
        retcode:
            3
        stderr:
            err
        stdout:
            hi
    ");
}

#[test]
fn nested_in_colours() {
    let value = Value::map([
        ("text", "a".into()),
        ("list", Value::List(vec![Value::Null, Value::Map(vec![])])),
    ]);
    insta::assert_snapshot!(styled(Format::Nested, value.clone(), COLOURED, false), @"
    ␛[0;36mm000␛[0;0m:
        ␛[0;36m----------␛[0;0m
        ␛[0;36mlist␛[0;0m:
            ␛[0;1;33m- None␛[0;0m
            ␛[0;32m|_␛[0;0m
              ␛[0;36m----------␛[0;0m
        ␛[0;36mtext␛[0;0m:
            ␛[0;32ma␛[0;0m
    ");
    insta::assert_snapshot!(styled(Format::Nested, value, COLOURED, true), @"
    ␛[0;31mm000␛[0;0m:
        ␛[0;31m----------␛[0;0m
        ␛[0;31mlist␛[0;0m:
            ␛[0;1;33m- None␛[0;0m
            ␛[0;31m|_␛[0;0m
              ␛[0;31m----------␛[0;0m
        ␛[0;31mtext␛[0;0m:
            ␛[0;32ma␛[0;0m
    ");
}

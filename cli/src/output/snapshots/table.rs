//! Snapshots of `table`.

use super::*;

#[test]
fn table() {
    insta::assert_snapshot!(shown(Format::Table, Value::Bool(true)), @"
    ---------------
    | m000 | True |
    ---------------
    ");
    insta::assert_snapshot!(shown(Format::Table, services()), @"
    m000:
        ------------------------
        | name  | port | up    |
        ------------------------
        | ssh   | 22   | True  |
        | https | 443  | False |
        ------------------------
    ");
    insta::assert_snapshot!(shown(Format::Table, everything()), @r"
    m000:
        zero:
            0
        none:
            None
        yes:
            True
        no:
            False
        large:
            18446744073709551615
        pi:
            3.0
        empty text:
        empty list:
            []
        empty map:
            {}
        lines:
            one
           ·
              two ä
        texts:
            --------
            | a    |
            | b\nc |
            --------
        nested:
            ------------------------------------------
            | 1                             |        |
            | 2                             | [None] |
            | {'k': ['v'], 'j': {'i': 1.5}} |        |
            | {}                            |        |
            ------------------------------------------
    ");
    let rows = |rows: Vec<Vec<Value>>| {
        let rows = rows.into_iter().map(Value::List).collect();
        shown(Format::Table, Value::map([("rows", Value::List(rows))]))
    };
    insta::assert_snapshot!(rows(vec![vec![], vec![1_i64.into(), "b".into()]]), @"
    m000:
        rows:
            ---------
            |   |   |
            | 1 | b |
            ---------
    ");
    insta::assert_snapshot!(rows(vec![vec![], vec![]]), @"
    m000:
        rows:
            [[], []]
    ");
    insta::assert_snapshot!(styled(Format::Table, services(), COLOURED, true), @"
    ␛[0;31mm000␛[0;0m:
        ------------------------
        | name  | port | up    |
        ------------------------
        | ssh   | 22   | True  |
        | https | 443  | False |
        ------------------------
    ");
}

#[test]
fn a_table_is_not_much_larger_than_what_was_returned() {
    let wide = Value::List(vec![Value::from("x".repeat(100_000)); 50]);
    let narrow = (0..19_000).map(|_| Value::List(vec![Value::Null]));
    let rows = Value::List(
        narrow
            .chain([wide.clone()])
            .take(9_000)
            .chain([wide])
            .collect(),
    );
    let size = |value| {
        Format::Table
            .render(&value, PLAIN, false)
            .unwrap_or_default()
            .len()
    };
    assert!(size(rows) < 100_000_000);
    let many = Value::List(vec![Value::Map(vec![]); 100_000]);
    assert_eq!(
        shown(Format::Table, many.clone()),
        shown(Format::Nested, many)
    );
    let distinct = (0..1_000).map(|n| Value::Map(vec![(format!("k{n}"), Value::Null)]));
    assert!(size(Value::List(distinct.collect())) < 100_000);
}

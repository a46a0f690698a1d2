use proptest::prelude::*;

use super::*;

const YES: Value = Value::Bool(true);

#[test]
fn matches_are_replaced_with_their_groups() {
    let files = Files::new();
    let path = files.file("hosts", "10.0.0.1 a\n10.0.0.2 b\n");
    let (pattern, repl) = (r"^10\.0\.0\.(?P<last>\d+)", r"10.1.0.\g<last>\t#\1");
    let told = files.done("replace", &path, &[pattern, repl], &[("dry_run", YES)]);
    assert!(is_changed(&told));
    assert_eq!(read(&path), "10.0.0.1 a\n10.0.0.2 b\n");
    let once = [("count", Value::Int(1))];
    let answer = files.done("replace", &path, &[pattern, repl], &once);
    insta::assert_snapshot!(files.diff(&answer), @r"
    --- FOLDER/hosts
    +++ FOLDER/hosts
    @@ -1,2 +1,2 @@
    -10.0.0.1 a
    +10.1.0.1	#1 a
     10.0.0.2 b
    ");
    // Without MULTILINE, `^` is the beginning of the file.
    let none = files.done(
        "replace",
        &path,
        &[pattern, repl],
        &[("flags", Value::Int(0))],
    );
    assert!(!is_changed(&none));
    let flags = Value::texts(["MULTILINE", "ignorecase"]);
    let literal = [("flags", flags), ("backslash_literal", YES)];
    files.done("replace", &path, &["B$", r"\1"], &literal);
    assert_eq!(read(&path), "10.1.0.1\t#1 a\n10.0.0.2 \\1\n");
    let found = files.done("replace", &path, &["0.2", ""], &[("search_only", YES)]);
    assert_eq!(found, YES);
}

#[test]
fn a_missing_line_is_added_once() {
    let files = Files::new();
    let path = files.file("conf", "a=1");
    let add = [("append_if_not_found", YES)];
    for is_first in [true, false] {
        let answer = files.done("replace", &path, &["^b=.*", "b=2"], &add);
        // Now the line matches, and is replaced with itself.
        assert_eq!(is_changed(&answer), is_first);
        assert_eq!(read(&path), "a=1\nb=2\n");
    }
    let above = [
        ("prepend_if_not_found", YES),
        ("not_found_content", "# top".into()),
    ];
    for _ in 0..2 {
        files.done("replace", &path, &["^c=.*", "c=3"], &above);
        assert_eq!(read(&path), "# top\na=1\nb=2\n");
    }
}

#[test]
fn what_cannot_be_replaced_is_refused() {
    let files = Files::new();
    let path = files.file("conf", "a\n");
    let mut said = Vec::new();
    for (pattern, repl) in [
        ("(", ""),
        ("a", r"\1"),
        ("a", r"\q"),
        ("a", "\\"),
        ("(?=a)", ""),
    ] {
        said.push(files.refused("replace", &path, &[pattern, repl], &[]));
    }
    let missing = files.path("missing");
    said.push(files.refused("replace", &missing, &["a", "b"], &[]));
    let binary = files.file("binary", "a\0");
    said.push(files.refused("replace", &binary, &["a", "b"], &[]));
    insta::assert_snapshot!(said.join("\n"), @r#"
    ERROR executing 'file.replace': the regular expression "(" is not understood: unclosed group
    ERROR executing 'file.replace': the replacement "\\1" names the group "1", which the pattern lacks; backslash_literal=True takes it as it is
    ERROR executing 'file.replace': the replacement "\\q" has '\q', which means nothing; backslash_literal=True takes it as it is
    ERROR executing 'file.replace': the replacement "\\" ends with a backslash; backslash_literal=True takes it as it is
    ERROR executing 'file.replace': the regular expression "(?=a)" is not understood: look-around, including look-ahead and look-behind, is not supported
    ERROR: cannot edit FOLDER/missing: there is no such file
    ERROR: cannot edit FOLDER/binary: it is a binary file (it has null bytes)
    "#);
    let ignored = [("ignore_if_missing", YES)];
    assert!(!is_changed(&files.done(
        "replace",
        &missing,
        &["a", "b"],
        &ignored
    )));
    // A replacement that grows without bound is stopped.
    let large = files.file("large", "a".repeat(1 << 20));
    let refused = files.refused("replace", &large, &["a", &"b".repeat(100)], &[]);
    assert!(refused.contains("more than 67108864 bytes"), "{refused}");
}

#[test]
fn a_block_is_replaced_added_and_refused_without_its_end() {
    let files = Files::new();
    let path = files.file("hosts", "first\n# BEGIN x\nold\n# END x\nlast\n");
    let markers = ["# BEGIN", "# END"];
    let answer = files.done(
        "blockreplace",
        &path,
        &[markers[0], markers[1], "new\nlines"],
        &[],
    );
    insta::assert_snapshot!(files.diff(&answer), @r"
    --- FOLDER/hosts
    +++ FOLDER/hosts
    @@ -1,5 +1,6 @@
     first
     # BEGIN x
    -old
    +new
    +lines
     # END x
     last
    ");
    let path = files.file("plain", "first\nlast");
    let missing = files.refused("blockreplace", &path, &["<", ">", "c"], &[]);
    assert!(missing.contains("append_if_not_found=True"), "{missing}");
    let beside = [("insert_after_match", "^first".into())];
    files.done("blockreplace", &path, &["<", ">", "c"], &beside);
    assert_eq!(read(&path), "first\n<\nc\n>\nlast");
    let path = files.file("open", "a\n<\nb\n");
    let open = files.refused("blockreplace", &path, &["<", ">", "c"], &[]);
    assert!(
        open.contains("starts in line 2 has no end marker"),
        "{open}"
    );
    let nested = files.refused("blockreplace", &path, &["<", ">", "c > d"], &[]);
    assert!(nested.contains("contains a marker"), "{nested}");
}

#[test]
fn single_lines_are_ensured_inserted_replaced_and_deleted() {
    let files = Files::new();
    let path = files.file("conf", "[a]\n  x = 1\n  y = 2\n[b]\n");
    let mode = |mode: &str, others: &[(&'static str, Value)]| {
        let mut named = vec![("mode", Value::from(mode))];
        named.extend(others.iter().cloned());
        files.call("line", &path, &[], &named)
    };
    let z = ("content", Value::from("z = 3"));
    for is_first in [true, false] {
        let answer = mode("ensure", &[z.clone(), ("after", "y =".into())]);
        assert_eq!(is_changed(&answer.value), is_first);
    }
    assert_eq!(read(&path), "[a]\n  x = 1\n  y = 2\n  z = 3\n[b]\n");
    mode(
        "replace",
        &[("match", "^ *x".into()), ("content", "x = 9".into())],
    );
    mode("delete", &[("match", "z|y".into())]);
    for _ in 0..2 {
        mode(
            "insert",
            &[("content", "end".into()), ("location", "end".into())],
        );
        mode(
            "insert",
            &[("content", "top".into()), ("location", "start".into())],
        );
    }
    assert_eq!(read(&path), "top\n[a]\n  x = 9\n[b]\nend\n");
    let several = mode("insert", &[z, ("before", r"^\[".into())]);
    assert!(
        text(&several).contains("several lines match"),
        "{several:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_second_replacement_changes_nothing(
        contents in "((k=|x)[ab]{0,3}\n?){0,8}",
        line in "k=[xyz]{1,4}",
    ) {
        let files = Files::new();
        let path = files.file("f", &contents);
        let add = [("append_if_not_found", YES)];
        files.done("replace", &path, &["^k=.*", &line], &add);
        let after = read(&path);
        prop_assert!(after.lines().any(|one| one == line), "{after:?}");
        let again = files.done("replace", &path, &["^k=.*", &line], &add);
        prop_assert!(!is_changed(&again), "{contents:?} {after:?} {:?}", read(&path));
    }

    #[test]
    fn a_second_block_changes_nothing(
        contents in "([ab<> ]{0,4}(\r\n|\n)?){0,8}",
        block in "([ab ]{0,5}\n?){0,4}",
        place in 0..2_usize,
    ) {
        let files = Files::new();
        let path = files.file("f", &contents);
        let add = [[("append_if_not_found", YES)], [("prepend_if_not_found", YES)]];
        let arguments = ["<", ">", &block];
        // Unbalanced markers are refused and leave the file alone.
        let first = files.call("blockreplace", &path, &arguments, &add[place]);
        if first.retcode == 0 {
            let again = files.done("blockreplace", &path, &arguments, &add[place]);
            prop_assert!(!is_changed(&again), "{contents:?}");
        } else {
            prop_assert_eq!(read(&path), contents);
        }
    }
}

//! What is refused, with which words, and at which place.

use super::*;

/// Returns the error, and its place as a picture.
fn refused(kind: TargetKind, expression: &str) -> String {
    let error = target(kind, expression).compile().unwrap_err();
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    let problem = error.to_string().replace("the target is malformed: ", "");
    match error.picture(expression) {
        Some(picture) => {
            assert_eq!(picture.lines().count(), 2, "{picture}");
            format!("{problem}\n{picture}")
        }
        None => problem,
    }
}

#[test]
fn a_wrong_expression_is_refused_at_its_place() {
    for (expression, expected) in [
        (
            "G@os:Debian and",
            "expected a term after `and`\n  G@os:Debian and\n                 ^",
        ),
        ("and web*", "expected a term before `and`\n  and web*\n  ^"),
        (
            "web* or or db*",
            "expected a term after `or`\n  web* or or db*\n          ^",
        ),
        (
            "web* db*",
            "expected `and` or `or` before this term\n  web* db*\n       ^",
        ),
        ("not", "expected a term after `not`\n  not\n     ^"),
        ("( web* or db*", "this `(` has no `)`\n  ( web* or db*\n  ^"),
        ("web* )", "this `)` has no `(`\n  web* )\n       ^"),
        ("()", "expected a term after `(`\n  ()\n   ^"),
        (
            "web* and X@y",
            "`X@` is not a kind of target; these are: G@, P@, E@, L@, S@, N@, A@, I@ and J@\n  web* and X@y\n           ^",
        ),
        (
            "web* and E@(a",
            "not a regular expression: unclosed group\n  web* and E@(a\n             ^",
        ),
        (
            "E@(?=(a",
            "not a regular expression: Opening parenthesis without closing parenthesis\n  E@(?=(a\n         ^",
        ),
        (
            "web* and [",
            "not a glob: unclosed character class; missing ']'\n  web* and [\n           ^",
        ),
        (
            "G@os",
            "expected a grain and a pattern with `:` between them, as in os:Debian\n  G@os\n    ^",
        ),
        ("G@", "expected a pattern after the `@`\n  G@\n    ^"),
        (
            "I@role",
            "expected a key of the pillar and a pattern with `:` between them, as in role:web\n  I@role\n    ^",
        ),
        (
            "R@%web",
            "Saline has no range servers (-R, R@); a list (-L) or a nodegroup (-N) names minions\n  R@%web\n  ^",
        ),
        (
            "web* or \"db",
            "this quotation mark has no second one\n  web* or \"db\n          ^",
        ),
        (
            "\"a\"b",
            "expected a space after the quotation mark\n  \"a\"b\n     ^",
        ),
        ("", "the target is empty; '*' names all minions"),
        (" ", "the target is empty; '*' names all minions"),
        ("a or L@,", "this list names nobody\n  a or L@,\n         ^"),
        (
            "é*\tand",
            "expected a term after `and`\n  é*?and\n        ^",
        ),
    ] {
        assert_eq!(
            refused(TargetKind::Compound, expression),
            expected,
            "{expression}"
        );
    }
    let long = format!("{} and", "web* or ".repeat(20) + "db*");
    let shown = refused(TargetKind::Compound, &long);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[1].starts_with("  …") && lines[1].ends_with(" and"),
        "{shown}"
    );
    assert_eq!(
        lines[2].chars().count(),
        lines[1].chars().count() + 1,
        "{shown}"
    );
}

#[test]
fn a_compound_target_without_its_option_says_which_is_missing() {
    for (expression, expected) in [
        (
            "G@os:Debian",
            "`G@os:Debian` is a compound target: add -C (tgt_type=compound), or write -G os:Debian",
        ),
        (
            "E@web[0-9]+",
            "`E@web[0-9]+` is a compound target: add -C (tgt_type=compound), or write -E web[0-9]+",
        ),
        (
            "G|@os|Debian",
            "`G|@os|Debian` is a compound target: add -C (tgt_type=compound)",
        ),
        (
            "G@",
            "`G@` is a compound target: add -C (tgt_type=compound)",
        ),
        (
            "web* and not (N@db)",
            "`web* and not (N@db)` is a compound target: add -C (tgt_type=compound)",
        ),
        (
            "me@example.com",
            "`me@` is not a kind of target; these are: G@, P@, E@, L@, S@, N@, A@, I@ and J@\n  me@example.com\n  ^",
        ),
    ] {
        assert_eq!(refused(TargetKind::Glob, expression), expected);
    }
    let long = format!("G@os:{}", "x".repeat(1000));
    assert!(refused(TargetKind::Glob, &long).len() < 200);
}

#[test]
fn what_is_too_large_is_refused() {
    use TargetKind::Compound;
    let refused = |expression: String| target(Compound, &expression).compile().unwrap_err();
    let terms = |number: usize| vec!["a"; number].join(" or ");
    assert!(target(Compound, &terms(MAX_TERMS)).compile().is_ok());
    assert_eq!(
        refused(terms(MAX_TERMS + 1)).problem,
        TargetProblem::TooManyTerms
    );
    let nested = |depth: usize| "(".repeat(depth) + "a" + &")".repeat(depth);
    assert!(target(Compound, &nested(MAX_DEPTH)).compile().is_ok());
    assert_eq!(
        refused(nested(MAX_DEPTH + 1)).problem,
        TargetProblem::TooDeep
    );
    let negated = |depth: usize| "not ".repeat(depth) + "a";
    assert!(target(Compound, &negated(MAX_DEPTH)).compile().is_ok());
    assert_eq!(
        refused(negated(MAX_DEPTH + 1)).problem,
        TargetProblem::TooDeep
    );
    assert_eq!(
        refused("not ".repeat(1000) + "a").problem,
        TargetProblem::TooDeep
    );
    assert_eq!(
        refused("(".repeat(100_000)).problem,
        TargetProblem::TooManyTerms
    );
    // Each alone would be allowed.
    let large = vec!["E@(a{100}){90}"; 100].join(" or ");
    assert!(matches!(refused(large).problem, TargetProblem::Pattern(_)));
    let long = vec![format!("E@{}", "a".repeat(MAX_PATTERN / 2)); 3].join(" or ");
    assert!(matches!(
        refused(long).problem,
        TargetProblem::PatternsTooLong(_)
    ));
    let colons = format!("P@{}{}", "a:".repeat(20), "b".repeat(MAX_PATTERN / 10));
    assert!(matches!(
        refused(colons).problem,
        TargetProblem::PatternsTooLong(_)
    ));
    let parts = format!("G@{}", vec!["a"; MAX_PARTS + 1].join(":"));
    assert_eq!(refused(parts).problem, TargetProblem::TooManyParts);
}

#[test]
fn what_cannot_be_read_says_why_in_one_line() {
    let nested = |levels: usize| "{".repeat(levels) + &"}".repeat(levels);
    for (kind, text) in [
        (TargetKind::Glob, "a[b"),
        (TargetKind::Glob, "a\n[b"),
        (TargetKind::Glob, "[\n-\t]"),
        (TargetKind::Glob, "G@os:Debian"),
        (TargetKind::Glob, "a\nG@os:Debian"),
        (TargetKind::Compound, "'a\nG@os:Debian'"),
        (TargetKind::Compound, "'G\n@os'"),
        (TargetKind::Pcre, "a\n("),
        (TargetKind::Pcre, "("),
        (TargetKind::Pcre, "(?=a)\n("),
        (TargetKind::List, " , "),
        (TargetKind::Glob, ""),
        (TargetKind::Pcre, "(((a{100}){100}){100})"),
        (TargetKind::Pcre, "(?=(((a{100}){100}){100}))"),
        (TargetKind::Glob, "?".repeat(MAX_EXPRESSION).as_str()),
        (TargetKind::Glob, "[!a]".repeat(MAX_EXPRESSION / 4).as_str()),
        (TargetKind::Glob, nested(MAX_EXPRESSION / 2).as_str()),
        (TargetKind::Glob, nested(MAX_PATTERN / 2).as_str()),
        (TargetKind::Pcre, "(".repeat(MAX_PATTERN).as_str()),
        (TargetKind::Pcre, "a|".repeat(MAX_EXPRESSION / 2).as_str()),
    ] {
        refused(kind, text);
    }
}

#[test]
fn a_word_of_parentheses_takes_no_square_of_its_length() {
    // It took a minute when each parenthesis looked at all that follow it. What is refused is refused soon.
    let target = Target {
        kind: TargetKind::Compound,
        expression: format!("a{})x", ")".repeat(500_000)),
    };
    assert!(target.compile().is_err());
}

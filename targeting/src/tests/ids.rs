//! Targets over ids: globs, regular expressions, lists.

use super::*;

#[test]
fn globs_match_as_fnmatch_does() {
    use TargetKind::Glob;
    assert!(matches(Glob, "*", "web.example.com"));
    assert!(matches(Glob, "m00[0-2]", "m001"));
    assert!(!matches(Glob, "m00[!0-2]", "m001"));
    assert!(matches(Glob, "m?", "m1"));
    assert!(!matches(Glob, "m", "m1"));
    assert!(!matches(Glob, "M1", "m1"));
}

#[test]
fn regular_expressions_match_from_the_beginning() {
    use TargetKind::Pcre;
    assert!(matches(Pcre, "m00[89]", "m008"));
    assert!(matches(Pcre, "m0", "m008"));
    assert!(!matches(Pcre, "00", "m008"));
    assert!(!matches(Pcre, "x|y", "my"));
}

#[test]
fn regular_expressions_look_around() {
    use TargetKind::Pcre;
    assert!(matches(Pcre, "web(?!9)", "web1"));
    assert!(!matches(Pcre, "web(?!9)", "web9"));
    assert!(matches(Pcre, r"(\w)\1", "aab"));
    assert!(!matches(Pcre, "(?=x)|y", "my"));
    assert!(matches(Pcre, ".*(?<!db)$", "web1"));
    assert!(!matches(Pcre, ".*(?<!db)$", "web-db"));
}

#[test]
fn an_expression_that_goes_back_too_often_decides_nothing() {
    let hard = target(TargetKind::Pcre, "(?:a|aa)+(?!b)c");
    let compiled = hard.compile().unwrap();
    let id = &*"a".repeat(200);
    let decided = compiled.decide(Candidate {
        id,
        grains: None,
        pillar: None,
    });
    assert_eq!(decided, Err(TooManySteps));
}

#[test]
fn lists_take_commas_and_spaces() {
    use TargetKind::List;
    assert!(matches(List, "a,b c", "c"));
    assert!(!matches(List, "a,b", "c"));
}

//! What targets mean, and that every expression is read or refused within bounds.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::message::{MinionId, Packed, Value};

fn target(kind: TargetKind, expression: &str) -> Target {
    Target {
        kind,
        expression: expression.into(),
    }
}

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

fn matches(kind: TargetKind, expression: &str, name: &str) -> bool {
    let compiled = target(kind, expression).compile().unwrap();
    compiled.includes_id(&id(name))
}

fn grains() -> Value {
    Value::map([
        ("os", Value::from("Debian")),
        ("osfullname", Value::from("Debian GNU/Linux")),
        ("num_cpus", Value::from(4_i64)),
        ("load", Value::from(1.0)),
        ("efi", Value::from(true)),
        ("nothing", Value::Null),
        ("empty", Value::map::<&str>([])),
        ("roles", Value::texts(["Web", "cache"])),
        ("ipv4", Value::texts(["127.0.0.1", "10.1.2.3"])),
        ("ipv6", Value::texts(["::1", "2001:db8::7", "no address"])),
        (
            "ip_interfaces",
            Value::map([
                ("eth0", Value::texts(["10.1.2.3", "fe80::1"])),
                ("lo", Value::texts(["127.0.0.1"])),
            ]),
        ),
        (
            "disks",
            Value::List(vec![
                Value::map([("name", Value::from("sda")), ("size", Value::from(10_i64))]),
                Value::map([("name", Value::from("sdb"))]),
            ]),
        ),
    ])
}

fn decide(kind: TargetKind, expression: &str, grains: Option<&dyn Grains>) -> Inclusion {
    let compiled = target(kind, expression).compile().unwrap();
    let id = &id("web1");
    compiled.decide(Candidate { id, grains }).unwrap()
}

/// Whether the target includes `web1` with [`grains`], which it must say of the packed grains as well.
fn includes(kind: TargetKind, expression: &str) -> bool {
    let value = grains();
    let packed = PackedGrains::read(&Packed::pack(&value)).unwrap();
    let decided = decide(kind, expression, Some(&value));
    assert_eq!(decided, decide(kind, expression, Some(&packed)));
    decided == Inclusion::Included
}

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
    let id = &id(&"a".repeat(200));
    let decided = compiled.decide(Candidate { id, grains: None });
    assert_eq!(decided, Err(TooManySteps));
}

#[test]
fn values_that_are_matched_by_going_back_are_bounded() {
    let many = |count| {
        let value = Value::Map(vec![("l".to_owned(), Value::List(vec!["a".into(); count]))]);
        PackedGrains::read(&Packed::pack(&value)).unwrap()
    };
    let decide = |expression: &str, count| {
        let compiled = target(TargetKind::GrainPcre, expression).compile().unwrap();
        let grains = many(count);
        let grains = Some(&grains as &dyn Grains);
        let id = &id("m1");
        compiled.decide(Candidate { id, grains })
    };
    assert_eq!(decide("l:(?!a)b", 1_000), Ok(Inclusion::Excluded));
    assert_eq!(decide("l:(?!a)b", 1_001), Err(TooManySteps));
    assert_eq!(decide("l:b", 10_000), Ok(Inclusion::Excluded));
}

#[test]
fn lists_take_commas_and_spaces() {
    use TargetKind::List;
    assert!(matches(List, "a,b c", "c"));
    assert!(!matches(List, "a,b", "c"));
}

#[test]
fn grains_match_as_salts_do() {
    for (expression, expected) in [
        ("os:Debian", true),
        ("os:debian", true),
        ("os:DEB*", true),
        ("os:*", true),
        ("os:ebian", false),
        ("OS:Debian", false),
        ("nosuch:*", false),
        ("num_cpus:4", true),
        ("num_cpus:[1-4]", true),
        ("load:1.0", true),
        ("efi:true", true),
        ("nothing:none", true),
        ("empty:*", false),
        ("roles:web", true),
        ("roles:c*e", true),
        ("roles:db", false),
        ("roles:0:web", true),
        ("roles:1:web", false),
        ("ip_interfaces:eth0", true),
        ("ip_interfaces:eth?", false),
        ("ip_interfaces:eth0:10.*", true),
        ("ip_interfaces:eth0:fe80::1", true),
        ("ip_interfaces:lo:10.*", false),
        ("ip_interfaces:*:10.*", true),
        ("ip_interfaces:*", true),
        ("ipv6:2001:db8::*", true),
        ("disks:name:sdb", true),
        ("disks:1:name:sda", false),
        ("disks:size", true),
        ("disks:name:sdc", false),
        ("*:eth0:10.*", true),
        ("*:eth1:10.*", false),
        ("osfullname:debian gnu/*", true),
    ] {
        assert_eq!(
            includes(TargetKind::Grain, expression),
            expected,
            "{expression}"
        );
    }
    for (expression, expected) in [
        ("os:deb", true),
        ("os:(Red|Deb)", true),
        ("os:ian", false),
        ("roles:(?:web|db)$", true),
        ("os:(?!Red)", true),
        ("os:(?!Deb)", false),
        (r"ip_interfaces:eth0:10\.(1|2)\.", true),
    ] {
        assert_eq!(
            includes(TargetKind::GrainPcre, expression),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn another_delimiter() {
    let matching = Target::with_delimiter(TargetKind::Grain, "ip_interfaces|eth0|fe80::1", '|');
    assert_eq!(matching.kind, TargetKind::Compound);
    assert!(includes(matching.kind, &matching.expression));
    for delimiter in ['@', ' ', '"', '(', 'é'] {
        let expression = format!("osfullname{delimiter}Debian GNU*");
        let target = Target::with_delimiter(TargetKind::Grain, expression, delimiter);
        assert!(includes(target.kind, &target.expression), "{target:?}");
    }
}

#[test]
fn addresses_and_networks() {
    for (expression, expected) in [
        ("10.1.2.3", true),
        ("10.1.2.4", false),
        ("10.0.0.0/8", true),
        ("10.1.0.0/255.255.0.0", true),
        ("192.168.0.0/16", false),
        ("2001:db8::7", true),
        ("2001:0db8:0::/32", true),
        ("2001:db9::/32", false),
    ] {
        assert_eq!(
            includes(TargetKind::IpCidr, expression),
            expected,
            "{expression}"
        );
    }
    let refused = |text| target(TargetKind::IpCidr, text).compile().unwrap_err();
    assert_eq!(
        refused("10.1.2.3/8").to_string(),
        "the target is malformed: 10.1.2.3/8 is an address in the network 10.0.0.0/8: write one or the other"
    );
    assert!(matches!(
        refused("10.1.2").problem,
        TargetProblem::Network(_)
    ));
}

#[test]
fn compound_expressions_bind_as_salts_do() {
    use TargetKind::Compound;
    for (expression, expected) in [
        ("web*", true),
        ("not web*", false),
        ("G@os:Debian and web1", true),
        ("G@os:Debian and db*", false),
        ("db* or web* and G@os:Debian", true),
        ("web* or db* and G@os:RedHat", true),
        ("( web* or db* ) and G@os:RedHat", false),
        ("(web* or db*) and G@os:Debian", true),
        ("G@os:Debian not db*", true),
        ("G@os:Debian not web*", false),
        ("not db* and web*", true),
        ("not ( db* or web* )", false),
        ("not not web*", true),
        ("E@(web|db)(1|2)$", true),
        ("(E@(web|db)1 and L@web1,web2)", true),
        ("E@web1\\)", false),
        ("S@10.0.0.0/8 and P@roles:^w", true),
        ("G|@ip_interfaces|eth0|fe80::1", true),
        ("\"G@osfullname:Debian GNU/Linux\" and web*", true),
        ("'web1'", true),
    ] {
        assert_eq!(includes(Compound, expression), expected, "{expression}");
    }
}

#[test]
fn what_is_not_known_is_neither_included_nor_excluded() {
    use Inclusion::{Excluded, Included, Unknown};
    for (expression, expected) in [
        ("G@os:Debian", Unknown),
        ("not G@os:Debian", Unknown),
        ("S@10.0.0.0/8", Unknown),
        ("G@os:Debian and db*", Excluded),
        ("db* and G@os:Debian", Excluded),
        ("G@os:Debian and web*", Unknown),
        ("G@os:Debian or web*", Included),
        ("web* or G@os:Debian", Included),
        ("G@os:Debian or db*", Unknown),
        ("N@all", Unknown),
    ] {
        assert_eq!(
            decide(TargetKind::Compound, expression, None),
            expected,
            "{expression}"
        );
    }
}

fn groups(groups: &[(&str, NodegroupDefinition)]) -> Result<Nodegroups, NodegroupError> {
    let owned = groups
        .iter()
        .map(|(name, definition)| ((*name).to_owned(), definition.clone()));
    Nodegroups::new(BTreeMap::from_iter(owned))
}

fn text(text: &str) -> NodegroupDefinition {
    NodegroupDefinition::Expression(text.to_owned())
}

fn words(words: &[&str]) -> NodegroupDefinition {
    NodegroupDefinition::Words(words.iter().map(|word| (*word).to_owned()).collect())
}

#[test]
fn nodegroups_are_put_in_place_of_their_names() {
    let groups = groups(&[
        ("debian", text("G@os:Debian or G@os:Ubuntu")),
        ("web", words(&["web1", "web2"])),
        ("both", text("N@debian and not N@web")),
        (
            "spaced",
            words(&["G@osfullname:Debian GNU/Linux", "and", "*"]),
        ),
    ])
    .unwrap();
    let expanded = |kind, expression| {
        let expanded = target(kind, expression).expand(&groups).unwrap();
        (expanded.kind, expanded.expression)
    };
    let compound = |text: &str| (TargetKind::Compound, text.to_owned());
    assert_eq!(
        expanded(TargetKind::Nodegroup, "both"),
        compound("( G@os:Debian or G@os:Ubuntu ) and not ( web1 or web2 )")
    );
    assert_eq!(
        expanded(TargetKind::Compound, "N@web or db*"),
        compound("( web1 or web2 ) or db*")
    );
    assert_eq!(
        expanded(TargetKind::Nodegroup, "spaced"),
        compound("\"G@osfullname:Debian GNU/Linux\" and *")
    );
    assert_eq!(
        expanded(TargetKind::Compound, "a  or b"),
        compound("a  or b")
    );
    let unknown = target(TargetKind::Compound, "web* or N@nosuch");
    let error = unknown.expand(&groups).unwrap_err();
    assert_eq!(error.at, 10);
    assert_eq!(
        error.to_string(),
        "the target is malformed: the master's configuration has no nodegroup \"nosuch\""
    );
}

#[test]
fn nodegroups_that_cannot_be_used_say_why() {
    let refused =
        |definitions: &[(&str, NodegroupDefinition)]| groups(definitions).unwrap_err().to_string();
    assert_eq!(
        refused(&[
            ("a", text("N@b")),
            ("b", text("x or N@c")),
            ("c", text("N@b"))
        ]),
        "has groups that name each other in a circle: b → c → b"
    );
    assert_eq!(
        refused(&[("a", text("N@a"))]),
        "has groups that name each other in a circle: a → a"
    );
    assert_eq!(
        refused(&[("a", text("web* and"))]),
        "has a wrong definition of \"a\": the target is malformed: expected a term after `and`"
    );
    assert_eq!(
        refused(&[("a", words(&["E@("]))]),
        "has a wrong definition of \"a\": the target is malformed: not a regular expression: unclosed group"
    );
    assert!(refused(&[("a", text("N@nosuch"))]).contains("no nodegroup \"nosuch\""));
    // Each doubles the one before.
    let mut doubling = vec![("g0".to_owned(), text("a or b"))];
    for number in 1..40 {
        let before = number - 1;
        let twice = text(&format!("N@g{before} and N@g{before}"));
        doubling.push((format!("g{number}"), twice));
    }
    let error = Nodegroups::new(doubling.into_iter().collect()).unwrap_err();
    assert!(error.to_string().contains("256 terms"), "{error}");
    // Each nests the one before.
    let nest = |number: usize| text(&format!("not ( a and N@g{:02} )", number - 1));
    let mut nested = vec![("g00".to_owned(), text("a"))];
    nested.extend((1..60).map(|number| (format!("g{number:02}"), nest(number))));
    let error = Nodegroups::new(nested.into_iter().collect()).unwrap_err();
    assert!(error.to_string().contains("nest deeper"), "{error}");
}

/// Returns the error, and its place as a picture.
fn refused(kind: TargetKind, expression: &str) -> String {
    let error = target(kind, expression).compile().unwrap_err();
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    let picture = error.picture(expression);
    assert_eq!(picture.lines().count(), 2, "{picture}");
    let problem = error.to_string().replace("the target is malformed: ", "");
    format!("{problem}\n{picture}")
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
            "`X@` is no kind of target: G@, P@, E@, L@, S@ and N@ are\n  web* and X@y\n           ^",
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
            "I@role:web",
            "Saline has no pillar yet, so minions cannot be chosen by it (-I, -J, I@, J@)\n  I@role:web\n    ^",
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
    assert!(target(Compound, &nested(MAX_DEPTH - 1)).compile().is_ok());
    assert_eq!(refused(nested(MAX_DEPTH)).problem, TargetProblem::TooDeep);
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
fn grains_of_a_minion_are_bounded() {
    let read = |value: &Value| PackedGrains::read(&Packed::pack(value));
    assert!(
        read(&Value::map([(
            "a",
            Value::from("x".repeat(GRAINS_MOST - 100))
        )]))
        .is_ok()
    );
    let large = Value::map([("a", Value::from("x".repeat(GRAINS_MOST)))]);
    assert!(matches!(read(&large), Err(GrainsError::TooLarge(_))));
    let many = Value::map([("a", Value::List(vec![Value::Null; 20_000]))]);
    assert!(matches!(read(&many), Err(GrainsError::Unpack(_))));
    let deep = (0..20).fold(Value::Null, |inner, _| Value::List(vec![inner]));
    assert!(matches!(
        read(&Value::map([("a", deep)])),
        Err(GrainsError::Unpack(_))
    ));
    assert!(matches!(read(&Value::Null), Err(GrainsError::NoMapping)));
    let twice = Value::map([("a", Value::Null), ("a", Value::Null)]);
    assert!(matches!(read(&twice), Err(GrainsError::NoMapping)));
    let read = read(&grains()).unwrap();
    assert_eq!(read.grain("os").unwrap().as_str(), Some("Debian"));
    assert!(read.grain("o").is_none());
    let Value::Map(entries) = read.all().into_owned() else {
        panic!("a mapping");
    };
    assert_eq!(entries.len(), 12);
}

fn terms() -> impl Strategy<Value = Expression> {
    let kinds = proptest::sample::select(
        TargetKind::ALL
            .into_iter()
            .filter(|kind| *kind != TargetKind::Compound)
            .collect::<Vec<_>>(),
    );
    (
        kinds,
        "[:|@ \"'()é\\\\a]",
        "[a-c@:\"'() \\\\*]{1,6}|and|or|not|é{1,3}",
    )
        .prop_filter_map("what no term looks like", |(kind, delimiter, pattern)| {
            let delimiter = match kind.has_delimiter() {
                true => delimiter.chars().next().unwrap_or(':'),
                false => ':',
            };
            let is_other_kind = kind == TargetKind::Glob && pattern.contains('@');
            let is_other_delimiter =
                kind.has_delimiter() && delimiter == ':' && pattern.starts_with('@');
            (!is_other_kind && !is_other_delimiter).then_some(Expression::Term(Term {
                kind,
                delimiter,
                pattern,
                at: 0,
            }))
        })
}

fn expressions() -> impl Strategy<Value = Expression> {
    terms().prop_recursive(5, 40, 4, |inner| {
        let several = proptest::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            inner.prop_map(|inner| Expression::Not(Box::new(inner))),
            several.clone().prop_map(Expression::And),
            several.prop_map(Expression::Or),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_out_is_read_back(expression in expressions()) {
        let written = expression.to_string();
        let read = target(TargetKind::Compound, &written).parse();
        prop_assert_eq!(read.as_ref(), Ok(&expression), "{}", written);
    }

    #[test]
    fn simple_globs_match_what_globs_match(text in "[abAB.-]{0,3}\\*?", id in "[abAB.-]{1,4}", ignore_case: bool) {
        if let Some(simple) = pattern::simple_glob(&text, ignore_case) {
            let glob = Glob::compile_with(&text, ignore_case, 1 << 20).unwrap();
            prop_assert_eq!(simple.matches(&id), Ok(glob.matches(&id)));
        }
    }

    #[test]
    fn any_expression_is_read_or_refused(
        text in "\\PC{0,60}|([GPELSNX]?[|:]?@?[a-z:*]{0,4}[ ()\"]{0,2}(and|or|not)?[ ()]{0,2}){0,8}",
        name in "[a-z0-9]{1,10}",
    ) {
        let grains = grains();
        for kind in TargetKind::ALL {
            let target = Target { kind, expression: text.clone() };
            match target.compile() {
                Ok(compiled) => {
                    let _ = compiled.decide(Candidate { id: &id(&name), grains: Some(&grains) });
                    let _ = compiled.includes_id(&id(&name));
                }
                Err(error) => {
                    prop_assert!(error.at <= text.len());
                    prop_assert_eq!(error.picture(&text).lines().count(), 2);
                    prop_assert_eq!(error.to_string().lines().count(), 1);
                }
            }
        }
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

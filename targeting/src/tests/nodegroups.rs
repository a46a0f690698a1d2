//! Nodegroups, and why some cannot be used.

use std::collections::BTreeMap;

use super::*;

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
        let expanded = target(kind, expression)
            .expand(&groups, &Assignments::default())
            .unwrap()
            .target;
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
    let error = unknown
        .expand(&groups, &Assignments::default())
        .unwrap_err();
    assert_eq!(error.at, 10);
    assert_eq!(
        error.to_string(),
        "the master's configuration has no nodegroup \"nosuch\""
    );
    let misspelt = target(TargetKind::Nodegroup, "debain")
        .expand(&groups, &Assignments::default())
        .unwrap_err();
    assert_eq!(
        misspelt.to_string(),
        "the master's configuration has no nodegroup \"debain\": did you mean debian?"
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

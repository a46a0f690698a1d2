//! What is assigned to minions, and the expressions over ids that take the place of terms over it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Assigns roles, and attributes with text values, to a glob that stands in this line of a file.
fn assignment(line: usize, glob: &str, roles: &[&str], attributes: &[(&str, &str)]) -> Assignment {
    let attributes = attributes.iter().map(|(name, value)| {
        let attribute = Attribute {
            value: Value::from(*value),
            place: format!("a.yaml:{line}:9"),
        };
        ((*name).to_owned(), attribute)
    });
    Assignment {
        glob: glob.to_owned(),
        place: format!("a.yaml:{line}:1"),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        attributes: attributes.collect(),
    }
}

fn some() -> Assignments {
    Assignments::new(vec![
        assignment(1, "web*", &["web"], &[("site", "berlin")]),
        assignment(2, "*-canary", &["canary"], &[]),
        assignment(3, "db1", &["db"], &[("site", "paris")]),
        assignment(4, "db2", &["db"], &[("site", "berlin")]),
        assignment(5, "web1", &["lead"], &[("site", "berlin")]),
    ])
    .unwrap()
}

fn expanded(expression: &str) -> Target {
    let target = target(TargetKind::Compound, expression);
    target
        .expand(&Nodegroups::default(), &some())
        .unwrap()
        .target
}

#[test]
fn terms_over_what_is_assigned_become_terms_over_ids() {
    for (given, expected) in [
        ("A@roles:web", "web*"),
        ("A@roles:db", "L@db1,db2"),
        ("A@roles:nosuch", "not *"),
        ("A@nosuch:*", "not *"),
        ("not A@site:berlin", "not ( web* or L@db2,web1 )"),
        (
            "G@os:Debian and A@roles:*",
            "G@os:Debian and ( *-canary or web* or L@db1,db2,web1 )",
        ),
        ("A|@roles|w?b", "web*"),
        ("web* and G@os:x", "web* and G@os:x"),
    ] {
        assert_eq!(expanded(given).expression, expected, "{given}");
    }
    let alone = target(TargetKind::Assigned, "site:par*");
    let alone = alone
        .expand(&Nodegroups::default(), &some())
        .unwrap()
        .target;
    assert_eq!(alone, target(TargetKind::Compound, "L@db1"));
    let definition = NodegroupDefinition::Expression("A@roles:db and not db1".to_owned());
    let groups = Nodegroups::new(BTreeMap::from([("db".to_owned(), definition)])).unwrap();
    let group = target(TargetKind::Nodegroup, "db").expand(&groups, &some());
    assert_eq!(group.unwrap().target.expression, "L@db1,db2 and not db1");
}

#[test]
fn an_id_has_what_all_of_its_globs_are_assigned() {
    let of = |id: &str| some().of(id).unwrap();
    let expected = Value::map([
        ("roles", Value::texts(["canary", "lead", "web"])),
        ("site", Value::from("berlin")),
    ]);
    let with_lead = Assignments::new(vec![
        assignment(1, "web*", &["web"], &[("site", "berlin")]),
        assignment(2, "*-canary", &["canary"], &[]),
        assignment(3, "web1-canary", &["lead"], &[("site", "berlin")]),
    ]);
    assert_eq!(with_lead.unwrap().of("web1-canary").unwrap(), expected);
    assert_eq!(of("db1").get("site"), Some(&Value::from("paris")));
    assert_eq!(of("mail"), Value::map::<&str>([]));
}

#[test]
fn two_values_of_one_attribute_are_refused_with_both_places() {
    let refused = |assignments| Assignments::new(assignments).unwrap_err().to_string();
    let (a, b) = ([("site", "berlin")], [("site", "paris")]);
    assert_eq!(
        refused(vec![
            assignment(1, "web*", &[], &a),
            assignment(7, "web1", &[], &b)
        ]),
        "a.yaml:7:9: attribute \"site\" of minion web1 has another value here than at a.yaml:1:9; a minion has one \
         value of each attribute"
    );
    for (one, other) in [("*", "db?"), ("w*", "web*"), ("web1", "web1")] {
        let said = refused(vec![
            assignment(1, one, &[], &a),
            assignment(2, other, &[], &b),
        ]);
        assert!(said.starts_with("a.yaml:2:9: attribute \"site\""), "{said}");
        assert!(said.contains("than at a.yaml:1:9"), "{said}");
    }
    // Whether there is a minion that both match shows when it is there.
    let both = vec![
        assignment(1, "web*", &[], &a),
        assignment(2, "*-x", &[], &b),
    ];
    let both = Assignments::new(both).unwrap();
    assert!(both.of("web1").is_ok() && both.of("db-x").is_ok());
    assert!(both.of("web-x").is_err());
}

#[test]
fn what_is_no_glob_of_ids_is_refused_at_its_place() {
    for (glob, why) in [
        ("G@os:x", "ids have letters"),
        ("web 1", "ids have letters"),
        ("", "ids have letters"),
        ("web1,web2", "write {web1,web2}"),
        ("web[", "not a glob"),
    ] {
        let refused = Assignments::new(vec![assignment(3, glob, &[], &[])]);
        let said = refused.unwrap_err().to_string();
        assert!(said.starts_with("a.yaml:3:1: "), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_target_tells_whether_it_looks_at_more_than_ids_and_some_grains() {
    let listed = BTreeSet::from(["os".to_owned(), "ipv4".to_owned()]);
    for (expression, only) in [
        ("web* and not E@db[0-9] or L@a,b", true),
        ("G@os:Debian or P@os:U.*", true),
        ("G@os:Debian and not G@role:web", false),
        ("web1 or G@role:web", false),
        ("G@*:web", false),
        ("S@10.0.0.0/8", false),
        ("N@web", false),
        ("web1 or I@a:b", false),
        ("A@roles:web", false),
    ] {
        let compiled = target(TargetKind::Compound, expression).compile().unwrap();
        assert_eq!(compiled.looks_only_at(&listed), only, "{expression}");
    }
    assert!(
        expanded("A@roles:web or A@site:paris")
            .compile()
            .unwrap()
            .looks_only_at(&listed)
    );
}

proptest! {
    #[test]
    fn an_expanded_term_includes_the_ids_to_which_it_is_assigned(
        given in proptest::collection::vec(
            (
                "[ab]{1,2}|[ab]?\\*[ab]?|[ab]\\?|\\{a,b\\}|\\[!a\\]b?",
                proptest::collection::btree_set("[xy]", 0..3),
                proptest::option::of("[pq]"),
            ),
            0..6,
        ),
        term in "roles:[xy]|roles:\\*|site:[pq]|site:\\*|\\*:x|none:x",
        id in "[ab]{1,3}",
    ) {
        let assignments = given.iter().enumerate().map(|(line, (glob, roles, site))| {
            let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
            let site: Vec<(&str, &str)> = site.iter().map(|site| ("site", site.as_str())).collect();
            assignment(line, glob, &roles, &site)
        });
        let Ok(assignments) = Assignments::new(assignments.collect()) else {
            return Ok(());
        };
        let Ok(assigned) = assignments.of(&id) else {
            return Ok(());
        };
        let over_ids = target(TargetKind::Assigned, &term).expand(&Nodegroups::default(), &assignments).unwrap().target;
        let by_id = over_ids.compile().unwrap().decide(Candidate { id: &id, grains: None, pillar: None });
        // A term over grains means the same of the same values.
        let by_value = target(TargetKind::Grain, &term).compile().unwrap();
        let by_value = by_value.decide(Candidate { id: &id, grains: Some(&assigned), pillar: None });
        prop_assert_eq!(by_id, by_value);
    }
}

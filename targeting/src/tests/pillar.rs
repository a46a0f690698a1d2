//! Terms over pillar, which the master judges, and what minions get in their place.

use super::*;

fn pillar() -> Value {
    Value::map([
        ("role", Value::texts(["Web", "cache"])),
        ("*", Value::from("*")),
        ("port", Value::from(80_i64)),
        (
            "apps",
            Value::map([
                ("shop", Value::map([("tier", Value::from("gold"))])),
                ("a|b", Value::from("x")),
                ("straße", Value::from("Été")),
            ]),
        ),
    ])
}

/// What a compound expression says of `web1` with this pillar, and with grains that are not known.
fn judged(expression: &str, pillar: Option<&Value>) -> Inclusion {
    let compiled = target(TargetKind::Compound, expression).compile().unwrap();
    let pillar = pillar.map(|pillar| compiled.match_pillar(pillar).unwrap());
    let minion = Candidate {
        id: "web1",
        grains: None,
        pillar,
    };
    compiled.decide(minion).unwrap()
}

#[test]
fn a_pillar_matches_as_grains_do() {
    for (expression, expected) in [
        ("I@role:web", Inclusion::Included),
        ("I@role:w?b", Inclusion::Included),
        ("I@role:db", Inclusion::Excluded),
        ("I@port:80", Inclusion::Included),
        ("I@apps:shop:tier:g*", Inclusion::Included),
        ("I@apps:*:tier:gold", Inclusion::Included),
        ("I@apps:shop", Inclusion::Included),
        ("I|@apps|a", Inclusion::Excluded),
        ("I~@apps~a|b~x", Inclusion::Included),
        ("J@role:(web|db)$", Inclusion::Included),
        ("J@role:(?!web|cache)", Inclusion::Excluded),
        ("not I@role:web", Inclusion::Excluded),
        ("I@role:db or not J@port:9", Inclusion::Included),
        ("I@role:web and G@os:Debian", Inclusion::Unknown),
        ("I@role:db and G@os:Debian", Inclusion::Excluded),
    ] {
        assert_eq!(
            judged(expression, Some(&pillar())),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn a_minion_whose_pillar_is_not_known_is_neither_included_nor_excluded() {
    for (expression, expected) in [
        ("I@role:web", Inclusion::Unknown),
        ("not I@role:web", Inclusion::Unknown),
        ("web* and not J@role:web", Inclusion::Unknown),
        ("web* or I@role:web", Inclusion::Included),
        ("db* and not I@role:web", Inclusion::Excluded),
    ] {
        assert_eq!(judged(expression, None), expected, "{expression}");
    }
}

#[test]
fn an_exact_value_has_no_wildcards() {
    let matches = |expression: &str| {
        let compiled = target(TargetKind::PillarExact, expression)
            .compile()
            .unwrap();
        let matches = compiled.match_pillar(&pillar()).unwrap();
        let minion = Candidate {
            id: "web1",
            grains: None,
            pillar: Some(matches),
        };
        compiled.decide(minion).unwrap() == Inclusion::Included
    };
    for (expression, expected) in [
        ("role:web", true),
        ("role:we", false),
        ("role:w*", false),
        ("role:*", false),
        ("*:*", true),
        ("*:web", false),
        ("apps:*:tier:gold", false),
        ("apps:shop:tier:gold", true),
        ("apps:shop:tier:.*", false),
        ("apps:straße:été", true),
        ("apps:straße:ét", false),
    ] {
        assert_eq!(matches(expression), expected, "{expression}");
    }
}

#[test]
fn the_master_alone_is_told_what_is_searched_for_in_pillars() {
    let published = |expression: &str, pillars: &[(&str, Option<Value>)]| {
        let target = target(TargetKind::Compound, expression);
        let compiled = target.clone().compile().unwrap();
        let matches = pillars.iter().map(|(id, pillar)| {
            let matches = pillar.as_ref();
            (*id, matches.map(|it| compiled.match_pillar(it).unwrap()))
        });
        let matches: Vec<_> = matches.collect();
        let published = target.replace_pillar_terms(&matches).unwrap();
        assert!(!published.clone().compile().unwrap().needs_pillar());
        (published.kind, published.expression)
    };
    let of = |key: &'static str| Some(Value::map([(key, Value::from("x"))]));
    let all = [("m1", of("a")), ("m2", of("b")), ("m3", None)];
    let compound = |text: &str| (TargetKind::Compound, text.to_owned());
    let list = |text: &str| (TargetKind::List, text.to_owned());
    assert_eq!(published("I@a:x or I@b:x", &all[..2]), list("m1,m2"));
    assert_eq!(published("not I@c:x", &all), list("m1,m2,m3"));
    assert_eq!(published("I@a:x", &[]), compound("not *"));
    // Grains may change, so the minion judges them.
    for (expression, expected) in [
        ("G@os:x and I@a:x", "G@os:x and L@m1"),
        (
            "G@os:x and ( I@a:x or J@b:x )",
            "G@os:x and ( L@m1 or L@m2 )",
        ),
        ("G@os:x and not I@c:x", "G@os:x and not not *"),
    ] {
        assert_eq!(published(expression, &all), compound(expected));
    }
    let one = published("G@os:x and I@a:x", &all[..1]);
    assert_eq!(one, compound("G@os:x and *"));
    let without = published("web* and G@os:x", &all);
    assert_eq!(without, compound("web* and G@os:x"));
}

#[test]
fn what_is_searched_for_in_pillars_is_masked_where_a_target_is_written_down() {
    use TargetKind::{Compound, Glob, Grain, Pillar, PillarExact, PillarPcre};
    for (kind, expression, shown) in [
        (Pillar, "db:password:geheim", "db:**********"),
        (PillarPcre, "token:^geheim", "token:**********"),
        (PillarExact, "geheim", "**********"),
        (
            Compound,
            "web* and not ( I@db:pass:geheim or 'J|@a|geheim b' ) and G@os:Debian",
            "web* and not ( I@db:********** or J|@a|********** ) and G@os:Debian",
        ),
        (Compound, "I@db:geheim and", "**********"),
        (Compound, "web*  or  G@os:Debian", "web*  or  G@os:Debian"),
        (Grain, "os:I@x:y", "os:I@x:y"),
        (Glob, "web*", "web*"),
    ] {
        let target = Target {
            kind,
            expression: expression.to_owned(),
        };
        assert_eq!(target.masked(), shown);
    }
}

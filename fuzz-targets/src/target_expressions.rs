//! Target expressions: which minions a job is for.

use saline_data::Value;
use saline_messages::MinionId;
use saline_targeting::{Candidate, Inclusion, Target, TargetKind};

use crate::names::text;

/// The bytes are the kind, an id, a line break, and the expression.
pub(crate) fn target_expressions(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let kind = TargetKind::ALL[usize::from(*kind) % TargetKind::ALL.len()];
    let Some((id, expression)) = text(rest).and_then(|text| text.split_once('\n')) else {
        return;
    };
    let target = Target {
        kind,
        expression: expression.to_owned(),
    };
    if let Ok(parsed) = target.parse() {
        let written = Target {
            kind: TargetKind::Compound,
            expression: parsed.to_string(),
        };
        // Globs and lists of their own are written as terms only where no term reads otherwise.
        if kind == TargetKind::Compound {
            assert_eq!(written.parse().as_ref(), Ok(&parsed));
        }
    }
    let compiled = match target.clone().compile() {
        Ok(compiled) => compiled,
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 1, "{error:?}");
            let lines = error
                .picture(expression)
                .map(|picture| picture.lines().count());
            assert!(matches!(lines, None | Some(2)), "{error:?}");
            assert!(error.at <= expression.len(), "{error:?}");
            return;
        }
    };
    let Ok(id) = MinionId::parse(id) else { return };
    let grains = Value::map([
        ("os", Value::from("Debian")),
        ("a", Value::map([("b", Value::texts(["c", "d"]))])),
        ("ipv4", Value::texts(["10.1.2.3"])),
    ]);
    let known = Candidate {
        id: id.as_str(),
        grains: Some(&grains),
        pillar: None,
    };
    if let Ok(decided) = compiled.decide(known) {
        // What is decided without the grains is decided with them alike.
        let without = compiled.decide(Candidate {
            id: id.as_str(),
            grains: None,
            pillar: None,
        });
        if let Ok(without) = without
            && without != Inclusion::Unknown
        {
            assert_eq!(without, decided);
        }
    }
    let by_id = compiled.decide(Candidate {
        id: id.as_str(),
        grains: None,
        pillar: None,
    });
    let matches = by_id == Ok(Inclusion::Included);
    match kind {
        TargetKind::List => {
            let listed = expression.split([',', ' ', '\t', '\n']);
            assert_eq!(matches, listed.into_iter().any(|one| one == id.as_str()));
        }
        TargetKind::Glob if expression == "*" => assert!(matches),
        _ => {}
    }
    assert_eq!(compiled.into_target(), target);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let seed = |(kind, text): (u8, &str)| [&[kind], text.as_bytes()].concat();
    [
        (0, "m1\n*"),
        (0, "m1\nm*"),
        (0, "m001\nm00[0-2]"),
        (0, "m001\nm00[!0-2]"),
        (0, "m1\n{m,n}?"),
        (0, "m1\n[[a]-]**/x"),
        (1, "b\na,b c"),
        (1, "b\n ,"),
        (2, "m008\nm00[89]"),
        (2, "my\nx|y"),
        (2, "m1\n(?i)M\\d{1,3}$"),
        (2, "m1\n\\p{Greek}+(a{10}){10}"),
        (2, "m1\n("),
        (2, "m1\n(?!n)(?<=^)(m)\\1?"),
        (3, "m1\nos:deb*"),
        (3, "m1\na:*:[cd]"),
        (4, "m1\na:b:(?:c|d)"),
        (5, "m1\n10.0.0.0/8"),
        (5, "m1\n2001:db8::/32"),
        (6, "m1\nweb"),
        (7, "m1\nG@os:Debian and ( m* or E@(a|b)1 ) and not L@a,b"),
        (7, "m1\nG|@a|b|c or \"P@os:Deb ian\" not N@x"),
        (7, "m1\n((S@::1)) or 'it''s' and"),
        (8, "m1\na:b"),
    ]
    .map(seed)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use saline_targeting::TargetKind;

    use crate::TARGETS;

    #[test]
    fn the_longest_expressions_are_within_the_bounds() {
        let target = TARGETS
            .iter()
            .find(|target| target.name == "target_expressions");
        let target = target.expect("it is in the list");
        for part in [
            "?",
            "*",
            "[!a]",
            "{a,b}",
            "(a)",
            "a|",
            "(?i)k",
            "\\pL",
            "a{9}",
            "a,",
            "é",
            "a:",
            "(",
            "not ",
            "E@\\w or ",
            "E@\\w{99} or ",
            "(?=a)",
            "G@a:\\w{9}: and ",
            "\"",
            "N@a ",
        ] {
            let expression = part.repeat(saline_targeting::MAX_PATTERN / part.len());
            for kind in 0..TargetKind::ALL.len() as u8 {
                target.run(&[&[kind], &b"m1\n"[..], expression.as_bytes()].concat());
            }
        }
    }
}

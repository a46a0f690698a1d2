//! Target expressions: which minions a job is for.

use saline_protocol::message::MinionId;
use saline_protocol::target::{Target, TargetKind};

use crate::names::text;

const KINDS: [TargetKind; 3] = [TargetKind::Glob, TargetKind::List, TargetKind::Pcre];

/// The bytes are the kind, an id, a line break, and the expression.
pub(crate) fn target_expressions(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    let Some((id, expression)) = text(rest).and_then(|text| text.split_once('\n')) else {
        return;
    };
    let target = Target {
        kind,
        expression: expression.to_owned(),
    };
    let compiled = match target.clone().compile() {
        Ok(compiled) => compiled,
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 1, "{error:?}");
            return;
        }
    };
    let Ok(id) = MinionId::parse(id) else { return };
    let matches = compiled.matches(&id);
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
    ]
    .map(seed)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use crate::TARGETS;

    #[test]
    fn the_longest_expressions_are_within_the_bounds() {
        let target = TARGETS
            .iter()
            .find(|target| target.name == "target_expressions");
        let target = target.expect("it is in the list");
        for part in [
            "?", "*", "[!a]", "{a,b}", "(a)", "a|", "(?i)k", "\\pL", "a{9}", "a,", "é",
        ] {
            let expression = part.repeat(saline_protocol::target::MAX_PATTERN / part.len());
            for kind in 0..3 {
                target.run(&[&[kind], &b"m1\n"[..], expression.as_bytes()].concat());
            }
        }
    }
}

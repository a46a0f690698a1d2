//! Any expression is read or refused, and one that is written out is read back.

use proptest::prelude::*;

use super::*;

fn terms() -> impl Strategy<Value = Expression> {
    let kinds = proptest::sample::select(
        TargetKind::ALL
            .into_iter()
            // Neither is a term of a compound expression.
            .filter(|kind| !matches!(kind, TargetKind::Compound | TargetKind::PillarExact))
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
                    let _ = compiled.decide(Candidate { id: &name, grains: Some(&grains), pillar: None });
                    let _ = compiled.decide(Candidate { id: &name, grains: None, pillar: None });
                }
                Err(error) => {
                    prop_assert!(error.at <= text.len());
                    let lines = error.picture(&text).map(|picture| picture.lines().count());
                    prop_assert!(matches!(lines, None | Some(2)));
                    prop_assert_eq!(error.to_string().lines().count(), 1);
                }
            }
        }
    }
}

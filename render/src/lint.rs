//! Finds the parts of a file that will not render, as far as can be told without rendering it.

use serde::{Deserialize, Serialize};

use crate::edits::Edited;
use crate::header::{Header, header};
use crate::renderer::is_template;
use crate::salt_functions::FUNCTIONS;
use crate::syntax::NameKind;
use crate::{Renderer, salt_tags, syntax};

/// Something that will not render.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What will not render, and what to write instead where there is something. One line.
    pub message: String,
    /// The grain that it is about, which renders as its default for every minion unless the grain is trusted.
    pub grain: Option<String>,
}

/// The first line of a value that somebody has encrypted for Salt's renderer `gpg`.
const ENCRYPTED: &str = "-----BEGIN PGP MESSAGE-----";

/// Returns what of a file will not render, and the encrypted values that will stay encrypted.
pub fn lint(path: &str, text: &str) -> Vec<Finding> {
    let kind = match header(text) {
        Ok(kind) => kind,
        Err(message) => return vec![Finding::at(text, 0, message)],
    };
    let encrypted = text.match_indices(ENCRYPTED).map(|(at, _)| {
        let why = "a minion gets this PGP message as it is, since the master decrypts nothing: have a program of ext_pillar call gpg";
        Finding::at(text, at, why.to_owned())
    });
    let mut findings: Vec<Finding> = encrypted.collect();
    findings.extend(unrendered(path, text, kind));
    findings.sort_by_key(|finding| (finding.line, finding.column));
    findings.dedup();
    findings
}

/// Returns what of a file will not render.
fn unrendered(path: &str, text: &str, kind: Header) -> Vec<Finding> {
    if kind == Header::Yaml || !is_template(text) {
        let error = saline_data::yaml::parse(text).err();
        let finding = error.map(|error| Finding {
            line: error.line,
            column: error.column,
            message: error.message,
            grain: None,
        });
        return finding.into_iter().collect();
    }
    let tags = salt_tags::rewrite(text);
    let read = match syntax::read(path, &tags.text) {
        Ok(read) => read,
        Err(error) => return vec![Finding::syntax(text, &tags, &error)],
    };
    let renderer = Renderer::new();
    let absent = |named: &&syntax::Named| {
        let is_told = matches!(
            named.kind,
            NameKind::GrainWithDefault | NameKind::FormattedText
        );
        is_told || !renderer.has(named.kind, &named.name)
    };
    read.names
        .iter()
        .filter(absent)
        .map(|named| {
            let name = &named.name;
            let message = match named.kind {
                NameKind::Filter => format!("the filter {name} is absent"),
                NameKind::Test => format!("the test {name} is absent"),
                NameKind::GrainWithDefault => format!(
                    "the grain {name} is not in trusted_grains, so every minion gets the default here: list it there, or use what \
                     minions.d assigns"
                ),
                NameKind::FormattedText => {
                    "% formats no text here: write '…'|format(x) in the place of '…' % x".to_owned()
                }
                NameKind::SaltFunction => format!(
                    "{name} is not there in templates, which call {}",
                    FUNCTIONS.join(", ")
                ),
            };
            Finding {
                grain: (named.kind == NameKind::GrainWithDefault).then(|| name.clone()),
                ..Finding::at(text, tags.original(named.at), message)
            }
        })
        .collect()
}

impl Finding {
    fn at(text: &str, offset: usize, message: String) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() as u64 + 1,
            column: before[line_start..].chars().count() as u64 + 1,
            message,
            grain: None,
        }
    }

    fn syntax(text: &str, tags: &Edited, error: &minijinja::Error) -> Self {
        let offset = error.range().map_or(0, |range| tags.original(range.start));
        let detail = error
            .detail()
            .map_or_else(|| error.kind().to_string(), str::to_owned);
        let finding = Self::at(text, offset, format!("syntax error: {detail}"));
        match error.line() {
            Some(line) if finding.line != line as u64 => Self {
                line: line as u64,
                column: 1,
                ..finding
            },
            _ => finding,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linted(text: &str) -> Vec<String> {
        let findings = lint("a.sls", text).into_iter();
        findings
            .map(|it| format!("{}:{}: {}", it.line, it.column, it.message))
            .collect()
    }

    #[test]
    fn grains_with_defaults_are_told_with_their_names() {
        let text = "{{ grains.get('os:x', 1) }}\n{{ salt['grains.get']('id') }}{{ salt.grains.get(key='a') }}\n{{ salt['grains.filter_by'](m) }}{{ salt.grains.filter_by(m, 'b') }}{{ grains.get(x) }}{{ m.get('c') }}{{ grains.d }}";
        let found = lint("a.sls", text).into_iter();
        let found: Vec<_> = found
            .map(|it| (it.line, it.column, it.grain.unwrap_or_default()))
            .collect();
        let expected = [
            (1, 4, "os"),
            (2, 4, "id"),
            (2, 34, "a"),
            (3, 4, "os_family"),
            (3, 37, "b"),
        ];
        assert_eq!(
            found,
            expected.map(|(line, column, grain)| (line, column, grain.to_owned()))
        );
    }

    #[test]
    fn what_will_not_render_is_found_without_rendering() {
        for (text, expected) in [
            ("a: 1\nb: {{ grains.id|upper }}\n", vec![]),
            ("a: b: c\n", vec!["1:5: "]),
            ("#!py\n", vec!["1:1: the renderer \"py\" is absent"]),
            ("\n{% if x %}", vec!["2:"]),
            (
                "a: {{ '%s-%s' % (1, 2) }}\nb: {{ 7 % 4 }}{% set x = y|default('%d' % z) %}\n",
                vec![
                    "1:7: % formats no text here: write '…'|format(x)",
                    "2:36: % formats no text here",
                ],
            ),
            (
                "a: |\n  -----BEGIN PGP MESSAGE-----\n\n  x\n  -----END PGP MESSAGE-----\nb: {{ x|nosuch }}\nc: |\n    -----BEGIN PGP MESSAGE-----\n",
                vec![
                    "2:3: a minion gets this PGP message as it is",
                    "6:9: the filter nosuch is absent",
                    "8:5: a minion gets this PGP message as it is",
                ],
            ),
            (
                "#!yaml\na: |\n  -----BEGIN PGP MESSAGE-----\n",
                vec!["3:3: a minion gets this PGP message as it is"],
            ),
            (
                "#!yaml|gpg\n-----BEGIN PGP MESSAGE-----\n",
                vec!["1:1: the renderer \"gpg\" is absent"],
            ),
            (
                "{% load_yaml as x %}{% endload %}{{ x|nosuch }}\n{% if x is nosuch %}{% endif %}{{ salt['cmd.run']('id') }}{{ salt.mine.get('x') }}",
                vec![
                    "1:39: the filter nosuch is absent",
                    "2:12: the test nosuch is absent",
                    "2:35: cmd.run is not there in templates",
                    "2:62: mine.get is not there in templates",
                ],
            ),
        ] {
            let found = linted(text);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found} {expected}");
            }
        }
    }
}

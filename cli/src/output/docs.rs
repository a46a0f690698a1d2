//! The documentation of functions, once for all minions that have the same.

use std::collections::BTreeMap;

use saline_data::Value;
use saline_data::printable::{escape_line, escape_lines};

use super::colour::Colour;
use super::{Style, nested, raw};
use crate::names::listed;

/// The documentation of a function, and the minions that have it.
type Variant<'a> = (&'a str, Vec<&'a str>);

/// Printed when no function is documented.
pub(crate) const NOTHING: &str = "ERROR: no function has such a name: give a module, a function or a glob over functions, as in -d test, -d test.ping \
     or -d '*.ping'";

/// The documentation that minions returned for `sys.doc`, by function.
#[derive(Debug, Default)]
struct Documented<'a> {
    /// The functions, each with its different texts.
    functions: BTreeMap<&'a str, Vec<Variant<'a>>>,
    /// Returns that are no documentation, by minion.
    others: Vec<(String, Value)>,
}

impl<'a> Documented<'a> {
    fn of(returns: &'a [(String, Value)]) -> Self {
        let mut all = Self::default();
        for (minion, value) in returns {
            let Some(docs) = documentation(value) else {
                all.others.push((minion.clone(), value.clone()));
                continue;
            };
            for (function, text) in docs {
                let variants = all.functions.entry(function).or_default();
                match variants.iter_mut().find(|(known, _)| *known == text) {
                    Some((_, minions)) => minions.push(minion),
                    None => variants.push((text, vec![minion])),
                }
            }
        }
        all
    }
}

/// Formats what minions returned for `sys.doc`, without the last newline. Where they differ, each text
/// names its minions. What is no documentation stands under the name of its minion at the end.
pub(crate) fn render(returns: &[(String, Value)], style: Style) -> Vec<u8> {
    let Documented { functions, others } = Documented::of(returns);
    let (begin, end) = (style.begin(Colour::Cyan), style.end());
    let mut blocks = Vec::new();
    for (function, variants) in functions {
        let function = escape_line(function);
        let differ = variants.len() > 1;
        for (text, minions) in variants {
            let on = match differ {
                true => format!(" (on {})", listed(&minions)),
                false => String::new(),
            };
            // As Salt has it: a blank line before and after the text.
            let text = indented(text);
            blocks.push(format!("{begin}{function}:{end}{on}\n\n{text}\n").into_bytes());
        }
    }
    if !others.is_empty() {
        blocks.push(nested::render(&Value::Map(others), style, true));
    }
    blocks.join(&b'\n')
}

/// Returns the same as data for programs: one mapping of functions to their texts. Where minions differ, it has the
/// text of the first one; a line for each difference, and for what is no documentation, comes with it.
pub(crate) fn merged(returns: &[(String, Value)]) -> (Value, Vec<String>) {
    let Documented { functions, others } = Documented::of(returns);
    let mut lines = Vec::new();
    let mut entries = Vec::new();
    for (function, variants) in functions {
        let mut variants = variants.into_iter();
        let Some((text, minions)) = variants.next() else {
            continue;
        };
        entries.push((function.to_owned(), Value::from(text)));
        for (_, differing) in variants {
            lines.push(format!(
                "WARNING: the documentation of {} is that of {}, and another one on {}: without -d, sys.doc prints that of each minion",
                escape_line(function),
                listed(&minions),
                listed(&differing)
            ));
        }
    }
    for (minion, value) in others {
        let text = value
            .as_str()
            .map_or_else(|| raw::render(&value), str::to_owned);
        lines.push(format!("{minion}: {}", escape_line(&text)));
    }
    (Value::Map(entries), lines)
}

/// Returns a text without blank lines around it, each line indented, so that none looks like the name of a
/// function.
fn indented(text: &str) -> String {
    let text = escape_lines(text);
    let lines = text.trim_matches('\n').trim_end().split('\n');
    let lines = lines.map(|line| match line.is_empty() || line.starts_with("    ") {
        true => line.to_owned(),
        false => format!("    {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the functions with their texts; none when the value is something else.
fn documentation(value: &Value) -> Option<Vec<(&str, &str)>> {
    let Value::Map(entries) = value else {
        return None;
    };
    let texts = entries
        .iter()
        .map(|(function, text)| Some((function.as_str(), text.as_str()?)));
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(returns: &[(&str, Value)]) -> String {
        let returns: Vec<_> = returns
            .iter()
            .map(|(m, v)| ((*m).to_owned(), v.clone()))
            .collect();
        String::from_utf8(render(&returns, Style::default())).unwrap()
    }

    #[test]
    fn the_same_text_is_printed_once() {
        let ping = (
            "test.ping",
            Value::from("\n    Return True.\n\n    CLI Example:\n"),
        );
        let same = Value::map([
            ping.clone(),
            ("test.echo", "\n    Return a string.\n".into()),
        ]);
        let newer = Value::map([("test.ping", "\n    Return true.\n".into())]);
        insta::assert_snapshot!(shown(&[("m1", same.clone()), ("m2", same.clone())]), @"
        test.echo:

            Return a string.

        test.ping:

            Return True.

            CLI Example:
        ");
        insta::assert_snapshot!(shown(&[("m1", same), ("m3", newer), ("m4", Value::map([ping]))]), @"
        test.echo:

            Return a string.

        test.ping: (on m1, m4)

            Return True.

            CLI Example:

        test.ping: (on m3)

            Return true.
        ");
    }

    #[test]
    fn what_is_no_documentation_names_its_minion() {
        insta::assert_snapshot!(shown(&[
            ("m1", "'sys.doc' is not available.".into()),
            ("m2", Value::map([("x\nm3:", "a\x1b[2J\nb".into())])),
        ]), @r"
        x\nm3::

            a\x1b[2J
            b

        m1:
            'sys.doc' is not available.
        ");
        assert_eq!(shown(&[("m1", Value::Map(vec![]))]), "");
    }

    #[test]
    fn programs_get_one_mapping_for_all_minions() {
        let docs = |text: &str| Value::map([("test.ping", Value::from(text))]);
        let returns = [
            ("m1".to_owned(), docs("Return True.")),
            ("m2".to_owned(), docs("Return True.")),
            ("m3".to_owned(), docs("Return true.")),
            ("m4".to_owned(), "'sys.doc' is not available.".into()),
        ];
        let (data, lines) = merged(&returns);
        assert_eq!(data, docs("Return True."));
        insta::assert_snapshot!(lines.join("\n"), @"
        WARNING: the documentation of test.ping is that of m1, m2, and another one on m3: without -d, sys.doc prints that of each minion
        m4: 'sys.doc' is not available.
        ");
    }
}

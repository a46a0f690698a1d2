//! Imports and includes that do not see the variables of the template that they stand in. The engine's own see them all.
//!
//! A macro sees its arguments, what the rendering was given, and the variables that it names, so a macro that names none includes the
//! file. It is declared in a `with` block, since the macros of one block share what they see. What it imports leaves it
//! through a namespace.

use std::fmt::Write;

/// Returns what a tag `from FILE import NAMES` or `import FILE as NAME` is in other words, without its marks; none if it sees the
/// variables of its template, or is malformed.
pub(crate) fn import(tag: &str) -> Option<String> {
    let (words, Context::Default | Context::Without) = context(tag) else {
        return None;
    };
    let (word, rest) = words.split_at(words.find(char::is_whitespace)?);
    let (file, does, names) = match word {
        "from" => {
            let (file, items) = split_at_last(rest, "import")?;
            let items = items.trim();
            let items = items.strip_suffix(',').unwrap_or(items).split(',');
            let items: Vec<Vec<&str>> = items.map(|it| it.split_whitespace().collect()).collect();
            let names = items.iter().map(|item| match item.as_slice() {
                [name] | [_, "as", name] => Some(*name),
                _ => None,
            });
            let names = names.collect::<Option<Vec<_>>>()?;
            let items: Vec<String> = items.iter().map(|item| item.join(" ")).collect();
            (
                file,
                format!("from __file import {}", items.join(", ")),
                names,
            )
        }
        _ => {
            let (file, name) = split_at_last(rest, "as")?;
            let name = name.trim();
            (file, format!("import __file as {name}"), vec![name])
        }
    };
    if !names.iter().all(|name| is_name(name)) {
        return None;
    }
    let file = file.trim();
    let mut isolated = format!(
        "set __imported = namespace() %}}{{% with %}}{{% macro __import(__file, __into) %}}{{% {does} %}}"
    );
    for name in &names {
        let _ = write!(isolated, "{{% set __into.{name} = {name} %}}");
    }
    let _ = write!(
        isolated,
        "{{% endmacro %}}{{% set __done = __import({file}, __imported) %}}{{% endwith"
    );
    // An error is at a line that the operator wrote.
    let newlines = tag.matches('\n').count() - file.matches('\n').count();
    let mut newlines = "{#\n#}".repeat(newlines);
    for name in names {
        let _ = write!(isolated, " %}}{newlines}{{% set {name} = __imported.{name}");
        newlines.clear();
    }
    Some(isolated)
}

/// Returns what a tag `include FILE without context` is in other words, without its marks; none if it sees the variables of its
/// template.
pub(crate) fn include(tag: &str) -> Option<String> {
    let (words, Context::Without) = context(tag) else {
        return None;
    };
    let words = words.strip_prefix("include")?;
    let (file, may_be_missing) = match words.trim_end().strip_suffix("missing") {
        Some(file) => (file.trim_end().strip_suffix("ignore")?, true),
        None => (words, false),
    };
    let newlines = tag.matches('\n').count() - file.trim().matches('\n').count();
    let newlines = "{#\n#}".repeat(newlines);
    let printed = printed(file.trim(), may_be_missing);
    Some(format!("with %}}{printed}{newlines}{{% endwith"))
}

/// Returns what prints a file without the variables of the template, within a `with` block of its own.
pub(crate) fn printed(file: &str, may_be_missing: bool) -> String {
    let missing = if may_be_missing {
        " ignore missing"
    } else {
        ""
    };
    format!(
        "{{% macro __include(__file) %}}{{% include __file{missing} %}}{{% endmacro %}}{{{{ __include({file}) }}}}"
    )
}

/// What a tag says of the variables of its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    Default,
    With,
    Without,
}

/// Returns the words of a tag before `with context` or `without context`, and which of them it ends with.
pub(crate) fn context(tag: &str) -> (&str, Context) {
    let said = || {
        let before = tag.trim_end().strip_suffix("context")?;
        let words = before.trim_end();
        let end = words.rfind(|c: char| !c.is_ascii_alphabetic())? + 1;
        let (words, word) = words.split_at_checked(end)?;
        match word {
            "with" => Some((words, Context::With)),
            "without" => Some((words, Context::Without)),
            _ => None,
        }
    };
    said().unwrap_or((tag, Context::Default))
}

/// Returns what stands before and behind the last of these words that is no part of a text or of another word.
fn split_at_last<'a>(words: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let mut quote = None;
    let mut found = None;
    let mut before = ' ';
    let mut escaped = false;
    for (at, c) in words.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None => {
                let is_part = |c: char| c.is_alphanumeric() || c == '_';
                if let Some(behind) = words[at..].strip_prefix(word)
                    && !is_part(before)
                    && !behind.starts_with(is_part)
                {
                    found = Some((&words[..at], behind));
                }
            }
        }
        before = c;
    }
    found
}

/// Whether a name can be imported.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_that_see_the_variables_and_malformed_ones_stay() {
        for tag in [
            "from 'x' import a with context",
            "from 'x' import a, b  with\n context",
            "import 'x' as a with context",
            "from 'x' import",
            "from 'x' import _a",
            "from 'x' import a b",
            "from 'x' import a as",
            "from 'import a'",
            "import 'x'",
            "import 'x as y'",
            "from",
        ] {
            assert_eq!(import(tag), None, "{tag}");
        }
        for tag in [
            "include 'x'",
            "include 'x' ignore missing",
            "include 'x' with context",
            "include",
        ] {
            assert_eq!(include(tag), None, "{tag}");
        }
    }

    #[test]
    fn names_and_files_are_taken_apart() {
        let tag = "from 'a import b'~x\nimport  a  as b,\n c, without context";
        let expected = "set __imported = namespace() %}{% with %}{% macro __import(__file, __into) %}\
                        {% from __file import a as b, c %}{% set __into.b = b %}{% set __into.c = c %}{% endmacro %}\
                        {% set __done = __import('a import b'~x, __imported) %}{% endwith %}{#\n#}{#\n#}\
                        {% set b = __imported.b %}{% set c = __imported.c";
        assert_eq!(import(tag).as_deref(), Some(expected));
        assert_eq!(
            include("include x\n ignore missing without context").as_deref(),
            Some(
                "with %}{% macro __include(__file) %}{% include __file ignore missing %}{% endmacro %}{{ __include(x) }}{#\n#}{% endwith"
            )
        );
    }
}

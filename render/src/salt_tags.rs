//! The tags that Salt adds to Jinja's, put in words of Jinja's: `import_yaml`, `import_json`, `import_text`,
//! `load_yaml`, `load_json`, `load_text` and `endload`, `do` with any expression, and imports and includes without context.

use crate::edits::{Edit, Edited};
use crate::isolated::{self, Context, context};

/// Returns the template with Jinja's own tags in the place of Salt's. Nothing that is inserted has a newline.
pub(crate) fn rewrite(source: &str) -> Edited {
    let mut edits = Vec::new();
    let mut at = 0;
    while let Some(found) = source[at..].find('{') {
        let open = at + found;
        let rest = &source[open..];
        at = open
            + match rest.as_bytes().get(1) {
                Some(b'#') => rest.find("#}").map_or(rest.len(), |end| end + 2),
                Some(b'{') => end_of(rest, "}}"),
                Some(b'%') => {
                    let length = end_of(rest, "%}");
                    let tag = Tag::new(&rest[..length]);
                    match tag.word() {
                        // Its content has no tags.
                        "raw" => end_of_raw(rest, length),
                        _ => {
                            edits.extend(tag.rewritten(open));
                            length
                        }
                    }
                }
                _ => 1,
            };
    }
    Edited::new(source, edits)
}

/// Returns the length of a tag or an expression that ends with `end`, which may occur in its texts before.
fn end_of(text: &str, end: &str) -> usize {
    let bytes = text.as_bytes();
    let mut quote = None;
    let mut at = 2;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, _) if bytes[at..].starts_with(end.as_bytes()) => return at + end.len(),
            _ => {}
        }
        at += 1;
    }
    text.len()
}

fn end_of_raw(text: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(found) = text[at..].find("{%") {
        let open = at + found;
        let length = end_of(&text[open..], "%}");
        at = open + length;
        if Tag::new(&text[open..at]).word() == "endraw" {
            return at;
        }
    }
    text.len()
}

/// A tag with its marks: `{%- set x = 1 %}`.
struct Tag<'a> {
    /// `{%`, `{%-` or `{%+`.
    open: &'a str,
    content: &'a str,
    close: &'a str,
}

impl<'a> Tag<'a> {
    fn new(tag: &'a str) -> Self {
        let signed = matches!(tag.as_bytes().get(2), Some(b'-' | b'+')) as usize;
        let (open, rest) = tag.split_at((2 + signed).min(tag.len()));
        let content = rest.strip_suffix("%}").unwrap_or(rest);
        let content = content.strip_suffix(['-', '+']).unwrap_or(content);
        Self {
            open,
            content,
            close: &rest[content.len()..],
        }
    }

    fn word(&self) -> &'a str {
        self.content.split_whitespace().next().unwrap_or_default()
    }

    /// Returns the edit of a tag of Salt's that begins at `at`.
    fn rewritten(&self, at: usize) -> Option<Edit> {
        let content = self.content.trim();
        if self.word() == "do" {
            // The engine's `do` takes a call alone, Jinja's any expression.
            let before = self.content.len() - self.content.trim_start().len();
            return Some(Edit {
                at: at + self.open.len() + before,
                removed: "do".len(),
                inserted: "set __done =".to_owned(),
            });
        }
        let isolated = match self.word() {
            "from" | "import" => isolated::import(content),
            "include" => isolated::include(content),
            _ => None,
        };
        if let Some(inserted) = isolated {
            let before = self.content.len() - self.content.trim_start().len();
            return Some(Edit {
                at: at + self.open.len() + before,
                removed: content.len(),
                inserted,
            });
        }
        let rest = content[self.word().len()..].trim();
        let content = match self.word() {
            "endload" => "endset".to_owned(),
            "load_yaml" => format!("set {}|__load_yaml", named(rest)?),
            // JSON is YAML.
            "load_json" => format!("set {}|__load_yaml", named(rest)?),
            "load_text" => format!("set {}|__text", named(rest)?),
            "import_yaml" | "import_json" => import(rest, "__load_yaml")?,
            "import_text" => import(rest, "__text")?,
            _ => return None,
        };
        let inserted = format!("{} {content} {}", self.open, self.close);
        // An error is at a line that the operator wrote.
        let removed = self.open.len() + self.content.len() + self.close.len();
        let newlines = self.content.matches('\n').count();
        let inserted = format!("{inserted}{}", "{#\n#}".repeat(newlines));
        Some(Edit {
            at,
            removed,
            inserted,
        })
    }
}

/// Returns the name in `as NAME`.
fn named(words: &str) -> Option<&str> {
    words.strip_prefix("as ").map(str::trim)
}

/// Returns what `import_yaml FILE as NAME` is in Jinja's words, without the marks of the first and the last tag.
fn import(words: &str, filter: &str) -> Option<String> {
    let (words, context) = context(words);
    let (file, name) = words.rsplit_once(" as ")?;
    let (file, name) = (file.trim(), name.trim());
    let text = match context {
        Context::With => format!("{{% include {file} %}}"),
        Context::Default | Context::Without => {
            format!(
                "{{% with %}}{}{{% endwith %}}",
                isolated::printed(file, false)
            )
        }
    };
    Some(format!("set {name}|{filter} %}}{text}{{% endset"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(source: &str) -> String {
        rewrite(source).text
    }

    #[test]
    fn salts_tags_are_put_in_words_of_jinjas() {
        let load = "{% load_yaml as x %}a: 1{%- endload -%}";
        assert_eq!(rewritten(load), "{% set x|__load_yaml %}a: 1{%- endset -%}");
        let import = "{%- import_yaml 'a as b.yaml' as x with context %}";
        assert_eq!(
            rewritten(import),
            "{%- set x|__load_yaml %}{% include 'a as b.yaml' %}{% endset %}"
        );
    }

    #[test]
    fn texts_comments_and_raw_parts_stay() {
        for source in [
            "{# {% endload %} #}",
            "{{ '{% endload %}' }}",
            "{% set x = '%} {% endload %}' %}",
            "{% raw %}{% endload %}{%- endraw %}",
            "{ {%",
            "{",
            "{{ '\\",
            "{%-%}",
            "{% set é = 'ü' %}",
        ] {
            assert_eq!(rewritten(source), source);
        }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = "{% import_yaml\n 'x' as y %}\n{{ z }}";
        assert_eq!(rewritten(source).matches('\n').count(), 2);
    }
}

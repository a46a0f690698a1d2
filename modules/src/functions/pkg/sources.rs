//! The two formats in which apt's configuration names repositories: a line for each, and blocks of fields (deb822).

use std::fmt;

/// The most sources of one block, whose fields multiply.
const MAX_OF_BLOCK: usize = 4096;

/// A repository, or a part of one: what a line of `sources.list` names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Source {
    /// `deb` or `deb-src`.
    pub kind: String,
    /// The address.
    pub uri: String,
    /// The suite, or the path of a repository without suites.
    pub suite: String,
    /// The components.
    pub components: Vec<String>,
    /// The architectures; those of the machine if there are none.
    pub architectures: Vec<String>,
    /// The file or the fingerprint of the key; an empty text for none.
    pub signed_by: String,
    /// Whether apt leaves it out.
    pub is_disabled: bool,
}

impl fmt::Display for Source {
    /// Writes the source as a line of `sources.list`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        if !self.architectures.is_empty() {
            options.push(format!("arch={}", self.architectures.join(",")));
        }
        if !self.signed_by.is_empty() {
            options.push(format!("signed-by={}", self.signed_by));
        }
        if self.is_disabled {
            f.write_str("# ")?;
        }
        write!(f, "{} ", self.kind)?;
        if !options.is_empty() {
            write!(f, "[{}] ", options.join(" "))?;
        }
        write!(f, "{} {}", self.uri, self.suite)?;
        self.components
            .iter()
            .try_for_each(|component| write!(f, " {component}"))
    }
}

fn is_kind(word: &str) -> bool {
    matches!(word, "deb" | "deb-src")
}

/// Returns the sources in a file with a line for each. One that is commented out is disabled; other comments, and lines that apt
/// would not understand, are left out.
pub(super) fn one_line(text: &str) -> Vec<Source> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Source> {
    let line = line.trim();
    let rest = line.trim_start_matches(['#', ' ', '\t']);
    let is_disabled = line.starts_with('#');
    let mut words = words(rest).into_iter().peekable();
    let kind = words.next().filter(|word| is_kind(word))?;
    let mut source = Source {
        kind,
        is_disabled,
        ..Source::default()
    };
    if let Some(options) = words.next_if(|word| word.starts_with('[')) {
        let options = options.trim_start_matches('[').trim_end_matches(']');
        for option in options.split_whitespace() {
            source.take_option(option);
        }
    }
    (source.uri, source.suite) = (words.next()?, words.next()?);
    // Prose in a comment may begin with the same word.
    if !source.uri.contains(':') {
        return None;
    }
    source.components = words.collect();
    Some(source)
}

impl Source {
    fn take_option(&mut self, option: &str) {
        let Some((name, value)) = option.split_once('=') else {
            return;
        };
        let values = value.split(',').filter(|value| !value.is_empty());
        match name {
            "arch" => self.architectures = values.map(str::to_owned).collect(),
            "arch+" => self.architectures.extend(values.map(str::to_owned)),
            "signed-by" => self.signed_by = value.to_owned(),
            _ => {}
        }
    }
}

/// Splits a line into words, up to a comment. What stands in brackets is one word, or a part of one, as in the address of a disk.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_inside) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '#' if !is_inside => break,
            c if c.is_whitespace() && !is_inside => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => {
                is_inside = match c {
                    '[' => true,
                    ']' => false,
                    _ => is_inside,
                };
                word.push(c);
            }
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Returns the sources in a file with blocks of fields: one for each type, address and suite of a block. A block that lacks one of
/// these fields is left out.
pub(super) fn deb822(text: &str) -> Vec<Source> {
    blocks(text).iter().flat_map(sources).collect()
}

/// A block: the names of its fields, in small letters, and their values.
type Block = Vec<(String, String)>;

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = vec![Block::new()];
    for line in text.lines() {
        let Some(block) = blocks.last_mut() else {
            break;
        };
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            if !block.is_empty() {
                blocks.push(Block::new());
            }
        } else if line.starts_with([' ', '\t']) {
            // It goes on with the field before.
            if let Some((_, value)) = block.last_mut() {
                value.push('\n');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            block.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    blocks
}

fn sources(block: &Block) -> Vec<Source> {
    // The last one counts, as in apt.
    let get = |name: &str| {
        let mut fields = block.iter().rev();
        let found = fields.find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    let list = |name: &str| {
        let words = get(name).split_whitespace();
        words.map(str::to_owned).collect::<Vec<String>>()
    };
    let no = ["no", "false", "without", "off", "disable", "0"];
    let is_disabled = no.contains(&get("enabled").to_ascii_lowercase().as_str());
    // The text of a key is no name of one.
    let signed_by = Some(get("signed-by")).filter(|value| !value.contains("-----BEGIN"));
    let signed_by = signed_by.unwrap_or_default().split_whitespace();
    let signed_by = signed_by.collect::<Vec<_>>().join(",");
    let (components, architectures) = (list("components"), list("architectures"));
    let mut found = Vec::new();
    for kind in list("types").into_iter().filter(|kind| is_kind(kind)) {
        for uri in list("uris") {
            for suite in list("suites") {
                if found.len() == MAX_OF_BLOCK {
                    return found;
                }
                found.push(Source {
                    kind: kind.clone(),
                    uri: uri.clone(),
                    suite,
                    components: components.clone(),
                    architectures: architectures.clone(),
                    signed_by: signed_by.clone(),
                    is_disabled,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(sources: &[Source]) -> Vec<String> {
        sources.iter().map(Source::to_string).collect()
    }

    #[test]
    fn a_line_names_a_source() {
        let text = "\
# See sources.list(5) for the format.
# deb is the type of binary packages
deb http://deb.debian.org/debian bookworm main contrib # the usual
  deb-src\thttp://deb.debian.org/debian   bookworm main
deb [ arch=amd64,i386 signed-by=/usr/share/keyrings/a.gpg trusted=yes ] https://a.example/apt stable main
#deb http://old.example/ old main
## deb [arch=arm64] http://old.example/ older main
deb cdrom:[Debian GNU/Linux 12.0 _Bookworm_ - DVD]/ bookworm main
deb [trusted=yes] file:/repo ./
rpm http://no.example/ x
deb http://no-suite.example/
deb [arch=amd64
";
        assert_eq!(
            shown(&one_line(text)),
            [
                "deb http://deb.debian.org/debian bookworm main contrib",
                "deb-src http://deb.debian.org/debian bookworm main",
                "deb [arch=amd64,i386 signed-by=/usr/share/keyrings/a.gpg] https://a.example/apt stable main",
                "# deb http://old.example/ old main",
                "# deb [arch=arm64] http://old.example/ older main",
                "deb cdrom:[Debian GNU/Linux 12.0 _Bookworm_ - DVD]/ bookworm main",
                "deb file:/repo ./",
            ]
        );
    }

    #[test]
    fn a_block_names_sources() {
        let text = "\
# Debian
Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm
 bookworm-updates
Components: main
# a comment within
 contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg


types: deb deb-src rpm
URIS: http://a.example/ http://b.example/
Suites: ./
Architectures: amd64 i386
Enabled: NO
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEX
 -----END PGP PUBLIC KEY BLOCK-----
   
Types: deb
URIs: http://no-suite.example/

no field
";
        assert_eq!(
            shown(&deb822(text)),
            [
                "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main contrib",
                "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-updates main contrib",
                "# deb [arch=amd64,i386] http://a.example/ ./",
                "# deb [arch=amd64,i386] http://b.example/ ./",
                "# deb-src [arch=amd64,i386] http://a.example/ ./",
                "# deb-src [arch=amd64,i386] http://b.example/ ./",
            ]
        );
    }

    fn source() -> impl Strategy<Value = Source> {
        let word = || "[a-z][a-z0-9-]{0,6}";
        let words = || prop::collection::vec(word(), 0..3);
        let key = prop_oneof![Just(String::new()), "/[a-z]{1,8}\\.gpg"];
        let kind = prop_oneof![Just("deb".to_owned()), Just("deb-src".to_owned())];
        let uri = "(http|https|file)://[a-z]{1,8}/[a-z]{0,4}";
        (kind, uri, word(), words(), words(), key, any::<bool>()).prop_map(
            |(kind, uri, suite, components, architectures, signed_by, is_disabled)| Source {
                kind,
                uri,
                suite,
                components,
                architectures,
                signed_by,
                is_disabled,
            },
        )
    }

    proptest! {
        #[test]
        fn a_source_is_read_as_it_is_written(all in prop::collection::vec(source(), 0..6)) {
            let lines: String = all.iter().map(|source| format!("{source}\n")).collect();
            prop_assert_eq!(&one_line(&lines), &all);
            let block = |source: &Source| format!(
                "Types: {}\nURIs: {}\nSuites: {}\nComponents: {}\nArchitectures: {}\nSigned-By: {}\nEnabled: {}\n\n",
                source.kind,
                source.uri,
                source.suite,
                source.components.join(" "),
                source.architectures.join("\n "),
                source.signed_by,
                if source.is_disabled { "no" } else { "yes" },
            );
            let blocks: String = all.iter().map(block).collect();
            prop_assert_eq!(&deb822(&blocks), &all);
        }

        #[test]
        fn any_text_is_read(text in "(?s).{0,300}", near in "((deb|deb-src|Types:|URIs:|Suites:|\\[|\\]|#|=|,|:|a| |\n){0,60})") {
            for text in [text, near] {
                for source in one_line(&text).iter().chain(&deb822(&text)) {
                    prop_assert!(is_kind(&source.kind));
                    prop_assert!(!source.uri.is_empty() && !source.suite.is_empty());
                }
            }
        }
    }
}

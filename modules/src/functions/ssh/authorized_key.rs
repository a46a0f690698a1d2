//! A line of a file of authorized keys, as sshd(8) describes it: options, the type of the key, the key, a comment.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// The types of keys, as they are written, and what Salt's functions also take for them.
const TYPES: [(&str, &str); 12] = [
    ("ssh-ed25519", "ed25519"),
    ("ssh-rsa", "rsa"),
    ("ecdsa-sha2-nistp256", "ecdsa"),
    ("ecdsa-sha2-nistp384", "ecdsa-384"),
    ("ecdsa-sha2-nistp521", "ecdsa-521"),
    ("ssh-dss", "dss"),
    ("sk-ssh-ed25519@openssh.com", "ed25519-sk"),
    ("sk-ecdsa-sha2-nistp256@openssh.com", "ecdsa-sk"),
    ("ssh-ed25519-cert-v01@openssh.com", "ed25519-cert"),
    ("ssh-rsa-cert-v01@openssh.com", "rsa-cert"),
    ("ecdsa-sha2-nistp256-cert-v01@openssh.com", "ecdsa-cert"),
    ("sk-ssh-ed25519-cert-v01@openssh.com", "ed25519-sk-cert"),
];

/// The largest key, in bytes of its text.
const LONGEST_KEY: usize = 16 * 1024;

/// A key that a user may log in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuthorizedKey {
    /// The options, each as it is written.
    pub options: Vec<String>,
    /// The type of the key.
    pub enc: String,
    /// The key, in base64.
    pub key: String,
    /// The comment; empty if there is none.
    pub comment: String,
}

/// Returns the type of key that this name stands for.
pub(super) fn key_type(name: &str) -> Option<&'static str> {
    let mut known = TYPES.iter();
    known
        .find(|(long, short)| *long == name || *short == name)
        .map(|(long, _)| *long)
}

impl AuthorizedKey {
    /// Reads a line; none if it is empty, a comment, or no key.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (options, rest) = match key_type(first_word(line)) {
            Some(_) => ("", line),
            None => line.split_at(end_of_options(line)?),
        };
        let mut words = rest.trim_start().splitn(3, [' ', '\t']);
        let (enc, key) = (words.next()?, words.next()?);
        let comment = words.next().unwrap_or_default().trim();
        let key = Self {
            options: split_options(options),
            enc: key_type(enc)?.to_owned(),
            key: key.to_owned(),
            comment: comment.to_owned(),
        };
        key.is_key().then_some(key)
    }

    /// Writes the line, without its end.
    pub(super) fn to_line(&self) -> String {
        let mut words = vec![self.enc.as_str(), &self.key];
        let options = self.options.join(",");
        if !options.is_empty() {
            words.insert(0, &options);
        }
        if !self.comment.is_empty() {
            words.push(&self.comment);
        }
        words.join(" ")
    }

    /// Whether the key is one of its type: its bytes begin with the name of the type.
    pub(super) fn is_key(&self) -> bool {
        let Some(bytes) = self.bytes().filter(|_| self.key.len() <= LONGEST_KEY) else {
            return false;
        };
        let name = self.enc.as_bytes();
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes();
        let rest = bytes
            .strip_prefix(&length)
            .and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| !rest.is_empty())
    }

    /// Returns the fingerprint as ssh-keygen(1) prints it, without the name of the hash.
    pub(super) fn fingerprint(&self) -> String {
        let bytes = self.bytes().unwrap_or_default();
        STANDARD_NO_PAD.encode(digest(&SHA256, &bytes))
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.key).ok()
    }
}

/// Whether these options can stand in front of a key: they end where they should, and are on one line.
pub(super) fn are_options(options: &[String]) -> bool {
    let text = options.join(",");
    let is_plain = !text.contains(char::is_control) && key_type(first_word(&text)).is_none();
    is_plain && end_of_options(&text) == Some(text.len()) && !text.starts_with('#')
}

fn first_word(text: &str) -> &str {
    text.split([' ', '\t']).next().unwrap_or_default()
}

/// Returns the place of the first space outside of quotes, or that of the end; none if a quote stays open. A backslash hides a
/// quote.
fn end_of_options(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_hidden) = (false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !is_hidden => is_quoted = !is_quoted,
            ' ' | '\t' if !is_quoted => return Some(at),
            _ => {}
        }
        is_hidden = letter == '\\' && !is_hidden;
    }
    (!is_quoted).then_some(text.len())
}

/// Splits options at the commas outside of quotes.
fn split_options(text: &str) -> Vec<String> {
    let (mut is_quoted, mut is_hidden) = (false, false);
    let mut options = vec![String::new()];
    for letter in text.trim().chars() {
        match letter {
            '"' if !is_hidden => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                options.push(String::new());
                is_hidden = false;
                continue;
            }
            _ => {}
        }
        is_hidden = letter == '\\' && !is_hidden;
        if let Some(last) = options.last_mut() {
            last.push(letter);
        }
    }
    options.retain(|option| !option.is_empty());
    options
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ED25519: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIDIhz2GK/XCUj4i6Q5yQJNL1MKMY0RxzPV2QrBqfHrDq";

    #[test]
    fn lines_are_keys_with_their_options() {
        let line = format!(
            r#"from="10.0.0.0/8,*.example.org",command="echo \"a, b\" c",no-pty ssh-ed25519 {ED25519} ann at home"#
        );
        let key = AuthorizedKey::parse(&line).unwrap();
        assert_eq!(
            key.options,
            [
                r#"from="10.0.0.0/8,*.example.org""#,
                r#"command="echo \"a, b\" c""#,
                "no-pty"
            ]
        );
        assert_eq!(
            (key.enc.as_str(), key.comment.as_str()),
            ("ssh-ed25519", "ann at home")
        );
        assert_eq!(key.to_line(), line);
        assert_eq!(
            key.fingerprint(),
            "XcVaf1K7+8/BaRbn0ax8/wH8blb27P4aE1gQD/ZvGzU"
        );
        for none in [
            "",
            "# ssh-ed25519 AAAA",
            "ssh-ed25519",
            "ssh-ed25519 AAAA",
            "ssh-ed25519 !",
            &format!("ssh-rsa {ED25519}"),
            &format!(r#"command="open ssh-ed25519 {ED25519}"#),
        ] {
            assert_eq!(AuthorizedKey::parse(none), None, "{none:?}");
        }
    }

    #[test]
    fn options_cannot_be_more_than_options() {
        for bad in ["no-pty\nssh-rsa", "a b", "\"", "ssh-rsa", "ssh-rsa x", "#a"] {
            assert!(!are_options(&[bad.to_owned()]), "{bad:?}");
        }
        for good in ["no-pty", r#"command="a b \" c""#, r#"environment="A=b""#] {
            assert!(are_options(&[good.to_owned()]), "{good:?}");
        }
        assert!(are_options(&[]));
    }

    proptest! {
        #[test]
        fn nothing_makes_a_line_panic(line in "\\PC*") {
            let _ = AuthorizedKey::parse(&line);
        }

        #[test]
        fn a_key_comes_back_as_it_was_written(
            options in proptest::collection::vec("[a-z-]{1,8}(=\"[a-z ,]{0,8}\")?", 0..3),
            comment in "([a-z@]{1,6}( [a-z]{1,3})?)?",
        ) {
            let key = AuthorizedKey {
                options,
                enc: "ssh-ed25519".to_owned(),
                key: ED25519.to_owned(),
                comment,
            };
            prop_assert_eq!(AuthorizedKey::parse(&key.to_line()), Some(key));
        }
    }
}

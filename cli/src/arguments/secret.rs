//! The option of `saline` about arguments whose values nobody but the function sees.
//!
//! A value never stands on the command line, which every user of the machine can read.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use saline_client::SecretArguments;
use saline_data::Value;
use saline_messages::{ArgumentPlace, MAX_SECRET};

/// The options about secret arguments.
#[derive(Debug, Clone, Args)]
pub(crate) struct SecretOptions {
    /// Pass the function the argument NAME, whose value is the text in FILE, or of the standard input with NAME=-, without
    /// the newline at its end. Only the minions of the job get the value; events, logs and lists of jobs show a digest. What a
    /// function returns or passes on of it is not recognised.
    #[arg(long = "secret", value_name = "NAME=@FILE")]
    secrets: Vec<SecretSource>,
}

/// An argument, and where its value is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SecretSource {
    name: String,
    /// The file; none for the standard input.
    file: Option<PathBuf>,
}

impl FromStr for SecretSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, place) = text
            .split_once('=')
            .ok_or("write NAME=@FILE, or NAME=- for the standard input")?;
        let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name = name.starts_with(begins)
            && !name.starts_with("__")
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_name {
            return Err(format!("'{name}' is not the name of an argument"));
        }
        let file = match (place, place.strip_prefix('@')) {
            ("-", _) => None,
            (_, Some(file)) if !file.is_empty() => Some(PathBuf::from(file)),
            _ => {
                return Err(
                    "every user of this machine can read a value on the command line; write it into a file and \
                     NAME=@FILE, or NAME=- for the standard input"
                        .to_owned(),
                );
            }
        };
        let name = name.to_owned();
        Ok(Self { name, file })
    }
}

impl SecretOptions {
    /// Refuses every secret argument, for a job of several functions.
    ///
    /// # Errors
    /// When there is one: a line that says what to do instead.
    pub(crate) fn refuse_any(&self) -> Result<(), String> {
        match self.secrets.is_empty() {
            true => Ok(()),
            false => Err(
                "--secret is for a job of one function: run the one that needs it by itself"
                    .to_owned(),
            ),
        }
    }

    /// Checks that the values can be read, beside the names of other arguments. `uses_input` says that the standard
    /// input has been read already.
    ///
    /// # Errors
    /// One line that says what to write instead.
    pub(crate) fn check<'a>(
        &self,
        others: impl IntoIterator<Item = &'a str>,
        uses_input: bool,
    ) -> Result<(), String> {
        let mut names: Vec<&str> = others.into_iter().collect();
        let mut is_used = uses_input;
        for secret in &self.secrets {
            if names.contains(&secret.name.as_str()) {
                return Err(format!("the argument '{}' is given twice", secret.name));
            }
            names.push(&secret.name);
            if secret.file.is_none() && std::mem::replace(&mut is_used, true) {
                return Err(format!(
                    "--secret {}=-: the standard input is read for something else already; use a file",
                    secret.name
                ));
            }
        }
        Ok(())
    }

    /// Reads the values.
    ///
    /// # Errors
    /// One line that names the argument whose value cannot be read.
    pub(crate) fn read(&self, input: impl Read) -> Result<SecretArguments, String> {
        let mut input = Some(input);
        let mut values = Vec::new();
        for secret in &self.secrets {
            let text = match &secret.file {
                Some(file) => File::open(file).and_then(text),
                None => input.take().map_or_else(|| Ok(String::new()), text),
            };
            let text = text.map_err(|error| {
                let place = match &secret.file {
                    Some(file) => file.display().to_string(),
                    None => "the standard input".to_owned(),
                };
                format!("--secret {}: cannot read {place}: {error}", secret.name)
            })?;
            values.push((ArgumentPlace::named(&secret.name), Value::from(text)));
        }
        Ok(SecretArguments(values))
    }
}

/// Reads a value, without the newline at its end.
fn text(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(MAX_SECRET as u64 + 2).read_to_string(&mut text)?;
    if text.ends_with('\n') {
        text.pop();
    }
    match text.len() {
        0 => Err(io::Error::other("it is empty")),
        long if long > MAX_SECRET => Err(io::Error::other(format!(
            "it is larger than {MAX_SECRET} bytes"
        ))),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(texts: &[&str]) -> SecretOptions {
        let secrets = texts.iter().map(|text| text.parse().unwrap());
        SecretOptions {
            secrets: secrets.collect(),
        }
    }

    #[test]
    fn a_value_comes_from_a_file_or_the_standard_input_and_never_from_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "correct horse\n\n").unwrap();
        let from_file = format!("password=@{}", file.display());
        let options = options(&[&from_file, "token=-"]);
        let read = options.read(&b"1234"[..]).unwrap();
        let expected = vec![
            (
                ArgumentPlace::named("password"),
                Value::from("correct horse\n"),
            ),
            (ArgumentPlace::named("token"), Value::from("1234")),
        ];
        assert_eq!(read.0, expected);
        assert_eq!(
            format!("{read:?}"),
            r#"{Named("password"), Named("token")}"#
        );
        for bad in [
            "password",
            "password=x",
            "password=@",
            "=@x",
            "a-b=@x",
            "__x=@x",
        ] {
            assert!(bad.parse::<SecretSource>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_and_the_standard_input_are_given_once() {
        let check = |texts: &[&str], others: &[&str], uses_input| {
            let checked = options(texts).check(others.iter().copied(), uses_input);
            checked.map_err(|line| line.chars().take(30).collect::<String>())
        };
        assert_eq!(check(&["a=-", "b=@x"], &["c"], false), Ok(()));
        for (texts, others, uses_input) in [
            (&["a=-", "a=@x"][..], &[][..], false),
            (&["a=-"], &["a"], false),
            (&["a=-", "b=-"], &[], false),
            (&["a=-"], &[], true),
        ] {
            assert!(check(texts, others, uses_input).is_err(), "{texts:?}");
        }
    }

    #[test]
    fn a_value_has_a_bound_and_is_a_text() {
        let read = |bytes: &[u8]| options(&["a=-"]).read(bytes);
        let most = "x".repeat(MAX_SECRET);
        assert!(read(format!("{most}\n").as_bytes()).is_ok());
        assert!(read(format!("{most}x").as_bytes()).is_err());
        assert!(read(b"").is_err());
        assert!(read(b"\n").is_err());
        assert!(read(b"\xff").is_err());
        let missing = options(&["a=@/nonexistent"]).read(&b""[..]).unwrap_err();
        assert!(missing.starts_with("--secret a: cannot read /nonexistent: "));
    }
}

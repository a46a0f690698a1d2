//! The token of a login that is kept between commands, in `~/.saline/token`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use saline_messages::LoginToken;
use saline_private_files::mode_for_others;

/// Returns the file of the token.
///
/// # Errors
/// One line: the user has no home folder.
pub(crate) fn file() -> Result<PathBuf, String> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(|home| Path::new(&home).join(".saline").join("token"))
        .ok_or_else(|| "there is no $HOME, in which a token could be kept".to_owned())
}

/// Keeps a token (0600) in the place of an earlier one.
///
/// # Errors
/// One line that names the file.
pub(crate) fn keep(path: &Path, token: &LoginToken) -> Result<(), String> {
    let mut text = token.0.iter().fold(String::new(), |mut text, byte| {
        // Writing into a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    text.push('\n');
    let folder = path.parent().unwrap_or(Path::new("."));
    saline_private_files::create_folder(folder)
        .and_then(|()| saline_private_files::replace(path, text.as_bytes(), 0o600))
        .map_err(|error| format!("cannot keep the token in {}: {error}", path.display()))
}

/// Returns the token that is kept.
///
/// # Errors
/// One line that names the file: there is none, others can read it, or it is not one.
pub(crate) fn read(path: &Path) -> Result<LoginToken, String> {
    let shown = path.display();
    let found = fs::metadata(path)
        .map_err(|error| format!("no token is kept in {shown} ({error}): log in with -T -a"))?;
    if mode_for_others(&found).is_some() {
        return Err(format!(
            "others can read the token in {shown}: chmod 600 it, and log in again with -T -a"
        ));
    }
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    parse(text.trim_end()).ok_or_else(|| format!("{shown} has no token: log in again with -T -a"))
}

/// Reads a token that is written as 64 hexadecimal digits.
fn parse(text: &str) -> Option<LoginToken> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut token = [0; 32];
    for (byte, pair) in token.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(LoginToken(token))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_is_kept_for_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".saline/token");
        assert!(read(&path).unwrap_err().starts_with("no token is kept in "));
        keep(&path, &LoginToken([0xab; 32])).unwrap();
        assert_eq!(read(&path), Ok(LoginToken([0xab; 32])));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&path).unwrap_err().starts_with("others can read"));
        keep(&path, &LoginToken([1; 32])).unwrap();
        assert_eq!(read(&path), Ok(LoginToken([1; 32])));
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "\\PC{0,70}", hex in "[0-9a-fA-F+]{60,66}") {
            prop_assert_eq!(parse(&text), None);
            let is_token = hex.len() == 64 && !hex.contains('+');
            prop_assert_eq!(parse(&hex).is_some(), is_token);
        }
    }
}

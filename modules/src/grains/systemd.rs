//! The version of systemd, without running a program: both it and the features stand in systemd's shared library.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use regex::bytes::Regex;
use saline_data::Value;

use super::{Entries, add};

/// The folders below which systemd keeps its shared library.
const FOLDERS: [&str; 3] = ["/usr/lib/systemd", "/lib/systemd", "/usr/lib"];

/// The part of the library that is searched at once, in bytes.
const CHUNK: usize = 64 * 1024;

/// The longest line of features, in bytes.
const LONGEST: usize = 2048;

pub fn add_to(found: &mut Entries) {
    /// The library does not change while a minion runs, but for an upgrade, which restarts the minion at the next boot.
    static FOUND: OnceLock<Option<(String, String)>> = OnceLock::new();
    if !Path::new("/run/systemd/system").is_dir() {
        return;
    }
    if let Some((version, features)) = FOUND.get_or_init(version_and_features) {
        let systemd = [
            ("version", Value::from(version.as_str())),
            ("features", Value::from(features.as_str())),
        ];
        add(found, "systemd", Value::map(systemd));
    }
}

fn version_and_features() -> Option<(String, String)> {
    let library = library()?;
    let name = library.file_name()?.to_str()?;
    let version = version(name)?.to_owned();
    let features = File::open(&library).ok().and_then(features);
    Some((version, features.unwrap_or_default()))
}

/// Returns systemd's shared library: in its own folder, or in one of an architecture.
fn library() -> Option<PathBuf> {
    let folders = FOLDERS.iter().map(PathBuf::from);
    let nested = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let nested = nested.map(|entry| entry.path().join("systemd"));
    folders.chain(nested).find_map(|folder| {
        let mut entries = fs::read_dir(folder)
            .ok()?
            .flatten()
            .map(|entry| entry.path());
        entries.find(|path| {
            path.file_name()
                .and_then(|name| version(name.to_str()?))
                .is_some()
        })
    })
}

/// Returns the version in the name of the library, such as `252` in `libsystemd-shared-252.so`.
fn version(name: &str) -> Option<&str> {
    let version = name
        .strip_prefix("libsystemd-shared-")?
        .strip_suffix(".so")?;
    let major = version.split(['.', '-']).next()?;
    major
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(major)
}

/// Finds the line of features, which begins with whether systemd knows PAM.
fn features(mut library: impl Read) -> Option<String> {
    let beginning = Regex::new("(?-u)[+-]PAM ").ok()?;
    let mut kept: Vec<u8> = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = library.read(&mut chunk).ok()?;
        kept.extend_from_slice(&chunk[..read]);
        let begins = beginning.find(&kept).map(|found| found.start());
        let Some(begins) = begins else {
            if read == 0 {
                return None;
            }
            // The beginning of the line may stand at the end of the chunk.
            kept.drain(..kept.len().saturating_sub(4));
            continue;
        };
        let line = &kept[begins..];
        match line.iter().position(|byte| *byte == 0) {
            Some(ends) => return String::from_utf8(line[..ends].to_vec()).ok(),
            None if line.len() > LONGEST || read == 0 => return None,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_says_version_and_features() {
        assert_eq!(version("libsystemd-shared-252.so"), Some("252"));
        assert_eq!(version("libsystemd-shared-257.9-1.so"), Some("257"));
        assert_eq!(version("libsystemd-core-252.so"), None);
        for before in [0, 7, CHUNK - 3, CHUNK] {
            let mut bytes = vec![7; before];
            bytes.extend(b"\0+PAM -APPARMOR default-hierarchy=unified\0more");
            let found = features(&bytes[..]);
            assert_eq!(
                found.as_deref(),
                Some("+PAM -APPARMOR default-hierarchy=unified")
            );
        }
        assert_eq!(features(&b"+PAM without an end"[..]), None);
        assert_eq!(features(&[][..]), None);
    }
}

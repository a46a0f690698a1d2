//! Files beside those that a daemon reads in a folder, which look as if they were meant to be read too.

use std::path::Path;

/// The extensions of files with options.
const EXTENSIONS: [&str; 6] = ["", "conf", "json", "sls", "yaml", "yml"];

/// Returns a warning about each file in `folder` whose name is that of a file with options, but does not end with `extension`, so that
/// nobody reads it. A name that begins with a dot, and one with another extension, is that of a file which is meant to be left out.
pub(crate) fn unread_files(folder: &Path, extension: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let is_unread = |path: &Path| {
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let found = path.extension().unwrap_or_default();
        let is_meant = EXTENSIONS
            .iter()
            .any(|known| found.eq_ignore_ascii_case(known));
        found != extension && is_meant && !is_hidden && path.is_file()
    };
    let unread = paths.iter().filter(|path| is_unread(path));
    unread
        .map(|path| {
            format!(
                "{} is not read, since its name does not end with .{extension}: rename it to {}, or to a name that begins with a dot",
                path.display(),
                path.with_extension(extension).display()
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_look_like_those_that_are_read_are_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("more.conf")).unwrap();
        for name in [
            "a.yaml",
            "roles.conf",
            "b.YML",
            "roles",
            ".roles.conf",
            "a.yaml~",
            "a.bak",
            "a.conf.dpkg-old",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let shown = folder.path().display().to_string();
        let told = |extension| {
            let told = unread_files(folder.path(), extension).join("\n");
            told.replace(&format!("{shown}/"), "")
        };
        insta::assert_snapshot!(told("yaml"), @r"
        b.YML is not read, since its name does not end with .yaml: rename it to b.yaml, or to a name that begins with a dot
        roles is not read, since its name does not end with .yaml: rename it to roles.yaml, or to a name that begins with a dot
        roles.conf is not read, since its name does not end with .yaml: rename it to roles.yaml, or to a name that begins with a dot
        ");
        assert!(told("conf").starts_with("a.yaml is not read"));
        assert!(unread_files(&folder.path().join("absent"), "yaml").is_empty());
    }
}

//! Folders and programs that a configuration names and the machine does not have.

use std::io::{Error, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Returns a line about a folder that an option names and that surely does not exist. One that cannot be looked at may exist.
pub fn absent_folder(option: &str, folder: &Path) -> Option<String> {
    let shown = folder.display();
    match folder.metadata() {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some(format!(
            "{option}: {shown} is not a folder: correct the path"
        )),
        Err(error) => is_absent(&error).then(|| {
            format!("{option}: the folder {shown} does not exist: make it, or correct the path")
        }),
    }
}

/// Returns a line about a file that an option names, which the daemon reads and that surely does not exist.
pub fn absent_file(option: &str, file: &Path) -> Option<String> {
    let error = file.metadata().err()?;
    let shown = file.display();
    is_absent(&error).then(|| {
        format!("{option}: the file {shown} does not exist: put it there, or correct the path")
    })
}

/// Returns a line about the folder of a file that an option names and the daemon writes, if that folder surely does not exist.
pub fn absent_folder_of(option: &str, file: &Path) -> Option<String> {
    let folder = file.parent()?;
    let shown = folder.display();
    let is_needed = match folder.metadata() {
        Ok(found) => !found.is_dir(),
        Err(error) => is_absent(&error),
    };
    is_needed.then(|| {
        format!(
            "{option}: {} cannot be written, since there is no folder {shown}: make it for the user that this runs as, or correct the path",
            file.display()
        )
    })
}

/// Returns a line about a program that an option names and that surely does not exist, or that nobody may run.
pub fn absent_program(option: &str, program: &Path) -> Option<String> {
    let shown = program.display();
    match program.metadata() {
        Ok(found) if !found.is_file() => Some(format!(
            "{option}: {shown} is not a program: correct the path"
        )),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => Some(format!(
            "{option}: {shown} cannot be run, since it is not executable: chmod +x it"
        )),
        Ok(_) => None,
        Err(error) => is_absent(&error).then(|| {
            format!("{option}: the program {shown} does not exist: install it, or correct the path")
        }),
    }
}

fn is_absent(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_absent_is_told_and_what_is_there_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("text"), "").unwrap();
        fs::set_permissions(at("text"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(at("program"), "").unwrap();
        fs::set_permissions(at("program"), fs::Permissions::from_mode(0o755)).unwrap();
        let told = |line: Option<String>| {
            let line = line.unwrap_or_default();
            line.replace(&folder.path().display().to_string(), "")
        };
        let folders = ["", "absent", "text", "text/below"];
        insta::assert_snapshot!(folders.map(|name| told(absent_folder("o", &at(name)))).join("\n"), @r"

        o: the folder /absent does not exist: make it, or correct the path
        o: /text is not a folder: correct the path
        o: the folder /text/below does not exist: make it, or correct the path
        ");
        let named = told(absent_file("o", &at("absent")));
        assert_eq!(
            named,
            "o: the file /absent does not exist: put it there, or correct the path"
        );
        assert_eq!(absent_file("o", &at("text")), None);
        let files = ["absent", "absent/file", "text/file"];
        insta::assert_snapshot!(files.map(|name| told(absent_folder_of("o", &at(name)))).join("\n"), @r"

        o: /absent/file cannot be written, since there is no folder /absent: make it for the user that this runs as, or correct the path
        o: /text/file cannot be written, since there is no folder /text: make it for the user that this runs as, or correct the path
        ");
        let programs = ["program", "absent", "text", ""];
        insta::assert_snapshot!(programs.map(|name| told(absent_program("o", &at(name)))).join("\n"), @r"

        o: the program /absent does not exist: install it, or correct the path
        o: /text cannot be run, since it is not executable: chmod +x it
        o: / is not a program: correct the path
        ");
    }
}

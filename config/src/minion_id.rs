//! The file `minion_id`, which has the minion's id when the configuration gives none, as with Salt.

use std::io;
use std::path::{Path, PathBuf};

use saline_messages::MinionId;

use crate::ConfigError;
use crate::files::{check, read_bytes};

/// The name of the file, in the folder of the configuration.
const FILE: &str = "minion_id";

/// Returns the file in the folder of a configuration.
pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Returns the id in the file, if there is a file. Adds to `warnings` who else can change it.
pub(crate) fn read(
    folder: &Path,
    warnings: &mut Vec<String>,
) -> Result<Option<MinionId>, ConfigError> {
    let path = path(folder);
    let (found, bytes) = match read_bytes(&path) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ConfigError::Read { path, source }),
    };
    check(&path, &found, warnings)?;
    let text = String::from_utf8_lossy(&bytes);
    match MinionId::parse(text.trim()) {
        Ok(id) => Ok(Some(id)),
        Err(error) => {
            let why = error.to_string();
            Err(ConfigError::IdFile { path, why })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use saline_private_files::is_root;

    use crate::MinionConfig;

    #[test]
    fn the_file_has_the_id_unless_the_configuration_gives_one() {
        let folder = tempfile::tempdir().unwrap();
        let id = || {
            let loaded = MinionConfig::load(folder.path(), &[]).unwrap();
            assert_eq!(loaded.warnings, [""; 0]);
            loaded.config.id.map(|id| id.to_string())
        };
        assert_eq!(id(), None);
        std::fs::write(folder.path().join("minion_id"), "web1.example.org\n").unwrap();
        assert_eq!(id().as_deref(), Some("web1.example.org"));
        std::fs::write(folder.path().join("minion"), "id: db1\n").unwrap();
        assert_eq!(id().as_deref(), Some("db1"));
    }

    #[test]
    fn a_file_that_holds_no_id_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [&b""[..], b"../etc\n", &[b'x'; 1000], b"\xff"] {
            std::fs::write(folder.path().join("minion_id"), bytes).unwrap();
            let error = MinionConfig::load(folder.path(), &[]).unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains("minion_id") && !error.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_that_every_user_can_change_names_no_minion_of_root() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("minion_id");
        std::fs::write(&path, "a\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        match MinionConfig::load(folder.path(), &[]) {
            Ok(loaded) => assert!(!is_root() && loaded.warnings.concat().contains("chmod o-w")),
            Err(error) => assert!(error.to_string().contains("chmod o-w"), "{error}"),
        }
    }
}

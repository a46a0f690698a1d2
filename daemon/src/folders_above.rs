//! The folders above those of a daemon, which the daemons of a machine share: each must be able to enter them, whichever of them
//! starts first and whichever users they run as.

use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// The mode of a folder that others may enter and not list.
const ENTERED: u32 = 0o711;

/// Creates the missing folders above `folder`, and not `folder` itself, as [`create_entered`] does. What cannot be created is told
/// when `folder` is used.
pub fn create_above(folder: &Path) {
    if let Some(above) = folder.parent()
        && let Err(error) = create_entered(above)
    {
        tracing::debug!("{} was not created: {error}", above.display());
    }
}

/// Creates a folder and its missing parents, each with the mode that others may enter it, whatever the umask is. A folder that
/// exists keeps its mode.
///
/// # Errors
/// When a folder cannot be created.
pub fn create_entered(folder: &Path) -> io::Result<()> {
    if folder.exists() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        create_entered(parent)?;
    }
    DirBuilder::new().mode(ENTERED).create(folder)?;
    set_permissions(folder, Permissions::from_mode(ENTERED))
}

#[cfg(test)]
mod tests {
    use std::fs::metadata;

    use super::*;

    #[test]
    fn folders_above_can_be_entered_and_the_folder_itself_is_not_made() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("lib/saline/master");
        create_above(&folder);
        for path in ["lib", "lib/saline"] {
            let found = metadata(root.path().join(path)).unwrap();
            assert_eq!(found.permissions().mode() & 0o777, 0o711, "{path}");
        }
        assert!(!folder.exists());
    }
}

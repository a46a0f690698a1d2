//! Lets users of this machine reach the access socket: others may enter the folder of the local sockets then, and not
//! list it. The other sockets there are closed to them by their own modes.

use std::fs::{Permissions, metadata, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use saline_daemon::create_entered;

use crate::error::MasterError;

/// The mode bit that lets others enter a folder.
const OTHERS_ENTER: u32 = 0o001;

/// Opens `sock_dir`, which is created with its missing parents. Other folders above it are the system's or the
/// operator's: one that keeps others out is warned of.
///
/// # Errors
/// When the mode of the folder cannot be changed.
pub(crate) fn open(sock_dir: &Path) -> Result<(), MasterError> {
    let failed = |source| MasterError::AccessFolder {
        path: sock_dir.to_owned(),
        source,
    };
    create_entered(sock_dir).map_err(failed)?;
    let mode = metadata(sock_dir).map_err(failed)?.permissions().mode();
    if mode & OTHERS_ENTER == 0 {
        let opened = Permissions::from_mode((mode & 0o7777) | 0o011);
        set_permissions(sock_dir, opened).map_err(failed)?;
    }
    for folder in sock_dir.ancestors().skip(1) {
        let closed = metadata(folder).is_ok_and(|found| {
            let mode = found.permissions().mode();
            mode & OTHERS_ENTER == 0
        });
        if closed {
            tracing::warn!(
                "the users whom publisher_acl or external_auth names cannot enter {}, where the access socket is: chmod o+x it",
                folder.display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_created_can_be_entered_and_what_was_there_is_left() {
        let root = tempfile::tempdir().unwrap();
        let before = mode(root.path());
        let folder = root.path().join("run/saline/master");
        open(&folder).unwrap();
        for path in ["run", "run/saline", "run/saline/master"] {
            assert_eq!(mode(&root.path().join(path)), 0o711, "{path}");
        }
        assert_eq!(mode(root.path()), before);
        set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        open(&folder).unwrap();
        assert_eq!(mode(&folder), 0o711);
    }
}

//! Makes the minion's id of the host's name, once: it is kept in the file `minion_id`, so that another name of the
//! host does not change it.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use saline_config::MinionConfig;
use saline_messages::MinionId;

use super::StartError;
use saline_modules::grains::host_name;

/// Returns the host's name as an id, and keeps it in the file `minion_id` in the folder of the configuration.
///
/// # Errors
/// When the host's name is no id.
pub fn keep_host_name(folder: &Path) -> Result<MinionId, StartError> {
    let id = MinionId::parse(&host_name())?;
    let path = MinionConfig::id_file(folder);
    match write(&path, &id) {
        Ok(()) => tracing::info!("the id {id} is kept in {}", path.display()),
        // A folder may be read-only on purpose.
        Err(error) => tracing::warn!(
            "the id {id} was made of the host's name and cannot be kept in {}: {error}; give the minion an `id` in \
             its configuration, so that a changed name does not change it",
            path.display()
        ),
    }
    Ok(id)
}

/// Writes the file, which every user may read: `saline-call` does, and an id is no secret.
fn write(path: &Path, id: &MinionId) -> io::Result<()> {
    saline_private_files::write(path, format!("{id}\n").as_bytes())?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_id_stays() {
        let folder = tempfile::tempdir().unwrap();
        let id = keep_host_name(folder.path()).unwrap();
        assert_eq!(id.as_str(), host_name());
        let path = folder.path().join("minion_id");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{id}\n"));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        let loaded = MinionConfig::load(folder.path(), &[]).unwrap();
        assert_eq!(loaded.config.id, Some(id));
    }
}

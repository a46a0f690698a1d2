//! The key of the local operator, `cachedir/.root_key`. Every user who can read it is the operator.

use saline_channel::{Identity, KeyError, key_file};
use saline_config::MasterConfig;

/// Returns the public half of the local operator's key; creates the key (0400) if there is none.
///
/// # Errors
/// When the file cannot be created or read, or holds something else, or others could have changed it or
/// can read it.
pub fn root_key(config: &MasterConfig) -> Result<[u8; 32], KeyError> {
    let path = config.root_key();
    key_file::create_private_folder(&config.paths.cache_dir)?;
    if key_file::read(&path)?.is_none() {
        Identity::generate()?.write(&path, 0o400)?;
    }
    Ok(Identity::read(&path)?.public().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_made_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = MasterConfig::default();
        config.paths = config.paths.under(folder.path());
        let key = root_key(&config).unwrap();
        assert_eq!(root_key(&config).unwrap(), key);
        let metadata = std::fs::metadata(config.root_key()).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o400);
        assert_eq!(Identity::read(&config.root_key()).unwrap().public().0, key);
    }
}

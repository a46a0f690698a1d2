//! The size from which the store removes the oldest jobs before their time.

use std::path::Path;

use saline_config::JobStoreSize;

/// Returns the size in bytes for the store in `folder`, which need not exist yet; none for no bound. A file system that cannot
/// be asked gives none, since the store cannot be opened there either.
pub(crate) fn in_bytes(size: JobStoreSize, folder: &Path) -> Option<u64> {
    match size {
        JobStoreSize::Bytes(size) => Some(size),
        JobStoreSize::Unbounded => None,
        JobStoreSize::QuarterOfDisk => {
            let disk = folder
                .ancestors()
                .find_map(|folder| rustix::fs::statvfs(folder).ok())?;
            Some(disk.f_blocks.saturating_mul(disk.f_frsize) / 4)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_a_size_has_a_quarter_of_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let disk = rustix::fs::statvfs(folder.path()).unwrap();
        let missing = folder.path().join("saline/jobs");
        let quarter = in_bytes(JobStoreSize::QuarterOfDisk, &missing).unwrap();
        assert_eq!(quarter, disk.f_blocks * disk.f_frsize / 4);
        assert!(quarter > 0);
        assert_eq!(in_bytes(JobStoreSize::Bytes(7), &missing), Some(7));
        assert_eq!(in_bytes(JobStoreSize::Unbounded, &missing), None);
    }
}

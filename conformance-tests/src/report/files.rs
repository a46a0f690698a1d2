//! Where reports lie, and writing them.

use std::io;
use std::path::{Path, PathBuf};

use super::Report;

/// `target/conformance`, found from the running program (`target/debug/deps/conformance-…` or
/// `target/debug/conformance`).
pub fn folder() -> PathBuf {
    let program = std::env::current_exe().ok();
    let of_program = program.as_deref().and_then(|program| {
        let mut above = program.ancestors().skip(1);
        let folder = above.find(|folder| !folder.ends_with("deps"))?;
        folder.parent().map(Path::to_path_buf)
    });
    let target = of_program.unwrap_or_else(|| PathBuf::from("target"));
    target.join("conformance")
}

/// Writes `text` to `path` in one step, so that nobody reads half of it.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let own = format!("{}.{}", path.display(), std::process::id());
    std::fs::write(&own, text)?;
    std::fs::rename(&own, path)
}

impl Report {
    /// Writes all its forms to `folder`.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let own = |extension: &str| folder.join(format!("{}.{extension}", self.backend));
        write(&own("json"), &self.to_json())?;
        write(&own("md"), &self.to_markdown())?;
        write(&own("junit.xml"), &self.to_junit())?;
        write(&own("badge.json"), &self.to_badge())?;
        write(&folder.join("badge.json"), &self.to_badge())
    }
}

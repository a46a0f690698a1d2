//! The folders and files of a daemon.

use std::path::{Path, PathBuf};

/// The folders of a daemon. All are under `root_dir`, which is put before a path that does not
/// begin with it already, as Salt does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Paths {
    /// `root_dir`: `/`
    pub root_dir: PathBuf,
    /// `pki_dir`: keys.
    pub pki_dir: PathBuf,
    /// `cachedir`: data that can be made again, and the local operator's key.
    pub cache_dir: PathBuf,
    /// `state_dir`: what must not be lost: the master's stores of jobs and events and its tokens, a minion's spool and schedule.
    pub state_dir: PathBuf,
    /// `sock_dir`: sockets and the lock, 0700.
    pub sock_dir: PathBuf,
    /// `pidfile`: none by default.
    pub pid_file: Option<PathBuf>,
}

impl Paths {
    /// Returns the folders that belong to the daemon alone.
    pub fn folders(&self) -> [&Path; 4] {
        [
            &self.pki_dir,
            &self.cache_dir,
            &self.state_dir,
            &self.sock_dir,
        ]
    }

    /// Returns the default paths of a master.
    pub fn master() -> Self {
        Self::of("master")
    }

    /// Returns the default paths of a minion.
    pub fn minion() -> Self {
        Self::of("minion")
    }

    /// Returns the default paths of an API on a host of its own.
    pub fn api() -> Self {
        Self::of("api")
    }

    fn of(role: &str) -> Self {
        Self {
            root_dir: PathBuf::from("/"),
            pki_dir: Path::new("/etc/saline/pki").join(role),
            cache_dir: Path::new("/var/cache/saline").join(role),
            state_dir: Path::new("/var/lib/saline").join(role),
            sock_dir: Path::new("/run/saline").join(role),
            pid_file: None,
        }
    }

    /// Returns the paths under `root`, which is put before every path that does not begin with it.
    #[must_use]
    pub fn under(mut self, root: &Path) -> Self {
        self.pki_dir = place(root, &self.pki_dir);
        self.cache_dir = place(root, &self.cache_dir);
        self.state_dir = place(root, &self.state_dir);
        self.sock_dir = place(root, &self.sock_dir);
        self.pid_file = self.pid_file.as_deref().map(|path| place(root, path));
        self.root_dir = root.to_owned();
        self
    }
}

/// Returns `path` under `root`, unless it is already.
pub(crate) fn place(root: &Path, path: &Path) -> PathBuf {
    if path.starts_with(root) {
        path.to_owned()
    } else {
        root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

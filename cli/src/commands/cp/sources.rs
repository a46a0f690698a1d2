//! The files of this machine that `saline-cp` copies.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use saline_data::Value;
use saline_messages::MAX_UPLOADED_FILES;

/// Folders that nest deeper are refused.
const MAX_DEPTH: usize = 64;

/// The files and empty folders of a call.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// The files, each with the path that it gets below the destination.
    pub(super) files: Vec<SourceFile>,
    /// The empty folders, by their paths below the destination.
    pub(super) folders: Vec<String>,
    /// What is left out, a line for each.
    pub(super) left_out: Vec<String>,
    /// Whether the destination is a folder: there are several sources, or one that is a folder.
    pub(super) into_folder: bool,
}

/// An open file. It is opened before the user of this process changes, who may be unable to read it.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// The path below the destination.
    pub(super) name: String,
    /// The path on this machine, for messages.
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) bytes: u64,
    mode: u32,
}

impl Sources {
    /// Opens the files and folders that an operator names.
    ///
    /// # Errors
    /// One line, when one cannot be read, is neither file nor folder, or when they are too many.
    pub(super) fn open(paths: &[String]) -> Result<Self, String> {
        // One that may have fewer says so when it opens them.
        let _ = saline_daemon::raise_descriptors();
        let mut sources = Self {
            into_folder: paths.len() > 1,
            ..Self::default()
        };
        for path in paths {
            let path = Path::new(path);
            let found = fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
            let name = name_of(path)?;
            match found.is_dir() {
                true => {
                    sources.into_folder = true;
                    sources.add_folder(path, &name, 0)?;
                }
                false => sources.add_file(path, name)?,
            }
        }
        let mut names: Vec<&str> = sources.files.iter().map(|file| &*file.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two of the files would become {}", twice[0]));
        }
        Ok(sources)
    }

    /// Returns the bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.files.iter().map(|file| file.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the files as the argument of the function: their paths and modes, in the order of their numbers.
    pub(super) fn as_argument(&self) -> Value {
        let files = self.files.iter();
        let files = files.map(|file| (file.name.clone(), format!("{:04o}", file.mode).into()));
        Value::Map(files.collect())
    }

    fn add_file(&mut self, path: &Path, name: String) -> Result<(), String> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let is_file = |file: &fs::Metadata| match file.is_file() {
            true => Ok(()),
            false => Err(format!("{} is neither a file nor a folder", path.display())),
        };
        is_file(&fs::metadata(path).map_err(|error| cannot_read(path, &error))?)?;
        let file = options
            .open(path)
            .map_err(|error| cannot_read(path, &error))?;
        let found = file.metadata().map_err(|error| cannot_read(path, &error))?;
        is_file(&found)?;
        if self.files.len() >= MAX_UPLOADED_FILES as usize {
            return Err(format!(
                "there are more than {MAX_UPLOADED_FILES} files: copy fewer at a time, or put them below the master's file_roots"
            ));
        }
        self.files.push(SourceFile {
            name,
            path: path.to_owned(),
            bytes: found.len(),
            mode: found.permissions().mode() & 0o7777,
            file,
        });
        Ok(())
    }

    fn add_folder(&mut self, path: &Path, name: &str, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("{}: its folders nest too deep", path.display()));
        }
        let read = fs::read_dir(path).map_err(|error| cannot_read(path, &error))?;
        let entries: Result<Vec<_>, _> = read.collect();
        let mut entries = entries.map_err(|error| cannot_read(path, &error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        if entries.is_empty() {
            self.folders.push(name.to_owned());
        }
        for entry in entries {
            let path = entry.path();
            let below = format!("{name}/{}", name_of(&path)?);
            let kind = entry.file_type();
            let kind = kind.map_err(|error| cannot_read(&path, &error))?;
            if kind.is_dir() {
                self.add_folder(&path, &below, depth + 1)?;
            } else if kind.is_file() || fs::metadata(&path).is_ok_and(|found| found.is_file()) {
                self.add_file(&path, below)?;
            } else {
                let why = match kind.is_symlink() {
                    true => "a link that leads to no file",
                    false => "no file",
                };
                self.left_out
                    .push(format!("{} is left out: it is {why}", path.display()));
            }
        }
        Ok(())
    }
}

/// Returns the name that a file or a folder has on the minions.
fn name_of(path: &Path) -> Result<String, String> {
    let own = match path.file_name() {
        Some(name) => name.to_owned(),
        // `.` and `..` have a name where they lead to.
        None => {
            let path = path
                .canonicalize()
                .map_err(|error| cannot_read(path, &error))?;
            let name = path.file_name().map(ToOwned::to_owned);
            name.ok_or_else(|| "the root folder cannot be copied".to_owned())?
        }
    };
    own.into_string()
        .map_err(|_| format!("the name of {} is not UTF-8", path.display()))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(paths: &[&Path]) -> Result<Sources, String> {
        let paths = paths.iter().map(|path| path.display().to_string());
        Sources::open(&paths.collect::<Vec<_>>())
    }

    fn names(sources: &Sources) -> Vec<&str> {
        sources.files.iter().map(|file| &*file.name).collect()
    }

    #[test]
    fn a_folder_keeps_its_name_and_what_is_below_it() {
        let root = tempfile::tempdir().unwrap();
        let site = root.path().join("site");
        fs::create_dir_all(site.join("css/empty")).unwrap();
        fs::write(site.join("index"), "abc").unwrap();
        fs::write(site.join("css/a.css"), "").unwrap();
        fs::set_permissions(site.join("index"), fs::Permissions::from_mode(0o751)).unwrap();
        std::os::unix::fs::symlink("index", site.join("link")).unwrap();
        std::os::unix::fs::symlink("css", site.join("zfolder")).unwrap();
        let sources = opened(&[&site]).unwrap();
        assert_eq!(
            names(&sources),
            ["site/css/a.css", "site/index", "site/link"]
        );
        assert_eq!(sources.folders, ["site/css/empty"]);
        assert!(sources.into_folder);
        assert_eq!(sources.bytes(), 6);
        assert_eq!(sources.files[1].mode, 0o751);
        assert!(
            sources.left_out[0]
                .ends_with("zfolder is left out: it is a link that leads to no file")
        );
        let one = opened(&[&site.join("index")]).unwrap();
        assert_eq!((names(&one), one.into_folder), (vec!["index"], false));
        let same = opened(&[&site.join("css/..")]).unwrap();
        assert_eq!(names(&same)[1], "site/index");
    }

    #[test]
    fn what_is_no_file_and_what_has_the_name_of_another_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let refused = |paths: &[&Path]| opened(paths).unwrap_err();
        assert!(refused(&[&path("absent")]).starts_with("cannot read "));
        assert!(refused(&[Path::new("/dev/null")]).contains("neither a file nor a folder"));
        fs::create_dir(path("a")).unwrap();
        for name in ["x", "a/x"] {
            fs::write(path(name), "").unwrap();
        }
        assert_eq!(
            refused(&[&path("x"), &path("a/x")]),
            "two of the files would become x"
        );
    }
}

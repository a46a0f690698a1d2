//! Gathers the settings of the main file and of the files that it includes.

use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use saline_data::Value;
use saline_private_files::{Changeable, changeable, is_root};

use crate::ConfigError;
use crate::pattern::{PatternError, expand};
use crate::syntax_hints;
use crate::unread_files::unread_files;
use saline_data::yaml::{self, Content, Key, Node, Position};

/// The largest file in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The largest number of files, so that files that include each other twice end.
const MAX_FILES: usize = 1000;

/// An option and its value in one file.
pub(crate) struct Setting {
    pub file: Arc<Path>,
    pub key: Key,
    pub node: Node,
}

/// All settings in order; later ones override earlier ones.
#[derive(Default)]
pub(crate) struct Gathered {
    pub settings: Vec<Setting>,
    pub warnings: Vec<String>,
    /// The files that are being read, each included by the one before.
    open: Vec<PathBuf>,
    count: usize,
}

/// Reads `folder/main`, which may be absent, then the files of `default_include` and of `include`.
pub(crate) fn gather(
    folder: &Path,
    main: &str,
    default_include: &str,
) -> Result<Gathered, ConfigError> {
    let path = folder.to_owned();
    let mut gathered = Gathered::default();
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => check(folder, &found, &mut gathered.warnings)?,
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(ConfigError::Read { path, source });
        }
        _ => return Err(ConfigError::NoFolder { path }),
    }
    let path = folder.join(main);
    let settings = match gathered.read(&path) {
        Ok(settings) => settings,
        Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    gathered.open.push(real(&path));
    let include = patterns(&settings, "include");
    let default = if settings.iter().any(|s| s.key.name == "default_include") {
        patterns(&settings, "default_include")
    } else {
        // It is a folder and an extension: `master.d/*.conf`.
        if let Some((below, extension)) = default_include.rsplit_once("/*.") {
            let unread = unread_files(&folder.join(below), extension);
            gathered.warnings.extend(unread);
        }
        vec![Include {
            file: path.into(),
            position: Position { line: 1, column: 1 },
            pattern: default_include.to_owned(),
        }]
    };
    gathered.settings = settings;
    gathered.follow(folder, &default, false)?;
    gathered.follow(folder, &include, true)?;
    Ok(gathered)
}

/// A pattern of files, and its place.
struct Include {
    file: Arc<Path>,
    position: Position,
    pattern: String,
}

impl Include {
    fn error(&self, message: String) -> ConfigError {
        ConfigError::at(&*self.file, self.position.error(message))
    }
}

impl Gathered {
    fn follow(
        &mut self,
        base: &Path,
        includes: &[Include],
        must_match: bool,
    ) -> Result<(), ConfigError> {
        for include in includes {
            let pattern = &include.pattern;
            let found = expand(base, pattern).map_err(|error| match error {
                PatternError::Malformed(why) => {
                    include.error(format!("{pattern:?} is not a pattern of files: {why}"))
                }
                PatternError::Folder(path, source) => ConfigError::Read { path, source },
            })?;
            if found.is_empty() && must_match {
                let warning = include.error(format!("include {pattern:?} matches no file"));
                self.warnings.push(warning.to_string());
            }
            for path in found {
                self.included(&path, include)?;
            }
        }
        Ok(())
    }

    fn included(&mut self, path: &Path, include: &Include) -> Result<(), ConfigError> {
        let identity = real(path);
        if self.open.contains(&identity) {
            let message = format!("include of {} goes round in a circle", path.display());
            return Err(include.error(message));
        }
        self.count += 1;
        if self.count > MAX_FILES {
            return Err(include.error(format!("more than {MAX_FILES} files are included")));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let found = std::fs::metadata(folder).map_err(|source| ConfigError::Read {
            path: folder.to_owned(),
            source,
        })?;
        check(folder, &found, &mut self.warnings)?;
        let settings = self.read(path)?;
        if let Some(setting) = settings.iter().find(|s| s.key.name == "default_include") {
            let message = "default_include has no effect in an included file";
            let warning = ConfigError::at(path, setting.key.position.error(message));
            self.warnings.push(warning.to_string());
        }
        let nested = patterns(&settings, "include");
        self.settings.extend(settings);
        self.open.push(identity);
        self.follow(folder, &nested, true)?;
        self.open.pop();
        Ok(())
    }

    fn read(&mut self, path: &Path) -> Result<Vec<Setting>, ConfigError> {
        read_settings(path, |path, found| check(path, found, &mut self.warnings))
    }
}

/// Reads the settings of one file, after `check` has looked at who can change it.
pub(crate) fn read_settings(
    path: &Path,
    check: impl FnOnce(&Path, &Metadata) -> Result<(), ConfigError>,
) -> Result<Vec<Setting>, ConfigError> {
    let (found, bytes) = read_bytes(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    check(path, &found)?;
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(error) => {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let line = before.matches('\n').count() as u64 + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() as u64 + 1;
            let error = Position { line, column }.error("this is not UTF-8 text");
            return Err(ConfigError::at(path, error));
        }
    };
    if let Some(error) = syntax_hints::tab_at_the_beginning(text) {
        return Err(ConfigError::at(path, error));
    }
    let explained = |error| ConfigError::at(path, syntax_hints::explain(text, error));
    settings(path, text).map_err(explained)
}

/// Looks at who else can change a file or a folder: refuses it when root would obey every user, and adds to
/// `warnings` otherwise.
pub(crate) fn check(
    path: &Path,
    found: &Metadata,
    warnings: &mut Vec<String>,
) -> Result<(), ConfigError> {
    let shown = path.display();
    let warning = match changeable(found) {
        None => return Ok(()),
        Some(Changeable::ByAll(mode)) if is_root() => {
            let path = path.to_owned();
            return Err(ConfigError::OpenToAll { path, mode });
        }
        Some(Changeable::ByAll(mode)) => {
            format!("every user can change {shown} (mode {mode:o}): chmod o-w it")
        }
        Some(Changeable::ByOwner(owner)) => format!(
            "user {owner}, to whom {shown} belongs, can change what this is told: chown it to root or to the \
             user that runs this"
        ),
    };
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
    Ok(())
}

/// Returns the canonical path, the same for two names of one file.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns the patterns in an option. Values that are not text are reported with the other options.
fn patterns(settings: &[Setting], name: &str) -> Vec<Include> {
    let mut found = Vec::new();
    for setting in settings.iter().filter(|s| s.key.name == name) {
        let nodes = match &setting.node.content {
            Content::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(&setting.node),
        };
        for node in nodes {
            match &node.content {
                Content::Scalar(Value::Text(pattern)) if !pattern.is_empty() => {
                    found.push(Include {
                        file: Arc::clone(&setting.file),
                        position: node.position,
                        pattern: pattern.clone(),
                    });
                }
                _ => {}
            }
        }
    }
    found
}

pub(crate) fn read_bytes(path: &Path) -> io::Result<(Metadata, Vec<u8>)> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    let found = file.metadata()?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is larger than 4 MiB"));
    }
    Ok((found, bytes))
}

fn settings(path: &Path, text: &str) -> Result<Vec<Setting>, yaml::YamlError> {
    let Some(node) = yaml::parse_nodes(text)? else {
        return Ok(Vec::new());
    };
    let file: Arc<Path> = path.into();
    match node.content {
        Content::Map(entries) => Ok(entries
            .into_iter()
            .map(|(key, node)| Setting {
                file: Arc::clone(&file),
                key,
                node,
            })
            .collect()),
        Content::Scalar(Value::Null) => Ok(Vec::new()),
        _ => Err(node
            .position
            .error("expected options, each as `name: value`")),
    }
}

//! A path below a root.

use std::fmt;

/// The largest path in bytes, as Linux has it without the NUL.
pub const MAX_PATH: usize = 4095;

/// The largest component of a path in bytes.
pub const MAX_COMPONENT: usize = 255;

/// A path below a root: UTF-8, relative, without `..`, `.`, empty components and NUL. The empty path is the root itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InnerPath(String);

/// The reason why a text is no path below a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path begins with a slash.
    #[error("the path is absolute: it is taken below a root, so write it without the first slash")]
    Absolute,
    /// The path has a component `..`.
    #[error("the path has a component `..`")]
    Parent,
    /// The path has a NUL.
    #[error("the path has a NUL")]
    Nul,
    /// The path, or one of its components, is longer than the system takes it.
    #[error(
        "the path is too long: it may have {MAX_PATH} bytes, and each component {MAX_COMPONENT}"
    )]
    TooLong,
}

impl InnerPath {
    /// Checks a path. Components that are empty or `.` are left out.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > MAX_PATH {
            return Err(PathError::TooLong);
        }
        if text.contains('\0') {
            return Err(PathError::Nul);
        }
        if text.starts_with('/') {
            return Err(PathError::Absolute);
        }
        let mut path = String::with_capacity(text.len());
        for component in text.split('/') {
            match component {
                "" | "." => continue,
                ".." => return Err(PathError::Parent),
                long if long.len() > MAX_COMPONENT => return Err(PathError::TooLong),
                _ => {}
            }
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(component);
        }
        Ok(Self(path))
    }

    /// Returns the path of the root itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether it is the path of the root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the components; none of the root itself.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|component| !component.is_empty())
    }

    /// Returns the path of the folder that this lies in, and its name there; none of the root itself.
    pub fn split_name(&self) -> Option<(Self, &str)> {
        match self.0.rsplit_once('/') {
            Some((folder, name)) => Some((Self(folder.to_owned()), name)),
            None if self.0.is_empty() => None,
            None => Some((Self::root(), &self.0)),
        }
    }

    /// Returns the path of `other` below this one.
    ///
    /// # Errors
    /// When the whole is too long.
    pub fn join(&self, other: &Self) -> Result<Self, PathError> {
        match (self.is_root(), other.is_root()) {
            (true, _) => Ok(other.clone()),
            (_, true) => Ok(self.clone()),
            _ => Self::parse(&format!("{self}/{other}")),
        }
    }
}

impl fmt::Display for InnerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

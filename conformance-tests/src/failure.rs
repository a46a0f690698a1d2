//! How a requirement says that it was not kept.

use std::fmt;

use saline_protocol::transport::{Clock, Elapsed, Error, ErrorKind, Instant};

/// What a requirement's run comes to.
pub type Outcome<T = ()> = Result<T, Failure>;

/// A requirement was not kept: what was expected and what happened, in one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    text: String,
    /// The requirement that the step which failed belongs to, where that is another one.
    about: Option<&'static str>,
}

impl Failure {
    /// A failure with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            about: None,
        }
    }

    /// The same failure, of a step that the requirement `id` is about: whoever looks for the reason looks there.
    #[must_use]
    pub fn about(mut self, id: &'static str) -> Self {
        self.about = Some(id);
        self
    }

    /// Returns the requirement that the step which failed belongs to, where that is another one.
    pub(crate) fn step(&self) -> Option<&'static str> {
        self.about
    }

    /// The same failure, with `context` before its text.
    #[must_use]
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        self.text = format!("{context}: {}", self.text);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(format!("unexpected error: {error}"))
    }
}

/// Turns what should have succeeded into a [`Failure`] that says what it was.
pub trait Expecting<T> {
    /// The value, or a failure beginning with `what`.
    ///
    /// # Errors
    /// When there is no value.
    fn expecting(self, what: impl fmt::Display) -> Outcome<T>;
}

impl<T> Expecting<T> for Result<T, Error> {
    fn expecting(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|error| Failure::new(format!("{what}: {error}")))
    }
}

impl<T> Expecting<T> for Result<T, Elapsed> {
    fn expecting(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|_| Failure::new(format!("{what}: it did not happen in time")))
    }
}

impl<T> Expecting<T> for Result<T, tokio::task::JoinError> {
    fn expecting(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|error| Failure::new(format!("{what}: {error}")))
    }
}

impl<T> Expecting<T> for Option<T> {
    fn expecting(self, what: impl fmt::Display) -> Outcome<T> {
        self.ok_or_else(|| Failure::new(format!("{what}: there is none")))
    }
}

/// Fails unless `result` is an error of `kind`.
pub(crate) fn is_error<T>(
    result: &Result<T, Error>,
    kind: ErrorKind,
    what: impl fmt::Display,
) -> Outcome {
    let got = match result {
        Err(error) if error.kind() == kind => return Ok(()),
        Err(error) => error.to_string(),
        Ok(_) => "success".into(),
    };
    Err(Failure::new(format!(
        "{what}: expected the error {:?}, got {got}",
        kind.name()
    )))
}

/// Fails when it is later than `latest`.
pub(crate) fn not_later(clock: Clock, latest: Instant, what: impl fmt::Display) -> Outcome {
    match clock.now().checked_duration_since(latest) {
        Some(late) if !late.is_zero() => Err(Failure::new(format!(
            "{what}: {late:?} later than promised"
        ))),
        _ => Ok(()),
    }
}

/// Returns a [`Failure`] unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

/// Returns a [`Failure`] unless both are equal.
macro_rules! ensure_eq {
    ($left:expr, $right:expr, $($text:tt)+) => {
        match (&$left, &$right) {
            (left, right) => if left != right {
                return Err($crate::Failure::new(format!(
                    "{}: expected {right:?}, got {left:?}", format!($($text)+)
                )));
            }
        }
    };
}
pub(crate) use ensure_eq;

//! What a destination does, and how it fails.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::Record;

/// A place outside of the master that takes records.
#[async_trait]
pub trait Destination: Send + Debug {
    /// Delivers a batch of records, and returns when the destination keeps all of them. It may have taken some of them before.
    ///
    /// # Errors
    /// When it does not have all of them; some may have been taken.
    ///
    /// # Cancel safety
    /// Some or all of the records may have been taken when the future is dropped, or may be taken later; the destination can be
    /// used on.
    async fn deliver(&mut self, records: &[Record]) -> Result<(), DeliveryError>;
}

/// The reason why a batch was not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The destination cannot be reached, or does not work now. The same batch is delivered again later.
    #[error("{0}")]
    Away(String),
    /// The destination works, and will never take one of these records as it is.
    #[error("{0}")]
    Refused(String),
}

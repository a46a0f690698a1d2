//! The tasks of a dialer's attempts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use saline_protocol::transport::Context;

use crate::{Lifetime, lock};

/// The tasks of the connections that a dialer has opened: of the one that stands, and of attempts that were given up. For a
/// [`Dialer`](crate::Dialer) whose connections have tasks of their own.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<Vec<Arc<Lifetime>>>);

impl Attempts {
    /// Returns the lifetime of a new attempt, whose tasks belong to `context`.
    pub fn begin(&self, context: &Context) -> Arc<Lifetime> {
        let attempt = Lifetime::new(context.clone(), Duration::ZERO);
        lock(&self.0).push(Arc::clone(&attempt));
        attempt
    }

    /// Ends the tasks of all attempts, and waits for them: for [`Dialer::close`](crate::Dialer::close).
    ///
    /// # Cancel safety
    /// After a dropped call, the next one waits for the tasks that have not ended.
    pub async fn close(&self) {
        loop {
            let Some(attempt) = lock(&self.0).last().cloned() else {
                return;
            };
            attempt.cut.cancel();
            // An error says that something was cut, which it was.
            let _ = attempt.shutdown(Duration::ZERO).await;
            lock(&self.0).retain(|other| !Arc::ptr_eq(other, &attempt));
        }
    }
}

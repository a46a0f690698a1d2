//! The limits of event streams: in total and per login.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_messages::LoginToken;

use crate::error::ApiError;
use crate::limits::{MAX_EVENT_STREAMS, MAX_STREAMS_OF_LOGIN};

/// The event streams that stand.
#[derive(Debug, Default)]
pub(crate) struct EventStreams {
    /// The number of streams of each login that has any.
    of_logins: Mutex<HashMap<[u8; 32], usize>>,
}

/// The place of one stream, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    streams: Arc<EventStreams>,
    token: LoginToken,
}

impl EventStreams {
    /// Takes a place for a stream of a login.
    ///
    /// # Errors
    /// `Unavailable` when there is none, in all or for this login.
    pub(crate) fn take(self: &Arc<Self>, token: LoginToken) -> Result<StreamPlace, ApiError> {
        let mut of_logins = self.lock();
        if of_logins.values().sum::<usize>() >= MAX_EVENT_STREAMS {
            return Err(ApiError::Unavailable(format!(
                "all {MAX_EVENT_STREAMS} event streams are in use"
            )));
        }
        let of_login = of_logins.entry(token.0).or_default();
        if *of_login >= MAX_STREAMS_OF_LOGIN {
            return Err(ApiError::Unavailable(format!(
                "{MAX_STREAMS_OF_LOGIN} streams of events stand for this login, as many as may: close one, or log in once more"
            )));
        }
        *of_login += 1;
        Ok(StreamPlace {
            streams: Arc::clone(self),
            token,
        })
    }

    /// Returns the number of streams.
    pub(crate) fn count(&self) -> usize {
        self.lock().values().sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], usize>> {
        self.of_logins
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut of_logins = self.streams.lock();
        if let Some(of_login) = of_logins.get_mut(&self.token.0) {
            *of_login = of_login.saturating_sub(1);
            if *of_login == 0 {
                of_logins.remove(&self.token.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_login_does_not_take_every_place() {
        let streams = Arc::new(EventStreams::default());
        let take = |login: u8| streams.take(LoginToken([login; 32]));
        let mut places: Vec<StreamPlace> = (0..MAX_STREAMS_OF_LOGIN)
            .map(|_| take(1).unwrap())
            .collect();
        let refused = take(1).unwrap_err();
        assert_eq!(refused.status(), 503);
        assert!(refused.to_string().contains("this login"), "{refused}");
        let other = take(2).unwrap();
        assert_eq!(streams.count(), MAX_STREAMS_OF_LOGIN + 1);
        places.pop();
        places.push(take(1).unwrap());
        drop((places, other));
        assert_eq!(streams.count(), 0);
        assert!(streams.lock().is_empty());
    }

    #[test]
    fn streams_have_a_bound_in_all() {
        let streams = Arc::new(EventStreams::default());
        let places = (0..MAX_EVENT_STREAMS).map(|number| {
            let login = u8::try_from(number / MAX_STREAMS_OF_LOGIN).unwrap();
            streams.take(LoginToken([login; 32])).unwrap()
        });
        let places: Vec<StreamPlace> = places.collect();
        assert_eq!(
            streams.take(LoginToken([200; 32])).unwrap_err().status(),
            503
        );
        drop(places);
        assert!(streams.take(LoginToken([200; 32])).is_ok());
    }
}

//! The limits of event streams: in total and per user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::ApiError;
use crate::limits::{MAX_EVENT_STREAMS, MAX_STREAMS_OF_USER};

/// The event streams that stand.
#[derive(Debug, Default)]
pub(crate) struct EventStreams {
    /// The number of streams of each user who has any.
    of_users: Mutex<HashMap<String, usize>>,
}

/// The place of one stream, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    streams: Arc<EventStreams>,
    user: String,
}

impl EventStreams {
    /// Takes a place for a stream of a user.
    ///
    /// # Errors
    /// `Unavailable` when there is none, in all or for this user.
    pub(crate) fn take(self: &Arc<Self>, user: String) -> Result<StreamPlace, ApiError> {
        let mut of_users = self.lock();
        if of_users.values().sum::<usize>() >= MAX_EVENT_STREAMS {
            return Err(ApiError::Unavailable(format!(
                "all {MAX_EVENT_STREAMS} event streams are in use"
            )));
        }
        let of_user = of_users.entry(user.clone()).or_default();
        if *of_user >= MAX_STREAMS_OF_USER {
            return Err(ApiError::Unavailable(format!(
                "{MAX_STREAMS_OF_USER} event streams of user {user} are in use, as many as one user may have: close one"
            )));
        }
        *of_user += 1;
        Ok(StreamPlace {
            streams: Arc::clone(self),
            user,
        })
    }

    /// Returns the number of streams.
    pub(crate) fn count(&self) -> usize {
        self.lock().values().sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.of_users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamPlace {
    /// Returns the user whose stream it is.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut of_users = self.streams.lock();
        if let Some(of_user) = of_users.get_mut(&self.user) {
            *of_user = of_user.saturating_sub(1);
            if *of_user == 0 {
                of_users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_does_not_take_every_place() {
        let streams = Arc::new(EventStreams::default());
        let take = |user: &str| streams.take(user.to_owned());
        let mut places: Vec<StreamPlace> = (0..MAX_STREAMS_OF_USER)
            .map(|_| take("amy").unwrap())
            .collect();
        let refused = take("amy").unwrap_err();
        assert_eq!(refused.status(), 503);
        assert!(refused.to_string().contains("user amy"), "{refused}");
        let other = take("bob").unwrap();
        assert_eq!(streams.count(), MAX_STREAMS_OF_USER + 1);
        places.pop();
        places.push(take("amy").unwrap());
        drop((places, other));
        assert_eq!(streams.count(), 0);
        assert!(streams.lock().is_empty());
    }

    #[test]
    fn streams_have_a_bound_in_all() {
        let streams = Arc::new(EventStreams::default());
        let places = (0..MAX_EVENT_STREAMS).map(|number| {
            let user = format!("user {}", number / MAX_STREAMS_OF_USER);
            streams.take(user).unwrap()
        });
        let places: Vec<StreamPlace> = places.collect();
        assert_eq!(streams.take("zoe".to_owned()).unwrap_err().status(), 503);
        drop(places);
        assert!(streams.take("zoe".to_owned()).is_ok());
    }
}

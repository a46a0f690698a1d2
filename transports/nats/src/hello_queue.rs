//! Greetings that wait to be accepted. Their number is bounded, and no user keeps the others out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_protocol::transport::{Source, SourcePlaces};
use tokio::sync::Notify;

use crate::client::Link;

/// Greetings that may wait at once.
const WAITING: usize = 16 * 1024;

/// Connections of one user that may be welcome and have said nothing yet. The others wait here, where a turn costs nothing:
/// of more than a machine can serve at once, too many would be given up before they are done.
const WELCOME: usize = 256;

/// A client that asks for a connection.
#[derive(Debug)]
pub(crate) struct WaitingHello {
    pub(crate) user: String,
    pub(crate) source: Source,
    /// The name of the connection.
    pub(crate) id: String,
    /// The link on which it asked.
    pub(crate) link: Arc<Link>,
}

/// The greetings of one server that wait.
#[derive(Debug, Default)]
pub(crate) struct HelloQueue {
    inner: Mutex<Inner>,
    changed: Notify,
}

/// The user who asks, and the name of the connection.
type HelloKey = (String, String);

#[derive(Debug, Default)]
struct Inner {
    waiting: HashMap<HelloKey, WaitingHello>,
    /// Those who wait, of each user in the order in which they came.
    places: SourcePlaces<HelloKey>,
    /// How many of each user are welcome and have said nothing yet.
    welcome: HashMap<Source, usize>,
}

impl Inner {
    /// Takes the oldest greeting of a user of whom one more may be welcome.
    fn take(&mut self) -> Option<WaitingHello> {
        let may_come = |source| {
            self.welcome
                .get(&source)
                .is_none_or(|count| *count < WELCOME)
        };
        let key = {
            let mut oldest = self.places.oldest_of_each();
            oldest.find(|(source, _)| may_come(*source))?.1.clone()
        };
        self.places.release(&key);
        let hello = self.waiting.remove(&key)?;
        *self.welcome.entry(hello.source).or_default() += 1;
        Some(hello)
    }
}

/// The place of a connection that is welcome and has said nothing yet. Dropping it gives the next one its turn.
#[derive(Debug)]
pub(crate) struct WelcomePlace {
    source: Source,
    queue: Arc<HelloQueue>,
}

impl Drop for WelcomePlace {
    fn drop(&mut self) {
        let mut inner = self.queue.inner();
        if let Some(count) = inner.welcome.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                inner.welcome.remove(&self.source);
            }
        }
        drop(inner);
        self.queue.changed.notify_one();
    }
}

impl HelloQueue {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Each change is consistent by itself, so a panic elsewhere does not spoil it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a greeting, unless it repeats one that waits. Returns false when there are too many: then the user who has most
    /// of them loses his oldest, or this one where it is his. Its client greets again.
    pub(crate) fn push(&self, hello: WaitingHello) -> bool {
        let key = (hello.user.clone(), hello.id.clone());
        let mut inner = self.inner();
        if inner.waiting.contains_key(&key) {
            return true;
        }
        let places = &mut inner.places;
        let Ok(evicted) = places.take_one_of(WAITING, key.clone(), hello.source) else {
            return false;
        };
        inner.waiting.insert(key, hello);
        let evicted = evicted.and_then(|evicted| inner.waiting.remove(&evicted));
        drop(inner);
        self.changed.notify_one();
        evicted.is_none()
    }

    /// Waits for the next greeting whose turn it is.
    ///
    /// # Cancel safety
    /// No greeting is lost when the future is dropped.
    pub(crate) async fn next(self: &Arc<Self>) -> (WaitingHello, WelcomePlace) {
        loop {
            let taken = self.inner().take();
            match taken {
                Some(hello) => {
                    let (source, queue) = (hello.source, Arc::clone(self));
                    return (hello, WelcomePlace { source, queue });
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// Takes everything that waits.
    pub(crate) fn clear(&self) -> Vec<WaitingHello> {
        let mut inner = self.inner();
        inner.places = SourcePlaces::default();
        std::mem::take(&mut inner.waiting).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn hello(user: u32, id: &str) -> WaitingHello {
        WaitingHello {
            user: user.to_string(),
            source: Source::User(user),
            id: id.to_owned(),
            link: Link::without_task(),
        }
    }

    /// Returns the greeting whose turn it is now.
    fn next(queue: &Arc<HelloQueue>) -> Option<(String, WelcomePlace)> {
        match pin!(queue.next()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready((hello, welcome)) => Some((hello.id, welcome)),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_greeting_that_is_repeated_keeps_its_turn() {
        let queue = Arc::new(HelloQueue::default());
        for id in ["first", "second", "first", "first"] {
            assert!(queue.push(hello(1, id)));
        }
        assert_eq!(next(&queue).unwrap().0, "first");
        assert_eq!(next(&queue).unwrap().0, "second");
        assert!(queue.clear().is_empty());
    }

    #[test]
    fn one_that_waits_keeps_its_place_when_there_are_too_many() {
        let queue = Arc::new(HelloQueue::default());
        for number in 0..WAITING {
            assert!(queue.push(hello(1, &number.to_string())));
        }
        assert!(!queue.push(hello(1, "one more")));
        assert!(queue.push(hello(1, "7")));
        assert!(!queue.push(hello(2, "of another user")));
        assert_eq!(next(&queue).unwrap().0, "of another user");
        assert_eq!(next(&queue).unwrap().0, "1");
        assert_eq!(queue.clear().len(), WAITING - 2);
    }

    #[test]
    fn who_is_welcome_and_says_nothing_keeps_those_of_his_user_alone_waiting() {
        let queue = Arc::new(HelloQueue::default());
        for number in 0..=WELCOME {
            assert!(queue.push(hello(1, &number.to_string())));
        }
        let mut silent: Vec<_> = (0..WELCOME).map(|_| next(&queue).unwrap()).collect();
        assert!(next(&queue).is_none());
        assert!(queue.push(hello(2, "of another user")));
        assert_eq!(next(&queue).unwrap().0, "of another user");
        silent.pop();
        assert_eq!(next(&queue).unwrap().0, WELCOME.to_string());
    }
}

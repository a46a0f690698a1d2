use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use saline_protocol::transport::Result;

use super::*;

/// A publisher that publishes as much as the test lets it.
#[derive(Debug)]
struct HeldUp {
    permits: Semaphore,
    published: Mutex<usize>,
}

#[async_trait]
impl Publisher for HeldUp {
    async fn publish(&self, _: &Topic, _: Bytes) -> Result<()> {
        self.permits.acquire().await.unwrap().forget();
        *self.published.lock().unwrap() += 1;
        Ok(())
    }

    fn subscriptions(&self, _: &Topic) -> usize {
        1
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_for_the_bus_are_bounded_in_bytes() {
    let publisher = Arc::new(HeldUp {
        permits: Semaphore::new(0),
        published: Mutex::default(),
    });
    let context = Context::default();
    let events = Events::start(Arc::clone(&publisher) as _, &context);
    let fire = async |size: usize| {
        let data = [("data", Value::from("x".repeat(size)))];
        let fired = events.fire(EventTag::PresenceChange, EventOrigin::master(), data);
        Clock
            .deadline(Clock.after(Duration::from_secs(3_600)), fired)
            .await
    };
    // Below the bound, with what an event has beside its data.
    let quarter = QUEUE_BYTES / 4 - 1024;
    for _ in 0..4 {
        fire(quarter).await.unwrap();
    }
    assert!(fire(quarter).await.is_err(), "it waits for room");
    assert!(fire(100).await.is_ok(), "what is small has room");
    publisher.permits.add_permits(1);
    fire(quarter).await.unwrap();
    // One that is larger than all the room waits for all of it, and is fired.
    publisher.permits.add_permits(100);
    fire(QUEUE_BYTES * 2).await.unwrap();
    Clock.pause(Duration::from_secs(1)).await;
    assert_eq!(*publisher.published.lock().unwrap(), 7);
    context.cancel.cancel();
}

//! Runs deliveries to a disk, which may hang, on threads that may block: one at a time.
//!
//! A delivery that the master gave up goes on, since nothing ends a thread that waits for a disk. No other one begins before it
//! has ended: it would hang too, and an earlier one that fails late would undo what a later one has written.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::Context;
use tokio::task::JoinHandle;

use crate::Record;

/// How long a delivery waits for the end of an earlier one.
const WAIT_FOR_EARLIER: Duration = Duration::from_secs(5);

/// The deliveries of one destination.
#[derive(Debug)]
pub(crate) struct BlockingDelivery {
    context: Context,
    /// The delivery that has not ended, or whose result nobody has taken.
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    records: Arc<[Record]>,
    result: JoinHandle<Result<(), String>>,
}

impl BlockingDelivery {
    pub(crate) fn new(context: Context) -> Self {
        Self {
            context,
            under_way: None,
        }
    }

    /// Has `work` deliver the records, unless an earlier call whose future was dropped has delivered the same ones meanwhile.
    ///
    /// # Errors
    /// When `work` fails, and while an earlier one has not ended.
    ///
    /// # Cancel safety
    /// `work` goes on when the future is dropped; the next call takes its result.
    pub(crate) async fn deliver<F>(&mut self, records: &[Record], work: F) -> Result<(), String>
    where
        F: FnOnce(&[Record]) -> Result<(), String> + Send + 'static,
    {
        if let Some(earlier) = &mut self.under_way {
            let clock = self.context.clock;
            let until = clock.after(WAIT_FOR_EARLIER);
            let Ok(result) = clock.deadline(until, &mut earlier.result).await else {
                let why = "the disk does not answer: an earlier delivery waits for it";
                return Err(why.to_owned());
            };
            let is_delivered = matches!(result, Ok(Ok(()))) && *earlier.records == *records;
            self.under_way = None;
            if is_delivered {
                return Ok(());
            }
        }
        let records: Arc<[Record]> = records.into();
        let own = Arc::clone(&records);
        let result = self.context.spawn_blocking(move || work(&own));
        let delivery = self.under_way.insert(UnderWay { records, result });
        let result = (&mut delivery.result).await;
        self.under_way = None;
        result.unwrap_or_else(|error| Err(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use saline_data::Value;

    use super::*;
    use crate::Content;

    fn record(number: i64) -> Record {
        Record {
            number,
            content: Content::Event {
                tag: "a/b".to_owned(),
                origin: Value::Null,
                data: Value::Null,
            },
        }
    }

    /// Begins a delivery and gives it up. Returns what ends it with a result.
    async fn give_up(
        delivery: &mut BlockingDelivery,
        records: &[Record],
    ) -> mpsc::SyncSender<Result<(), String>> {
        let (end, ended) = mpsc::sync_channel(1);
        let hanging = delivery.deliver(records, move |_| ended.recv().unwrap());
        tokio::time::timeout(Duration::ZERO, hanging)
            .await
            .unwrap_err();
        end
    }

    #[tokio::test]
    async fn no_delivery_begins_beside_one_that_hangs_and_its_late_success_counts() {
        let context = Context::default();
        let mut delivery = BlockingDelivery::new(context.clone());
        let batch = [record(1), record(2)];
        let hanging = give_up(&mut delivery, &batch).await;
        let failed = delivery.deliver(&batch, |_| unreachable!()).await;
        assert!(failed.unwrap_err().contains("does not answer"));
        assert_eq!(context.tracker.len(), 1);
        hanging.send(Ok(())).unwrap();
        delivery.deliver(&batch, |_| unreachable!()).await.unwrap();
        // The same records once more are a new delivery.
        let failed = delivery.deliver(&batch, |_| Err("full".to_owned())).await;
        assert_eq!(failed, Err("full".to_owned()));
    }

    #[tokio::test]
    async fn a_late_failure_and_a_late_success_of_other_records_are_no_success() {
        let mut delivery = BlockingDelivery::new(Context::default());
        for (late, next) in [(Err("late".to_owned()), 1), (Ok(()), 2)] {
            let hanging = give_up(&mut delivery, &[record(1)]).await;
            hanging.send(late).unwrap();
            let (said, heard) = mpsc::sync_channel(1);
            let work = move |records: &[Record]| {
                said.send(records.to_vec()).unwrap();
                Ok(())
            };
            delivery.deliver(&[record(next)], work).await.unwrap();
            assert_eq!(heard.recv().unwrap(), [record(next)]);
        }
    }
}

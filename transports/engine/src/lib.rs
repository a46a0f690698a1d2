//! Everything above a connection that transports share.

mod delivery_queue;
mod frame_log;
mod lifetime;
mod silence;

pub use delivery_queue::{DeliveryReceiver, DeliverySender, delivery_queue};
pub use frame_log::{FrameBytes, FrameLog, FrameRun};
pub use lifetime::Lifetime;
pub use silence::Silence;

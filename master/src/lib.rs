//! The master daemon as a library: [`run()`] is the whole of a `saline-master`'s main.
//!
//! | room | does |
//! |---|---|
//! | [`server`] | starts and stops the others, and nothing else |
//! | [`gate`] | admits, decrypts and dispatches requests |
//! | [`admission`] | decides who may come in |
//! | [`verbs`] | carries out what is asked, one file an audience |
//! | [`keys`] | keeps minions' and operators' keys |
//! | [`sessions`] | knows who is here |
//! | [`jobs`] | keeps jobs, offers and returns |
//! | [`publisher`] | seals and numbers what goes out to minions |
//! | [`events`] | fires the events of the local bus |
//! | [`rate`] | bounds how often a stranger is spoken of |
//! | [`maintenance`] | expires, forgets and removes |

pub mod admission;
mod error;
pub mod events;
pub mod gate;
pub mod jobs;
pub mod keys;
pub mod maintenance;
pub mod publisher;
pub mod rate;
pub mod rooms;
mod run;
pub mod server;
pub mod sessions;
pub mod verbs;

pub use error::MasterError;
pub use run::run;
pub use server::Master;

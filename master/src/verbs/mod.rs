//! What is done for whom: one file an audience.

pub mod minion;
pub mod operator;

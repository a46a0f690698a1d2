//! Decorators over the contract, written once and never per backend.
//!
//! [`Registry::get`](crate::transport::Registry::get) puts every transport into [`limits`] (sizes,
//! requests in flight, what `at` may be) and [`metrics`] (counts), so that a backend gets both free.

pub mod limits;
pub mod metrics;

use std::sync::Arc;

use crate::transport::Transport;

/// `transport` in all layers, the outermost first: metrics, limits.
pub fn wrap(transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
    Arc::new(metrics::Metered::new(Arc::new(limits::Limited::new(
        transport,
    ))))
}

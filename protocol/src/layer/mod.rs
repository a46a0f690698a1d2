//! Decorators over the contract, written once and never per backend.
//!
//! [`Registry::get`](crate::transport::Registry::get) puts every transport into [`limits`] (sizes,
//! requests in flight, what `at` may be) and [`metrics`] (counts), so that a backend gets both free.
//! The suite judges a backend in its layers too, as a daemon meets it.
//!
//! A layer is a [`Transport`] over another one, and keeps the contract itself. One of your own goes
//! round a backend before that goes into the registry; it passes on every method, also those with a
//! default, or what the backend does better than the default is lost.

pub mod limits;
pub mod metrics;

use std::sync::Arc;

use crate::transport::Transport;

/// `transport` in all layers, the outermost first: metrics, limits. So what the limits refuse is
/// counted as a request that failed.
pub fn wrap(transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
    Arc::new(metrics::Metered::new(Arc::new(limits::Limited::new(
        transport,
    ))))
}

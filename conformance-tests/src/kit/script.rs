//! What a real client says, recorded, to be said again by strangers.

use std::sync::Arc;
use std::time::Duration;

use super::{Caller, Host, Proxy, World};
use crate::{Expecting, Outcome};

/// What a client said to one socket of a server, in the pieces in which it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// From the beginning of the connection on, until it works.
    pub opening: Vec<Vec<u8>>,
    /// From then on.
    pub said: Vec<Vec<u8>>,
}

/// Records what a client of `host` says while it does `deed`: to the socket of requests, and to that of
/// publications, if that is another. Its pings are a minute apart, so that they are not in between.
pub(crate) async fn recorded(
    world: &Arc<World>,
    host: &Host,
    deed: impl AsyncFnOnce(&Caller) -> Outcome,
) -> Outcome<[Script; 2]> {
    let mut limits = world.limits();
    limits.ping_interval = Duration::from_secs(60);
    let proxy = Proxy::start(world, &host.bound).await?;
    proxy.record();
    let caller = world.try_client(&proxy.at, limits).await;
    let caller = caller.expecting("connecting through the proxy")?;
    caller.ask("recorded").await.expecting("a request")?;
    let opening = proxy.recorded();
    deed(&caller).await?;
    let said = proxy.recorded();
    caller.shut_down().await?;
    let mut scripts = opening.into_iter().zip(said);
    let mut next = || {
        let (opening, said) = scripts.next().unwrap_or_default();
        Script { opening, said }
    };
    Ok([next(), next()])
}

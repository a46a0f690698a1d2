//! The descriptors that connections take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::kit::{Raw, World};
use crate::{Expecting, Failure, Outcome};

/// The descriptors of the server, and the connections that want one.
const DESCRIPTORS: usize = 16;
const SILENT: usize = 3 * DESCRIPTORS;

pub(super) async fn of_silent_connections(world: Arc<World>) -> Outcome {
    let mut limits = world.limits();
    limits.descriptors = Some(DESCRIPTORS);
    // Longer than any run: it is not time that cuts them.
    limits.handshake_timeout = Duration::from_secs(60);
    let host = world.serve_with(limits).await?.echoing(&world);
    let caller = world.client(&host).await?;
    caller.ask("before").await.expecting("a request")?;
    let mut all = vec![host.bound.requests.clone()];
    all.extend(host.bound.publications.clone());
    for endpoint in &all {
        let place = world.place(endpoint)?;
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..SILENT {
            let opened = Raw::connect(&place).await;
            let mut silent = opened
                .map_err(|error| Failure::new(format!("a raw socket of the suite: {error}")))?;
            let ended = Arc::clone(&ended);
            world.spawn(async move {
                let mut said = vec![0; 1024];
                while let Ok(1..) = silent.read(&mut said).await {}
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        let what =
            format!("{place}: more than {DESCRIPTORS} of {SILENT} silent connections are closed");
        world
            .eventually(&what, || {
                ended.load(Ordering::Relaxed) >= SILENT - DESCRIPTORS
            })
            .await?;
        caller
            .ask("beside")
            .await
            .expecting("a request of a client that works")?;
    }
    Ok(())
}

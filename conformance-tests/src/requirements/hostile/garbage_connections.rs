//! Strangers that come by.

use std::sync::Arc;

use saline_protocol::transport::{Clock, Metric};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{places, socket, steady, with_short_handshakes};
use crate::failure::{ensure, ensure_eq};
use crate::kit::{Raw, World, exact, payload};
use crate::{Expecting, Outcome};

pub(super) async fn garbage(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.echoing(&world);
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let blobs = [
        payload(1, 100_000).to_vec(),
        vec![0; 100_000],
        vec![0xff; 100_000],
        u32::MAX.to_be_bytes().to_vec(),
        u64::MAX.to_be_bytes().to_vec(),
        i64::MAX.to_le_bytes().to_vec(),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL".to_vec(),
    ];
    let mut open = Vec::new();
    let mut round = 0;
    for place in &places(&world, &host)? {
        for blob in &blobs {
            let mut stream = socket(Raw::connect(place).await)?;
            // The server may have hung up already, which is what it should do.
            let _ = stream.write_all(blob).await;
            round += 1;
            steady(&host, &caller, &mut listener, round).await?;
            open.push(stream);
        }
    }
    drop(open);
    for _ in 0..20 {
        round += 1;
        steady(&host, &caller, &mut listener, round).await?;
    }
    ensure_eq!(
        host.counters.get(Metric::RequestsReceived),
        round,
        "requests that the server handed out"
    );
    Ok(())
}

pub(super) async fn short_visits(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.echoing(&world);
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let places = places(&world, &host)?;
    for n in 0..300 {
        for place in &places {
            let mut stream = socket(Raw::connect(place).await)?;
            if n % 3 == 0 {
                // Part of something, and gone.
                let _ = stream.write_all(&[0xff, 0]).await;
            }
            if n % 2 == 0 {
                socket(stream.reset_at_the_end())?;
            }
        }
        if n % 30 == 0 {
            steady(&host, &caller, &mut listener, n).await?;
        }
    }
    let fresh = world.client(&host).await?;
    fresh
        .ask("after them")
        .await
        .expecting("a request of a client that came after them")?;
    steady(&host, &caller, &mut listener, 1000).await
}

pub(super) async fn silence(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.echoing(&world);
    let mut silent = Vec::new();
    for place in &places(&world, &host)? {
        for _ in 0..100 {
            silent.push(socket(Raw::connect(place).await)?);
        }
    }
    for n in 0..3 {
        let caller = world.client(&host).await?;
        let mut listener = caller.subscribe(&[exact("t")?]).await?;
        steady(&host, &caller, &mut listener, n).await?;
    }
    drop(silent);
    Ok(())
}

pub(super) async fn silence_is_cut(world: Arc<World>) -> Outcome {
    let limits = with_short_handshakes(&world);
    let timeout = limits.handshake_timeout;
    let host = world.serve_with(limits).await?;
    for place in &places(&world, &host)? {
        let mut stream = socket(Raw::connect(place).await)?;
        // Whatever the server says first is read; then it hangs up, in whichever way.
        let mut bytes = Vec::new();
        let reading = stream.read_to_end(&mut bytes);
        let hung_up = Clock.deadline(Clock.after(timeout * 3), reading).await;
        ensure!(
            hung_up.is_ok(),
            "{place}: a silent connection is still open after three times {timeout:?}"
        );
    }
    Ok(())
}

//! The proxy over TCP.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use saline_protocol::transport::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::weather::Weather;
use super::{World, socket};
use crate::Outcome;

/// Listens in front of `server`; returns where.
pub(super) async fn front(
    world: &Arc<World>,
    server: SocketAddr,
    weather: &Arc<Weather>,
) -> Outcome<SocketAddr> {
    let listener = socket(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await)?;
    let at = socket(listener.local_addr())?;
    let (tasks, weather) = (Arc::clone(world), Arc::clone(weather));
    world.spawn(async move {
        let mut vanished = Vec::new();
        while let Ok((client, _)) = listener.accept().await {
            if weather.gone.load(Ordering::Relaxed) {
                vanished.push(client);
                continue;
            }
            let weather = Arc::clone(&weather);
            tasks.spawn(carry(client, server, weather));
        }
    });
    Ok(at)
}

/// Carries one connection until either side ends it or the weather does.
async fn carry(client: TcpStream, server: SocketAddr, weather: Arc<Weather>) {
    let (frozen, reset) = (weather.frozen.watch(), weather.reset.watch());
    let mute = weather.mute.watch();
    weather.said().clear();
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    for stream in [&client, &server] {
        // Best effort: slices that are joined again are no slices, and an end that is not a reset
        // is an end all the same.
        let _ = stream.set_nodelay(true);
        let _ = stream.set_zero_linger();
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // They hold the sockets, so they must outlive the choice between them.
    let mut up = pin!(copy(from_client, to_server, &weather, true));
    let mut from_there = pin!(copy(from_server, to_client, &weather, false));
    let mut down = pin!(async {
        tokio::select! {
            biased;
            () = mute.cancelled() => std::future::pending().await,
            () = &mut from_there => {}
        }
    });
    tokio::select! {
        biased;
        () = reset.cancelled() => {}
        // Nothing is carried from here on, and the sockets stay open.
        () = frozen.cancelled() => std::future::pending().await,
        () = &mut up => {}
        () = &mut down => {}
    }
}

/// Copies one direction to its end.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, weather: &Weather, up: bool) {
    let slices = weather.slices.load(Ordering::Relaxed);
    let mut buffer = vec![0; if slices { 1 } else { 16 * 1024 }];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if let Some(wait) = weather.wait() {
            Clock.pause(wait).await;
        }
        if up {
            weather.hear(&buffer[..count]);
            let left = weather.budget.load(Ordering::Relaxed);
            if left < count {
                // Part of a message, and then nothing. Those that come later are not cut.
                let _ = to.write_all(&buffer[..left]).await;
                weather.budget.store(usize::MAX, Ordering::Relaxed);
                return;
            }
            if left != usize::MAX {
                weather.budget.store(left - count, Ordering::Relaxed);
            }
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

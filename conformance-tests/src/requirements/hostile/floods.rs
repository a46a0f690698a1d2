//! Many strangers, and much of what they say.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::handshakes::openings;
use super::{places, socket, steady};
use crate::kit::{Growth, Raw, Usage, World, alive_tasks, exact, join_all, payload, within};
use crate::{Expecting, Outcome};

pub(super) async fn connects_in_waves(world: Arc<World>) -> Outcome {
    const BYTES_EACH: usize = 1024;
    // Inside of the transport's own connections this process has both of their ends.
    let (waves, crowd) = match world.is_inside() {
        true => (40, 25),
        false => (10, 1000),
    };
    let host = world.serve_with(world.unhurried()).await?.echoing(&world);
    let openings = openings(&world, &host).await?;
    let caller = world.client_with(&host, world.unhurried()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let places = places(&world, &host)?;
    steady(&host, &caller, &mut listener, 0).await?;
    let (before, mut growth) = (Usage::now()?, Growth::default());
    let idle = alive_tasks();
    let attack = async {
        for wave in 1..=waves {
            let connecting = (0..crowd).map(|n| {
                let place = &places[(wave + n) % places.len()];
                let opening = &openings[n % openings.len()];
                async move {
                    let mut stream = socket(Raw::connect(place).await)?;
                    // Nothing, garbage, or half of what a client says.
                    let said = match n % 3 {
                        0 => &[],
                        1 => &[0xff, 0x5a, 0][..],
                        _ => &opening[..opening.len() / 2],
                    };
                    let _ = stream.write_all(said).await;
                    if n % 10 > 0 {
                        socket(stream.reset_at_the_end())?;
                    }
                    Outcome::Ok(stream)
                }
            });
            let open = join_all(connecting).await;
            let open = open.into_iter().collect::<Outcome<Vec<_>>>()?;
            steady(&host, &caller, &mut listener, wave as u64).await?;
            drop(open);
            if world.is_inside() {
                ended(&world, idle).await;
            }
            growth.note()?;
        }
        Ok(())
    };
    within(192, "connections in waves of a thousand", attack).await?;
    // One client more finds its way in.
    let fresh = world.client_with(&host, world.unhurried()).await?;
    fresh
        .ask("after them")
        .await
        .expecting("a request of a client that came after them")?;
    fresh.shut_down().await?;
    let what = "after thousands of connections";
    before.back_to(8, what).await?;
    if world.is_inside() {
        // The ends of these connections are in this process too, which keeps as much for thousands of them as for a few.
        growth.at_most(BYTES_EACH, crowd as u64, what)?;
    } else {
        before.grown_by_at_most(64, what)?;
    }
    steady(&host, &caller, &mut listener, 100).await
}

/// Waits a while for the ends of connections that were dropped, both of which are in this process and take their time: until
/// about as many tasks run as before there were any.
async fn ended(world: &World, idle: usize) {
    const SPARE: usize = 4;
    let enough = world.clock().after(Duration::from_secs(1));
    while alive_tasks() > idle + SPARE && world.clock().now() < enough {
        world.clock().pause(Duration::from_millis(5)).await;
    }
}

pub(super) async fn flood_of_garbage(world: Arc<World>) -> Outcome {
    const STRANGERS: usize = 32;
    const EACH: usize = 16 * 1024 * 1024;
    let host = world.serve_with(world.unhurried()).await?.echoing(&world);
    let openings = openings(&world, &host).await?;
    let caller = world.client_with(&host, world.unhurried()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let places = places(&world, &host)?;
    let attack = async {
        let mut flooding = Vec::new();
        for n in 0..STRANGERS {
            let mut stream = socket(Raw::connect(&places[n % places.len()]).await)?;
            let opening = openings[n % openings.len()].clone();
            let garbage = match n % 4 {
                0 => vec![0; 65_536],
                1 => vec![0xff; 65_536],
                2 => vec![1; 65_536],
                _ => payload(n as u64, 65_536).to_vec(),
            };
            let clock = world.clock();
            flooding.push(world.spawn(async move {
                if n % 8 >= 4 && stream.write_all(&opening).await.is_err() {
                    return;
                }
                let enough = clock.after(Duration::from_secs(8));
                for _ in 0..EACH / garbage.len() {
                    // Hung up on, or left waiting: either ends the flood.
                    let written = clock.deadline(enough, stream.write_all(&garbage)).await;
                    if !matches!(written, Ok(Ok(()))) {
                        return;
                    }
                }
            }));
        }
        let mut n = 0;
        while flooding.iter().any(|task| !task.is_finished()) {
            n += 1;
            steady(&host, &caller, &mut listener, n).await?;
            world.clock().pause(Duration::from_millis(20)).await;
        }
        steady(&host, &caller, &mut listener, 0).await
    };
    within(192, "strangers that send garbage", attack).await
}

//! Strangers that say what a real client says, for ever, and never listen.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use saline_protocol::transport::Clock;
use tokio::io::AsyncWriteExt;

use super::{places, socket, steady};
use crate::failure::ensure;
use crate::kit::{
    Host, PING, Proxy, Raw, Script, TEST_TIMEOUT, Usage, World, connect_at_once, exact, numbered,
    recorded, unconnected, within,
};
use crate::{Expecting, Outcome};

/// Topics that one connection may subscribe to.
const TOPICS: usize = 8;

/// Strangers of each kind.
const EACH: usize = 3;

/// How long the replays go on.
const REPLAY_TIME: Duration = Duration::from_secs(8);

/// What both ends may take of it, in mebibytes.
const CEILING: usize = 96;

/// And how much they say, each.
const MAX_BYTES_EACH: usize = 256 * 1024 * 1024;

/// What a client says, one kind after the other: for each socket of the server apart.
async fn scripts(world: &Arc<World>, host: &Host) -> Outcome<Vec<[Script; 2]>> {
    let many = (0..=TOPICS).map(|n| exact(&format!("many/{n}")));
    let many = many.collect::<Outcome<Vec<_>>>()?;
    let allowed = &many[..TOPICS];
    Ok(vec![
        recorded(world, host, async |caller| {
            let asked = caller.ask(numbered(1, 1000)).await;
            asked.map(drop).expecting("a request through the proxy")
        })
        .await?,
        recorded(world, host, async |caller| {
            caller.subscribe(allowed).await.map(drop)
        })
        .await?,
        recorded(world, host, async |caller| {
            let listener = caller.subscribe(allowed).await?;
            drop(listener);
            // It is withdrawn without an answer; this comes after it.
            let asked = caller.ask(numbered(2, 10)).await;
            asked.map(drop).expecting("a request through the proxy")
        })
        .await?,
        // One topic more than the server allows.
        recorded(world, host, async |caller| {
            // Refused or not, it is what a client says that asks for too much.
            let _ = caller.try_subscribe(&many, PING * 2).await;
            Ok(())
        })
        .await?,
        // What a client says of itself.
        recorded_idle(world, host).await?,
    ])
}

/// What a client says that says nothing: its pings.
async fn recorded_idle(world: &Arc<World>, host: &Host) -> Outcome<[Script; 2]> {
    let proxy = Proxy::start(world, &host.bound).await?;
    proxy.record();
    let caller = world.try_client(&proxy.at, world.with_short_pings()).await;
    let caller = caller.expecting("connecting through the proxy")?;
    let _listener = caller.subscribe(&[exact("t")?]).await?;
    let [a, b] = proxy.recorded();
    // It is recorded while it sends several pings and nothing else.
    world.clock().pause(PING * 4).await;
    let [c, d] = proxy.recorded();
    caller.shut_down().await?;
    let script = |opening, said| Script { opening, said };
    Ok([script(a, c), script(b, d)])
}

/// What is said, again and again in one piece: a library that has a connection in this process may keep each piece that is
/// written apart, and its own sender is not what is tested.
pub(super) fn in_one_piece(said: &[Vec<u8>]) -> Vec<u8> {
    const AT_ONCE: usize = 64 * 1024;
    let once = said.concat();
    once.repeat(1 + AT_ONCE / once.len().max(1))
}

/// Says what a client says first, as one that waits for an answer to each piece: who speaks too early may be refused.
pub(super) async fn say_opening(stream: &mut Raw, script: &Script) -> std::io::Result<()> {
    const BETWEEN: Duration = Duration::from_millis(100);
    for piece in &script.opening {
        stream.write_all(piece).await?;
        Clock.pause(BETWEEN).await;
    }
    Ok(())
}

pub(super) async fn deaf_strangers(world: Arc<World>) -> Outcome {
    // Its pings are so close that whoever does not read is given up in the midst of it.
    let mut limits = world.limits();
    limits.subscriptions_per_connection = TOPICS;
    let host = world.serve_with(limits).await?.echoing(&world);
    let scripts = scripts(&world, &host).await?;
    ensure!(
        scripts
            .iter()
            .flatten()
            .any(|script| !script.said.is_empty()),
        "the proxy has heard nothing of what a client says"
    );
    let caller = world.client_with(&host, world.unhurried()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let places = places(&world, &host)?;
    let enough = world.clock().after(REPLAY_TIME);
    let attack = async {
        let mut saying = Vec::new();
        for script in scripts.iter().cycle().take(scripts.len() * EACH) {
            for (place, script) in places.iter().zip(script) {
                if script.said.is_empty() {
                    continue;
                }
                let mut stream = socket(Raw::connect(place).await)?;
                let (mut script, clock) = (script.clone(), world.clock());
                let mut most = MAX_BYTES_EACH;
                if world.is_inside() {
                    // Time does not pass meanwhile where it is paused.
                    most /= 16;
                    script.said = vec![in_one_piece(&script.said)];
                }
                saying.push(world.spawn(async move {
                    let talk = async {
                        say_opening(&mut stream, &script).await?;
                        let length: usize = script.said.iter().map(Vec::len).sum();
                        for _ in 0..most / length {
                            for piece in &script.said {
                                stream.write_all(piece).await?;
                            }
                        }
                        std::io::Result::Ok(())
                    };
                    // Hung up on, or left waiting: either ends it.
                    let _ = clock.deadline(enough, talk).await;
                    stream
                }));
            }
        }
        let mut n = 0;
        while saying.iter().any(|task| !task.is_finished()) {
            n += 1;
            steady(&host, &caller, &mut listener, n).await?;
            world.clock().pause(Duration::from_millis(50)).await;
        }
        steady(&host, &caller, &mut listener, 0).await
    };
    within(
        CEILING,
        "strangers that repeat what a client says and never read",
        attack,
    )
    .await
}

pub(super) async fn no_descriptors_left(world: Arc<World>) -> Outcome {
    /// Connections that begin while there is room for few.
    const CROWD: usize = 64;
    const ROOM: u64 = 4;
    let host = world.serve_with(world.unhurried()).await?.echoing(&world);
    let caller = world.client_with(&host, world.unhurried()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let places = places(&world, &host)?;
    steady(&host, &caller, &mut listener, 1).await?;
    let before = getrlimit(Resource::Nofile);
    for round in 0..2 {
        let mut crowd = Vec::new();
        for n in 0..CROWD {
            let place = &places[n % places.len()];
            crowd.push((place, socket(unconnected(place))?));
        }
        let open = Usage::now()?.descriptors as u64;
        let few = Rlimit {
            current: Some(open + ROOM),
            maximum: before.maximum,
        };
        socket(setrlimit(Resource::Nofile, few).map_err(std::io::Error::from))?;
        for (place, own) in &crowd {
            // One that is refused has come to nothing, as all of them will.
            let _ = connect_at_once(own, place);
        }
        // What has been accepted by then was too much.
        world.clock().pause(PING).await;
        let beside = steady(&host, &caller, &mut listener, 2).await;
        drop(crowd);
        let all = setrlimit(Resource::Nofile, before);
        socket(all.map_err(std::io::Error::from))?;
        beside?;
        let mut patient = world.unhurried();
        patient.connect_timeout = TEST_TIMEOUT;
        let fresh = world.client_with(&host, patient).await?;
        let reply = fresh.ask("room again").await;
        reply.expecting(format!(
            "a request of a client that came when there were descriptors again, {round}"
        ))?;
        fresh.shut_down().await?;
    }
    steady(&host, &caller, &mut listener, 3).await
}

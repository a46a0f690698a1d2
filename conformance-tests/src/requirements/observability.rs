//! `OBS`: what is declared, refused and counted.

use std::sync::Arc;

use saline_protocol::transport::{
    Delivery, Endpoint, ErrorKind, HostPort, Lost, Metric, OptionValue, Options, ServeAt,
};

use tokio::io::AsyncWriteExt;

use crate::failure::{ensure, ensure_eq, is_error};
use crate::kit::{Raw, World, exact, number, numbered, topic};
use crate::{Expecting, Failure, Level, Need, Outcome, Requirement};

/// The requirements of this area.
pub const ALL: &[Requirement] = &[
    Requirement {
        id: "OBS-001",
        name: "traffic_is_counted",
        level: Level::Must,
        sentence: "Requests, replies, publications and their bytes are counted exactly, at both ends.",
        why: "Numbers that are nearly right are not looked at twice.",
        look_at: "the layer of metrics; a backend that is not wrapped",
        needs: &[],
        run: |world| Box::pin(traffic_is_counted(world)),
    },
    Requirement {
        id: "OBS-002",
        name: "links_are_counted",
        level: Level::Must,
        sentence: "Each side counts every link that comes up and every one that goes down.",
        why: "A flapping line is seen in a counter first.",
        look_at: "Metric::Connected and Metric::Disconnected, which only the backend can count",
        needs: &[],
        run: |world| Box::pin(links_are_counted(world)),
    },
    Requirement {
        id: "OBS-003",
        name: "losses_are_counted",
        level: Level::Must,
        sentence: "A backend with exact drop accounting counts every lost publication, as many as its subscribers are told.",
        why: "What is declared is relied upon.",
        look_at: "Metric::Lost; what DeliverySender::push returns",
        needs: &[Need::ExactDrops],
        run: |world| Box::pin(losses_are_counted(world)),
    },
    Requirement {
        id: "OBS-004",
        name: "declarations",
        level: Level::Must,
        sentence: "Scheme, capabilities and options are the same every time they are asked, the scheme is made of lower-case letters, digits and +, and what was bound carries it.",
        why: "They are read before anything starts, and by programs.",
        look_at: "Transport::scheme, capabilities and options",
        needs: &[],
        run: |world| Box::pin(declarations(world)),
    },
    Requirement {
        id: "OBS-005",
        name: "wrong_scheme",
        level: Level::Must,
        sentence: "An endpoint of another scheme is refused with Config, by serve and by connect.",
        why: "A configuration that names two transports at once is a mistake.",
        look_at: "the layer of limits",
        needs: &[],
        run: |world| Box::pin(wrong_scheme(world)),
    },
    Requirement {
        id: "OBS-006",
        name: "no_local_endpoints",
        level: Level::Must,
        sentence: "A backend without local endpoints refuses a path with Config, by serve and by connect.",
        why: "A configuration that asks for what cannot be must not start.",
        look_at: "the layer of limits",
        needs: &[Need::NoLocalEndpoints],
        run: |world| Box::pin(no_local_endpoints(world)),
    },
    Requirement {
        id: "OBS-007",
        name: "unknown_option",
        level: Level::Must,
        sentence: "An option that the backend does not declare is refused with Config, and the error names those that it does; a value of the wrong kind too.",
        why: "A misspelt option that is ignored is found out in an incident.",
        look_at: "Transport::options",
        needs: &[],
        run: |world| Box::pin(unknown_option(world)),
    },
    Requirement {
        id: "OBS-008",
        name: "place_of_publications",
        level: Level::Must,
        sentence: "An endpoint of publications is asked for exactly when they are declared to be apart, by serve and by subscribe; else Config.",
        why: "A port that is configured and not served looks like a firewall.",
        look_at: "Capabilities::publications_apart",
        needs: &[],
        run: |world| Box::pin(place_of_publications(world)),
    },
    Requirement {
        id: "OBS-009",
        name: "secrets_do_not_show",
        level: Level::Must,
        sentence: "Options that a backend declares secret do not show in Debug.",
        why: "Configurations are logged.",
        look_at: "OptionSpec::secret",
        needs: &[],
        run: |world| Box::pin(secrets_do_not_show(world)),
    },
    Requirement {
        id: "OBS-010",
        name: "refused_peers_are_counted",
        level: Level::Must,
        sentence: "A server counts each peer that it cuts because it breaks the protocol, and none that behaves.",
        why: "An attack is seen in a counter first.",
        look_at: "Metric::PeersRefused, wherever a connection is given up",
        needs: &[Need::RawConnections],
        run: |world| Box::pin(refused_peers_are_counted(world)),
    },
];

async fn traffic_is_counted(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.answering(&world, |request| {
        if request.payload.len() != 33 {
            crate::kit::echo(request);
        }
    });
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    for n in 0..10 {
        caller.ask(numbered(n, 100)).await.expecting("a request")?;
    }
    for n in 0..3 {
        let outcome = caller.ask(numbered(n, 33)).await;
        is_error(&outcome, ErrorKind::NoReply, "a request without a reply")?;
    }
    for n in 0..7 {
        host.publish(&topic("t")?, numbered(n, 50)).await?;
        listener.message().await?;
    }
    let (client, server) = (&caller.counters, &host.counters);
    for (counters, metric, expected) in [
        (client, Metric::RequestsSent, 13),
        (client, Metric::RequestsFailed, 3),
        (client, Metric::Delivered, 7),
        (client, Metric::BytesSent, 10 * 100 + 3 * 33),
        (client, Metric::BytesReceived, 10 * 100 + 7 * 50),
        (server, Metric::RequestsReceived, 13),
        (server, Metric::Published, 7),
        (server, Metric::BytesReceived, 10 * 100 + 3 * 33),
    ] {
        ensure_eq!(counters.get(metric), expected, "{}", metric.name());
    }
    Ok(())
}

async fn links_are_counted(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let counters = &caller.counters;
    ensure!(
        counters.get(Metric::Connected) >= 1,
        "the first link was not counted"
    );
    ensure_eq!(
        counters.get(Metric::Disconnected),
        0,
        "links lost before any was"
    );
    let before = counters.get(Metric::Connected);
    let server = Arc::clone(&host.counters);
    for n in 1..=3 {
        let other = world.client(&host).await?;
        other.shut_down().await?;
        let counted = || server.get(Metric::Connected) > n && server.get(Metric::Disconnected) >= n;
        world
            .eventually("the server counts a link that came and went", counted)
            .await?;
    }
    for round in 1..=3 {
        host.kill().await?;
        listener.link(&Delivery::Disconnected).await?;
        host = world.serve_again(&host.bound).await?;
        listener.link(&Delivery::Connected).await?;
        // Nothing says which of the two comes first, the news or the count.
        let counted = || {
            counters.get(Metric::Disconnected) >= round
                && counters.get(Metric::Connected) >= before + round
        };
        let what = format!("the client counts that {round} links were lost and came back");
        world.eventually(&what, counted).await?;
    }
    Ok(())
}

async fn refused_peers_are_counted(world: Arc<World>) -> Outcome {
    const STRANGERS: u64 = 3;
    let host = world.serve().await?.echoing(&world);
    let caller = world.client(&host).await?;
    caller.ask("as it should be").await.expecting("a request")?;
    caller.shut_down().await?;
    let counters = &host.counters;
    let refused = counters.get(Metric::PeersRefused);
    ensure_eq!(refused, 0, "peers refused before there was any");
    let place = world.place(&host.bound.requests)?;
    for n in 1..=STRANGERS {
        let stream = Raw::connect(&place).await;
        let mut stream =
            stream.map_err(|error| Failure::new(format!("a raw socket of the suite: {error}")))?;
        // The server hangs up, in the middle perhaps.
        let _ = stream.write_all(&[0x5a; 100_000]).await;
        let counted = || counters.get(Metric::PeersRefused) >= n;
        world
            .eventually("a peer that broke the protocol is counted", counted)
            .await?;
    }
    Ok(())
}

async fn losses_are_counted(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 500;
    let mut small = world.limits();
    small.subscriber_queue_messages = 20;
    let host = world.serve_with(small.clone()).await?;
    let caller = world.client_with(&host, small).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let t = topic("t")?;
    for n in 0..COUNT {
        host.publish(&t, numbered(n, 100)).await?;
    }
    let (mut got, mut told) = (0, 0);
    while got + told < COUNT {
        match listener.next().await? {
            Some(Delivery::Message { payload, .. }) => {
                ensure!(number(&payload) < COUNT, "a publication that nobody made");
                got += 1;
            }
            Some(Delivery::Lagged(Lost::Messages(n))) => told += n,
            other => return Err(Failure::new(format!("the subscriber yielded {other:?}"))),
        }
    }
    let counted = || caller.counters.get(Metric::Lost) + host.counters.get(Metric::Lost);
    let what = format!("as many losses are counted as were told, {told}");
    world.eventually(&what, || counted() == told).await
}

async fn declarations(world: Arc<World>) -> Outcome {
    let transport = &world.transport;
    let scheme = transport.scheme();
    ensure!(
        !scheme.is_empty()
            && scheme
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'+'),
        "{scheme:?} is not a scheme"
    );
    let (capabilities, options) = (transport.capabilities(), transport.options());
    let host = world.serve().await?;
    ensure_eq!(
        transport.capabilities(),
        capabilities,
        "the capabilities, asked again"
    );
    ensure_eq!(transport.options(), options, "the options, asked again");
    ensure_eq!(
        host.bound.publications.is_some(),
        capabilities.publications_apart,
        "whether publications were bound apart"
    );
    for endpoint in [Some(&host.bound.requests), host.bound.publications.as_ref()]
        .into_iter()
        .flatten()
    {
        ensure_eq!(endpoint.scheme, scheme, "the scheme of what was bound");
        ensure!(
            endpoint.to_string().starts_with(&format!("{scheme}://")),
            "what was bound is shown as {endpoint}"
        );
    }
    for option in options {
        ensure!(
            !option.help.is_empty(),
            "option {} has no help",
            option.name
        );
    }
    Ok(())
}

async fn wrong_scheme(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let mut at = world.fresh();
    at.requests.scheme = "carrier-pigeon".into();
    let outcome = world.try_serve(at, world.limits()).await;
    is_error(
        &outcome,
        ErrorKind::Config,
        "serving an endpoint of another scheme",
    )?;
    let mut at = host.bound.clone();
    at.requests.scheme = "carrier-pigeon".into();
    let outcome = world.try_client(&at, world.limits()).await;
    is_error(
        &outcome,
        ErrorKind::Config,
        "connecting to an endpoint of another scheme",
    )
}

async fn no_local_endpoints(world: Arc<World>) -> Outcome {
    let at = world.fresh_local();
    let outcome = world.try_serve(at.clone(), world.limits()).await;
    is_error(&outcome, ErrorKind::Config, "serving a path")?;
    let outcome = world.try_client(&at, world.limits()).await;
    is_error(&outcome, ErrorKind::Config, "connecting to a path")
}

async fn unknown_option(world: Arc<World>) -> Outcome {
    let specs = world.transport.options();
    let unknown = ("no_such_option".to_owned(), OptionValue::Bool(true));
    let error = match Options::check(specs, [unknown]) {
        Err(error) => error,
        Ok(_) => return Err(Failure::new("an unknown option was taken")),
    };
    ensure_eq!(
        error.kind(),
        ErrorKind::Config,
        "the error of an unknown option"
    );
    for spec in specs {
        ensure!(
            error.to_string().contains(spec.name),
            "the error does not name {}: {error}",
            spec.name
        );
    }
    Ok(())
}

async fn place_of_publications(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let mut caller = world.client(&host).await?;
    // The opposite of what is declared.
    let scheme = world.transport.scheme();
    let somewhere = Endpoint::network(scheme, HostPort::new("127.0.0.1", 0));
    let opposite = |given: &Option<Endpoint>| match given {
        Some(_) => None,
        None => Some(somewhere.clone()),
    };
    let mut at = world.fresh();
    at.publications = opposite(&at.publications);
    let outcome = world.try_serve(at, world.limits()).await;
    is_error(
        &outcome,
        ErrorKind::Config,
        "serving with publications in the wrong place",
    )?;
    caller.publications = opposite(&caller.publications);
    let outcome = caller
        .try_subscribe(&[exact("t")?], crate::kit::TEST_TIMEOUT)
        .await;
    is_error(
        &outcome,
        ErrorKind::Config,
        "subscribing in the wrong place",
    )
}

async fn secrets_do_not_show(world: Arc<World>) -> Outcome {
    const SECRET: &str = "correct horse battery staple";
    let specs = world.transport.options();
    for spec in specs.iter().filter(|spec| spec.secret) {
        let given = (spec.name.to_owned(), OptionValue::Text(SECRET.into()));
        let mut at: ServeAt = world.fresh();
        at.requests.options = Options::check(specs, [given]).expecting("a secret option")?;
        let shown = format!("{at:?} {}", at.requests);
        ensure!(
            !shown.contains(SECRET),
            "option {} shows: {shown}",
            spec.name
        );
    }
    Ok(())
}

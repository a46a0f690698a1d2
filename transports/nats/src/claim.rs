//! Taking a name that nobody else serves: a server that begins asks, and whoever serves answers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use saline_engine::Lifetime;
use saline_engine::net::{Candidate, DialFailures, candidates};
use saline_protocol::transport::{Context, Error, ErrorKind, Result};

use crate::client::{Connector, Established, Link};
use crate::message::Hello;
use crate::options::NatsOptions;
use crate::serving::{ANSWERS, ClaimState, HELLO, ServerHandler, Serving, UP, WHO};

/// How long a server that is subscribed has to answer. NATS may not know yet that one has died.
const ANSWER: Duration = Duration::from_secs(1);

/// The pause before the question is repeated: a server that has just ended is soon no subscriber any more.
const REPEAT: Duration = Duration::from_millis(25);

/// Connects to one of the servers of NATS.
///
/// # Errors
/// `Config` when no server could ever be reached, `Refused` when a server refuses the login, `Unreachable` when none
/// answers in time.
pub(crate) async fn connect(
    options: &NatsOptions,
    connector: &Connector,
    context: &Context,
) -> Result<Established> {
    let clock = context.clock;
    let until = clock.after(context.limits.connect_timeout);
    let endpoint = options.shuffled();
    let mut failures = DialFailures::default();
    let Ok(found) = clock.deadline(until, candidates(&endpoint)).await else {
        return Err(failures.into_error(&endpoint));
    };
    let found = found?;
    for (index, candidate) in found.iter().enumerate() {
        let Candidate::Network { address, host } = candidate else {
            continue;
        };
        // One that does not answer leaves time for those behind it.
        let left = u32::try_from(found.len() - index).unwrap_or(u32::MAX);
        let now = clock.now();
        let share = now + until.saturating_duration_since(now) / left;
        let connecting = connector.connect(*address, host, context);
        match clock.deadline(share, connecting).await {
            Ok(Ok(established)) => return Ok(established),
            Ok(Err(error)) => failures.add(candidate, of_link(error)),
            Err(_) => {
                let why = "no answer in time";
                failures.add(candidate, Error::new(ErrorKind::Unreachable, why));
            }
        }
    }
    failures.add_unresolved(&endpoint, &found);
    Err(failures.into_error(&endpoint))
}

/// Returns an error of a link as one of the contract.
fn of_link(error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::InvalidInput => ErrorKind::Config,
        io::ErrorKind::InvalidData => ErrorKind::Refused,
        _ => ErrorKind::Unreachable,
    };
    let why = match kind {
        ErrorKind::Unreachable => format!("cannot connect: {error}"),
        _ => error.to_string(),
    };
    Error::new(kind, why).with_source(error)
}

/// Starts to serve on a connection to NATS, if nobody else serves the name.
///
/// # Errors
/// `Refused` when somebody does, and when NATS refuses a subject, which the error names; `Unreachable` when the connection
/// breaks.
///
/// # Cancel safety
/// The link stays until its tasks are cut.
pub(crate) async fn serve(
    serving: &Arc<Serving>,
    established: Established,
    tasks: &Lifetime,
) -> Result<Arc<Link>> {
    *serving.claim() = ClaimState::default();
    serving.next_epoch();
    let link = Link::start(established, tasks, |link| ServerHandler {
        serving: Arc::clone(serving),
        link: Arc::clone(link),
    });
    let claimed = claim(serving, &link).await;
    match claimed {
        Ok(()) => Ok(link),
        Err(error) => {
            link.close();
            link.over.cancelled().await;
            Err(error)
        }
    }
}

async fn claim(serving: &Serving, link: &Link) -> Result<()> {
    let subjects = &serving.subjects;
    let answers = serving.answers(&link.user);
    // Those who ask at the same time hear each other.
    link.subscribe(&subjects.who("*"), WHO);
    link.subscribe(&answers, ANSWERS);
    link.round_trip().await.map_err(of_link)?;
    let clock = serving.context.clock;
    let until = clock.after(ANSWER);
    let mut pause = REPEAT;
    let question = format!("{} {answers}", subjects.who(&link.user));
    loop {
        link.publish(&question, &Hello::encode(&serving.instance));
        link.round_trip().await.map_err(of_link)?;
        let now = clock.now();
        let claim = serving.claim().clone();
        if let Some(other) = claim.taken_by {
            let why = format!(
                "cannot serve subject {subjects} at {}: instance {other} of a master serves it",
                link.server
            );
            return Err(Error::new(ErrorKind::Refused, why));
        }
        if claim.is_free || now >= until {
            break;
        }
        let _ = clock
            .deadline(now + pause, serving.answered.notified())
            .await;
        pause = (pause * 2).min(ANSWER / 4);
    }
    link.subscribe(&subjects.up("*", &serving.instance, "*"), UP);
    link.subscribe(&subjects.hello("*"), HELLO);
    serving.claim().is_serving = true;
    // Nobody listens there; a server that may not publish to its clients hears of it now.
    link.publish(&subjects.down(&link.user, "permission"), b"");
    link.publish(&subjects.all(), &serving.announcement().encode());
    link.round_trip().await.map_err(of_link)
}

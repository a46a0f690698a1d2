//! The tour of the quickstart.

use std::error::Error;
use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use saline_client::{BusEvent, Client, EventFilter};
use saline_config::MasterConfig;
use saline_messages::{EventTag, JobEvent, KeyRequest, KeyState};
use saline_protocol::transport::{Clock, Registry};

use crate::Arguments;
use crate::example::{Example, Step};
use crate::fleet::Fleet;

/// How long the minions may take to connect.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// How long what follows from a command may take.
const CONSEQUENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts the fleet, runs the commands, and waits for Ctrl-C unless the arguments say to end.
pub fn run(registry: &Registry, arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    // The thread of the tour waits for the commands, and the client lives on another one meanwhile.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let transport = match &arguments.transport {
        Some(name) => registry.get(name)?.scheme(),
        None => registry.network_default()?,
    };
    if registry.get(transport)?.capabilities().brokered {
        let why = format!(
            "the quickstart starts no {transport} server: choose another transport, or see docs/{transport}.md"
        );
        return Err(why.into());
    }
    let example = match arguments.example {
        Some(_) => Example::web_fleet(),
        None => Example::plain(arguments.minions),
    };
    let mut fleet = Fleet::new()?;

    say(&format!("Starting a master over {transport} ... "))?;
    let (endpoint, port) = fleet.start_master(transport, &example)?;
    say(&format!("{endpoint}\n"))?;
    let schemes: Vec<&str> = registry.schemes().collect();
    let config = MasterConfig::load(&fleet.config(), &schemes)?.config;
    runtime.block_on(async {
        let client = Client::connect(&config, registry).await?;
        welcome(&client, &mut fleet, transport, port, &example.minions).await?;
        for step in example.steps {
            take(&client, &fleet, step).await?;
        }
        client.shutdown().await;
        Ok::<_, Box<dyn Error>>(())
    })?;
    if arguments.exit {
        say(
            "\nEnd of the tour. Without --exit the master and the minions stay up, to go on from another terminal.\n",
        )?;
    } else {
        say(&format!(
            "\nEnd of the tour. Go on from another terminal:\n\n    {} -c {} '*' test.ping\n\n\
             The logs show every step of each job: {}\n\
             The root_dir of the master: {}\n\
             Ctrl-C stops everything and deletes the folders.\n",
            std::env::current_exe()?.with_file_name("saline").display(),
            fleet.config().display(),
            fleet.logs().display(),
            fleet.master_root().display()
        ))?;
        runtime.block_on(tokio::signal::ctrl_c())?;
        say("\n")?;
    }
    say("Stopping ... ")?;
    drop(fleet);
    say("done\n")?;
    Ok(())
}

/// Prints text at once, without a newline.
///
/// # Errors
/// When the standard output is closed, as by `| head -1`.
fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Starts the minions, accepts their keys as an operator would, and waits until they are connected.
async fn welcome(
    client: &Client,
    fleet: &mut Fleet,
    transport: &str,
    port: u16,
    ids: &[String],
) -> Result<(), Box<dyn Error>> {
    let mut authentications = client
        .events(&EventFilter::Below(EventTag::Auth.to_string()))
        .await?;
    let mut starts = client
        .events(&EventFilter::Below(EventTag::below_minions().into()))
        .await?;

    say(&format!("Starting {} minions ... ", ids.len()))?;
    for id in ids {
        fleet.start_minion(id, transport, port)?;
    }
    let deadline = Clock.after(STARTUP_TIMEOUT);
    let arrived = async {
        while pending(client).await? < ids.len() {
            authentications.next().await.ok_or("the master has gone")?;
        }
        Ok::<_, Box<dyn Error>>(())
    };
    Clock
        .deadline(deadline, arrived)
        .await
        .map_err(|_| "the minions' keys did not come")??;
    say("their keys wait to be accepted\n")?;
    show(fleet, "saline-key", &["-A", "-y"])?;

    say("\nWaiting for the minions ...")?;
    let started = async {
        let mut left = ids.len();
        while left > 0 {
            let event = starts.next().await.ok_or("the master has gone")?;
            if let BusEvent::Event(event) = event
                && let Some(EventTag::Minion(id, rest)) = EventTag::parse(&event.tag)
                && rest == "start"
            {
                say(&format!(" {id}"))?;
                left -= 1;
            }
        }
        Ok::<_, Box<dyn Error>>(())
    };
    Clock
        .deadline(deadline, started)
        .await
        .map_err(|_| "the minions did not come")??;
    say(" are here\n")?;
    Ok(())
}

/// Runs a command of the tour, and waits for its consequence.
async fn take(client: &Client, fleet: &Fleet, step: &Step) -> Result<(), Box<dyn Error>> {
    let Some(consequence) = step.consequence else {
        return show(fleet, step.words[0], &step.words[1..]);
    };
    let jobs = EventFilter::Below(EventTag::below_jobs().into());
    let mut events = client.events(&jobs).await?;
    show(fleet, step.words[0], &step.words[1..])?;
    say(&format!("Waiting for {} ...", consequence.description))?;
    let returned = async {
        let mut left = consequence.returns;
        while left > 0 {
            let event = events.next().await.ok_or("the master has gone")?;
            if let BusEvent::Event(event) = event
                && let Some(EventTag::Job(_, JobEvent::Returned(id))) = EventTag::parse(&event.tag)
                && id.as_str() == consequence.minion
            {
                say(".")?;
                left -= 1;
            }
        }
        Ok::<_, Box<dyn Error>>(())
    };
    let deadline = Clock.after(CONSEQUENCE_TIMEOUT);
    Clock
        .deadline(deadline, returned)
        .await
        .map_err(|_| format!("{} did not come", consequence.description))??;
    say(" done\n")?;
    Ok(())
}

async fn pending(client: &Client) -> Result<usize, Box<dyn Error>> {
    let reply = client.keys(KeyRequest::List).await?;
    let pending = reply.keys.iter().filter(|k| k.state == KeyState::Pending);
    Ok(pending.count())
}

/// Prints a command as it would be typed, and runs it.
fn show(fleet: &Fleet, program: &str, words: &[&str]) -> Result<(), Box<dyn Error>> {
    let typed: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    say(&format!("\n$ {program} {}\n", typed.join(" ")))?;
    let mut command: Command = fleet.command(program, &fleet.config());
    let status = command.args(words).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} ended with {status}").into())
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:=".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{word}'")
    }
}

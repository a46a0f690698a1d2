//! `saline-run`: functions that run on the master.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use saline_client::{Client, ClientError};
use saline_protocol::message::{Jid, Value};
use saline_protocol::transport::Registry;

use super::manage::{self, Presence};
use super::{about, batch, events, failed, jobs, store};
use crate::arguments::RunArguments;
use crate::screen::Screen;
use crate::{exit, settings};

/// The names of the functions.
const FUNCTIONS: [&str; 19] = [
    "batch.list_active",
    "batch.status",
    "batch.stop",
    "jobs.cancel",
    "jobs.list_job",
    "jobs.list_jobs",
    "jobs.lookup_jid",
    "jobs.print_job",
    "manage.alived",
    "manage.down",
    "manage.not_alived",
    "manage.present",
    "manage.status",
    "manage.up",
    "manage.transports",
    "manage.versions",
    "state.event",
    "store.backup",
    "store.check",
];

/// A function with its parsed arguments.
enum Function {
    /// Prints events as they come.
    Event(events::Wanted),
    /// Prints what it returns.
    Data(DataFunction),
}

/// A function that returns something.
enum DataFunction {
    Batches,
    BatchStatus(Jid),
    StopBatch(Jid),
    Cancel(Jid),
    LookupJid(Jid),
    ListJob(Jid),
    PrintJob(Jid),
    ListJobs,
    Status,
    Up,
    Down,
    Transports,
    Versions,
    BackUp,
    Check,
}

/// Carries out the command line of `saline-run`. Returns the exit code.
///
/// # Errors
/// When the output cannot be written.
pub(crate) async fn run(
    screen: &mut Screen<'_>,
    words: impl IntoIterator<Item = OsString>,
    registry: Registry,
) -> io::Result<u8> {
    let arguments = match RunArguments::read(words) {
        Ok(arguments) => arguments,
        Err(refused) => return refused.print(screen),
    };
    if let Some(asked) = arguments.about.asked() {
        return about::print(screen, asked, "saline-run", &arguments.common, &registry);
    }
    let function = match understand(arguments.function(), arguments.arguments()) {
        Ok(function) => function,
        Err(line) => {
            screen.complain(format!("ERROR: {line}"));
            return Ok(exit::FAILED);
        }
    };
    let prepared = settings::prepare(screen, &arguments.common, &arguments.output, &registry);
    let config = match prepared {
        Ok(config) => config,
        Err(line) => {
            screen.complain(line);
            return Ok(exit::FAILED);
        }
    };
    let client = match Client::connect(&config, &registry).await {
        Ok(client) => client,
        Err(error) => return Ok(failed(screen, &error)),
    };
    let code = match function {
        Function::Event(wanted) => events::follow(screen, &client, &wanted).await,
        Function::Data(function) => match data(screen, &client, function, config.timeout).await {
            Ok((data, code)) => {
                let style = arguments.output.style(screen);
                let text = arguments.output.format().render(&data, style, false);
                print(screen, text).map(|()| code)
            }
            Err(error) => Ok(failed(screen, &error)),
        },
    };
    client.shutdown().await;
    code
}

/// Returns what a function returns, and the exit code.
async fn data(
    screen: &mut Screen<'_>,
    client: &Client,
    function: DataFunction,
    timeout: Duration,
) -> Result<(Value, u8), ClientError> {
    let data = match function {
        DataFunction::Batches => batch::list_active(client).await,
        DataFunction::BatchStatus(jid) => batch::status(client, &jid).await,
        DataFunction::StopBatch(jid) => batch::stop(client, &jid, timeout).await,
        DataFunction::Cancel(jid) => jobs::cancel(client, &jid, timeout).await,
        DataFunction::LookupJid(jid) => jobs::lookup_jid(screen, client, &jid).await,
        DataFunction::ListJob(jid) => jobs::list_job(screen, client, &jid).await,
        DataFunction::PrintJob(jid) => jobs::print_job(screen, client, &jid).await,
        DataFunction::ListJobs => jobs::list_jobs(client).await,
        DataFunction::Status => Presence::ask(client).await.map(|minions| minions.status()),
        DataFunction::Up => Presence::ask(client).await.map(|minions| minions.up()),
        DataFunction::Down => Presence::ask(client).await.map(|minions| minions.down()),
        DataFunction::Transports => manage::transports(client).await,
        DataFunction::Versions => manage::versions(client).await,
        DataFunction::BackUp => store::back_up(client).await,
        DataFunction::Check => return store::check(screen, client).await,
    };
    data.map(|data| (data, exit::GOOD))
}

fn print(screen: &mut Screen<'_>, text: Option<Vec<u8>>) -> io::Result<()> {
    // Like Salt, prints nothing, not an empty line, for an empty text.
    match text {
        Some(text) if !text.is_empty() => screen.line(text)?,
        _ => {}
    }
    Ok(())
}

fn understand(function: &str, words: &[String]) -> Result<Function, String> {
    let jid = || {
        let word = match words {
            [word] => word.strip_prefix("jid=").unwrap_or(word),
            [] => return Err(format!("{function} needs a jid: saline-run {function} JID")),
            _ => return Err(format!("{function} takes one jid")),
        };
        Jid::parse(word).map_err(|error| error.to_string())
    };
    Ok(Function::Data(match function {
        "batch.list_active" if words.is_empty() => DataFunction::Batches,
        "batch.status" => DataFunction::BatchStatus(jid()?),
        "batch.stop" => DataFunction::StopBatch(jid()?),
        "jobs.cancel" => DataFunction::Cancel(jid()?),
        "jobs.lookup_jid" => DataFunction::LookupJid(jid()?),
        "jobs.list_job" => DataFunction::ListJob(jid()?),
        "jobs.print_job" => DataFunction::PrintJob(jid()?),
        "jobs.list_jobs" if words.is_empty() => DataFunction::ListJobs,
        "manage.status" if words.is_empty() => DataFunction::Status,
        // Salt's `up` and `down` ask the minions, the others the presence that the master knows. Here
        // all of them tell the latter.
        "manage.up" | "manage.present" | "manage.alived" if words.is_empty() => DataFunction::Up,
        "manage.down" | "manage.not_alived" if words.is_empty() => DataFunction::Down,
        "manage.transports" if words.is_empty() => DataFunction::Transports,
        "manage.versions" if words.is_empty() => DataFunction::Versions,
        "store.backup" if words.is_empty() => DataFunction::BackUp,
        "store.check" if words.is_empty() => DataFunction::Check,
        "state.event" => return Ok(Function::Event(events::Wanted::read(words)?)),
        _ if FUNCTIONS.contains(&function) => {
            return Err(format!("{function} takes no arguments"));
        }
        _ => {
            return Err(format!(
                "'{function}' is not available; known are: {}",
                FUNCTIONS.join(", ")
            ));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_run_is_told_in_one_line() {
        let error = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            understand(&words[0], &words[1..]).err().unwrap_or_default()
        };
        insta::assert_snapshot!(
            [
                "manage.joined",
                "manage.status *",
                "jobs.lookup_jid",
                "jobs.lookup_jid 1 2",
                "jobs.lookup_jid 123",
                "jobs.list_jobs all",
                "state.event pretty=maybe",
                "state.event a b c",
                "state.event node=x",
                "state.event [",
            ]
            .map(error)
            .join("\n"),
            @r#"
        'manage.joined' is not available; known are: batch.list_active, batch.status, batch.stop, jobs.cancel, jobs.list_job, jobs.list_jobs, jobs.lookup_jid, jobs.print_job, manage.alived, manage.down, manage.not_alived, manage.present, manage.status, manage.transports, manage.up, manage.versions, state.event, store.backup, store.check
        manage.status takes no arguments
        jobs.lookup_jid needs a jid: saline-run jobs.lookup_jid JID
        jobs.lookup_jid takes one jid
        jid "123": a jid has twenty digits
        jobs.list_jobs takes no arguments
        state.event: pretty must be True or False
        state.event takes a glob over tags and a count
        state.event: no argument is called node; there are tagmatch, count and pretty
        not a glob: unclosed character class; missing ']'
        "#
        );
        for good in [
            "jobs.lookup_jid jid=20261121091409931549",
            "jobs.print_job 20261121091409931549",
            "jobs.list_jobs",
            "manage.not_alived",
            "state.event",
            "state.event salt/job/* pretty=True count=3",
        ] {
            assert_eq!(error(good), "");
        }
    }
}

//! `saline-run`: functions that run on the master.

use std::ffi::OsString;
use std::io;

use saline_client::{Client, RunnerRun, RunnerSpec};
use saline_config::parse_arguments;
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_messages::RunnerEnd;
use saline_protocol::transport::Registry;

use super::about::{self, Role};
use super::login::{Connection, Login};
use super::lookup_states::LookedUpStates;
use super::master_away::until_answered;
use super::saline::executed;
use super::{events, failed};
use crate::absence::LookUp;
use crate::arguments::{RunArguments, STATE_EVENT};
use crate::interrupt::{Interrupt, Interruption};
use crate::output::{docs, start_times};
use crate::screen::Screen;
use crate::{exit, settings, user_name};

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
        return about::print(
            screen,
            asked,
            ("saline-run", Role::Master),
            (&arguments.common, &arguments.output),
            &registry,
        );
    }
    // Read now, since `settings::prepare` may change the user of this process.
    let user = user_name::current();
    let events = match arguments.function() {
        STATE_EVENT => match events::EventArguments::read(arguments.arguments()) {
            Ok(wanted) => Some(wanted),
            Err(line) => {
                screen.note(format!("ERROR: {line}"));
                return Ok(exit::FAILED);
            }
        },
        _ => None,
    };
    let login = match Login::prepare(screen, &arguments.login) {
        Ok(login) => login,
        Err(line) => {
            screen.note(format!("ERROR: {line}"));
            return Ok(exit::FAILED);
        }
    };
    let prepared = settings::prepare(screen, &arguments.common, &arguments.output, &registry);
    let config = match prepared {
        Ok(config) => config,
        Err(line) => {
            screen.note(line);
            return Ok(exit::FAILED);
        }
    };
    let connection = match Client::connect(&config, &registry).await {
        Ok(client) => client,
        Err(error) => return Ok(failed(screen, &error)),
    };
    let connection = match Connection::new(connection).log_in(login).await {
        Ok(connection) => connection,
        Err(line) => {
            screen.note(escape_line(&format!("ERROR: {line}")));
            return Ok(exit::FAILED);
        }
    };
    let client = connection.client();
    let code = match events {
        Some(wanted) => events::follow(screen, client, &wanted).await,
        None => carry_out(screen, client, &arguments, user).await,
    };
    connection.end().await;
    code
}

/// Has the master carry out a function, and prints what it returns.
async fn carry_out(
    screen: &mut Screen<'_>,
    client: &Client,
    arguments: &RunArguments,
    user: String,
) -> io::Result<u8> {
    let words = parse_arguments(arguments.arguments());
    let states = LookedUpStates::read(client, arguments.function(), &words);
    let states = until_answered(screen, client, states).await;
    let spec = RunnerSpec::new(arguments.function())
        .with_arguments(words)
        .asked_by(user)
        .with_timeout(arguments.timeout);
    let (states, run) = match (states, client.runner(spec)) {
        (Ok(states), Ok(run)) => (states, run),
        (Err(error), _) | (_, Err(error)) => return Ok(failed(screen, &error)),
    };
    if arguments.async_ {
        let format = arguments.output.format();
        return match until_answered(screen, client, run.begin_async()).await {
            Ok(jid) => executed(screen, format, &jid),
            Err(error) => Ok(failed(screen, &error)),
        };
    }
    let mut interrupt = Interrupt::catch();
    let end = loop {
        tokio::select! {
            biased;
            interruption = interrupt.wait() => {
                if !ends_it(screen, client, interruption).await? {
                    return leave(screen, client, &run, interruption, arguments).await;
                }
                match until_answered(screen, client, run.kill()).await {
                    Ok(warnings) => screen.warn(&warnings.unwrap_or_default()),
                    Err(error) => return Ok(failed(screen, &error)),
                }
            }
            end = until_answered(screen, client, run.end()) => break end,
        }
    };
    match end {
        Ok(end) => print(screen, &end, states.as_ref(), arguments),
        Err(error) => Ok(failed(screen, &error)),
    }
}

/// Prints how a run has ended, and returns the exit code.
fn print(
    screen: &mut Screen<'_>,
    end: &RunnerEnd,
    states: Option<&LookedUpStates>,
    arguments: &RunArguments,
) -> io::Result<u8> {
    // What is told may be the words of others.
    for note in &end.notes {
        screen.note(escape_line(note));
    }
    if let Some(error) = &end.error {
        screen.note(escape_line(&format!("ERROR: {error}")));
        return Ok(exit::FAILED);
    }
    let value = match end.value() {
        Ok(value) => value,
        Err(error) => {
            screen.note(format!("ERROR: the master's return: {error}"));
            return Ok(exit::FAILED);
        }
    };
    if let Some(states) = states {
        states.tell_absent(screen, &value);
    }
    let is_empty = value == Value::Map(Vec::new()) || value == Value::List(Vec::new());
    let knows_nothing = arguments.doc && value == Value::Map(Vec::new());
    let text = rendered(arguments, screen, value);
    // Like Salt, prints nothing, not an empty line, for an empty text.
    match text {
        Some(text) if !text.is_empty() => screen.line(text)?,
        // At a terminal an empty output looks as if nothing had been asked.
        _ if is_empty && !knows_nothing && screen.terminal => screen.note("none"),
        _ => {}
    }
    if knows_nothing {
        screen.note(docs::NOTHING);
        return Ok(exit::FAILED);
    }
    Ok(if end.success {
        exit::GOOD
    } else {
        exit::FAILED
    })
}

fn rendered(arguments: &RunArguments, screen: &Screen<'_>, mut value: Value) -> Option<Vec<u8>> {
    let output = &arguments.output;
    let (format, style) = (output.format(), output.style(screen));
    if format.is_for_programs() {
        return format.render(&value, style, false);
    }
    if arguments.doc {
        return Some(docs::render(&[("master".to_owned(), value)], style));
    }
    if arguments.function().starts_with("jobs.") {
        start_times::show_zone(&mut value);
    }
    format.render(&value, style, false)
}

/// Asks whoever typed Ctrl-C at the terminal whether the run is to end.
async fn ends_it(
    screen: &mut Screen<'_>,
    client: &Client,
    interruption: Interruption,
) -> io::Result<bool> {
    if interruption != Interruption::CtrlC || !screen.can_ask {
        return Ok(false);
    }
    // The terminal shows ^C.
    screen.note("");
    let context = Some(client.context());
    let answer = screen.ask("Stop the runner? [N/y] ", true, context).await?;
    Ok(answer.is_some_and(|answer| answer.trim_start().starts_with(['y', 'Y'])))
}

/// Leaves a run that goes on, and says how to find it.
async fn leave(
    screen: &mut Screen<'_>,
    client: &Client,
    run: &RunnerRun,
    interruption: Interruption,
    arguments: &RunArguments,
) -> io::Result<u8> {
    screen.note(match interruption {
        // Salt's too begins with an empty line, because the terminal shows ^C.
        Interruption::CtrlC => "\nExiting gracefully on Ctrl-c",
        Interruption::Terminated => "Exiting gracefully on SIGTERM",
    });
    match until_answered(screen, client, run.keep()).await {
        Ok(Some(jid)) => {
            let options = settings::options_to_repeat(&arguments.common);
            screen.note(goes_on(&LookUp { jid, options }));
        }
        Ok(None) => screen.note("No runner was begun."),
        Err(error) => return Ok(failed(screen, &error)),
    }
    Ok(exit::FAILED)
}

fn goes_on(look_up: &LookUp) -> String {
    let LookUp { jid, options } = look_up;
    format!(
        "The runner goes on, and the master stores what it returns. To end it, or to look its return up, run one of the following commands:\n\nsaline-run jobs.kill {jid}{options}\nsaline-run jobs.lookup_jid {jid}{options}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Printed;
    use saline_data::Packed;
    use saline_messages::Jid;

    fn shown(end: &RunnerEnd, line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let arguments = RunArguments::read(words).expect("arguments");
        let mut printed = Printed::default();
        let code = print(&mut printed.screen(&[]), end, None, &arguments).unwrap();
        format!("{}--- exit {code}", printed.shown())
    }

    fn end(value: &Value) -> RunnerEnd {
        RunnerEnd {
            success: true,
            error: None,
            notes: Vec::new(),
            payload: Packed::pack(value),
        }
    }

    #[test]
    fn what_a_runner_returns_is_printed_as_salt_prints_it() {
        let arguments = Value::List(vec![
            "ls".into(),
            Value::map([("__kwarg__", Value::Bool(true)), ("cwd", "/".into())]),
        ]);
        let job = Value::map([
            ("Function", "cmd.run".into()),
            ("Arguments", arguments),
            ("Target", "*".into()),
            ("Target-type", "glob".into()),
            ("User", "root".into()),
            ("StartTime", "2026, Nov 21 09:14:09.931549".into()),
        ]);
        let jobs = end(&Value::map([("20261121091409931549", job)]));
        insta::assert_snapshot!(shown(&jobs, "saline-run jobs.list_jobs"), @"
        --- stdout
        20261121091409931549:
            ----------
            Arguments:
                - ls
                |_
                  ----------
                  __kwarg__:
                      True
                  cwd:
                      /
            Function:
                cmd.run
            StartTime:
                2026, Nov 21 09:14:09.931549 UTC
            Target:
                *
            Target-type:
                glob
            User:
                root
        --- stderr
        --- exit 0
        ");
        let line = shown(&jobs, "saline-run jobs.list_jobs --out raw");
        assert!(line.contains("09:14:09.931549'"), "{line}");
        let status = Value::map([
            ("up", Value::texts(["a", "c"])),
            ("down", Value::texts(["b"])),
        ]);
        let status = end(&status);
        insta::assert_snapshot!(shown(&status, "saline-run manage.status"), @"
        --- stdout
        down:
            - b
        up:
            - a
            - c
        --- stderr
        --- exit 0
        ");
        insta::assert_snapshot!(shown(&status, "saline-run manage.status --out json"), @r#"
        --- stdout
        {
            "up": [
                "a",
                "c"
            ],
            "down": [
                "b"
            ]
        }
        --- stderr
        --- exit 0
        "#);
        insta::assert_snapshot!(shown(&end(&"".into()), "saline-run config.get x"), @"
        --- stdout
        --- stderr
        --- exit 0
        ");
    }

    #[test]
    fn notes_and_errors_go_to_the_standard_error_output() {
        let checked = RunnerEnd {
            success: false,
            notes: vec!["ERROR: a page is damaged\u{1b}[2J".to_owned()],
            ..end(&Value::map([("problems", Value::Int(1))]))
        };
        insta::assert_snapshot!(shown(&checked, "saline-run store.check"), @r"
        --- stdout
        problems:
            1
        --- stderr
        ERROR: a page is damaged\x1b[2J
        --- exit 1
        ");
        let failed = RunnerEnd {
            success: false,
            error: Some("job 1 is unknown".to_owned()),
            ..end(&Value::Null)
        };
        insta::assert_snapshot!(shown(&failed, "saline-run jobs.print_job 1 --out json"), @"
        --- stdout
        --- stderr
        ERROR: job 1 is unknown
        --- exit 1
        ");
        let unreadable = RunnerEnd {
            payload: Packed::from_bytes(vec![0xc1]),
            ..end(&Value::Null)
        };
        insta::assert_snapshot!(shown(&unreadable, "saline-run jobs.print_job 1"), @"
        --- stdout
        --- stderr
        ERROR: the master's return: not a packed value: wrong msgpack marker Reserved
        --- exit 1
        ");
    }

    #[test]
    fn documentation_is_printed_as_that_of_minions() {
        let docs = Value::map([("jobs.active", "\n    Return the jobs.\n".into())]);
        insta::assert_snapshot!(shown(&end(&docs), "saline-run -d jobs.active"), @"
        --- stdout
        jobs.active:

            Return the jobs.

        --- stderr
        --- exit 0
        ");
        insta::assert_snapshot!(shown(&end(&docs), "saline-run -d jobs.active --out raw"), @r"
        --- stdout
        {'jobs.active': '\n    Return the jobs.\n'}
        --- stderr
        --- exit 0
        ");
    }

    #[test]
    fn a_run_that_is_left_can_be_found() {
        let look_up = LookUp {
            jid: Jid::parse("20261121091409931549").unwrap(),
            options: " -c /tmp/x".to_owned(),
        };
        insta::assert_snapshot!(goes_on(&look_up), @"
        The runner goes on, and the master stores what it returns. To end it, or to look its return up, run one of the following commands:

        saline-run jobs.kill 20261121091409931549 -c /tmp/x
        saline-run jobs.lookup_jid 20261121091409931549 -c /tmp/x
        ");
    }
}

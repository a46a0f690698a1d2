//! `saline`: run a function on minions.

use std::ffi::OsString;
use std::io::{self, Read};
use std::time::Duration;

use saline_client::{Client, JobCall, JobSpec};
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_messages::Jid;
use saline_protocol::transport::Registry;
use saline_targeting::CompiledTarget;

use super::about::{self, Role};
use super::follow::PublishedJob;
use super::login::{Connection, Login};
use super::master_away::until_answered;
use super::preview_target::{GrainsUnknown, preview_target, warn_without_pillar};
use super::{compiled, failed};
use crate::absence::LookUp;
use crate::arguments::SalineArguments;
use crate::interrupt::{CommandProgress, Interrupt};
use crate::output::Format;
use crate::report::{Report, ReportOptions, nobody_matched};
use crate::screen::{Screen, read_input};
use crate::{ParametersOf, batch_report, exit, settings, user_name};

/// Carries out the command line of `saline`. Returns the exit code.
///
/// # Errors
/// When the output cannot be written.
pub(crate) async fn saline(
    screen: &mut Screen<'_>,
    words: impl IntoIterator<Item = OsString>,
    registry: Registry,
    parameters_of: ParametersOf,
) -> io::Result<u8> {
    let arguments = match SalineArguments::read(words, read_input) {
        Ok(arguments) => arguments,
        Err(refused) => return refused.print(screen),
    };
    if let Some(asked) = arguments.about.asked() {
        return about::print(
            screen,
            asked,
            ("saline", Role::Master),
            (&arguments.common, &arguments.output),
            &registry,
        );
    }
    // Read now, since `settings::prepare` may change the user of this process.
    let user = user_name::current();
    let call = match job_call(&arguments, io::stdin(), parameters_of) {
        Ok(call) => call,
        Err(line) => {
            screen.note(format!("saline: error: {}", escape_line(&line)));
            return Ok(exit::USAGE);
        }
    };
    let Some(target) = compiled(screen, "saline", arguments.target()) else {
        return Ok(exit::USAGE);
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
    if let Err(refused) = arguments.check_batch(config.batch_safe_limit) {
        return refused.print(screen);
    }
    let mut interrupt = Interrupt::catch();
    let connected = tokio::select! {
        biased;
        interruption = interrupt.wait() => {
            return Ok(interruption.leave(screen, &CommandProgress::NotPublished));
        }
        connected = Client::connect(&config, &registry) => connected,
    };
    let connection = match connected {
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
    let code = match arguments.targeting.preview_target {
        true => {
            let include_unknown = arguments.targeting.include_unknown;
            preview_target(screen, client, target, include_unknown, &arguments.output).await
        }
        false => {
            let heartbeat = config.heartbeat_interval;
            publish(
                screen,
                &arguments,
                (target, call),
                user,
                client,
                heartbeat,
                &mut interrupt,
            )
            .await
        }
    };
    connection.end().await;
    code
}

/// Returns the function with its arguments, and apart from them those that are secret: because of their parameters, or
/// because the operator marked them.
///
/// # Errors
/// One line that names the argument whose value cannot be read.
fn job_call(
    arguments: &SalineArguments,
    input: impl Read,
    parameters_of: ParametersOf,
) -> Result<JobCall, String> {
    let calls = arguments.calls()?;
    // Of several functions none is marked.
    let marked = match calls.len() {
        1 => arguments.secrets.read(input)?.0,
        _ => Vec::new(),
    };
    let mut call = JobCall::of(calls, parameters_of).map_err(|error| error.to_string())?;
    call.secrets.0.extend(marked);
    Ok(call)
}

async fn publish(
    screen: &mut Screen<'_>,
    arguments: &SalineArguments,
    (target, call): (CompiledTarget, JobCall),
    user: String,
    client: &Client,
    heartbeat: Duration,
    interrupt: &mut Interrupt,
) -> io::Result<u8> {
    let options = settings::options_to_repeat(&arguments.common);
    let spec = JobSpec::of_call(target.clone(), call)
        .including_unknown(arguments.targeting.include_unknown)
        .asked_by(user.clone())
        .with_timeout(arguments.timeout)
        .with_ttl(arguments.ttl)
        .kept_private(arguments.private)
        .with_subset(arguments.targeting.subset)
        .in_batches(arguments.batch.request())
        .with_metadata(arguments.metadata())
        .with_jid(arguments.jid.clone())
        .returned_to(arguments.returners.clone());
    let run = tokio::select! {
        biased;
        interruption = interrupt.wait() => {
            return Ok(interruption.leave(screen, &CommandProgress::Publishing { options }));
        }
        run = until_answered(screen, client, client.run(spec)) => run,
    };
    let run = match run {
        Ok(run) => run,
        Err(error) => return Ok(failed(screen, &error)),
    };
    let format = arguments.output.format();
    GrainsUnknown::after(arguments.targeting.include_unknown)
        .warn(screen, &run.published().without_grains);
    warn_without_pillar(screen, &run.published().without_pillar);
    screen.warn(&run.published().warnings);
    let Some(jid) = run.jid().cloned() else {
        if let Some(hint) = arguments.target_hint() {
            screen.note(hint);
        }
        let expression = arguments.target().expression;
        return nobody_matched(
            screen,
            format,
            &expression,
            arguments.targeting.subset.is_some(),
        );
    };
    if let Some(batch) = run.published().batch
        && !arguments.batch.is_asked_for()
    {
        screen.note(batch_report::unasked(run.published().minions.len(), &batch));
    }
    if arguments.async_ {
        return executed(screen, format, &jid);
    }
    let beside = format.is_for_programs();
    if arguments.verbose {
        let line = format!("Executing job with jid {jid}");
        let under = "-".repeat(line.len());
        screen.prose(beside, &format!("{line}\n{under}\n"))?;
    } else if arguments.show_jid {
        screen.prose(beside, &format!("jid: {jid}"))?;
    }
    let report = Report::new(ReportOptions {
        format,
        style: arguments.output.style(screen),
        as_group: arguments.static_,
        documentation: arguments.wants_documentation(format),
        hide_absent: arguments.hide_timeout,
        heartbeat,
        summary: arguments.summary,
    });
    let job = PublishedJob {
        client,
        target,
        user,
        look_up: LookUp { jid, options },
        run,
        report,
        shows_progress: arguments.progress,
    };
    job.follow(screen, interrupt).await
}

/// Prints the jid for `--async`.
///
/// # Errors
/// When the output cannot be written.
pub(super) fn executed(screen: &mut Screen<'_>, format: Format, jid: &Jid) -> io::Result<u8> {
    match format {
        format if !format.is_for_programs() => {
            screen.line(format!("Executed command with job ID: {jid}"))?;
        }
        _ => {
            let data = Value::map([("jid", Value::from(jid.as_str()))]);
            if let Some(text) = format.render(&data, Default::default(), false) {
                screen.line(text)?;
            }
        }
    }
    Ok(exit::GOOD)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use saline_functions::{Parameter, ParameterKind};
    use saline_messages::Arguments;

    use super::*;
    use crate::screen::Printed;

    fn look_up() -> LookUp {
        LookUp {
            jid: Jid::parse("20261121091409931549").unwrap(),
            options: " -c /tmp/x".to_owned(),
        }
    }

    #[test]
    fn the_arguments_of_secret_parameters_are_secret_without_being_asked() {
        const PARAMETERS: &[Parameter] = &[
            parameter("name", false),
            parameter("password", true),
            parameter("shell", false),
        ];
        let read = |line: &str| {
            let words = line.split(' ').map(OsString::from);
            let arguments = SalineArguments::read(words, read_input).unwrap();
            let parameters_of: ParametersOf = |fun| match fun {
                "user.add" => PARAMETERS,
                _ => &[],
            };
            let call = job_call(&arguments, &b"marked"[..], parameters_of).unwrap();
            let places = call
                .secrets
                .0
                .iter()
                .map(|(place, value)| (place.to_string(), value.clone()));
            (call.arg, places.collect::<Vec<_>>())
        };
        let plain = |positional: &[&str]| Arguments {
            positional: positional.iter().map(|text| Value::from(*text)).collect(),
            named: Vec::new(),
        };
        let secret = |place: &str| vec![(place.to_owned(), Value::from("pw"))];
        let (arg, secrets) = read("saline * user.add ann password=pw");
        assert_eq!((arg, secrets), (plain(&["ann"]), secret("'password'")));
        let (arg, secrets) = read("saline * user.add ann pw /bin/sh");
        assert_eq!((arg, secrets), (plain(&["ann", "/bin/sh"]), secret("2")));
        let (arg, secrets) = read("saline * user.add ann pw --secret shell=-");
        let marked = [
            secret("2"),
            vec![("'shell'".to_owned(), Value::from("marked"))],
        ];
        assert_eq!((arg, secrets), (plain(&["ann"]), marked.concat()));
        let (arg, secrets) = read("saline * other.add ann pw");
        assert_eq!((arg, secrets), (plain(&["ann", "pw"]), Vec::new()));
    }

    const fn parameter(name: &'static str, secret: bool) -> Parameter {
        Parameter {
            name: Cow::Borrowed(name),
            takes: Cow::Borrowed("a text"),
            secret,
            kind: ParameterKind::Required,
        }
    }

    #[test]
    fn asynchronous() {
        let shown = |format| {
            let mut printed = Printed::default();
            executed(&mut printed.screen(&[]), format, &look_up().jid).unwrap();
            String::from_utf8(printed.out).unwrap()
        };
        insta::assert_snapshot!(shown(Format::Nested), @"Executed command with job ID: 20261121091409931549");
        insta::assert_snapshot!(shown(Format::Json), @r#"
        {
            "jid": "20261121091409931549"
        }
        "#);
        insta::assert_snapshot!(shown(Format::Raw), @"{'jid': '20261121091409931549'}");
    }

    #[tokio::test]
    async fn what_needs_no_master_is_told_without_one() {
        let run = async |line: &str| {
            let mut printed = Printed::default();
            let words = line.split(' ').map(OsString::from);
            let code = saline(&mut printed.screen(&[]), words, Registry::new(), |_| &[])
                .await
                .unwrap();
            format!("{}--- exit {code}", printed.shown())
        };
        insta::assert_snapshot!(run("saline -E ( test.ping").await, @"
        --- stdout
        --- stderr
        saline: error: the target is malformed: not a regular expression: unclosed group
          (
          ^
        --- exit 64
        ");
        insta::assert_snapshot!(run("saline -I role test.ping").await, @"
        --- stdout
        --- stderr
        saline: error: the target is malformed: expected a key of the pillar and a pattern with `:` between them, as in role:web
          role
          ^
        --- exit 64
        ");
        insta::assert_snapshot!(run("saline -G os|Debian test.ping --delimiter=/").await, @"
        --- stdout
        --- stderr
        saline: error: the target is malformed: expected a grain and a pattern with `/` between them, as in os/Debian
          G/@os|Debian
             ^
        --- exit 64
        ");
        insta::assert_snapshot!(run("saline * test.ping -c /nonexistent").await, @"
        --- stdout
        --- stderr
        ERROR: there is no configuration folder /nonexistent; -c DIR names another
        --- exit 1
        ");
        insta::assert_snapshot!(run("saline --version").await, @"
        --- stdout
        saline 0.1.0
        --- stderr
        --- exit 0
        ");
    }
}

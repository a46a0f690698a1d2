//! `saline`: run a function on minions.

use std::ffi::OsString;
use std::io;

use saline_client::{Client, JobSpec, Run};
use saline_config::parse_arguments;
use saline_protocol::message::{Jid, Value};
use saline_protocol::printable::escape_line;
use saline_protocol::target::CompiledTarget;
use saline_protocol::transport::Registry;

use super::failed;
use super::preview_target::{preview_target, warn_of_unsure};
use crate::absence::LookUp;
use crate::arguments::SalineArguments;
use crate::interrupt::{HowFar, Interrupt, Interruption};
use crate::output::Format;
use crate::report::{Report, ReportOptions, nobody_matched};
use crate::screen::Screen;
use crate::{batch_report, exit, settings, user_name};

/// # Errors
/// When the output cannot be written.
pub(crate) async fn saline(
    screen: &mut Screen<'_>,
    words: impl IntoIterator<Item = OsString>,
    registry: Registry,
) -> io::Result<u8> {
    let arguments = match SalineArguments::read(words) {
        Ok(arguments) => arguments,
        Err(refused) => return refused.print(screen),
    };
    // A malformed target is reported even if no master runs.
    let target = arguments.target();
    let target = match target.clone().compile() {
        Ok(target) => target,
        Err(error) => {
            let picture = error.picture(&target.expression);
            screen.complain(format!(
                "saline: error: {}\n{picture}",
                escape_line(&error.to_string())
            ));
            return Ok(exit::USAGE);
        }
    };
    let config = match settings::load(&arguments.common, &registry) {
        Ok(config) => config,
        Err(line) => {
            screen.complain(line);
            return Ok(exit::FAILED);
        }
    };
    let mut interrupt = Interrupt::catch();
    let connected = tokio::select! {
        biased;
        interruption = interrupt.wait() => {
            return Ok(interruption.leave(screen, &HowFar::NotPublished));
        }
        connected = Client::connect(&config, &registry) => connected,
    };
    let client = match connected {
        Ok(client) => client,
        Err(error) => return Ok(failed(screen, &error)),
    };
    let code = match arguments.targeting.preview_target {
        true => preview_target(screen, &client, target, &arguments.output).await,
        false => publish(screen, &arguments, target, &client, &mut interrupt).await,
    };
    client.shutdown().await;
    code
}

async fn publish(
    screen: &mut Screen<'_>,
    arguments: &SalineArguments,
    target: CompiledTarget,
    client: &Client,
    interrupt: &mut Interrupt,
) -> io::Result<u8> {
    let options = settings::options_to_repeat(&arguments.common);
    let spec = JobSpec::new(target, arguments.function())
        .with_arguments(parse_arguments(arguments.arguments()))
        .asked_by(user_name::current())
        .with_timeout(arguments.timeout())
        .with_ttl(arguments.ttl)
        .kept_private(arguments.private)
        .with_subset(arguments.targeting.subset)
        .in_batches(arguments.batch.request());
    let run = tokio::select! {
        biased;
        interruption = interrupt.wait() => {
            return Ok(interruption.leave(screen, &HowFar::Publishing { options }));
        }
        run = client.run(spec) => run,
    };
    let run = match run {
        Ok(run) => run,
        Err(error) => return Ok(failed(screen, &error)),
    };
    let format = arguments.output.format();
    let Some(jid) = run.jid().cloned() else {
        return nobody_matched(screen, format, arguments.targeting.subset.is_some());
    };
    warn_of_unsure(screen, &run.published().unsure);
    if let Some(batch) = run.published().batch
        && !arguments.batch.is_asked_for()
    {
        screen.complain(batch_report::unasked(run.published().minions.len(), &batch));
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
    let look_up = LookUp { jid, options };
    let report = Report::new(ReportOptions {
        format,
        style: arguments.output.style(screen.terminal),
        as_group: arguments.static_,
    });
    follow(screen, run, report, look_up, interrupt).await
}

async fn follow(
    screen: &mut Screen<'_>,
    mut run: Run,
    mut report: Report,
    look_up: LookUp,
    interrupt: &mut Interrupt,
) -> io::Result<u8> {
    loop {
        let next = tokio::select! {
            biased;
            interruption = interrupt.wait() => {
                return interrupted(screen, &run, report, &look_up, interruption);
            }
            next = run.next() => next,
        };
        match next {
            Ok(Some(progress)) => report.take(screen, progress)?,
            Ok(None) => {
                let halted = run
                    .published()
                    .batch
                    .and_then(|batch| report.halted(&batch));
                let code = report.finish(screen, run.expires(), &look_up);
                if let Some(line) = halted {
                    screen.complain(line);
                }
                for id in run.duplicates() {
                    screen.complain(format!(
                        "WARNING: two machines use the id {id}: saline-key -L shows their addresses"
                    ));
                }
                return code;
            }
            Err(error) => {
                let code = failed(screen, &error);
                screen.complain(look_up.hint());
                return Ok(code);
            }
        }
    }
}

/// Prints the jid for `--async`.
fn executed(screen: &mut Screen<'_>, format: Format, jid: &Jid) -> io::Result<u8> {
    match format {
        Format::Nested => screen.line(format!("Executed command with job ID: {jid}"))?,
        _ => {
            let data = Value::map([("jid", Value::from(jid.as_str()))]);
            if let Some(text) = format.render(&data, Default::default(), false) {
                screen.line(text)?;
            }
        }
    }
    Ok(exit::GOOD)
}

/// Prints what has come so far, and how to go on.
fn interrupted(
    screen: &mut Screen<'_>,
    run: &Run,
    report: Report,
    look_up: &LookUp,
    interruption: Interruption,
) -> io::Result<u8> {
    let minions = run.published().minions.iter().map(|(minion, _)| minion);
    let unanswered = report.unanswered(minions);
    let printed = report.interrupt(screen, run.expires(), look_up);
    let how_far = HowFar::Published {
        look_up,
        unanswered: &unanswered,
    };
    // Also when nothing could be printed: Ctrl-C may have ended the reader of the output too.
    let code = interruption.leave(screen, &how_far);
    if run.published().batch.is_some() {
        screen.complain(batch_report::goes_on(look_up));
    }
    printed.map(|()| code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Printed;

    fn look_up() -> LookUp {
        LookUp {
            jid: Jid::parse("20261121091409931549").unwrap(),
            options: " -c /tmp/x".to_owned(),
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
            let code = saline(&mut printed.screen(&[]), words, Registry::new())
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
        insta::assert_snapshot!(run("saline -I role:web test.ping").await, @"
        --- stdout
        --- stderr
        saline: error: the target is malformed: Saline has no pillar yet, so minions cannot be chosen by it (-I, -J, I@, J@)
          role:web
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

//! `saline`: run a function on minions.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use saline_client::{Client, JobSpec, Run};
use saline_config::parse_call;
use saline_protocol::message::{Arguments, Jid, MinionId, Value};
use saline_protocol::printable::escape_line;
use saline_protocol::target::CompiledTarget;
use saline_protocol::transport::{Clock, Elapsed, Registry};

use super::preview_target::{preview_target, warn_of_unsure};
use super::{about, failed};
use crate::absence::LookUp;
use crate::arguments::SalineArguments;
use crate::interrupt::{HowFar, Interrupt, Interruption, Wish};
use crate::output::Format;
use crate::report::{Report, ReportOptions, nobody_matched};
use crate::screen::{Screen, read_input};
use crate::status_line::JobStatus;
use crate::{batch_report, exit, settings, user_name};

/// The time after which the line of `--progress` is written again.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// Carries out the command line of `saline`. Returns the exit code.
///
/// # Errors
/// When the output cannot be written.
pub(crate) async fn saline(
    screen: &mut Screen<'_>,
    words: impl IntoIterator<Item = OsString>,
    registry: Registry,
) -> io::Result<u8> {
    let arguments = match SalineArguments::read(words, read_input) {
        Ok(arguments) => arguments,
        Err(refused) => return refused.print(screen),
    };
    if let Some(asked) = arguments.about.asked() {
        return about::print(screen, asked, "saline", &arguments.common, &registry);
    }
    // Read now, since `settings::prepare` may change the user of this process.
    let user = user_name::current();
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
    let prepared = settings::prepare(screen, &arguments.common, &arguments.output, &registry);
    let config = match prepared {
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
        false => publish(screen, &arguments, target, user, &client, &mut interrupt).await,
    };
    client.shutdown().await;
    code
}

async fn publish(
    screen: &mut Screen<'_>,
    arguments: &SalineArguments,
    target: CompiledTarget,
    user: String,
    client: &Client,
    interrupt: &mut Interrupt,
) -> io::Result<u8> {
    let options = settings::options_to_repeat(&arguments.common);
    let function = arguments.function();
    let spec = JobSpec::new(target.clone(), function)
        .with_arguments(parse_call(function, arguments.arguments()))
        .asked_by(user.clone())
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
    let report = Report::new(ReportOptions {
        format,
        style: arguments.output.style(screen),
        as_group: arguments.static_,
        // For programs it is data as any other.
        documentation: arguments.wants_documentation() && !format.is_for_programs(),
        hide_absent: arguments.hide_timeout,
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

/// A published job that is followed.
struct PublishedJob<'c> {
    client: &'c Client,
    target: CompiledTarget,
    /// The user who asks.
    user: String,
    look_up: LookUp,
    run: Run,
    report: Report,
    shows_progress: bool,
}

impl PublishedJob<'_> {
    /// Prints what minions return until no return can come, or until the command is interrupted.
    async fn follow(
        mut self,
        screen: &mut Screen<'_>,
        interrupt: &mut Interrupt,
    ) -> io::Result<u8> {
        loop {
            if self.shows_progress {
                screen.show_status(&self.status());
            }
            let next = tokio::select! {
                biased;
                interruption = interrupt.wait() => {
                    screen.show_status("");
                    match self.wish(screen, interruption).await? {
                        Wish::Stop => {
                            self.stop(screen).await;
                            continue;
                        }
                        wish => return self.interrupted(screen, interruption, wish != Wish::Unknown),
                    }
                }
                next = Clock.deadline(Clock.after(STATUS_INTERVAL), self.run.next()) => next,
            };
            match next {
                Err(Elapsed) => {}
                Ok(Ok(Some(progress))) => self.report.take(screen, progress)?,
                Ok(Ok(None)) => {
                    screen.show_status("");
                    let batch = self.run.published().batch;
                    let halted = batch.and_then(|batch| self.report.halted(&batch));
                    let code = self
                        .report
                        .finish(screen, self.run.expires(), &self.look_up);
                    if let Some(line) = halted {
                        screen.complain(line);
                    }
                    for id in self.run.duplicates() {
                        screen.complain(format!(
                            "WARNING: two machines use the id {id}: saline-key -L shows their addresses"
                        ));
                    }
                    return code;
                }
                Ok(Err(error)) => {
                    screen.show_status("");
                    let code = failed(screen, &error);
                    screen.complain(self.look_up.hint());
                    return Ok(code);
                }
            }
        }
    }

    /// Returns the line of `--progress`.
    fn status(&self) -> String {
        let published = self.run.published();
        let (returned, failed) = self.report.counts();
        let waiting_for = self.run.waited_for().next();
        let status = JobStatus {
            expected: published.minions.len() + published.unknown.len(),
            returned,
            failed,
            waiting_for: waiting_for.map(|(minion, _)| minion.as_str()),
            silence: self.run.silence(),
        };
        status.line()
    }

    /// Returns the minions that have not answered, and those of them that run the job.
    fn unanswered(&self) -> (Vec<&str>, Vec<&str>) {
        let minions = self
            .run
            .published()
            .minions
            .iter()
            .map(|(minion, _)| minion);
        let unanswered = self.report.unanswered(minions);
        let running = self.run.waited_for().filter(|(_, runs)| *runs);
        (
            unanswered.into_iter().map(MinionId::as_str).collect(),
            running.map(|(minion, _)| minion.as_str()).collect(),
        )
    }

    /// Asks whoever typed Ctrl-C whether to stop the job.
    async fn wish(&self, screen: &mut Screen<'_>, interruption: Interruption) -> io::Result<Wish> {
        let (unanswered, running) = self.unanswered();
        let context = Some(self.client.context());
        let minions = (&unanswered[..], &running[..]);
        interruption
            .offers_to_stop(screen, &self.look_up.jid, minions, context)
            .await
    }

    /// Stops the job: minions that have not begun it will not, and the others end it.
    async fn stop(&self, screen: &mut Screen<'_>) {
        let jid = &self.look_up.jid;
        let terminate = JobSpec::new(self.target.clone(), "saltutil.term_job")
            .with_arguments(Arguments {
                positional: vec![jid.as_str().into()],
                named: Vec::new(),
            })
            .asked_by(self.user.clone());
        let stopped = match self.client.cancel(jid).await {
            Ok(()) => self.client.run_async(terminate).await.map(drop),
            Err(error) => Err(error),
        };
        match stopped {
            Ok(()) => screen.complain(
                "Stopping the job: the minions were told to end it. Ctrl-C again leaves at once.",
            ),
            Err(error) => {
                failed(screen, &error);
            }
        }
    }

    /// Prints what has come so far, and how to go on. With `told`, the missing minions have been named.
    fn interrupted(
        self,
        screen: &mut Screen<'_>,
        interruption: Interruption,
        told: bool,
    ) -> io::Result<u8> {
        let (unanswered, running) = self.unanswered();
        let named = |minions: Vec<&str>| minions.into_iter().map(str::to_owned).collect();
        let (unanswered, running): (Vec<String>, Vec<String>) = (named(unanswered), named(running));
        let printed = self
            .report
            .interrupt(screen, self.run.expires(), &self.look_up);
        let how_far = HowFar::Published {
            look_up: &self.look_up,
            unanswered: &unanswered,
            running: &running,
            told,
        };
        // Also when nothing could be printed: Ctrl-C may have ended the reader of the output too.
        let code = interruption.leave(screen, &how_far);
        if self.run.published().batch.is_some() {
            screen.complain(batch_report::goes_on(&self.look_up));
        }
        printed.map(|()| code)
    }
}

/// Prints the jid for `--async`.
fn executed(screen: &mut Screen<'_>, format: Format, jid: &Jid) -> io::Result<u8> {
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

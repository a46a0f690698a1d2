//! `saline-cp`: copies files of this machine to minions.
//!
//! The files go to the master, in parts, as an upload with a random id. A job of `cp.recv` has their names, and the id as a
//! secret argument, so that its minions alone can fetch them. The upload is removed when the job has ended.

mod sources;
mod upload;

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use saline_client::{Client, JobSpec, SecretArguments};
use saline_config::MasterConfig;
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_messages::{ArgumentPlace, Arguments, UploadId, UploadRequest};
use saline_protocol::transport::{Clock, Registry};
use saline_targeting::CompiledTarget;

use super::about::{self, Role};
use super::follow::PublishedJob;
use super::master_away::until_answered;
use super::preview_target::{GrainsUnknown, preview_target, warn_without_pillar};
use super::{compiled, failed};
use crate::absence::LookUp;
use crate::arguments::CpArguments;
use crate::interrupt::{CommandProgress, Interrupt};
use crate::report::{Report, ReportOptions, nobody_matched};
use crate::screen::Screen;
use crate::{batch_report, exit, settings, user_name};
use sources::Sources;
use upload::{UploadError, upload};

/// The function that fetches the files.
const FUNCTION: &str = "cp.recv";

/// How long the master may take to remove an upload.
const REMOVAL: Duration = Duration::from_secs(10);

/// Carries out the command line of `saline-cp`. Returns the exit code.
///
/// # Errors
/// When the output cannot be written.
pub(crate) async fn cp(
    screen: &mut Screen<'_>,
    words: impl IntoIterator<Item = OsString>,
    registry: Registry,
) -> io::Result<u8> {
    let arguments = match CpArguments::read(words) {
        Ok(arguments) => arguments,
        Err(refused) => return refused.print(screen),
    };
    if let Some(asked) = arguments.about.asked() {
        return about::print(
            screen,
            asked,
            ("saline-cp", Role::Master),
            (&arguments.common, &arguments.output),
            &registry,
        );
    }
    let user = user_name::current();
    let Some(target) = compiled(screen, "saline-cp", arguments.target()) else {
        return Ok(exit::USAGE);
    };
    // Opened now, since `settings::prepare` may change the user of this process.
    let sources = match Sources::open(arguments.sources()) {
        Ok(sources) => sources,
        Err(line) => {
            screen.note(format!("ERROR: {}", escape_line(&line)));
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
    for line in &sources.left_out {
        screen.note(format!("WARNING: {}", escape_line(line)));
    }
    let mut interrupt = Interrupt::catch();
    let connected = tokio::select! {
        biased;
        interruption = interrupt.wait() => {
            return Ok(interruption.leave(screen, &CommandProgress::NotPublished));
        }
        connected = Client::connect(&config, &registry) => connected,
    };
    let client = match connected {
        Ok(client) => client,
        Err(error) => return Ok(failed(screen, &error)),
    };
    let code = match arguments.targeting.preview_target {
        true => {
            let include_unknown = arguments.targeting.include_unknown;
            preview_target(screen, &client, target, include_unknown, &arguments.output).await
        }
        false => {
            let order = CopyOrder {
                arguments: &arguments,
                target,
                user,
                client: &client,
                config: &config,
            };
            order.carry_out(screen, sources, &mut interrupt).await
        }
    };
    client.shutdown().await;
    code
}

/// One call of the command, with a connection to the master.
struct CopyOrder<'a> {
    arguments: &'a CpArguments,
    target: CompiledTarget,
    user: String,
    client: &'a Client,
    config: &'a MasterConfig,
}

impl CopyOrder<'_> {
    async fn carry_out(
        self,
        screen: &mut Screen<'_>,
        sources: Sources,
        interrupt: &mut Interrupt,
    ) -> io::Result<u8> {
        let Ok(id) = UploadId::random() else {
            screen.note("ERROR: the system has no randomness");
            return Ok(exit::FAILED);
        };
        let client = self.client;
        let arg = self.job_arguments(&sources);
        let uploaded = tokio::select! {
            biased;
            interruption = interrupt.wait() => Err(interruption),
            uploaded = upload(screen, client, id, sources) => Ok(uploaded),
        };
        let code = match uploaded {
            Err(interruption) => Ok(interruption.leave(screen, &CommandProgress::NotPublished)),
            Ok(Ok(warnings)) => {
                screen.warn(&warnings);
                self.publish(screen, (id, arg), interrupt).await
            }
            Ok(Err(UploadError::Master(error))) => Ok(failed(screen, &error)),
            Ok(Err(UploadError::File(line))) => {
                screen.note(format!("ERROR: {}", escape_line(&line)));
                Ok(exit::FAILED)
            }
        };
        // The master removes one that is left in a day.
        let ending = client.upload(UploadRequest::End { upload: id });
        match Clock.deadline(Clock.after(REMOVAL), ending).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!("the master keeps the files for a day: {error}"),
            Err(_) => tracing::warn!("the master keeps the files for a day: it does not answer"),
        }
        code
    }

    /// Returns the arguments of the job, but for the secret one.
    fn job_arguments(&self, sources: &Sources) -> Arguments {
        let mut destination = self.arguments.destination().to_owned();
        if sources.into_folder && !destination.ends_with('/') {
            destination.push('/');
        }
        let mut named = vec![
            ("files".to_owned(), sources.as_argument()),
            ("dest".to_owned(), Value::from(destination)),
        ];
        if !sources.folders.is_empty() {
            let folders = sources.folders.iter().map(String::as_str);
            named.push(("folders".to_owned(), Value::texts(folders)));
        }
        Arguments {
            positional: Vec::new(),
            named,
        }
    }

    /// Has the minions fetch the upload, and follows the job to its end.
    async fn publish(
        self,
        screen: &mut Screen<'_>,
        (id, arg): (UploadId, Arguments),
        interrupt: &mut Interrupt,
    ) -> io::Result<u8> {
        let (arguments, client) = (self.arguments, self.client);
        let options = settings::options_to_repeat(&arguments.common);
        let secret = (ArgumentPlace::named("upload"), Value::from(id.to_text()));
        let spec = JobSpec::new(self.target.clone(), FUNCTION)
            .including_unknown(arguments.targeting.include_unknown)
            .with_arguments(arg)
            .with_secrets(SecretArguments(vec![secret]))
            .asked_by(self.user.clone())
            .with_timeout(arguments.timeout)
            .with_subset(arguments.targeting.subset);
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
        let published = run.published();
        GrainsUnknown::after(arguments.targeting.include_unknown)
            .warn(screen, &published.without_grains);
        warn_without_pillar(screen, &published.without_pillar);
        screen.warn(&published.warnings);
        let Some(jid) = run.jid().cloned() else {
            let expression = arguments.target().expression;
            let is_subset = arguments.targeting.subset.is_some();
            return nobody_matched(screen, format, &expression, is_subset);
        };
        if let Some(batch) = run.published().batch {
            screen.note(batch_report::unasked(run.published().minions.len(), &batch));
        }
        let report = Report::new(ReportOptions {
            format,
            style: arguments.output.style(screen),
            as_group: false,
            documentation: false,
            hide_absent: false,
            heartbeat: self.config.heartbeat_interval,
            summary: false,
        });
        let job = PublishedJob {
            client,
            target: self.target,
            user: self.user,
            look_up: LookUp { jid, options },
            run,
            report,
            shows_progress: arguments.progress,
        };
        job.follow(screen, interrupt).await
    }
}

//! Runs `test.ping` and a command on all minions, from a program of your own.
//!
//! `cargo run --example embedding -- /etc/saline`

use std::error::Error;
use std::path::Path;

use saline_client::{Client, JobSpec, Progress};
use saline_config::MasterConfig;
use saline_messages::Arguments;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1);
    let folder = folder.unwrap_or_else(|| "/etc/saline".to_owned());
    print!("{}", ask_all(Path::new(&folder)).await?);
    Ok(())
}

/// Runs two jobs on the minions of the master whose configuration is in `folder`, and returns a line for each answer.
///
/// # Errors
/// When the configuration cannot be read, no master answers, or it refuses a job.
pub async fn ask_all(folder: &Path) -> Result<String, Box<dyn Error>> {
    let registry = saline_transports::registry();
    let schemes: Vec<&str> = registry.schemes().collect();
    let loaded = MasterConfig::load(folder, &schemes)?;
    let client = Client::connect(&loaded.config, &registry).await?;
    let mut command = Arguments::default();
    command.positional.push("echo hello".into());
    let jobs = [
        JobSpec::glob("*", "test.ping")?,
        JobSpec::glob("*", "cmd.run")?.with_arguments(command),
    ];
    let mut answers = String::new();
    for job in jobs {
        let mut run = client.run(job).await?;
        while let Some(progress) = run.next().await? {
            match progress {
                Progress::Returned(answer) => {
                    let (minion, value) = (answer.minion, answer.value);
                    answers +=
                        &format!("{minion} returned {value:?}, retcode {}\n", answer.retcode);
                }
                Progress::Absent(absent) => {
                    let (minion, why) = (absent.name, absent.absence.name());
                    answers += &format!("{minion} did not return: {why}\n");
                }
                // The job is waited for; further kinds of progress may come with later versions.
                _ => {}
            }
        }
    }
    client.shutdown().await;
    Ok(answers)
}

//! Makes the destination of a name out of the configuration.

use saline_config::{ReturnerConfig, ReturnerName};
use saline_exec::Launcher;
use saline_protocol::transport::Context;

use crate::Destination;
use crate::executable::Executable;
use crate::http::Http;
use crate::local::LocalFile;
use crate::postgres::Postgres;
use crate::sqlite3::Sqlite3;

/// Returns the destination of this name. Nothing is connected or opened before the first delivery.
///
/// # Errors
/// When the configuration lacks what the destination needs; the text names the option.
pub fn open(
    name: ReturnerName,
    config: &ReturnerConfig,
    launcher: &Launcher,
    context: &Context,
) -> Result<Box<dyn Destination>, String> {
    let missing = || format!("{name} needs {}", name.needed_option());
    if !config.is_configured(name) {
        return Err(missing());
    }
    let context = context.clone();
    Ok(match name {
        ReturnerName::Local => {
            let file = config.local_file.clone().ok_or_else(missing)?;
            Box::new(LocalFile::new(file, context))
        }
        ReturnerName::Sqlite3 => {
            let database = config.sqlite3_database.clone().ok_or_else(missing)?;
            Box::new(Sqlite3::new(database, context))
        }
        ReturnerName::Executable => {
            let settings = config.executable.clone();
            Box::new(Executable::new(settings, launcher.clone(), context)?)
        }
        ReturnerName::Http => Box::new(Http::new(config.http.clone(), context)?),
        ReturnerName::Postgres => Box::new(Postgres::new(config.postgres.clone(), context)),
    })
}

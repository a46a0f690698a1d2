//! Enables and masks units.

use saline_data::Value;
use saline_functions::{Failure, function};

use super::old_and_new;
use super::systemd::{FileVerb, ask};
use super::unit_name::UnitName;
use crate::JobContext;

/// Lets a service start with the machine. Returns `True`.
///
/// name
///     The name of a unit; without a suffix, that of a service.
///
/// test
///     `True` returns which state would change, as `{unit: {old, new}}`, and changes nothing.
///
/// CLI Example:
///
///     saline '*' service.enable nginx
#[function(changes)]
pub(super) fn enable(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    change_files(job, FileVerb::Enable, &name, false, test)
}

/// Lets a service not start with the machine. The parameters and the return are those of `service.enable`.
///
/// CLI Example:
///
///     saline '*' service.disable nginx
#[function(changes)]
pub(super) fn disable(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    change_files(job, FileVerb::Disable, &name, false, test)
}

/// Masks a service: nothing starts it until `service.unmask`. One that runs goes on. Returns `True`.
///
/// runtime
///     `True` masks it until the machine starts again.
///
/// CLI Example:
///
///     saline '*' service.mask nginx
#[function(changes)]
pub(super) fn mask(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] runtime: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    change_files(job, FileVerb::Mask, &name, runtime, test)
}

/// Ends the masking of a service. The parameters and the return are those of `service.mask`.
///
/// CLI Example:
///
///     saline '*' service.unmask nginx
#[function(changes)]
pub(super) fn unmask(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] runtime: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    change_files(job, FileVerb::Unmask, &name, runtime, test)
}

/// Whether a service starts with the machine, or with another unit that does.
///
/// CLI Example:
///
///     saline '*' service.enabled nginx
#[function]
pub(super) fn enabled(job: &JobContext<'_>, name: UnitName) -> Result<bool, Failure> {
    ask(job, false, async |systemd| {
        Ok(is_enabled(&systemd.file_state(&name).await?))
    })
}

/// Whether `service.enabled` is `False` for a service.
///
/// CLI Example:
///
///     saline '*' service.disabled nginx
#[function]
pub(super) fn disabled(job: &JobContext<'_>, name: UnitName) -> Result<bool, Failure> {
    enabled(job, name).map(|enabled| !enabled)
}

/// Whether a service is masked.
///
/// CLI Example:
///
///     saline '*' service.masked nginx
#[function]
pub(super) fn masked(job: &JobContext<'_>, name: UnitName) -> Result<bool, Failure> {
    ask(job, false, async |systemd| {
        Ok(systemd.file_state(&name).await?.starts_with("masked"))
    })
}

fn change_files(
    job: &JobContext<'_>,
    verb: FileVerb,
    unit: &UnitName,
    runtime: bool,
    test: bool,
) -> Result<Value, Failure> {
    ask(job, true, async |systemd| {
        if !test {
            systemd.change_files(verb, unit, runtime).await?;
            return Ok(Value::Bool(true));
        }
        let old = systemd.file_state(unit).await?;
        if old.is_empty() && verb != FileVerb::Mask {
            return Err(Failure::Execution(format!("{unit} does not exist")));
        }
        let is_masked = old.starts_with("masked");
        let (new, is_so) = match verb {
            FileVerb::Enable => ("enabled", is_enabled(&old)),
            FileVerb::Disable => ("disabled", !old.starts_with("enabled")),
            FileVerb::Mask => ("masked", is_masked),
            FileVerb::Unmask => ("not masked", !is_masked),
        };
        Ok(old_and_new(unit, &old, new, is_so))
    })
}

/// Whether a state of a file is one that `systemctl is-enabled` calls enabled.
fn is_enabled(state: &str) -> bool {
    matches!(
        state,
        "enabled" | "enabled-runtime" | "static" | "alias" | "indirect" | "generated"
    )
}

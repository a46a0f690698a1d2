//! `--preview-target`: the minions that a target includes, and the warning about those whose grains the master does
//! not know.

use std::io;

use saline_client::Client;
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_messages::MinionId;
use saline_targeting::CompiledTarget;

use super::failed;
use crate::arguments::OutputOptions;
use crate::exit;
use crate::names::counted;
use crate::screen::Screen;

/// Prints the minions that a target includes, as a list. Returns the exit code.
///
/// # Errors
/// When the output cannot be written.
pub(super) async fn preview_target(
    screen: &mut Screen<'_>,
    client: &Client,
    target: CompiledTarget,
    output: &OutputOptions,
) -> io::Result<u8> {
    let matches = match client.match_target(target).await {
        Ok(matches) => matches,
        Err(error) => return Ok(failed(screen, &error)),
    };
    for name in &matches.unknown {
        screen.note(escape_line(&format!("WARNING: no minion is called {name}")));
    }
    if !matches.unsure.is_empty() {
        screen.note(format!(
            "WARNING: the master does not know the grains of {}: they get the job and decide themselves",
            counted(&matches.unsure)
        ));
    }
    let ids = Value::texts(matches.minions.iter().map(MinionId::as_str));
    let format = output.format();
    if matches.minions.is_empty() {
        screen.prose(format.is_for_programs(), "No minions matched the target.")?;
    }
    if (!matches.minions.is_empty() || format.is_for_programs())
        && let Some(text) = format.render(&ids, output.style(screen), false)
    {
        screen.line(text)?;
    }
    Ok(match matches.minions.is_empty() {
        true => exit::NOBODY,
        false => exit::GOOD,
    })
}

/// Warns of minions that got a job though the master knows no grains of them.
pub(super) fn warn_of_unsure(screen: &mut Screen<'_>, unsure: &[MinionId]) {
    if !unsure.is_empty() {
        screen.note(format!(
            "WARNING: the master does not know the grains of {}: they got the job and decide themselves",
            counted(unsure)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Printed;

    #[test]
    fn minions_without_grains_are_named() {
        let warned = |count: usize| {
            let ids: Vec<MinionId> = (0..count)
                .map(|number| MinionId::parse(&format!("m{number}")).unwrap())
                .collect();
            let mut printed = Printed::default();
            warn_of_unsure(&mut printed.screen(&[]), &ids);
            String::from_utf8(printed.err).unwrap()
        };
        assert_eq!(warned(0), "");
        insta::assert_snapshot!(warned(1), @"WARNING: the master does not know the grains of 1 minion (m0): they got the job and decide themselves");
        insta::assert_snapshot!(warned(7), @"WARNING: the master does not know the grains of 7 minions (m0, m1, m2, m3, m4, m5, m6): they got the job and decide themselves");
    }
}

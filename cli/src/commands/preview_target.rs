//! `--preview-target`: the minions that a target includes, and the warnings about those whose grains or pillar the master does
//! not know.

use std::io;

use saline_client::Client;
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_messages::MinionId;
use saline_targeting::CompiledTarget;

use super::failed;
use super::master_away::until_answered;
use crate::arguments::OutputOptions;
use crate::exit;
use crate::names::counted;
use crate::screen::Screen;

/// What becomes of minions that have reported no grains, where the target depends on these.
#[derive(Debug, Clone, Copy)]
pub(super) enum GrainsUnknown {
    /// They are no part of the target.
    LeftOut,
    /// They would get the job.
    WouldGetIt,
    /// They got the job.
    GotIt,
}

impl GrainsUnknown {
    /// Returns what became of them when a job was published.
    pub(super) fn after(include_unknown: bool) -> Self {
        match include_unknown {
            true => Self::GotIt,
            false => Self::LeftOut,
        }
    }

    /// Names the minions, if there are any.
    pub(super) fn warn(self, screen: &mut Screen<'_>, minions: &[MinionId]) {
        if minions.is_empty() {
            return;
        }
        let then = match self {
            Self::LeftOut => "the target does not include them; --include-unknown asks them too",
            Self::WouldGetIt => "they get the job and decide themselves",
            Self::GotIt => "they got the job and decide themselves",
        };
        screen.note(format!(
            "WARNING: the master does not know the grains of {}: {then}",
            counted(minions)
        ));
    }
}

/// Names the minions that a target by pillar does not include because the master has no pillar of theirs, if there are any.
pub(super) fn warn_without_pillar(screen: &mut Screen<'_>, minions: &[MinionId]) {
    if !minions.is_empty() {
        screen.note(format!(
            "WARNING: the master has no pillar of {}: the target does not include them; the log of the master says why",
            counted(minions)
        ));
    }
}

/// Prints the minions that a target includes, as a list. Returns the exit code.
///
/// # Errors
/// When the output cannot be written.
pub(super) async fn preview_target(
    screen: &mut Screen<'_>,
    client: &Client,
    target: CompiledTarget,
    include_unknown: bool,
    output: &OutputOptions,
) -> io::Result<u8> {
    let asking = client.match_target(target, include_unknown);
    let matches = match until_answered(screen, client, asking).await {
        Ok(matches) => matches,
        Err(error) => return Ok(failed(screen, &error)),
    };
    for name in &matches.unknown {
        screen.note(escape_line(&format!("WARNING: no minion is called {name}")));
    }
    let grains_unknown = match include_unknown {
        true => GrainsUnknown::WouldGetIt,
        false => GrainsUnknown::LeftOut,
    };
    grains_unknown.warn(screen, &matches.without_grains);
    warn_without_pillar(screen, &matches.without_pillar);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Printed;

    #[test]
    fn minions_without_grains_are_named() {
        let warned = |became: GrainsUnknown, count: usize| {
            let ids: Vec<MinionId> = (0..count)
                .map(|number| MinionId::parse(&format!("m{number}")).unwrap())
                .collect();
            let mut printed = Printed::default();
            became.warn(&mut printed.screen(&[]), &ids);
            String::from_utf8(printed.err).unwrap()
        };
        assert_eq!(warned(GrainsUnknown::after(false), 0), "");
        insta::assert_snapshot!(warned(GrainsUnknown::after(false), 1), @"WARNING: the master does not know the grains of 1 minion (m0): the target does not include them; --include-unknown asks them too");
        insta::assert_snapshot!(warned(GrainsUnknown::after(false), 22), @"WARNING: the master does not know the grains of 22 minions (m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19 and 2 more): the target does not include them; --include-unknown asks them too");
        insta::assert_snapshot!(warned(GrainsUnknown::after(true), 7), @"WARNING: the master does not know the grains of 7 minions (m0, m1, m2, m3, m4, m5, m6): they got the job and decide themselves");
        insta::assert_snapshot!(warned(GrainsUnknown::WouldGetIt, 1), @"WARNING: the master does not know the grains of 1 minion (m0): they get the job and decide themselves");
    }

    #[test]
    fn minions_without_a_pillar_are_named() {
        let mut printed = Printed::default();
        let ids = ["m1", "m2"].map(|id| MinionId::parse(id).unwrap());
        warn_without_pillar(&mut printed.screen(&[]), &[]);
        warn_without_pillar(&mut printed.screen(&[]), &ids);
        insta::assert_snapshot!(String::from_utf8(printed.err).unwrap(), @"WARNING: the master has no pillar of 2 minions (m1, m2): the target does not include them; the log of the master says why");
    }
}

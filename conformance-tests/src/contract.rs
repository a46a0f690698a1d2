//! The book of the contract, written from the requirements.

use std::fmt::Write;

use crate::requirements::AREAS;
use crate::{Level, requirements};

const INTRODUCTION: &str = "\
# The transport contract

<!-- Written from the requirements in conformance-tests/src/requirements: SALINE_WRITE_DOCS=1 cargo test -p saline-conformance --test contract -->

What every transport backend keeps, so that nobody above has to know which one is configured. The
traits are in `saline_protocol::transport`; each sentence below is checked by a requirement of the
conformance suite under the same id. An id is never used again for anything else.

MUST: without it a backend is not one. SHOULD: a backend that does without declares a known gap, with
its reason. Where a requirement applies only to some backends, what they declare decides, before
anything runs.

Time-outs and link pings come from `Limits`; the suite sets pings of 500 ms where silence or a loss is tested.
Where an upper bound on time is promised, the suite waits three times as long; lower bounds are exact.
";

/// The page `docs/transport-contract.md`.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    let count = |level| requirements::all().filter(|own| own.level == level).count();
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "\n{} requirements: {} MUST, {} SHOULD, {} MAY.",
        requirements::all().count(),
        count(Level::Must),
        count(Level::Should),
        count(Level::May),
    );
    for area in AREAS {
        let _ = writeln!(page, "\n## {}: {}", area.letters, area.title);
        for own in area.requirements {
            let name = own.name.replace('_', " ");
            let _ = writeln!(
                page,
                "\n### {} {name}\n\n**{}** {}",
                own.id, own.level, own.sentence
            );
            let _ = writeln!(page, "\n- Why: {}", own.why);
            let _ = writeln!(page, "- If this fails, look at: {}", own.look_at);
            let needs: Vec<_> = own.needs.iter().map(|need| need.in_words()).collect();
            if !needs.is_empty() {
                let _ = writeln!(page, "- Checked only {}", needs.join(", and "));
            }
        }
    }
    page
}

//! The requirements, one file or folder for each area.

mod cancellation;
mod connections;
mod hostile;
mod limits;
mod local;
mod observability;
mod publications;
mod requests;
mod shutdown;

use crate::Requirement;

/// Requirements that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Area {
    /// What their ids begin with.
    pub letters: &'static str,
    /// What they are about.
    pub title: &'static str,
    /// They themselves, in the order of their ids.
    pub requirements: &'static [Requirement],
}

const fn area(
    letters: &'static str,
    title: &'static str,
    requirements: &'static [Requirement],
) -> Area {
    Area {
        letters,
        title,
        requirements,
    }
}

/// Every area, in the order of the book.
pub const AREAS: &[Area] = &[
    area("REQ", "requests and replies", requests::ALL),
    area("PUB", "publications and subscriptions", publications::ALL),
    area(
        "LIM",
        "bounds, the same on every backend to the byte",
        limits::ALL,
    ),
    area(
        "CON",
        "connecting, losing the connection, and coming back",
        connections::ALL,
    ),
    area("CAN", "futures that are dropped", cancellation::ALL),
    area("SHU", "ending, gracefully and not", shutdown::ALL),
    area("SEC", "hostile bytes", hostile::ALL),
    area(
        "BUS",
        "local endpoints, for the local event bus and the command line",
        local::ALL,
    ),
    area(
        "OBS",
        "what is declared, refused and counted",
        observability::ALL,
    ),
];

/// All requirements, area by area.
pub fn all() -> impl Iterator<Item = &'static Requirement> {
    AREAS.iter().flat_map(|area| area.requirements)
}

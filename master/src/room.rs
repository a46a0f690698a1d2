//! How many connections the master takes over each transport: by `connections` and by the limit of open files.

use saline_config::MasterConfig;
use saline_protocol::transport::{Capabilities, Limits};

/// What bounds the connections at one place where the master listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// `connections` of the transport's section.
    pub(crate) connections: usize,
    /// The descriptors that they may take, all together; `None` where they take none, or where the system sets no limit.
    pub(crate) descriptors: Option<usize>,
    /// How many descriptors a minion takes.
    each: usize,
}

impl Room {
    /// Returns the room at one of `places` places that share `descriptors`, over a transport that can do `able`.
    pub(crate) fn new(
        connections: Option<usize>,
        able: &Capabilities,
        descriptors: Option<usize>,
        places: usize,
    ) -> Self {
        let each = descriptors_of_a_minion(able);
        Self {
            connections: connections.unwrap_or(Limits::default().connections),
            descriptors: descriptors
                .filter(|_| each > 0)
                .map(|all| all / places.max(1)),
            each,
        }
    }

    /// Returns for how many minions there is room.
    fn minions(&self) -> usize {
        self.connections.min(self.by_descriptors())
    }

    fn by_descriptors(&self) -> usize {
        let minions = |descriptors| descriptors / self.each.max(1);
        self.descriptors.map_or(usize::MAX, minions)
    }
}

/// Returns how many descriptors of the master a minion takes over a transport that can do `able`.
pub(crate) fn descriptors_of_a_minion(able: &Capabilities) -> usize {
    match (able.shared_socket, able.publications_apart) {
        (true, _) => 0,
        (false, true) => 2,
        (false, false) => 1,
    }
}

/// Returns for how many minions there is room over each of `transports`, and what makes it larger: the end of a line of the log.
pub(crate) fn told(
    config: &MasterConfig,
    descriptors: Option<usize>,
    transports: &[(String, Capabilities)],
) -> String {
    let takes = |(_, able): &&(String, Capabilities)| descriptors_of_a_minion(able) > 0;
    let places = transports.iter().filter(takes).count();
    let rooms = transports.iter().map(|(scheme, able)| {
        let room = Room::new(config.connections(scheme), able, descriptors, places);
        (scheme, room)
    });
    let (mut by_descriptors, mut by_connections) = (false, false);
    let told = rooms.map(|(scheme, room)| {
        by_descriptors |= room.by_descriptors() < room.connections;
        by_connections |= room.connections <= room.by_descriptors();
        format!("about {} minions over {scheme}", room.minions())
    });
    let told: Vec<String> = told.collect();
    let more = match (by_descriptors, by_connections) {
        (true, false) => "a higher limit of open files (ulimit -Hn, LimitNOFILE)",
        (false, _) => "a higher `connections` in the section of the transport",
        (true, true) => {
            "a higher limit of open files (ulimit -Hn, LimitNOFILE), or a higher `connections` in the section of the transport"
        }
    };
    format!("room for {}; more with {more}", told.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_that_of_the_transports_that_are_served() {
        // Each is named after the descriptors that a minion takes over it.
        let with = |config: &MasterConfig, descriptors, names: &[&str]| {
            let able = |name: &str| match name {
                "two" => Capabilities::new(1).with_publications_apart(),
                "none" => Capabilities::new(1).with_shared_socket(),
                _ => Capabilities::new(1),
            };
            let transports = names.iter().map(|name| ((*name).to_owned(), able(name)));
            told(config, descriptors, &transports.collect::<Vec<_>>())
        };
        let mut config = MasterConfig::default();
        let files = "a higher limit of open files (ulimit -Hn, LimitNOFILE)";
        let option = "a higher `connections` in the section of the transport";
        assert_eq!(
            with(&config, Some(19_872), &["one"]),
            format!("room for about 19872 minions over one; more with {files}")
        );
        assert_eq!(
            with(&config, Some(19_872), &["two"]),
            format!("room for about 9936 minions over two; more with {files}")
        );
        assert_eq!(
            with(&config, Some(19_872), &["two", "one", "none"]),
            format!(
                "room for about 4968 minions over two and about 9936 minions over one and about 65536 minions over none; more \
                 with {files}, or {option}"
            ),
            "what takes descriptors shares them"
        );
        assert_eq!(
            with(&config, None, &["one"]),
            format!("room for about 65536 minions over one; more with {option}")
        );
        let section = config.listen.entry("none".to_owned()).or_default();
        section.connections = Some(100_000);
        assert_eq!(
            with(&config, Some(1024), &["none"]),
            format!("room for about 100000 minions over none; more with {option}")
        );
    }
}

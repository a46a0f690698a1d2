//! The options of roles that connect to a master: where it is, which key it has, and under which name they come.

use saline_messages::MinionId;
use saline_protocol::transport::HostPort;

use crate::role::ConnectingRole;
use crate::{OptionDoc, Secrecy};

pub(super) const fn master_port<C: ConnectingRole>() -> OptionDoc<C> {
    OptionDoc {
        name: "master_port",
        secrecy: Secrecy::Public,
        unit: "port",
        default: "4506",
        help: "The master's port for requests, if `master` contains no port. In a transport's section: the port \
               for that transport, whatever `master` contains.",
        read: |config, given| {
            let port = given.whole(1..=65_535, "a port from 1 to 65535")?;
            *config.master_port() = port;
            for master in config.master() {
                master.port = port;
            }
            Ok(())
        },
    }
}

pub(super) const fn master<C: ConnectingRole>() -> OptionDoc<C> {
    OptionDoc {
        name: "master",
        secrecy: Secrecy::Public,
        unit: "host, host:port, or a list of them",
        default: "salt",
        help: "The addresses of the master, tried in this order.",
        read: |config, given| {
            let port = *config.master_port();
            *config.master() = given.texts("a host, host:port, or a list of them", |text| {
                let at = HostPort::parse(text, port)
                    .map_err(|_| format!("takes a host or host:port, not {text:?}"))?;
                if at.port == 0 {
                    return Err(format!("takes a port from 1 to 65535 in {text:?}"));
                }
                Ok(at)
            })?;
            Ok(())
        },
    }
}

pub(super) const fn master_finger<C: ConnectingRole>() -> OptionDoc<C> {
    OptionDoc {
        name: "master_finger",
        secrecy: Secrecy::Public,
        unit: "fingerprint",
        default: "",
        help: "The master's fingerprint, as `saline-key -F master` prints it on the master; \
               another master is refused, unless it has replaced that key since \
               (`docs/identity.md`). Not set: the first master that answers is trusted from then \
               on.",
        read: |config, given| {
            *config.master_finger() = given.optional(|given| {
                given.checked("a fingerprint", |text| {
                    let digits = text.trim().replace(':', "");
                    if digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                        Ok(text.trim().to_owned())
                    } else {
                        Err("takes a fingerprint: 32 pairs of hexadecimal digits".to_owned())
                    }
                })
            })?;
            Ok(())
        },
    }
}

pub(super) const fn id<C: ConnectingRole>(help: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "id",
        secrecy: Secrecy::Public,
        unit: "1 to 255 of A-Z a-z 0-9 . _ -",
        default: "",
        help,
        read: |config, given| {
            *config.id() = given.optional(|given| {
                given.checked("an id", |text| {
                    MinionId::parse(text).map_err(|error| format!("takes an id: {error}"))
                })
            })?;
            Ok(())
        },
    }
}

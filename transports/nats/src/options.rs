//! The options of the section `nats`.

use std::path::PathBuf;

use saline_protocol::transport::{
    Address, Endpoint, Error, ErrorKind, HostPort, OptionKind, OptionSpec, Options, Result,
};
use zeroize::Zeroizing;

use crate::client::Authentication;
use crate::subjects::Subjects;

/// The port of a server whose port is not given.
const PORT: u16 = 4222;

const fn option(
    name: &'static str,
    kind: OptionKind,
    secret: bool,
    help: &'static str,
) -> OptionSpec {
    OptionSpec {
        name,
        kind,
        secret,
        help,
    }
}

pub(crate) const SPECS: &[OptionSpec] = &[
    option(
        "servers",
        OptionKind::List,
        false,
        "the servers of NATS, as host:port, taken in random order; a minion without it takes the addresses of `master`",
    ),
    option(
        "subject",
        OptionKind::Text,
        false,
        "what all subjects of one master and its minions begin with; saline",
    ),
    option(
        "name",
        OptionKind::Text,
        false,
        "the name of the connection in what nats-server shows; saline",
    ),
    option(
        "credentials",
        OptionKind::Text,
        false,
        "the path of a file of credentials (.creds); none",
    ),
    option(
        "nkey",
        OptionKind::Text,
        false,
        "the path of a file with the seed of a user's nkey; none",
    ),
    option("user", OptionKind::Text, false, "the user; none"),
    option(
        "password",
        OptionKind::Text,
        true,
        "the user's password; none",
    ),
    option(
        "token",
        OptionKind::Text,
        true,
        "the token that all share; none",
    ),
];

/// What an endpoint asks for.
#[derive(Debug)]
pub(crate) struct NatsOptions {
    /// The endpoint with the servers of NATS as its addresses.
    pub(crate) endpoint: Endpoint,
    pub(crate) subjects: Subjects,
    pub(crate) name: String,
    pub(crate) authentication: Authentication,
}

impl NatsOptions {
    /// Reads the options of an endpoint that is served. Its addresses are where other transports listen, so the options have to
    /// name the servers of NATS.
    ///
    /// # Errors
    /// As [`read`](Self::read), and `Config` when no server is named.
    pub(crate) fn read_to_serve(endpoint: &Endpoint) -> Result<Self> {
        let is_network = matches!(endpoint.address, Address::Network { .. });
        if is_network && endpoint.options.list("servers").is_empty() {
            return Err(no_servers());
        }
        Self::read(endpoint)
    }

    /// Reads the options of an endpoint that is dialled. Its addresses are those of servers of NATS where the options name none.
    ///
    /// # Errors
    /// `Config` for a value that cannot be, and for two ways to log in.
    pub(crate) fn read(endpoint: &Endpoint) -> Result<Self> {
        let options = &endpoint.options;
        let Address::Network { addresses, path } = &endpoint.address else {
            return Err(bad(format!("{endpoint}: NATS has no local endpoints")));
        };
        let mut servers = named_servers(options)?;
        if servers.is_empty() {
            servers.clone_from(addresses);
        }
        let is_nowhere = |at: &HostPort| {
            let address = at.as_socket_address();
            address.is_some_and(|address| address.ip().is_unspecified())
        };
        if servers.is_empty() || servers.iter().any(is_nowhere) {
            return Err(no_servers());
        }
        let subjects = subjects(options)?;
        Ok(Self {
            endpoint: Endpoint {
                scheme: endpoint.scheme.clone(),
                address: Address::Network {
                    addresses: servers,
                    path: path.clone(),
                },
                options: options.clone(),
            },
            subjects,
            name: options.text("name").unwrap_or("saline").to_owned(),
            authentication: authentication(options)?,
        })
    }

    /// Returns how many servers there are.
    pub(crate) fn servers(&self) -> usize {
        match &self.endpoint.address {
            Address::Network { addresses, .. } => addresses.len(),
            Address::Local(_) => 1,
        }
    }

    /// Returns the endpoint with its servers in random order, so that a fleet spreads over them.
    pub(crate) fn shuffled(&self) -> Endpoint {
        let mut endpoint = self.endpoint.clone();
        if let Address::Network { addresses, .. } = &mut endpoint.address {
            for last in (1..addresses.len()).rev() {
                let mut bytes = [0; 4];
                // Without randomness the order stays, which is worse but not wrong.
                if getrandom::fill(&mut bytes).is_ok() {
                    addresses.swap(last, u32::from_le_bytes(bytes) as usize % (last + 1));
                }
            }
        }
        endpoint
    }
}

/// Returns the subjects of a master.
///
/// # Errors
/// `Config` for a prefix that cannot be.
pub(crate) fn subjects(options: &Options) -> Result<Subjects> {
    let subject = options.text("subject").unwrap_or("saline");
    Subjects::parse(subject).ok_or_else(|| {
        bad(format!(
            "nats:subject {subject:?}: it takes letters, digits, _ and -, with dots between"
        ))
    })
}

/// Checks these options as far as they do not depend on who uses them.
///
/// # Errors
/// `Config` for a value that cannot be, and for two ways to log in.
pub(crate) fn check(options: &Options) -> Result<()> {
    named_servers(options)?;
    subjects(options)?;
    authentication(options).map(drop)
}

/// Returns the servers of NATS that the options name.
fn named_servers(options: &Options) -> Result<Vec<HostPort>> {
    let parse = |server: &String| {
        let bare = server.strip_prefix("nats://").unwrap_or(server);
        HostPort::parse(bare, PORT)
    };
    options.list("servers").iter().map(parse).collect()
}

fn authentication(options: &Options) -> Result<Authentication> {
    let text = |name| options.text(name);
    let secret = |name| text(name).map(|text| Zeroizing::new(text.to_owned()));
    let ways = ["credentials", "nkey", "user", "token"];
    let given: Vec<&str> = ways.into_iter().filter(|way| text(way).is_some()).collect();
    if let [first, second, ..] = given.as_slice() {
        return Err(bad(format!(
            "nats:{first} and nats:{second} are two ways to log in: leave one out"
        )));
    }
    let password = secret("password");
    if password.is_some() && text("user").is_none() {
        return Err(bad("nats:password is set, and nats:user is not"));
    }
    if let Some(path) = text("credentials") {
        return Ok(Authentication::Credentials(PathBuf::from(path)));
    }
    if let Some(path) = text("nkey") {
        return Ok(Authentication::Nkey(PathBuf::from(path)));
    }
    if let Some(user) = text("user") {
        return Ok(Authentication::User(user.to_owned(), password));
    }
    Ok(secret("token").map_or(Authentication::Nothing, Authentication::Token))
}

fn no_servers() -> Error {
    bad("nats:servers has to name the servers of NATS: `nats: {servers: [nats1:4222, nats2:4222]}`")
}

pub(crate) fn bad(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, why.into())
}

#[cfg(test)]
mod tests {
    use saline_protocol::transport::OptionValue;

    use super::*;

    fn endpoint(host: &str, options: &[(&str, &str)]) -> Result<Endpoint> {
        let text = |(name, value): &(&str, &str)| {
            let value = OptionValue::Text((*value).to_owned());
            ((*name).to_owned(), value)
        };
        let options = Options::check(SPECS, options.iter().map(text))?;
        let at = HostPort::new(host, 4506);
        Ok(Endpoint::network("nats", at).with_options(options))
    }

    fn read(host: &str, options: &[(&str, &str)]) -> Result<NatsOptions> {
        NatsOptions::read(&endpoint(host, options)?)
    }

    fn why(host: &str, options: &[(&str, &str)]) -> String {
        let error = read(host, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    }

    #[test]
    fn servers_are_those_of_the_section_or_of_the_endpoint() {
        let shown = |host, options: &[_]| read(host, options).unwrap().endpoint.to_string();
        assert_eq!(shown("nats1", &[]), "nats://nats1:4506");
        let section = [("servers", "nats://nats2")];
        assert_eq!(shown("nats1", &section), "nats://nats2:4222");
        assert_eq!(shown("0.0.0.0", &section), "nats://nats2:4222");
    }

    #[test]
    fn a_master_without_servers_is_told_what_to_set() {
        assert!(why("0.0.0.0", &[]).contains("nats:servers"));
        assert!(why("::", &[]).contains("nats:servers"));
    }

    #[test]
    fn what_a_master_listens_on_is_no_server_of_nats() {
        let empty = ("servers".to_owned(), OptionValue::List(Vec::new()));
        let empty = Options::check(SPECS, [empty]).unwrap();
        let unnamed = endpoint("192.0.2.1", &[]).unwrap();
        for at in [unnamed.clone(), unnamed.with_options(empty)] {
            let error = NatsOptions::read_to_serve(&at).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("nats:servers"), "{error}");
        }
        let named = endpoint("192.0.2.1", &[("servers", "nats2")]).unwrap();
        let read = NatsOptions::read_to_serve(&named).unwrap();
        assert_eq!(read.endpoint.to_string(), "nats://nats2:4222");
    }

    #[test]
    fn there_is_one_way_to_log_in() {
        let error = why("n", &[("nkey", "/a"), ("token", "hunter2")]);
        assert!(error.contains("nats:nkey and nats:token"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        let error = why("n", &[("password", "hunter2")]);
        assert!(error.contains("nats:user is not"), "{error}");
        assert!(read("n", &[("user", "u"), ("password", "p")]).is_ok());
    }

    #[test]
    fn a_subject_that_cannot_be_is_refused() {
        assert!(why("n", &[("subject", "a.*")]).contains("nats:subject"));
    }

    #[test]
    fn all_servers_are_there_in_whatever_order() {
        let servers: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
        let given = [("servers".to_owned(), OptionValue::List(servers.clone()))];
        let options = Options::check(SPECS, given).unwrap();
        let endpoint = Endpoint::network("nats", HostPort::new("m", 1)).with_options(options);
        let Address::Network { addresses, .. } =
            NatsOptions::read(&endpoint).unwrap().shuffled().address
        else {
            panic!("no network");
        };
        let mut hosts: Vec<String> = addresses.into_iter().map(|at| at.host).collect();
        hosts.sort();
        assert_eq!(hosts, servers);
    }
}

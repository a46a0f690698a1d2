//! `nats`: what a nats-server is told about the master and its minions.

use saline_functions::{Failure, function};
use saline_protocol::transport::{BrokerUsers, Options};

use super::run::Run;
use super::{Functions, Returned};

pub(super) const FUNCTIONS: Functions = &[&PERMISSIONS];

/// The transport that the module is about.
const TRANSPORT: &str = "nats";

/// Returns the section `authorization` for the configuration of nats-server: the users of the master and of minions, each with the
/// subjects that it needs and no other. The password of a user is a variable, which the file sets above the section, or the
/// environment of nats-server: `password_web1: "$2a$11$…"`. A user that is the public key of an nkey has none.
///
/// minions
///     The users of minions: one for each minion, or one that all of them share, which is `minion` where none is given.
///
/// master
///     The user of the master; the option `user` of its section `nats` where none is given, and `master` without one.
///
/// CLI Example:
///
///     saline-run nats.permissions
///     saline-run nats.permissions web1 web2 db1
///     saline-run nats.permissions UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4 master=saline
#[function]
async fn permissions(
    run: &Run,
    #[args] minions: Vec<String>,
    #[default("")] master: String,
) -> Result<Returned, Failure> {
    let failed = |error: saline_protocol::transport::Error| Failure::Execution(error.to_string());
    let transport = run.parts.registry.get(TRANSPORT).map_err(failed)?;
    let given = run.parts.transport_options.get(TRANSPORT);
    let options = Options::check(transport.options(), given.cloned().unwrap_or_default());
    let users = BrokerUsers {
        server: Some(master).filter(|master| !master.is_empty()),
        clients: match minions.is_empty() {
            true => vec!["minion".to_owned()],
            false => minions,
        },
    };
    let text = transport.broker_permissions(&options.map_err(failed)?, &users);
    let none = "the transport nats of this program has no permissions";
    let text = text.ok_or_else(|| Failure::Execution(none.to_owned()))?;
    Ok(saline_data::Value::from(text.map_err(failed)?).into())
}

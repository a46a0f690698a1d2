//! The checks of sizes, of places, and of what a backend declares it cannot do.
//!
//! | refused | with |
//! |---|---|
//! | an endpoint of another scheme, without an address, or a path without `local_endpoints` | `Config` |
//! | a local endpoint for every user on a backend without `local_users` | `Config` |
//! | TLS on a network endpoint of a backend that is not `encrypted` | `Config` |
//! | a `max_message` above what the backend can carry | `Config` |
//! | a place for publications where there is none, or none where it is needed | `Config` |
//! | no topic, or more than `subscriptions_per_connection` in one `subscribe` | `Config` |
//! | a request or publication above `max_message` | `TooLarge` |
//!
//! Beside that, the requests of a client that are in flight are bounded. Replies are checked by
//! [`Reply::send`](crate::transport::Reply::send).
//!
//! What is not done here, because only the backend can: look at the size of what comes in, and bound what
//! waits on the serving side.

use crate::transport::{
    Address, Context, Endpoint, Error, ErrorKind, LocalAccess, Result, ServeAt, TopicFilter,
    Transport,
};

/// Checks a place to serve at or to connect to.
pub(super) fn check_endpoint(
    transport: &dyn Transport,
    endpoint: &Endpoint,
    context: &Context,
) -> Result<()> {
    let limits = &context.limits;
    let capabilities = transport.capabilities();
    let scheme = transport.scheme();
    let refuse = |why: String| Err(Error::new(ErrorKind::Config, why));
    if endpoint.scheme != scheme {
        return refuse(format!(
            "{endpoint} is not an endpoint of transport {scheme}"
        ));
    }
    if limits.max_message > capabilities.max_message {
        return refuse(format!(
            "transport {scheme} carries messages of up to {} bytes, max_message_size is {}",
            capabilities.max_message, limits.max_message
        ));
    }
    match &endpoint.address {
        Address::Local(path) if !capabilities.local_endpoints => refuse(format!(
            "transport {scheme} has no local endpoints, so {} cannot be one",
            path.display()
        )),
        Address::Local(_)
            if context.local_access == LocalAccess::EveryUser && !capabilities.local_users =>
        {
            refuse(format!(
                "transport {scheme} has no local endpoints for every user of this machine"
            ))
        }
        Address::Network { addresses, .. } if addresses.is_empty() => {
            refuse(format!("an endpoint of {scheme} without an address"))
        }
        Address::Network { .. } if context.tls.is_some() && !capabilities.encrypted => {
            refuse(format!(
                "transport {scheme} has no TLS, and ssl asks for it: remove ssl (sessions are \
                 encrypted above every transport) or take another transport"
            ))
        }
        _ => Ok(()),
    }
}

/// Checks the places to serve at.
pub(super) fn check_places(
    transport: &dyn Transport,
    at: &ServeAt,
    context: &Context,
) -> Result<()> {
    check_endpoint(transport, &at.requests, context)?;
    let are_apart = transport.capabilities().publications_apart;
    check_apart(transport.scheme(), are_apart, at.publications.is_some())?;
    match &at.publications {
        Some(publications) => check_endpoint(transport, publications, context),
        None => Ok(()),
    }
}

/// Checks that a place for publications is given exactly when the backend has one.
pub(super) fn check_apart(scheme: &str, are_apart: bool, is_given: bool) -> Result<()> {
    let why = match (are_apart, is_given) {
        (true, true) | (false, false) => return Ok(()),
        (false, true) => format!(
            "transport {scheme} publishes where requests go, so no other place can be given"
        ),
        (true, false) => {
            format!("transport {scheme} publishes on an endpoint of its own, which must be given")
        }
    };
    Err(Error::new(ErrorKind::Config, why))
}

/// Checks how many topics are asked for at once.
pub(super) fn check_topics(topics: &[TopicFilter], most: usize) -> Result<()> {
    match topics.len() {
        count if (1..=most).contains(&count) => Ok(()),
        count => Err(Error::new(
            ErrorKind::Config,
            format!("{count} topics: one to {most} can be asked for"),
        )),
    }
}

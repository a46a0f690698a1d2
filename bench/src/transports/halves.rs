//! Makes the two halves of a measurement.

use saline_protocol::transport::Registry;

use crate::Result;
use crate::transports::plan::{Over, Spec};
use crate::transports::side::{ClientSide, ServerSide};
use crate::transports::{bare, contract};

/// The serving half of `spec`.
pub(crate) async fn server_side(spec: &Spec, registry: &Registry) -> Result<Box<dyn ServerSide>> {
    Ok(match (spec.over, spec.backend.as_str()) {
        (Over::Contract, backend) => {
            Box::new(contract::Serving::start(registry.get(backend)?).await?)
        }
        (_, "tcp") => Box::new(bare::tcp::Serving::start(spec.work).await?),
        (_, "quic") => Box::new(bare::quic::Serving::start(spec.work)?),
        (_, "zeromq") => Box::new(bare::zeromq::Serving::start(spec.work)?),
        (_, backend) => return Err(format!("{backend} has no bare side").into()),
    })
}

/// The clients' half of `spec`.
pub(crate) async fn client_side(spec: &Spec, registry: &Registry) -> Result<Box<dyn ClientSide>> {
    let (at, callers) = (spec.at.clone(), spec.over == Over::Bare);
    Ok(match (spec.over, spec.backend.as_str()) {
        (Over::Contract, backend) => Box::new(contract::Clients::new(registry.get(backend)?, &at)?),
        (_, "tcp") => Box::new(bare::tcp::Clients::new(at, callers)?),
        (_, "quic") => Box::new(bare::quic::Clients::new(&at, callers)?),
        (_, "zeromq") => Box::new(bare::zeromq::Clients::new(at)?),
        (_, backend) => return Err(format!("{backend} has no bare side").into()),
    })
}

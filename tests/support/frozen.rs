//! What the tests with peers of frozen versions share.

use std::future::Future;
use std::sync::Arc;

use saline_config::MasterConfig;
use saline_frozen_peers::v1::operator::Operator;
use saline_protocol::transport::{Client, Context, Endpoint, HostPort};

use super::Fleet;

/// Runs a test whose peers live in this process, and does not wait for tasks that it left.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce(Context) -> F) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let context = Context::default();
        test(context.clone()).await;
        context.cancel.cancel();
    });
    runtime.shutdown_background();
}

/// Returns the endpoint of a master on this machine.
pub fn network(transport: &str, port: u16) -> Endpoint {
    Endpoint::network(transport, HostPort::new("127.0.0.1", port))
}

/// Connects over the transport of the endpoint.
pub async fn connect(endpoint: &Endpoint, context: &Context) -> Arc<dyn Client> {
    let transport = saline_transports::registry().get(&endpoint.scheme).unwrap();
    transport.connect(endpoint, context.child()).await.unwrap()
}

/// Makes the session of an operator of version 1 with the master of a fleet.
pub async fn operator(fleet: &Fleet, context: &Context) -> Operator {
    let registry = saline_transports::registry();
    let schemes: Vec<&str> = registry.schemes().collect();
    let config = MasterConfig::load(&fleet.config(), &schemes)
        .unwrap()
        .config;
    let local = registry.local_default().unwrap();
    let client = connect(&Endpoint::local(local, config.local_requests()), context).await;
    let master = config.paths.pki_dir.join("identity.pub");
    Operator::connect(client, &config.root_key(), &master).await
}

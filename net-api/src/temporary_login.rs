//! A login that is ended when it is dropped.

use std::sync::Arc;

use saline_client::messages::LoginToken;
use saline_client::transport::Clock;
use tokio::runtime::Handle;

use crate::api::Api;
use crate::error::ApiError;
use crate::limits::LOGOUT_TIMEOUT;

/// The token of a login that ends when this is dropped, also where a request is dropped in the midst because its client went.
#[derive(Debug)]
pub(crate) struct TemporaryLogin {
    api: Arc<Api>,
    token: Option<LoginToken>,
}

impl TemporaryLogin {
    /// Takes charge of a login, which may also be one that the master is about to make.
    pub(crate) fn new(api: Arc<Api>, token: LoginToken) -> Self {
        Self {
            api,
            token: Some(token),
        }
    }

    /// Has the login stay: its client has its token, or it was refused.
    pub(crate) fn keep(mut self) {
        self.token = None;
    }

    /// Ends the login, and waits for that.
    pub(crate) async fn end(mut self) {
        if let Some(token) = self.token {
            log_out(&self.api, token).await;
            self.token = None;
        }
    }
}

impl Drop for TemporaryLogin {
    fn drop(&mut self) {
        // A runtime that is not there any more carries out nothing: the login ends when it expires.
        if let Some(token) = self.token.take()
            && Handle::try_current().is_ok()
        {
            let api = Arc::clone(&self.api);
            self.api.context.spawn(async move {
                log_out(&api, token).await;
                tracing::info!("the login of a request that nobody waits for has ended");
            });
        }
    }
}

/// Ends a login. One that cannot be ended expires.
async fn log_out(api: &Api, token: LoginToken) {
    let asked = async {
        let client = api.master.client().await?;
        client.log_out(token).await.map_err(ApiError::from)
    };
    match Clock.deadline(Clock.after(LOGOUT_TIMEOUT), asked).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("a login stays until it expires: {error}"),
        Err(_) => tracing::warn!("a login stays until it expires: the master does not answer"),
    }
}

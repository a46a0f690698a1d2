//! Cuts the connections on which no session stands any more, so that each key keeps the limits of an admitted peer on
//! as many connections as it has sessions.

use std::sync::Arc;

use saline_protocol::transport::ServerControl;

use crate::sessions::Sessions;

/// The largest number of connections that wait to be cut. They wait so that the last answer in a session, which says
/// why it ended, is sent.
const MAX_WAITING: usize = 64;

/// Cuts connections.
#[derive(Debug, Clone)]
pub struct EndedConnections {
    pub(crate) sessions: Arc<Sessions>,
    /// The controls of all listeners, by number.
    pub(crate) controls: Arc<[Arc<dyn ServerControl>]>,
}

impl EndedConnections {
    /// Cuts all that wait.
    pub fn cut(&self) {
        self.cut_beyond(0);
    }

    /// Cuts all that wait, if they are too many.
    pub fn bound(&self) {
        self.cut_beyond(MAX_WAITING);
    }

    fn cut_beyond(&self, most: usize) {
        for connection in self.sessions.take_ended_connections(most) {
            if let Some(control) = self.controls.get(connection.listener) {
                // It may have ended by itself.
                let _ = control.disconnect(connection.peer);
            }
        }
    }
}

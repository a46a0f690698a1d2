//! Which connections are cut when the process has no descriptor for another one.

use std::sync::Arc;

use saline_protocol::transport::{AdmissionLimits, Limits, Metric, ServerControl, Source};
use tokio_util::sync::CancellationToken;

use super::{Bare, soon};
use crate::server::EngineControl;
use crate::server::ungreeted::Ungreeted;

#[tokio::test(start_paused = true)]
async fn without_a_descriptor_those_go_first_that_have_not_greeted_and_never_those_admitted() {
    let mut limits = Limits::default();
    limits.admission = Some(AdmissionLimits::default());
    let server = Bare::new(limits);
    let open = server.open();
    assert!(!server.core.cut_for_descriptor());

    let (stranger, admitted) = (server.connect(1), server.connect(2));
    let control = EngineControl {
        core: Arc::clone(&server.core),
        _alive: Arc::new(CancellationToken::new().drop_guard()),
    };
    assert!(control.admitted(admitted.peer));
    let ungreeted = Ungreeted::new(&open, Source::Process).unwrap();
    assert!(server.core.cut_for_descriptor());
    soon(ungreeted.cut()).await;
    assert!(!stranger.is_closed());

    assert!(server.core.cut_for_descriptor());
    assert!(stranger.is_closed());
    assert!(!server.core.cut_for_descriptor());
    assert!(!admitted.is_closed());
    assert_eq!(server.count(Metric::PeersRefused), 1);
}

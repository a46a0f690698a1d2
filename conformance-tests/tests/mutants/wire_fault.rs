//! What can be wrong with a wire.

/// One thing that is wrong with the toy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireFault {
    /// Nothing.
    None,
    /// The client does not look whether pings come back.
    NoPings,
    /// The client takes a link for dead that is merely slow.
    Hurried,
    /// A link that broke is not replaced.
    NeverReturn,
    /// Part of a message is kept for the next connection.
    KeepPartial,
    /// What one read gives is taken for what was written.
    ReadIsMessage,
    /// What is announced is allocated.
    AllocateAnnounced,
    /// The greeting is awaited before the next connection is accepted.
    HandshakeInline,
    /// The first connection that does not greet ends the listener.
    EndOnGarbage,
    /// What does not greet is handed out as a request.
    TakeGarbage,
    /// Connections that do not greet stay open.
    LeakConnections,
    /// What does not greet is kept.
    BufferGarbage,
    /// What a dead link does not take is queued without bound.
    BufferForSlow,
    /// Paths are cut where they are too long.
    CutPath,
    /// A socket that a dead process left is in the way.
    NeverUnlink,
    /// Whatever stands at a path is removed.
    AlwaysUnlink,
    /// The socket stays after a shutdown.
    LeaveSocket,
}

/// Every mutant of the toy, and the requirements that it has to fail.
pub const WIRE_FAULTS: &[(WireFault, &[&str])] = &[
    (WireFault::NoPings, &["CON-020", "CON-027"]),
    (WireFault::Hurried, &["CON-028"]),
    (WireFault::NeverReturn, &["CON-021"]),
    (WireFault::KeepPartial, &["CON-022"]),
    (WireFault::ReadIsMessage, &["CON-023"]),
    (WireFault::AllocateAnnounced, &["SEC-006"]),
    (WireFault::HandshakeInline, &["SEC-003"]),
    (WireFault::EndOnGarbage, &["SEC-002", "SEC-005"]),
    (WireFault::TakeGarbage, &["SEC-001"]),
    (WireFault::LeakConnections, &["SEC-008"]),
    (WireFault::BufferGarbage, &["SEC-009"]),
    (WireFault::BufferForSlow, &["LIM-014"]),
    (WireFault::CutPath, &["BUS-002"]),
    (WireFault::NeverUnlink, &["BUS-003"]),
    (WireFault::AlwaysUnlink, &["BUS-004", "BUS-005"]),
    (WireFault::LeaveSocket, &["BUS-006"]),
];

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
    /// Connections take as many descriptors as there are.
    AnyDescriptors,
    /// Two hundred bytes of every connection that greeted are kept.
    LeakGreeted,
    /// Two hundred bytes of every connection that did not greet are kept.
    LeakUngreeted,
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
    /// A departure is told twice.
    DepartTwice,
    /// Only who said goodbye is told to have gone.
    DepartOnFin,
    /// Departures do not end.
    DeparturesStay,
    /// Peers that were not admitted are told to have gone.
    DepartStrangers,
    /// Departures that nobody reads are all kept.
    KeepDepartures,
    /// Requests of any size are taken before admission.
    AdmitAll,
    /// The limits stay tight after admission.
    StayTight,
    /// The client sends what is too large before admission.
    SendEarly,
    /// On a new connection the client asks for more topics than it may before admission.
    SubscribeEarly,
    /// As many publications wait for who is not admitted as for others.
    QueueForStrangers,
    /// Who is not admitted may stay.
    NeverTooLate,
    /// Who was admitted is cut all the same.
    CutAdmitted,
    /// What has not arrived as a whole is not counted.
    AnyPartial,
    /// A server hands out, and a client takes, a little more than its limit.
    TakeLarge,
    /// Only whole messages are signs of life.
    MessagesAreLife,
    /// A message that takes longer to write than a peer may be silent ends the link.
    HurriedWriter,
    /// A subscription that is refused stays, and nobody is told.
    RefusedStays,
    /// A subscription that is refused ends the link, each time.
    DialForEver,
    /// A link that broke is tried again at once, for ever.
    NoBackoff,
    /// Who vanishes keeps his permits.
    KeepPermits,
    /// Who vanishes while he waits for a permit takes one with him.
    KeepPlaces,
    /// An answer that its peer does not take keeps its permit.
    HoldPermits,
    /// The server looks neither for the end nor for the silence of a peer whose request waits for a permit.
    BlindInLine,
    /// One answer in fifty waits for the next ping.
    LoseWakeups,
    /// One publication in fifty waits for the next.
    LoseNews,
    /// A subscription is confirmed before it is made.
    ConfirmEarly,
    /// The server's queue of a subscriber is bounded in messages alone.
    IgnoreBytes,
    /// Every denial of a subscription is queued, however many there are.
    QueueDenials,
    /// An error of accept ends the listener.
    EndOnError,
    /// Whatever is at the path in the end is removed.
    RemoveForeign,
    /// Peers that are cut are not counted.
    ForgetRefused,
    /// All local peers are one source.
    HideUser,
    /// A local endpoint for every user is closed to others.
    KeepOut,
    /// A server ends with one of its parts.
    OwnGuard,
    /// The client is told of its admission with the next ping.
    AdmitWithPing,
    /// A subscriber that is dropped is withdrawn with the next ping.
    WithdrawWithPing,
    /// Requests have numbers of 16 bits.
    ShortNumbers,
    /// A stranger to which too much is owed is read again a ping later, admitted or not.
    StopOverdrawn,
    /// The room of a large message stays taken.
    KeepRoom,
    /// Who has connected and says nothing may stay.
    KeepSilent,
    /// Over UDP, whoever says hello is connected: its cookie is not looked at.
    TrustFirst,
    /// Over UDP, the answer to a hello is much larger than it.
    Amplify,
    /// Over UDP, a datagram of a peer that is connected is taken to have a head.
    TrustConnected,
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
    (WireFault::HideUser, &["BUS-007", "BUS-008"]),
    (WireFault::KeepOut, &["BUS-008"]),
    (WireFault::DepartTwice, &["CON-030"]),
    (WireFault::DepartOnFin, &["CON-030"]),
    (WireFault::DeparturesStay, &["CON-031"]),
    (WireFault::DepartStrangers, &["CON-032"]),
    (WireFault::KeepDepartures, &["CON-033"]),
    (WireFault::AdmitAll, &["LIM-015"]),
    (WireFault::StayTight, &["LIM-015"]),
    (WireFault::NeverTooLate, &["LIM-016"]),
    (WireFault::CutAdmitted, &["LIM-016"]),
    (WireFault::AnyPartial, &["LIM-017"]),
    (WireFault::SendEarly, &["LIM-019"]),
    (WireFault::SubscribeEarly, &["LIM-022"]),
    (WireFault::QueueForStrangers, &["LIM-020"]),
    (WireFault::AnyDescriptors, &["LIM-021"]),
    (WireFault::TakeLarge, &["LIM-018"]),
    (WireFault::MessagesAreLife, &["CON-034"]),
    (WireFault::HurriedWriter, &["CON-034"]),
    (WireFault::RefusedStays, &["CON-035"]),
    (WireFault::DialForEver, &["CON-035"]),
    (WireFault::NoBackoff, &["CON-036"]),
    (WireFault::KeepPermits, &["CON-016"]),
    (WireFault::KeepPlaces, &["CON-038"]),
    (WireFault::HoldPermits, &["SEC-016"]),
    (WireFault::BlindInLine, &["CON-038"]),
    (WireFault::LoseWakeups, &["REQ-014"]),
    (WireFault::LoseNews, &["PUB-019"]),
    (WireFault::ConfirmEarly, &["PUB-001"]),
    (WireFault::IgnoreBytes, &["LIM-014"]),
    (WireFault::QueueDenials, &["SEC-011"]),
    (WireFault::EndOnError, &["SEC-012"]),
    (WireFault::RemoveForeign, &["BUS-006"]),
    (WireFault::ForgetRefused, &["OBS-010"]),
    (WireFault::OwnGuard, &["SHU-014"]),
    (WireFault::AdmitWithPing, &["LIM-019", "LIM-022"]),
    (WireFault::WithdrawWithPing, &["PUB-011"]),
    (WireFault::KeepRoom, &["LIM-017"]),
    (WireFault::ShortNumbers, &["REQ-017"]),
    (WireFault::StopOverdrawn, &["LIM-024"]),
    (WireFault::LeakGreeted, &["LIM-023"]),
    (WireFault::LeakUngreeted, &["LIM-023"]),
];

/// Every mutant of the toy over UDP, and the requirements that it has to fail.
pub const DATAGRAM_FAULTS: &[(WireFault, &[&str])] = &[
    (WireFault::KeepSilent, &["SEC-004"]),
    (WireFault::TrustFirst, &["SEC-013"]),
    (WireFault::Amplify, &["SEC-014"]),
    (WireFault::TrustConnected, &["SEC-015"]),
];

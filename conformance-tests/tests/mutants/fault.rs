//! What can be wrong.

/// One thing that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// One reply in a hundred does not leave the server.
    DropReplies,
    /// Two replies after each other go to each other's callers.
    SwapReplies,
    /// A handler that drops its reply is not told of.
    SwallowNoReply,
    /// Requests wait for each other's replies.
    LockStep,
    /// Small requests overtake large ones.
    Overtake,
    /// Requests never time out.
    NeverTimeOut,
    /// Requests time out at half of their time.
    TimeOutEarly,
    /// A late reply goes to the next request.
    MisdeliverLate,
    /// Every request is sent twice.
    SendTwice,
    /// A request in flight when the link breaks is sent again.
    Replay,
    /// Requests that wait behind others are lost with the link.
    LoseUnsent,
    /// Small ones are.
    LoseSmallUnsent,
    /// A request that was Unreachable is tried on.
    TryOn,
    /// Requests outlive their callers.
    IgnoreDrop,
    /// A dropped request keeps its permit.
    LeakPermit,
    /// Requests go through without a server.
    ConnectLazily,
    /// A client that is shut down lets its requests run into their deadlines.
    IgnoreEnd,
    /// Every publication is delivered twice.
    DoublePublications,
    /// Every other pair of publications is swapped.
    SwapPublications,
    /// One publication in forty is lost and nobody told.
    LosePublications,
    /// The publisher waits for the slowest subscriber.
    WaitForSlow,
    /// Subscriptions are made when the subscriber is first read.
    SubscribeLazily,
    /// After a reconnect nothing is delivered any more.
    ForgetSubscriptions,
    /// Exact filters take what is beneath, too.
    ExactIsPrefix,
    /// Prefix filters compare bytes.
    PrefixByBytes,
    /// One delivery for each filter that takes it.
    DeliverPerFilter,
    /// Losses are not told.
    SwallowLagged,
    /// A loss is told only before the next message.
    TellLossLate,
    /// One loss fewer is told than there were.
    LieAboutLoss,
    /// Every link event is told twice.
    DoubleEvents,
    /// Link events are not told.
    SwallowEvents,
    /// A dropped subscriber stays subscribed.
    NeverWithdraw,
    /// A dropped future of `Subscriber::next` takes a message with it.
    LoseDelivery,
    /// A dropped future of `Requests::next` takes a request with it.
    LoseRequest,
    /// The limit is a byte more than it says.
    LimitPlusOne,
    /// No layers: no limits, no counts.
    NoLayers,
    /// Any number of requests is handed out.
    HandOutAll,
    /// Nothing is counted.
    CountNothing,
    /// A name stays bound after a shutdown.
    KeepName,
    /// A name that is in use is taken over.
    StealName,
    /// What was bound says port 0.
    HidePort,
    /// A task stays after a shutdown.
    LeakTask,
    /// Streams do not end at a shutdown.
    NeverEnd,
    /// A shutdown cuts what it should wait for.
    CutShort,
    /// A shutdown waits for its deadline in any case.
    WaitOut,
    /// The second shutdown does not wait for the first.
    SecondShutdown,
    /// A shutdown ends with the future of its first caller.
    ShutdownInCaller,
    /// A request that fails keeps its permit.
    LeakOnFailure,
    /// Large messages take so long that the link counts as dead.
    LargeIsDead,
    /// The first request after the link was lost is lost too.
    LoseFirst,
    /// Requests go to the client that connected last.
    MixServers,
    /// Neither names nor addresses of this machine are found.
    NoLoopback,
    /// Only the first address of an endpoint is tried.
    FirstAddressOnly,
    /// Only the last subscriber of a client is delivered to.
    LastSubscriberOnly,
    /// Topics of more than 255 bytes are lost.
    ShortTopics,
    /// What nobody asked for is kept and delivered later.
    KeepHistory,
    /// A message that is larger than a subscriber's queue is lost.
    DropLarge,
    /// A server takes more than its limit.
    AcceptLarge,
    /// Every connection is a source of its own.
    SourceOfConnection,
    /// What is declared changes.
    ChangeMind,
    /// Tasks do not end with their context.
    IgnoreCancel,
    /// The second shutdown fails.
    SecondFails,
    /// Something keeps a part of every server.
    HoldParts,
    /// A reply that is stale goes to a request of the new link.
    StaleToNext,
    /// A server stops answering when a client vanishes.
    VanishStops,
    /// A bound on messages is declared, and not looked at.
    AnyLimit,
    /// Paths are declared to be refused, and taken.
    TakePaths,
    /// Every option is declared, whatever it is called.
    InventOption,
    /// A secret option is declared a second time, as one that is none.
    DeclareTwice,
    /// Everything that was published is kept.
    KeepAll,
    /// Everything that was asked is copied, and kept until it is answered.
    CopyRequests,
    /// Each client and each server leaves a descriptor behind.
    LeakDescriptors,
    /// A server without readers of requests publishes nothing more.
    UnreadKills,
    /// What is there already is handed out without its first.
    PassOver,
    /// A server takes more than its limit, and answers as if it did not.
    AcceptQuietly,
    /// The first request after every tenth loss of the link is lost too.
    LoseTenth,
    /// The fifth publication after a reconnect is delivered twice.
    DoubleFifth,
    /// Subscriptions of one client are counted as one.
    CountConnections,
    /// A subscriber that is dropped takes those with equal filters with it.
    TakeTwin,
    /// A loss is told to every subscriber of the client.
    LossToAll,
    /// Topics are bounded for each subscriber, not for the client.
    TopicsEach,
    /// Of a loss of more than 50 one is not told.
    MiscountLarge,
    /// The last address is tried first.
    ReverseAddresses,
    /// A server does not count the links that end.
    UncountedEnds,
    /// A task is spawned that no tracker knows.
    BareSpawn,
    /// A hundred bytes of every request are kept.
    LeakRequests,
    /// A hundred bytes of every request that fails are kept.
    LeakFailures,
    /// Two hundred bytes of every connection that is replaced are kept.
    LeakReconnects,
    /// A kibibyte of every client and every server is kept.
    LeakMemory,
    /// A request times out no sooner than those that were made before it.
    QueueDeadlines,
    /// A request times out with the first of those that are under way.
    OneDeadline,
    /// A loss is told after the message that follows it.
    TellLossAfter,
    /// A loss is told before the message that precedes it.
    TellLossBefore,
    /// The losses of several subscribers of one client are told to the first of them.
    LossToFirst,
    /// A subscriber gets what came to another one of its client before it asked.
    LastToNewcomer,
    /// The topics of one call are bounded in bytes.
    TopicBytes,
}

/// Every mutant, and the requirements that it has to fail.
pub const FAULTS: &[(Fault, &[&str])] = &[
    (Fault::DropReplies, &["REQ-001", "REQ-011"]),
    (Fault::SwapReplies, &["REQ-001", "REQ-008", "CAN-010"]),
    (Fault::SwallowNoReply, &["REQ-005", "REQ-006", "LIM-002"]),
    (Fault::LockStep, &["REQ-001", "REQ-002"]),
    (Fault::Overtake, &["REQ-007"]),
    (Fault::NeverTimeOut, &["REQ-003", "CON-005", "REQ-010"]),
    (Fault::TimeOutEarly, &["REQ-003"]),
    (Fault::MisdeliverLate, &["REQ-004"]),
    (
        Fault::SendTwice,
        &["REQ-011", "CON-002", "CON-004", "SHU-013"],
    ),
    (Fault::Replay, &["CON-002"]),
    (Fault::LoseUnsent, &["CON-040"]),
    (Fault::LoseSmallUnsent, &["CON-040"]),
    (Fault::TryOn, &["CON-005"]),
    (Fault::IgnoreDrop, &["CAN-007"]),
    (Fault::LeakPermit, &["CAN-001"]),
    (Fault::ConnectLazily, &["CON-001"]),
    (Fault::IgnoreEnd, &["SHU-001", "SHU-007"]),
    (
        Fault::DoublePublications,
        &["PUB-002", "PUB-003", "PUB-017", "CAN-008"],
    ),
    (Fault::SwapPublications, &["PUB-002", "PUB-013"]),
    (
        Fault::LosePublications,
        &["PUB-001", "PUB-002", "PUB-012", "PUB-016", "SHU-008"],
    ),
    (Fault::WaitForSlow, &["PUB-007"]),
    (Fault::SubscribeLazily, &["PUB-001", "CON-019"]),
    (Fault::ForgetSubscriptions, &["CON-007"]),
    (Fault::ExactIsPrefix, &["PUB-003"]),
    (Fault::PrefixByBytes, &["PUB-004"]),
    (Fault::DeliverPerFilter, &["PUB-005"]),
    (Fault::SwallowLagged, &["PUB-008", "PUB-009"]),
    (Fault::TellLossLate, &["PUB-009"]),
    (Fault::LieAboutLoss, &["PUB-010", "OBS-003"]),
    (Fault::DoubleEvents, &["CON-006"]),
    (Fault::SwallowEvents, &["CON-006", "CON-007"]),
    (Fault::NeverWithdraw, &["PUB-011", "CAN-004"]),
    (Fault::LoseDelivery, &["CAN-002"]),
    (Fault::LoseRequest, &["CAN-003"]),
    (Fault::LimitPlusOne, &["LIM-001", "LIM-002", "LIM-003"]),
    (
        Fault::NoLayers,
        &["LIM-003", "LIM-005", "OBS-001", "OBS-005", "OBS-008"],
    ),
    (Fault::HandOutAll, &["LIM-004"]),
    (Fault::CountNothing, &["OBS-001", "OBS-002", "OBS-003"]),
    (Fault::KeepName, &["SHU-004"]),
    (Fault::StealName, &["CON-010", "CON-017"]),
    (Fault::HidePort, &["CON-009"]),
    (Fault::LeakTask, &["SHU-003", "CAN-006", "CAN-005"]),
    (Fault::NeverEnd, &["SHU-005"]),
    (Fault::CutShort, &["SHU-006", "SHU-009", "SHU-015"]),
    (Fault::WaitOut, &["SHU-010", "SHU-012"]),
    (Fault::SecondShutdown, &["CAN-009"]),
    (Fault::ShutdownInCaller, &["CAN-009"]),
    (Fault::LeakOnFailure, &["REQ-009"]),
    (Fault::LargeIsDead, &["LIM-010"]),
    (Fault::LoseFirst, &["CON-003"]),
    (Fault::MixServers, &["CON-008"]),
    (Fault::NoLoopback, &["CON-011", "CON-012", "CON-013"]),
    (Fault::FirstAddressOnly, &["CON-014"]),
    (Fault::LastSubscriberOnly, &["PUB-006"]),
    (Fault::ShortTopics, &["PUB-014", "LIM-003"]),
    (Fault::KeepHistory, &["PUB-015"]),
    (Fault::DropLarge, &["LIM-009"]),
    (Fault::AcceptLarge, &["LIM-006"]),
    (Fault::ChangeMind, &["OBS-004"]),
    (Fault::IgnoreCancel, &["SHU-011"]),
    (Fault::SecondFails, &["SHU-002"]),
    (Fault::HoldParts, &["SHU-014"]),
    (Fault::StaleToNext, &["CON-018"]),
    (Fault::VanishStops, &["CON-016"]),
    (Fault::SourceOfConnection, &["CON-037"]),
    (Fault::UnreadKills, &["REQ-012"]),
    (Fault::AnyLimit, &["LIM-007"]),
    (Fault::TakePaths, &["OBS-006"]),
    (Fault::InventOption, &["OBS-007"]),
    (Fault::DeclareTwice, &["OBS-009"]),
    (Fault::KeepAll, &["LIM-012"]),
    (Fault::CopyRequests, &["LIM-013"]),
    (Fault::LeakDescriptors, &["CON-024", "CON-025"]),
    (Fault::PassOver, &["REQ-013", "PUB-018"]),
    (Fault::AcceptQuietly, &["LIM-006"]),
    (Fault::LoseTenth, &["CON-004"]),
    (Fault::DoubleFifth, &["CON-007"]),
    (Fault::CountConnections, &["PUB-011"]),
    (Fault::TakeTwin, &["PUB-006"]),
    (Fault::LossToAll, &["PUB-007"]),
    (Fault::TopicsEach, &["LIM-008"]),
    (Fault::MiscountLarge, &["PUB-010"]),
    (Fault::ReverseAddresses, &["CON-014"]),
    (Fault::UncountedEnds, &["OBS-002"]),
    (Fault::BareSpawn, &["SHU-003"]),
    (Fault::LeakRequests, &["REQ-015"]),
    (Fault::LeakFailures, &["REQ-016"]),
    (Fault::LeakReconnects, &["CON-039"]),
    (Fault::LeakMemory, &["CON-024"]),
    (Fault::QueueDeadlines, &["REQ-003"]),
    (Fault::OneDeadline, &["REQ-003"]),
    (Fault::TellLossAfter, &["PUB-008"]),
    (Fault::TellLossBefore, &["PUB-008"]),
    (Fault::LossToFirst, &["PUB-007"]),
    (Fault::LastToNewcomer, &["PUB-015"]),
    (Fault::TopicBytes, &["LIM-008"]),
];

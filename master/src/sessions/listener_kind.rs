//! The kinds of listeners over which the peers of sessions come.

/// The kind of a listener, which decides who may come over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerKind {
    /// On the network: minions, callers, operators with keys of their own.
    Network,
    /// The local endpoint, which root and the master's user reach.
    Local,
    /// The access socket, which every user of this machine reaches: who they are is what the system tells.
    Access,
}

//! What a target is, and the list of all.

use std::time::Duration;

use crate::measure::measure;
use crate::{
    configuration, engine, envelope, grains, initiator, key_files, messages, names, nats,
    publications, records, responder, shared_socket, spool, target_expressions, templates, values,
    zeromq,
};

/// A decoder under test.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the target, of its corpus and of the fuzzer's binary.
    pub name: &'static str,
    /// Decodes the bytes, and panics when the decoder breaks a promise.
    check: fn(&[u8]),
    /// Returns inputs that the decoder takes, or nearly takes, for the fuzzer to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The memory in bytes that one run may hold at once, whatever its input.
    memory: usize,
    /// The memory in bytes that it may hold for each byte of its input besides.
    memory_for_each_byte: usize,
    /// How many inputs the property test makes, since some targets write files or compute signatures.
    pub cases: u32,
}

/// The CPU time that one input may take. Debug builds take a hundredth of it.
const MAX_CPU_TIME: Duration = Duration::from_secs(2);

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A target whose decoder keeps little more than its input.
const fn target(name: &'static str, check: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target {
        name,
        check,
        seeds,
        memory: 64 * KIB,
        memory_for_each_byte: 64,
        cases: 5_000,
    }
}

impl Target {
    const fn memory(self, memory: usize, memory_for_each_byte: usize) -> Self {
        Self {
            memory,
            memory_for_each_byte,
            ..self
        }
    }

    const fn cases(self, cases: u32) -> Self {
        Self { cases, ..self }
    }

    /// Runs the target on these bytes.
    ///
    /// # Panics
    /// When the decoder panics or breaks a promise, holds more memory than its target allows, or takes
    /// longer than two seconds of CPU time.
    pub fn run(&self, bytes: &[u8]) {
        let used = measure(|| (self.check)(bytes));
        let most = self.memory + self.memory_for_each_byte * bytes.len();
        assert!(
            used.memory <= most,
            "{} held {} bytes of memory for {} bytes, above {most}",
            self.name,
            used.memory,
            bytes.len()
        );
        assert!(
            used.time <= MAX_CPU_TIME,
            "{} took {:?} for {} bytes",
            self.name,
            used.time,
            bytes.len()
        );
    }
}

/// Runs the target with this name.
///
/// # Panics
/// When there is none, and as [`Target::run`].
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    target
        .expect("a binary has the name of a target")
        .run(bytes);
}

/// All targets, which the tests and the binaries of the fuzzer run.
pub const TARGETS: &[Target] = &[
    // The bytes of connections.
    target("engine_client", engine::client, engine::client_seeds).memory(512 * KIB, 64),
    target("engine_server", engine::server, engine::server_seeds).memory(512 * KIB, 64),
    target(
        "shared_socket",
        shared_socket::datagrams,
        shared_socket::datagram_seeds,
    )
    .memory(MIB, 512),
    target("nats_operations", nats::operations, nats::operation_seeds),
    target("nats_messages", nats::messages, nats::message_seeds),
    target("zeromq_requests", zeromq::requests, zeromq::request_seeds),
    target(
        "zeromq_publications",
        zeromq::publications,
        zeromq::publication_seeds,
    ),
    // Sessions.
    target("envelope", envelope::envelope, envelope::seeds),
    target("initiator", initiator::initiator, initiator::seeds).cases(100),
    target("responder", responder::responder, responder::seeds).cases(200),
    target("records", records::records, records::seeds).cases(500),
    target(
        "publications",
        publications::publications,
        publications::seeds,
    )
    .memory(3 * MIB, 128)
    .cases(300),
    // Messages. A list that announces more elements than it has takes a mebibyte until it is noticed.
    target(
        "handshake_messages",
        messages::handshake,
        messages::handshake_seeds,
    )
    .memory(3 * MIB, 128),
    target(
        "minion_requests",
        messages::minion_requests,
        messages::minion_request_seeds,
    )
    .memory(3 * MIB, 128),
    target(
        "minion_replies",
        messages::minion_replies,
        messages::minion_reply_seeds,
    )
    .memory(3 * MIB, 128),
    target(
        "caller_requests",
        messages::caller_requests,
        messages::caller_request_seeds,
    )
    .memory(3 * MIB, 128),
    target(
        "caller_replies",
        messages::caller_replies,
        messages::caller_reply_seeds,
    )
    .memory(3 * MIB, 128),
    target(
        "operator_requests",
        messages::operator_requests,
        messages::operator_request_seeds,
    )
    .memory(3 * MIB, 128),
    target(
        "operator_replies",
        messages::operator_replies,
        messages::operator_reply_seeds,
    )
    .memory(3 * MIB, 128),
    target("events", messages::events, messages::event_seeds).memory(MIB, 512),
    target("values", values::values, values::seeds).memory(MIB, 512),
    target("arguments", values::arguments, values::argument_seeds).memory(MIB, 512),
    // Names and expressions.
    target("endpoints", names::endpoints, names::endpoint_seeds),
    target("event_tags", names::event_tags, names::event_tag_seeds),
    target(
        "fingerprints",
        names::fingerprints,
        names::fingerprint_seeds,
    ),
    target("ids", names::ids, names::id_seeds),
    target("topics", names::topics, names::topic_seeds),
    target(
        "target_expressions",
        target_expressions::target_expressions,
        target_expressions::seeds,
    )
    .memory(32 * MIB, 4096)
    .cases(500),
    target("grains", grains::grains, grains::seeds)
        .memory(4 * MIB, 1024)
        .cases(300),
    // Files, and what operators type.
    target(
        "configuration",
        configuration::files,
        configuration::file_seeds,
    )
    .memory(MIB, 4096)
    .cases(500),
    target("yaml", configuration::yaml, configuration::yaml_seeds).memory(MIB, 4096),
    // A template takes steps and memory of its own, up to the limits of the engine.
    target("templates", templates::templates, templates::template_seeds)
        .memory(256 * MIB, 64 * 1024)
        .cases(200),
    target(
        "printed_data",
        templates::printed_data,
        templates::data_seeds,
    )
    .memory(8 * MIB, 4096)
    .cases(200),
    target(
        "command_line",
        configuration::command_line,
        configuration::command_line_seeds,
    )
    .memory(MIB, 4096),
    target("key_files", key_files::key_files, key_files::seeds).cases(300),
    target("spool", spool::spool, spool::seeds)
        .memory(2 * MIB, 256)
        .cases(200),
];

//! The segments that one end sends, until they are acknowledged.

use std::collections::{BTreeSet, VecDeque};

use saline_protocol::transport::Instant;

use super::congestion::{RoundTrip, Window};
use super::datagram::Ack;
use super::{FIRST_WINDOW, MOST_SEGMENTS, WINDOW};

/// A packet counts as lost when one arrives that was sent so many after it.
const REORDERED: u64 = 3;

/// Room for segments that an idle connection may keep.
const IDLE_SEGMENTS: usize = 8;

/// One direction of a connection, at the end that sends.
#[derive(Debug)]
pub(super) struct Sending {
    /// The segments from `first` on that the peer may not have; none where it has.
    segments: VecDeque<Option<Segment>>,
    first: u64,
    /// The numbers of those that are to be sent, or sent again.
    due: BTreeSet<u64>,
    /// How many were sent, and neither acknowledged nor lost.
    under_way: u64,
    next_packet: u64,
    sent_bytes: u64,
    allowed: u64,
    has_ended: bool,
    /// Somebody waits for the peer to allow more.
    wants_credit: bool,
    window: Window,
    round_trip: RoundTrip,
    /// When something was heard or sent that the timer counts from, and how often it has run out since.
    since: Instant,
    in_vain: u32,
}

/// A segment; an empty one is the end.
#[derive(Debug)]
struct Segment {
    bytes: Vec<u8>,
    packet: u64,
    sent_at: Instant,
}

/// A segment that is to be sent now.
#[derive(Debug)]
pub(super) struct Packet<'s> {
    pub(super) packet: u64,
    pub(super) segment: u64,
    /// Empty for the end.
    pub(super) bytes: &'s [u8],
}

/// What is to be done when the timer has run out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TimedOut {
    /// There are segments to send again.
    Resend,
    /// The peer has to be asked how much it allows.
    Probe,
}

impl Sending {
    /// Nothing was sent.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            segments: VecDeque::new(),
            first: 0,
            due: BTreeSet::new(),
            under_way: 0,
            next_packet: 0,
            sent_bytes: 0,
            allowed: FIRST_WINDOW,
            has_ended: false,
            wants_credit: false,
            window: Window::default(),
            round_trip: RoundTrip::default(),
            since: now,
            in_vain: 0,
        }
    }

    /// Returns how many bytes of a segment may be accepted now.
    pub(super) fn room(&self) -> usize {
        let under_way = self.segments.len() as u64;
        let has_window = self.under_way < self.window.size() && under_way < MOST_SEGMENTS;
        match has_window && self.due.is_empty() {
            true => usize::try_from(self.allowed - self.sent_bytes).unwrap_or(usize::MAX),
            false => 0,
        }
    }

    /// Takes note that somebody waits for room: if the peer allows nothing more, it is asked now and then.
    pub(super) fn wait_for_room(&mut self, now: Instant) {
        if self.allowed == self.sent_bytes && !self.wants_credit {
            self.wants_credit = true;
            if self.segments.is_empty() {
                self.since = now;
            }
        }
    }

    /// Accepts a segment, for which there is room.
    pub(super) fn push(&mut self, bytes: Vec<u8>, now: Instant) {
        self.sent_bytes += bytes.len() as u64;
        self.add(bytes, now);
    }

    /// Accepts the end, once.
    pub(super) fn end(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.add(Vec::new(), now);
        }
    }

    fn add(&mut self, bytes: Vec<u8>, now: Instant) {
        if self.segments.is_empty() {
            self.since = now;
            self.in_vain = 0;
        }
        self.due.insert(self.first + self.segments.len() as u64);
        self.segments.push_back(Some(Segment {
            bytes,
            packet: 0,
            sent_at: now,
        }));
    }

    /// Whether the end was accepted.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the peer has everything that was accepted.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether the peer has everything, but for the end at most.
    pub(super) fn lacks_only_the_end(&self) -> bool {
        self.has_ended && self.segments.len() <= 1
    }

    /// Returns the next segment that is due, if the window has room for it.
    pub(super) fn next(&self) -> Option<Packet<'_>> {
        if self.under_way >= self.window.size() {
            return None;
        }
        let segment = *self.due.first()?;
        let index = usize::try_from(segment - self.first).ok()?;
        let bytes = &self.segments.get(index)?.as_ref()?.bytes;
        Some(Packet {
            packet: self.next_packet,
            segment,
            bytes,
        })
    }

    /// The [next](Self::next) segment was sent.
    pub(super) fn sent(&mut self, now: Instant) {
        let Some(number) = self.due.pop_first() else {
            return;
        };
        let packet = self.next_packet;
        self.next_packet += 1;
        if self.under_way == 0 {
            self.since = now;
        }
        self.under_way += 1;
        if let Some(segment) = self.get(number) {
            segment.packet = packet;
            segment.sent_at = now;
        }
    }

    fn get(&mut self, number: u64) -> Option<&mut Segment> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.segments.get_mut(index)?.as_mut()
    }

    /// Takes an acknowledgement. Returns whether anything changed that somebody may wait for.
    ///
    /// # Errors
    /// When it says what cannot be.
    pub(super) fn acknowledged(&mut self, ack: &Ack, now: Instant) -> Result<bool, &'static str> {
        let last = self.first + self.segments.len() as u64;
        if ack.next > last || ack.packets > self.next_packet {
            return Err("it acknowledges what was not sent");
        }
        if ack.allowed > self.sent_bytes.saturating_add(WINDOW) {
            return Err("it allows more than there is room for");
        }
        let was_full = self.under_way + 1 >= self.window.size();
        let mut arrived = 0;
        let early = ack.early.iter().enumerate().flat_map(|(at, byte)| {
            let bits = (0..8u64).filter(move |bit| byte & (1 << bit) != 0);
            bits.map(move |bit| ack.next + 1 + 8 * at as u64 + bit)
        });
        for number in (self.first..ack.next).chain(early) {
            arrived += u64::from(self.has_arrived(number, ack.packets, now, was_full));
        }
        while let Some(None) = self.segments.front() {
            self.segments.pop_front();
            self.first += 1;
        }
        if self.segments.is_empty() && self.segments.capacity() > IDLE_SEGMENTS {
            self.segments = VecDeque::new();
        }
        self.find_lost(ack.packets);
        let more = ack.allowed > self.allowed;
        if more {
            self.allowed = ack.allowed;
            self.wants_credit = false;
        }
        if arrived > 0 || more {
            (self.since, self.in_vain) = (now, 0);
        }
        Ok(arrived > 0 || more)
    }

    /// Takes note that a segment has arrived. Returns false when that was known.
    fn has_arrived(&mut self, number: u64, packets: u64, now: Instant, was_full: bool) -> bool {
        let index = number.checked_sub(self.first).map(usize::try_from);
        let Some(Ok(index)) = index else {
            return false;
        };
        let Some(segment) = self.segments.get_mut(index).and_then(Option::take) else {
            return false;
        };
        if !self.due.remove(&number) {
            self.under_way -= 1;
            // Only then is it known which of its packets has arrived.
            if segment.packet + 1 == packets {
                let took = now.saturating_duration_since(segment.sent_at);
                self.round_trip.measured(took);
            }
        }
        self.window.arrived(was_full);
        true
    }

    /// Has those sent again that were sent well before a packet that has arrived.
    fn find_lost(&mut self, packets: u64) {
        let before = packets.saturating_sub(REORDERED);
        for (number, segment) in (self.first..).zip(&self.segments) {
            let Some(segment) = segment else {
                continue;
            };
            if segment.packet < before && self.due.insert(number) {
                self.under_way -= 1;
                self.window.lost(segment.packet, self.next_packet);
            }
        }
    }

    /// Returns when the timer runs out, if it runs.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let runs = self.under_way > 0 || (self.wants_credit && self.segments.is_empty());
        runs.then(|| self.since + self.round_trip.wait(self.in_vain))
    }

    /// The timer has run out.
    pub(super) fn timed_out(&mut self, now: Instant) -> TimedOut {
        self.since = now;
        self.in_vain += 1;
        if self.under_way == 0 {
            return TimedOut::Probe;
        }
        self.window.timed_out(self.next_packet);
        self.under_way = 0;
        for (number, segment) in (self.first..).zip(&self.segments) {
            if segment.is_some() {
                self.due.insert(number);
            }
        }
        TimedOut::Resend
    }
}

//! The server's half of a stream.

use std::collections::VecDeque;

use super::flow::{Inbox, Outbox, Room, bytes_of};
use super::segment::{Body, CallerSegment, Message, Open, ServerSegment};
use super::window::{Allowance, Parked, SentBytes, WIDTH_MAX};
use super::write::end_bytes;
use crate::{Malformed, Metadata, Status};

/// An event for a stream's handler. Events come in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent<B> {
    /// The stream begins: the handler starts.
    Open(Open),
    /// A message.
    Message(Message<B>),
    /// No more messages follow.
    Closed,
    /// The stream was cancelled, or the caller broke a rule: the handler must be dropped if it has
    /// started. Nothing follows.
    Reset,
}

/// The server's half of a stream; `H` is the handle that answers an exchange. The [module](super)
/// describes the order of calls.
#[derive(Debug)]
pub struct ServerStream<B, H> {
    bytes_max: usize,
    /// Number of the next exchange in order.
    expected: u16,
    /// Later exchanges, which wait for it.
    parked: Parked<(CallerSegment<B>, H)>,
    /// Exchanges that were not answered yet, oldest first.
    held: VecDeque<Held<H>>,
    opened: bool,
    open: Option<Open>,
    inbox: Inbox<B>,
    closed: Closed,
    reset: bool,
    /// The *send* bits of the latest 16 answers; bit 0 is that of the latest one. All set at first.
    sent: u16,
    /// How much the caller may put into exchanges.
    allowance: Allowance,
    /// The latest answer that the caller had handled when it last allowed messages (R17).
    handled: u16,
    answered: SentBytes,
    /// Exchanges that are held beyond one are answered.
    releases_spare: bool,
    /// The caller was asked for an exchange that tells what it has handled (R18).
    update_asked: bool,
    outbox: Outbox<B>,
    /// A head or a message was sent.
    begun: bool,
    head: Option<Metadata>,
    end: Option<Status>,
    phase: Phase,
}

#[derive(Debug)]
struct Held<H> {
    number: u16,
    receive: bool,
    /// It has no records.
    is_bare: bool,
    /// Bytes of its messages.
    bytes: usize,
    handle: H,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    No,
    /// The handler has not been informed.
    Untold,
    Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The handler is running, or about to.
    Running,
    /// The handler has ended; messages from the caller are dropped.
    Ending,
    /// The end was sent, or is not wanted: every exchange is answered with *ended*.
    Ended,
}

impl<B: Body, H> ServerStream<B, H> {
    /// Makes a stream for one that [`SessionStreams`](super::SessionStreams) reports as new. Its
    /// first exchange goes to [`ServerStream::handle_exchange`]. `bytes_max` is the longest
    /// response that the session accepts. Initial metadata must not be longer, nor any message
    /// together with the 16 bytes before it.
    pub fn new(bytes_max: usize) -> ServerStream<B, H> {
        ServerStream {
            bytes_max,
            expected: 0,
            parked: Parked::new(),
            held: VecDeque::new(),
            opened: false,
            open: None,
            inbox: Inbox::new(),
            closed: Closed::No,
            reset: false,
            sent: u16::MAX,
            allowance: Allowance::new(),
            handled: u16::MAX,
            answered: SentBytes::default(),
            releases_spare: false,
            update_asked: false,
            outbox: Outbox::new(),
            begun: false,
            head: None,
            end: None,
            phase: Phase::Running,
        }
    }

    /// R15: handles a complete exchange. The handle is kept until [`ServerStream::poll_answer`].
    ///
    /// # Errors
    /// The caller broke a rule, which the driver should count. The stream ends with `INTERNAL`, and
    /// the handler must be dropped.
    pub fn handle_exchange(
        &mut self,
        segment: CallerSegment<B>,
        handle: H,
    ) -> Result<(), Malformed> {
        if segment.reset || self.phase == Phase::Ended {
            self.hold_ending(segment.number, handle);
            self.give_up();
            return Ok(());
        }
        let number = segment.number;
        let ahead = usize::from(number.wrapping_sub(self.expected));
        let bytes = bytes_of(&segment.messages);
        if ahead + self.held.len() >= usize::from(WIDTH_MAX) {
            return Err(self.refuse(number, handle, Malformed::Number));
        }
        if !self.allowance.admits(bytes, &self.parked) {
            return Err(self.refuse(number, handle, Malformed::Flow));
        }
        if ahead > 0 {
            // Only segment 0 has an open record, and nothing precedes it.
            if segment.open.is_some() {
                return Err(self.refuse(number, handle, Malformed::Record));
            }
            let parked = self.parked.insert(number, bytes, (segment, handle));
            return parked.map_err(|(_, handle)| self.refuse(number, handle, Malformed::Number));
        }
        self.take(segment, bytes, handle)?;
        while let Some((bytes, (segment, handle))) = self.parked.take(self.expected) {
            self.take(segment, bytes, handle)?;
        }
        Ok(())
    }

    /// Handles an exchange of this stream that could not be parsed: the stream ends with `status`,
    /// and the handler must be dropped. The exchange is answered like others.
    pub fn handle_malformed(&mut self, number: u16, handle: H, status: Status) {
        self.hold_ending(number, handle);
        if self.phase != Phase::Ended {
            self.reset = true;
            self.abort(status);
        }
    }

    /// R19: ends the stream if it holds exchanges whose handles are `gone`, because the caller no
    /// longer wants it. These handles are dropped here.
    pub fn handle_abandoned(&mut self, mut gone: impl FnMut(&H) -> bool) {
        self.held.retain(|held| !gone(&held.handle));
        self.parked.retain(|(_, handle)| !gone(handle));
        self.give_up();
    }

    /// Whether this half holds an unanswered exchange with such a handle.
    pub fn holds(&self, is: impl Fn(&H) -> bool) -> bool {
        let parked = self.parked.iter().map(|(_, handle)| handle);
        self.held.iter().map(|held| &held.handle).chain(parked).any(is)
    }

    /// Takes a [`ServerEvent::Reset`] if it is the next event, and no other event. For drivers that
    /// leave the other events to the handler.
    pub fn poll_reset(&mut self) -> bool {
        std::mem::take(&mut self.reset)
    }

    /// The next event for the handler.
    pub fn poll_event(&mut self) -> Option<ServerEvent<B>> {
        if self.poll_reset() {
            return Some(ServerEvent::Reset);
        }
        if let Some(open) = self.open.take() {
            return Some(ServerEvent::Open(open));
        }
        if let Some(message) = self.inbox.pop() {
            return Some(ServerEvent::Message(message));
        }
        let tell = self.closed == Closed::Untold && self.phase == Phase::Running;
        tell.then(|| {
            self.closed = Closed::Told;
            ServerEvent::Closed
        })
    }

    /// Whether another message should be queued now. Turns true again after an answer.
    pub fn can_send(&self) -> bool {
        self.phase == Phase::Running && self.outbox.has_room()
    }

    /// Sets initial metadata. Ignored if a message was sent before, because metadata must precede
    /// messages.
    pub fn head(&mut self, metadata: Metadata) {
        if self.phase == Phase::Running && !self.begun {
            self.head = Some(metadata);
        }
    }

    /// Queues a message. Dropped if the stream has ended.
    pub fn send(&mut self, message: Message<B>) {
        if self.phase == Phase::Running {
            self.outbox.push(message);
        }
    }

    /// Ends the stream after the queued messages, because the handler has ended.
    pub fn end(&mut self, status: Status) {
        if self.phase == Phase::Running {
            self.phase = Phase::Ending;
            self.end = Some(status);
            self.inbox.clear();
        }
    }

    /// R19: ends the stream from the server's side (deadline, panic, overload, drain). Messages
    /// that were not sent are dropped. The driver drops the handler.
    pub fn abort(&mut self, status: Status) {
        if self.phase != Phase::Ended {
            self.phase = Phase::Running;
            self.end(status);
            self.outbox.clear();
            (self.head, self.open) = (None, None);
        }
    }

    /// R18: an exchange and its answer, if one is due. Call this after the handler has processed
    /// the events of [`ServerStream::poll_event`], so that its immediate messages are in the answer
    /// that makes room for the next exchange.
    pub fn poll_answer(&mut self) -> Option<(H, ServerSegment<B>)> {
        if self.phase == Phase::Ended {
            return self.poll_over();
        }
        let front = self.held.front()?;
        let (number, receive) = (front.number, front.receive);
        let segment = self.answer(number, receive);
        let held = if self.is_due(&segment, receive) { self.held.pop_front() } else { None }?;
        self.answered.note(number, bytes_of(&segment.messages));
        self.sent = self.sent << 1 | u16::from(segment.send);
        if segment.send {
            self.allowance = Allowance::new();
            self.held.iter().for_each(|held| self.allowance.take(held.bytes));
        }
        self.update_asked |= receive && segment.is_bare() && segment.more;
        self.releases_spare &= segment.is_bare() && self.has_spare();
        if segment.ended {
            self.phase = Phase::Ended;
        }
        Some((held.handle, segment))
    }

    /// Whether more exchanges are held than a stream needs that says nothing: they occupy slots of
    /// the session.
    pub fn has_spare(&self) -> bool {
        self.held.len() > 1 && self.phase != Phase::Ended
    }

    /// R18: the handler has had its time to say more. The next answers give the slots back that
    /// are not needed, until it says something.
    pub fn release_spare(&mut self) {
        self.releases_spare = self.has_spare();
    }

    /// Whether nothing is held and nothing will be sent, so that the stream can be forgotten here
    /// and in [`SessionStreams`](super::SessionStreams).
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Ended && self.held.is_empty() && self.parked.is_empty()
    }

    /// Bytes of messages that the handler has not taken.
    pub fn held_bytes(&self) -> usize {
        self.inbox.bytes() + self.parked.bytes()
    }

    /// Holds what ends the stream.
    fn hold_ending(&mut self, number: u16, handle: H) {
        self.held.push_back(Held { number, receive: false, is_bare: false, bytes: 0, handle });
    }

    fn take(
        &mut self,
        segment: CallerSegment<B>,
        bytes: usize,
        handle: H,
    ) -> Result<(), Malformed> {
        if let Err(malformed) = self.validate(&segment) {
            return Err(self.refuse(segment.number, handle, malformed));
        }
        self.expected = self.expected.wrapping_add(1);
        self.opened = true;
        let (number, receive, is_bare) = (segment.number, segment.receive, segment.is_bare());
        self.allowance.take(bytes);
        if receive {
            self.update_asked = false;
            self.handled = number.wrapping_sub(1 + u16::from(segment.under_way));
        }
        self.held.push_back(Held { number, receive, is_bare, bytes, handle });
        self.open = self.open.take().or(segment.open);
        if segment.close {
            self.closed = Closed::Untold;
        }
        if self.phase == Phase::Running {
            self.inbox.extend(segment.messages);
        }
        Ok(())
    }

    /// Checks R15 to R17 for an exchange that arrived in order.
    fn validate(&self, segment: &CallerSegment<B>) -> Result<(), Malformed> {
        // Held exchanges are in progress, and the caller has handled no answers to them.
        let under_way = usize::from(segment.under_way);
        if under_way < self.held.len() || under_way >= usize::from(WIDTH_MAX) {
            return Err(Malformed::Number);
        }
        let more = !segment.messages.is_empty() || segment.close;
        if segment.open.is_some() == self.opened || more && self.closed != Closed::No {
            return Err(Malformed::Record);
        }
        // The caller used the latest answer that it had handled. `behind` more were given since
        // then.
        let behind = under_way - self.held.len();
        let allowed = self.sent >> behind & 1 != 0;
        if segment.messages.is_empty() || allowed { Ok(()) } else { Err(Malformed::Flow) }
    }

    fn refuse(&mut self, number: u16, handle: H, malformed: Malformed) -> Malformed {
        self.handle_malformed(number, handle, malformed.into());
        malformed
    }

    fn give_up(&mut self) {
        if self.phase != Phase::Ended {
            self.abort(Status::cancelled(""));
            (self.phase, self.end, self.reset) = (Phase::Ended, None, true);
        }
    }

    fn answer(&mut self, number: u16, receive: bool) -> ServerSegment<B> {
        let mut segment = ServerSegment::bare(number, self.inbox.wants());
        let mut room = Room::new(self.bytes_max);
        segment.head = self.head.take().inspect(|head| {
            room.take_record(head.tail_bytes());
        });
        let was_full = !self.outbox.has_room();
        if receive {
            let bytes_left = self.answered.room(self.handled, number);
            self.outbox.fill(&mut segment.messages, &mut room, bytes_left);
        }
        segment.more = was_full || !self.outbox.is_empty();
        self.begun |= !segment.is_bare();
        let fits = |end: &Status| room.take_record(end_bytes(end));
        if self.outbox.is_empty() && self.end.as_ref().is_some_and(fits) {
            segment.end = self.end.take();
            (segment.ended, segment.more) = (true, false);
        }
        segment
    }

    /// R18: whether to answer an exchange with this segment now.
    fn is_due(&self, segment: &ServerSegment<B>, receive: bool) -> bool {
        if !segment.is_bare() {
            return true;
        }
        // Messages wait until the caller tells that it has handled others (R17): it is asked to.
        let is_blocked = segment.more && receive && !self.update_asked;
        let opens_again = segment.send && self.sent & 1 == 0;
        let is_needless =
            self.releases_spare || !receive || self.held.iter().any(|held| !held.is_bare);
        is_blocked || opens_again || self.held.len() > 1 && is_needless
    }

    /// R19: answers all held exchanges with *ended*, in any order.
    fn poll_over(&mut self) -> Option<(H, ServerSegment<B>)> {
        if let Some(held) = self.held.pop_front() {
            return Some((held.handle, ServerSegment::over(held.number)));
        }
        let (segment, handle) = self.parked.pop()?;
        Some((handle, ServerSegment::over(segment.number)))
    }
}

//! The server's half of a stream.

use std::collections::VecDeque;

use super::flow::{Inbox, Outbox, Room, bytes_of};
use super::segment::{Body, CallerSegment, Message, Open, ServerSegment};
use super::window::{Allowance, Parked, SentBytes, WIDTH_MAX};
use super::write::end_bytes;
use crate::{Malformed, Metadata, Status};

/// What a stream's handler is told, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent<B> {
    /// The stream begins: the handler starts.
    Open(Open),
    /// A message.
    Message(Message<B>),
    /// No more messages follow.
    Closed,
    /// The stream is not wanted any more, or the caller broke a rule: the handler, if it has
    /// started, is dropped. Nothing follows.
    Reset,
}

/// The server's half of a stream; `H` is the handle that answers an exchange. See the
/// [module](super) for who calls what when.
#[derive(Debug)]
pub struct ServerStream<B, H> {
    bytes_max: usize,
    /// Number of the next exchange in order.
    expected: u16,
    /// Later ones.
    parked: Parked<(CallerSegment<B>, H)>,
    /// Exchanges that are not answered, the oldest first.
    held: VecDeque<Held<H>>,
    opened: bool,
    open: Option<Open>,
    inbox: Inbox<B>,
    closed: Closed,
    reset: bool,
    /// *Send* of the latest 16 answers: bit 0 is the latest one's. Set before there are any.
    sent: u16,
    /// What the caller may put into exchanges.
    allowance: Allowance,
    /// The latest answer that the caller had handled when it last allowed messages (R17).
    handled: u16,
    answered: SentBytes,
    /// Permits beyond one are given back.
    gives_back: bool,
    /// The caller was asked to tell what it has handled.
    asked: bool,
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
    /// It has no records: it is nothing but a permit.
    is_bare: bool,
    /// Bytes of its messages.
    bytes: usize,
    handle: H,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    No,
    /// The handler has not been told.
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
    /// For a stream that [`SessionStreams`](super::SessionStreams) says is new. Its first exchange
    /// goes to [`ServerStream::handle_exchange`]. `bytes_max` is what the session takes in one
    /// response; initial metadata, and each message with 16 bytes before it, must not be longer.
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
            gives_back: false,
            asked: false,
            outbox: Outbox::new(),
            begun: false,
            head: None,
            end: None,
            phase: Phase::Running,
        }
    }

    /// R15: an exchange arrived whole. The handle is kept until [`ServerStream::poll_answer`].
    ///
    /// # Errors
    /// The caller broke a rule; to be counted. The stream ends with `INTERNAL`, and the handler is
    /// dropped.
    pub fn handle_exchange(
        &mut self,
        segment: CallerSegment<B>,
        handle: H,
    ) -> Result<(), Malformed> {
        if segment.reset || self.phase == Phase::Ended {
            self.hold_last(segment.number, handle);
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
            // Only segment 0 has one, and nothing goes before that.
            if segment.open.is_some() {
                return Err(self.refuse(number, handle, Malformed::Record));
            }
            let parked = self.parked.insert(number, bytes, (segment, handle));
            return parked.map_err(|(_, handle)| self.refuse(number, handle, Malformed::Number));
        }
        self.take(segment, handle)?;
        while let Some((segment, handle)) = self.parked.take(self.expected) {
            self.take(segment, handle)?;
        }
        Ok(())
    }

    /// An exchange of this stream that could not be parsed: the stream ends with `status`, and the
    /// handler is dropped. The exchange is answered like others.
    pub fn handle_malformed(&mut self, number: u16, handle: H, status: Status) {
        self.hold_last(number, handle);
        if self.phase != Phase::Ended {
            self.reset = true;
            self.abort(status);
        }
    }

    /// R19: exchanges whose handles are `gone` are not wanted any more, and so the stream.
    /// These handles are dropped here.
    pub fn handle_abandoned(&mut self, mut gone: impl FnMut(&H) -> bool) {
        self.held.retain(|held| !gone(&held.handle));
        self.parked.retain(|(_, handle)| !gone(handle));
        self.give_up();
    }

    /// Whether an exchange with such a handle is not answered.
    pub fn holds(&self, is: impl Fn(&H) -> bool) -> bool {
        let parked = self.parked.iter().map(|(_, handle)| handle);
        self.held.iter().map(|held| &held.handle).chain(parked).any(is)
    }

    /// Takes a [`ServerEvent::Reset`] alone, if it is the next event: for drivers that leave all
    /// others to the handler.
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

    /// Sends initial metadata, if no message has been sent before: they go first or not at all.
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

    /// The handler is done: the end follows the messages that it has queued.
    pub fn end(&mut self, status: Status) {
        if self.phase == Phase::Running {
            self.phase = Phase::Ending;
            self.end = Some(status);
            self.inbox.clear();
        }
    }

    /// R19: the server ends the stream (deadline, panic, overload, drain): the messages that are
    /// not sent are dropped. The driver drops the handler.
    pub fn abort(&mut self, status: Status) {
        if self.phase != Phase::Ended {
            self.phase = Phase::Running;
            self.end(status);
            self.outbox.clear();
            (self.head, self.open) = (None, None);
        }
    }

    /// R18: an exchange to answer, and the answer, if one is due. To be called after the handler
    /// has run on what [`ServerStream::poll_event`] gave, so that what it says at once goes with
    /// the answer that makes room for the next exchange.
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
        self.asked |= receive && segment.is_bare() && segment.more;
        self.gives_back &= segment.is_bare() && self.has_spare_permits();
        if segment.ended {
            self.phase = Phase::Ended;
        }
        Some((held.handle, segment))
    }

    /// Whether more exchanges are held than a stream needs that says nothing: they occupy slots of
    /// the session.
    pub fn has_spare_permits(&self) -> bool {
        self.held.len() > 1 && self.phase != Phase::Ended
    }

    /// R18: the handler has had its time to say more. The next answers give the permits back that
    /// are not needed, until it says something.
    pub fn give_back_permits(&mut self) {
        self.gives_back = self.has_spare_permits();
    }

    /// Nothing is held any more, and nothing will be said: to be forgotten, here and in
    /// [`SessionStreams`](super::SessionStreams).
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Ended && self.held.is_empty() && self.parked.is_empty()
    }

    /// Bytes of messages that the handler has not taken.
    pub fn held_bytes(&self) -> usize {
        self.inbox.bytes() + self.parked.bytes()
    }

    /// Holds what ends the stream.
    fn hold_last(&mut self, number: u16, handle: H) {
        self.held.push_back(Held { number, receive: false, is_bare: false, bytes: 0, handle });
    }

    fn take(&mut self, segment: CallerSegment<B>, handle: H) -> Result<(), Malformed> {
        if let Err(malformed) = self.validate(&segment) {
            return Err(self.refuse(segment.number, handle, malformed));
        }
        self.expected = self.expected.wrapping_add(1);
        self.opened = true;
        let (number, receive, is_bare) = (segment.number, segment.receive, segment.is_bare());
        let bytes = bytes_of(&segment.messages);
        self.allowance.take(bytes);
        if receive {
            self.asked = false;
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

    /// R15 to R17, for an exchange in order.
    fn validate(&self, segment: &CallerSegment<B>) -> Result<(), Malformed> {
        // What is held is under way, and the caller has handled no answer to it.
        let under_way = usize::from(segment.under_way);
        if under_way < self.held.len() || under_way >= usize::from(WIDTH_MAX) {
            return Err(Malformed::Number);
        }
        let more = !segment.messages.is_empty() || segment.close;
        if segment.open.is_some() == self.opened || more && self.closed != Closed::No {
            return Err(Malformed::Record);
        }
        // The caller goes by the latest answer that it had handled. Since then `behind` were given.
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

    /// R18: whether an exchange is answered with this.
    fn is_due(&self, segment: &ServerSegment<B>, receive: bool) -> bool {
        if !segment.is_bare() {
            return true;
        }
        // Messages wait until the caller tells that it has handled others (R17): it is asked to.
        let is_blocked = segment.more && receive && !self.asked;
        let opens_again = segment.send && self.sent & 1 == 0;
        let is_needless = self.gives_back || !receive || self.held.iter().any(|held| !held.is_bare);
        is_blocked || opens_again || self.held.len() > 1 && is_needless
    }

    /// R19: whatever is still held is answered with *ended*, in any order.
    fn poll_over(&mut self) -> Option<(H, ServerSegment<B>)> {
        if let Some(held) = self.held.pop_front() {
            return Some((held.handle, ServerSegment::over(held.number)));
        }
        let (segment, handle) = self.parked.pop()?;
        Some((handle, ServerSegment::over(segment.number)))
    }
}

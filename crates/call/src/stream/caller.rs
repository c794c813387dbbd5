//! The caller's half of a stream.

use super::flow::{Inbox, LONE_BYTES_MIN, Outbox, Room, bytes_of};
use super::segment::{Body, CallerSegment, Message, Open, ServerSegment};
use super::window::{Allowance, Parked, SentBytes, WIDE_BYTES_MAX, WIDTH_MAX, WIDTH_OWN};
use super::write::open_bytes;
use crate::{Malformed, Metadata, Status};

/// What a stream's caller is told, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerEvent<B> {
    /// Initial metadata, at most once, before messages.
    Head(Metadata),
    /// A message.
    Message(Message<B>),
    /// The stream is over, with trailing metadata in the status. Nothing follows.
    End(Status),
}

/// The caller's half of a stream. See the [module](super) for who calls what when.
#[derive(Debug)]
pub struct CallerStream<B> {
    number: u32,
    bytes_max: usize,
    phase: Phase,
    /// Until segment 0 is made.
    open: Option<Open>,
    /// Number of the next exchange.
    next: u16,
    under_way: UnderWay,
    /// How many exchanges are to be under way although they have no records: at least one.
    permits: u16,
    /// The server waits for an exchange that tells what was handled.
    owes: bool,
    /// There was an answer that was handled.
    answered: bool,
    /// Answers to exchanges that are not the oldest.
    parked: Parked<ServerSegment<B>>,
    /// What the server may put into answers.
    allowance: Allowance,
    /// *Send* of the latest answer; set before there is one.
    send: bool,
    outbox: Outbox<B>,
    close: Close,
    inbox: Inbox<B>,
    /// There was a head or a message.
    begun: bool,
    /// What is queued outlives an end before that, after which the call may begin anew.
    keeps_queue: bool,
    /// There was an exchange beside segment 0, which may have arrived.
    went_on: bool,
    head: Option<Metadata>,
    end: Option<Status>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The server said *ended*; what is under way is still to be answered.
    Ended,
    /// Given up; a reset is to be sent.
    GivenUp,
    /// The reset of this number is under way.
    Resetting(u16),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    No,
    Wanted,
    Sent,
}

/// The exchanges under way (R15). Bit 0 of both sets is the latest one's.
#[derive(Debug, Default)]
struct UnderWay {
    len: u16,
    /// Those with *receive*.
    receive: u16,
    /// Those without records.
    bare: u16,
    sent: SentBytes,
}

impl UnderWay {
    fn push(&mut self, segment: &CallerSegment<impl Body>, bytes: usize) {
        self.receive = self.receive << 1 | u16::from(segment.receive);
        self.bare = self.bare << 1 | u16::from(segment.is_bare());
        self.sent.note(segment.number, bytes);
        self.len += 1;
    }

    /// How many have no records.
    fn bare(&self) -> u16 {
        let bits = u32::from(self.bare) & ((1 << self.len) - 1);
        bits.count_ones() as u16
    }

    /// R14: how many slots are lent, with `bare` exchanges without records and `others` with them.
    /// Of a stream's own two, one is for exchanges with records, even while there are none.
    fn lent(bare: u16, others: u16) -> u16 {
        (bare + others.max(1)).saturating_sub(WIDTH_OWN)
    }

    /// The oldest one is answered; gives its *receive*.
    fn pop(&mut self) -> bool {
        self.len -= 1;
        self.receive >> self.len & 1 != 0
    }

    /// R18: the latest exchange did not allow messages.
    fn latest_refuses(&self) -> bool {
        self.len > 0 && self.receive & 1 == 0
    }
}

impl<B: Body> CallerStream<B> {
    /// A stream of this number, from [`StreamNumbers`](super::StreamNumbers). `bytes_max` is what
    /// the session takes in one request; the open record, and each message with 16 bytes before it,
    /// must not be longer.
    pub fn new(number: u32, open: Open, bytes_max: usize) -> CallerStream<B> {
        CallerStream {
            number,
            bytes_max,
            phase: Phase::Running,
            open: Some(open),
            next: 0,
            under_way: UnderWay::default(),
            permits: 1,
            owes: false,
            answered: false,
            parked: Parked::new(),
            allowance: Allowance::new(),
            send: true,
            outbox: Outbox::new(),
            close: Close::No,
            inbox: Inbox::new(),
            begun: false,
            keeps_queue: false,
            went_on: false,
            head: None,
            end: None,
        }
    }

    /// Its number in the session.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether another message should be queued now. Turns true again after an answer.
    pub fn can_send(&self) -> bool {
        self.is_open() && self.outbox.has_room()
    }

    /// Whether messages are still taken at all: not closed, not over.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Running && self.close == Close::No
    }

    /// Queues a message. Dropped if the stream is closed or over.
    pub fn send(&mut self, message: Message<B>) {
        if self.is_open() {
            self.outbox.push(message);
        }
    }

    /// No more messages follow.
    pub fn close(&mut self) {
        if self.is_open() {
            self.close = Close::Wanted;
        }
    }

    /// R19: gives the call up. The application is told `status` and nothing else any more, unless
    /// it knows the end already. The driver first cancels the exchanges under way, and passes
    /// nothing of them on.
    pub fn reset(&mut self, status: Status) {
        let end_is_known = self.phase != Phase::Running && self.end.is_none();
        self.phase = match self.phase {
            Phase::Running if self.open.is_none() => Phase::GivenUp,
            // A reset that was under way has been cancelled with the rest.
            Phase::GivenUp | Phase::Resetting(_) => Phase::GivenUp,
            // Nobody has heard of it, or it has ended.
            Phase::Running | Phase::Ended | Phase::Over => Phase::Over,
        };
        self.drop_exchanges();
        self.inbox.clear();
        self.outbox.clear();
        (self.head, self.open) = (None, None);
        self.end = (!end_is_known).then_some(status);
    }

    /// R18: the next exchange to send, if one is due. `lent_max` is how many slots the stream may
    /// have beyond its own two; if it has more, it takes no further one.
    pub fn poll_exchange(&mut self, lent_max: u32) -> Option<CallerSegment<B>> {
        match self.phase {
            Phase::Running => self.exchange(lent_max),
            Phase::GivenUp => {
                let mut segment = CallerSegment::bare(self.number, self.next, false);
                segment.reset = true;
                self.phase = Phase::Resetting(self.next);
                self.next = self.next.wrapping_add(1);
                Some(segment)
            }
            _ => None,
        }
    }

    /// How many slots the stream has beyond its own two. An exchange that the server asks for has
    /// that of the answer that did: the stream could wait for ever if others took it.
    pub fn lent(&self) -> u32 {
        let bare = self.under_way.bare();
        u32::from(UnderWay::lent(bare + u16::from(self.owes), self.under_way.len - bare))
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<CallerEvent<B>> {
        if let Some(head) = self.head.take() {
            return Some(CallerEvent::Head(head));
        }
        let message = self.inbox.pop().map(CallerEvent::Message);
        message.or_else(|| self.end.take().map(CallerEvent::End))
    }

    /// R15: an exchange's response came.
    ///
    /// # Errors
    /// The server broke a rule; to be counted. The stream is given up with `INTERNAL`, as by
    /// [`CallerStream::reset`].
    pub fn handle_answer(&mut self, segment: ServerSegment<B>) -> Result<(), Malformed> {
        match self.phase {
            Phase::Running | Phase::Ended => {}
            Phase::Resetting(number) if number == segment.number => {
                self.phase = Phase::Over;
                return Ok(());
            }
            _ => return Ok(()),
        }
        let taken = self.place(segment);
        match (taken, self.phase) {
            (Ok(()), _) => {}
            // How it ended is known.
            (Err(_), Phase::Ended) => self.finish(),
            (Err(malformed), _) => self.reset(malformed.into()),
        }
        taken
    }

    /// Whether there was a head or a message, which the application has or will have.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether what is queued outlives an end before a head or a message: the driver may then have
    /// the call begin anew.
    pub fn keep_queue(&mut self, keeps: bool) {
        self.keeps_queue = keeps;
        if !keeps && self.phase != Phase::Running {
            self.outbox.clear();
        }
    }

    /// R20: forgets an attempt that has ended or failed with nothing delivered. What is queued
    /// waits for [`CallerStream::restart`].
    ///
    /// # Panics
    /// If something was delivered.
    pub fn rewind(&mut self) {
        assert!(!self.begun, "what was delivered is not taken back");
        (self.phase, self.end) = (Phase::Running, None);
        self.forget_exchanges();
    }

    /// Whether segment 0 has not been answered, and so no answer has been handled.
    pub fn is_unanswered(&self) -> bool {
        self.phase == Phase::Running && !self.answered
    }

    /// R20: begins anew in another session, under a number of that one, since segment 0 certainly
    /// has had no effect and so no other has. `open` and `sent` are what they have had: they go
    /// again, before what is queued.
    ///
    /// # Panics
    /// If something was answered: see [`CallerStream::is_unanswered`].
    pub fn restart(&mut self, number: u32, open: Open, sent: Vec<CallerSegment<B>>) {
        assert!(self.is_unanswered(), "a stream that has begun does not begin anew");
        let queued = core::mem::replace(&mut self.outbox, Outbox::new());
        for segment in sent {
            if segment.close {
                self.close = Close::Wanted;
            }
            segment.messages.into_iter().for_each(|message| self.outbox.push(message));
        }
        queued.into_messages().for_each(|message| self.outbox.push(message));
        (self.number, self.open, self.went_on) = (number, Some(open), false);
        self.forget_exchanges();
    }

    /// R20: an exchange failed, so the stream does, with this status. The driver cancels the other
    /// exchange. If the session lives, the server is told by a reset, and again if that fails.
    pub fn handle_failure(&mut self, status: Status, session_lives: bool) {
        if self.phase == Phase::Running {
            self.reset(status);
        }
        match self.phase {
            Phase::GivenUp | Phase::Resetting(_) if session_lives => self.phase = Phase::GivenUp,
            _ => self.finish(),
        }
    }

    /// R20: whether the handler may have run when an exchange fails that has not. It has not if
    /// that exchange is the only one.
    pub fn may_have_run(&self) -> bool {
        self.went_on
    }

    /// How it ended, until the application has been told.
    pub fn end(&self) -> Option<&Status> {
        self.end.as_ref()
    }

    /// Nothing will be sent or handled any more. What [`CallerStream::poll_event`] still has can be
    /// taken; the stream's place in the session is free.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Bytes of messages that the application has not taken.
    pub fn held_bytes(&self) -> usize {
        self.inbox.bytes() + self.parked.bytes()
    }

    fn forget_exchanges(&mut self) {
        (self.next, self.permits) = (0, 1);
        (self.answered, self.send) = (false, true);
        self.allowance = Allowance::new();
        self.drop_exchanges();
    }

    /// No answer is handled any more. The slots of what was under way are given back.
    fn finish(&mut self) {
        self.phase = Phase::Over;
        self.drop_exchanges();
    }

    fn drop_exchanges(&mut self) {
        (self.under_way, self.owes) = (UnderWay::default(), false);
        self.parked.clear();
    }

    fn exchange(&mut self, lent_max: u32) -> Option<CallerSegment<B>> {
        let len = self.under_way.len;
        let receive = self.inbox.wants();
        let (may_have_records, may_be_bare) = self.may_send(receive, lent_max);
        // The server has handled what it has answered.
        let handled = self.next.wrapping_sub(len + 1);
        let mut segment = CallerSegment::bare(self.number, self.next, receive);
        segment.under_way = u8::try_from(len).expect("fewer than 16 are under way");
        let bytes = if may_have_records { self.fill(&mut segment, handled) } else { 0 };
        let opens_again = len < WIDTH_OWN && self.under_way.latest_refuses();
        let is_useful = may_be_bare && (self.owes || len < self.permits);
        let is_permit = len == 0 || receive && (opens_again || is_useful);
        if segment.is_bare() && !is_permit {
            return None;
        }
        if receive {
            self.allowance = Allowance::new();
            self.owes = false;
        }
        self.went_on |= self.next != 0;
        self.under_way.push(&segment, bytes);
        self.next = self.next.wrapping_add(1);
        Some(segment)
    }

    /// R15, R18: whether an exchange with records may be sent, and whether a bare one. What goes
    /// beyond a stream's own two waits for the first answer, since before it the stream may have to
    /// begin anew (R20), and has to be worth it.
    fn may_send(&self, receive: bool, lent_max: u32) -> (bool, bool) {
        let len = self.under_way.len;
        let bare = self.under_way.bare();
        let others = len - bare;
        let lent_max = if self.is_unanswered() { 0 } else { lent_max };
        // One that has *receive* is what the server has asked for.
        let owed = u16::from(self.owes && !receive);
        // What takes no further slot may be sent although others need those that are lent.
        let lent_max = lent_max.max(self.lent());
        let fits = |lent: u16| len < WIDTH_MAX && u32::from(lent) <= lent_max;
        let is_worth_it = others < WIDTH_OWN || self.outbox.bytes() >= LONE_BYTES_MIN;
        let with_records = is_worth_it && fits(UnderWay::lent(bare + owed, others + 1));
        // One is left for records.
        let is_bare = len + 1 < WIDTH_MAX && fits(UnderWay::lent(bare + 1, others));
        (with_records, is_bare)
    }

    /// Moves what is to be sent into a segment. Gives how many bytes of messages that is.
    fn fill(&mut self, segment: &mut CallerSegment<B>, handled: u16) -> usize {
        let bytes_left = self.under_way.sent.room(handled, self.next);
        let mut room = Room::new(self.bytes_max);
        segment.open = self.open.take().inspect(|open| {
            room.take_record(open_bytes(open));
        });
        let mut bytes = 0;
        if self.send {
            bytes = self.outbox.fill(&mut segment.messages, &mut room, bytes_left);
        }
        let closing = self.close == Close::Wanted && self.outbox.is_empty();
        if closing && room.take_record(0) {
            segment.close = true;
            self.close = Close::Sent;
        }
        bytes
    }

    /// Handles answers in order of their numbers.
    fn place(&mut self, segment: ServerSegment<B>) -> Result<(), Malformed> {
        let ahead = segment.number.wrapping_sub(self.oldest());
        let bytes = bytes_of(&segment.messages);
        if ahead >= self.under_way.len {
            return Err(Malformed::Number);
        }
        if !self.allowance.admits(bytes, &self.parked) {
            return Err(Malformed::Flow);
        }
        if ahead > 0 {
            let parked = self.parked.insert(segment.number, bytes, segment);
            return parked.map_err(|_| Malformed::Number);
        }
        self.take(segment)?;
        while let Some(next) = self.parked.take(self.oldest()) {
            self.take(next)?;
        }
        Ok(())
    }

    /// Number of the oldest exchange under way.
    fn oldest(&self) -> u16 {
        self.next.wrapping_sub(self.under_way.len)
    }

    fn take(&mut self, segment: ServerSegment<B>) -> Result<(), Malformed> {
        let receive = self.under_way.pop();
        self.answered = true;
        if self.phase == Phase::Running {
            self.note_permits(&segment);
            self.take_records(receive, segment)?;
        }
        if self.phase == Phase::Ended && self.under_way.len == 0 {
            self.phase = Phase::Over;
        }
        Ok(())
    }

    /// R18: the server says how many permits it can use: another with each answer after which more
    /// messages wait, one less with each short answer after which none does. Long messages need
    /// fewer.
    fn note_permits(&mut self, segment: &ServerSegment<B>) {
        let bytes = bytes_of(&segment.messages);
        self.allowance.take(bytes);
        self.owes |= segment.is_bare() && segment.more;
        let useful = u16::try_from(WIDE_BYTES_MAX / bytes.max(1)).unwrap_or(WIDTH_MAX);
        if segment.more && self.permits < useful.clamp(WIDTH_OWN, WIDTH_MAX) {
            self.permits += 1;
        } else if !segment.more && bytes < LONE_BYTES_MIN {
            // Those that were never sent are not needed, either.
            self.permits = self.permits.saturating_sub(1).clamp(1, self.under_way.len.max(1));
        }
    }

    fn take_records(&mut self, receive: bool, segment: ServerSegment<B>) -> Result<(), Malformed> {
        if segment.head.is_some() && self.begun {
            return Err(Malformed::Record);
        }
        if !segment.messages.is_empty() && !receive {
            return Err(Malformed::Flow);
        }
        self.begun |= segment.head.is_some() || !segment.messages.is_empty();
        self.send = segment.send;
        self.head = self.head.take().or(segment.head);
        self.inbox.extend(segment.messages);
        if segment.ended {
            let lost = || Status::unavailable("the server does not know the stream any more");
            self.end = Some(segment.end.unwrap_or_else(lost));
            (self.phase, self.owes) = (Phase::Ended, false);
            if self.begun || !self.keeps_queue {
                self.outbox.clear();
            }
        }
        Ok(())
    }
}

//! The caller's half of a stream.

use super::flow::{Inbox, LONE_BYTES_MIN, Outbox, Room, bytes_of};
use super::segment::{Body, CallerSegment, Message, Open, ServerSegment};
use super::window::{Allowance, Parked, SentBytes, WIDE_BYTES_MAX, WIDTH_MAX, WIDTH_OWN};
use super::write::open_bytes;
use crate::{Malformed, Metadata, Status};

/// An event for the application that makes the call. Events come in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerEvent<B> {
    /// Initial metadata, at most once, before messages.
    Head(Metadata),
    /// A message.
    Message(Message<B>),
    /// The stream is over, with trailing metadata in the status. Nothing follows.
    End(Status),
}

/// The caller's half of a stream. The [module](super) describes the order of calls.
#[derive(Debug)]
pub struct CallerStream<B> {
    number: u32,
    bytes_max: usize,
    phase: Phase,
    /// Present until segment 0 is made.
    open: Option<Open>,
    /// Number of the next exchange.
    next: u16,
    under_way: UnderWay,
    /// How many exchanges the server has use for, with records or without (R18): at least one.
    width_wanted: u16,
    /// The server has asked for an exchange that tells what was handled (R18).
    update_due: bool,
    /// There was an answer that was handled.
    answered: bool,
    /// Answers whose predecessors have not arrived yet.
    parked: Parked<ServerSegment<B>>,
    /// How much the server may put into answers.
    allowance: Allowance,
    /// *Send* of the latest answer; set before there is one.
    send: bool,
    outbox: Outbox<B>,
    close: Close,
    inbox: Inbox<B>,
    /// A head or a message was received.
    begun: bool,
    /// Whether the queue is kept if the call ends before that, so that the call can restart.
    keeps_queue: bool,
    /// An exchange other than segment 0 was made, which may have arrived.
    went_on: bool,
    head: Option<Metadata>,
    end: Option<Status>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The server said *ended*; exchanges in progress are still to be answered.
    Ended,
    /// Given up; a reset is to be sent.
    GivenUp,
    /// The reset of this number is in progress.
    Resetting(u16),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    No,
    Wanted,
    Sent,
}

/// The exchanges in progress (R15). Bit 0 of both sets stands for the latest one.
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

    /// How many exchanges in progress have no records.
    fn bare(&self) -> u16 {
        let bits = u32::from(self.bare) & ((1 << self.len) - 1);
        bits.count_ones() as u16
    }

    /// R14: how many slots are lent to a stream with `bare` exchanges without records and `others`
    /// with them. Of the stream's own two slots, one is reserved for exchanges with records.
    fn lent(bare: u16, others: u16) -> u16 {
        (bare + others.max(1)).saturating_sub(WIDTH_OWN)
    }

    /// The oldest exchange was answered. Returns its *receive* bit.
    fn pop(&mut self) -> bool {
        self.len -= 1;
        self.receive >> self.len & 1 != 0
    }

    /// R18: whether the latest exchange did not allow messages.
    fn latest_refuses(&self) -> bool {
        self.len > 0 && self.receive & 1 == 0
    }
}

impl<B: Body> CallerStream<B> {
    /// Makes a stream with a number from [`StreamNumbers`](super::StreamNumbers). `bytes_max` is
    /// the longest request that the session accepts. The open record must not be longer, nor any
    /// message together with the 16 bytes before it.
    pub fn new(number: u32, open: Open, bytes_max: usize) -> CallerStream<B> {
        CallerStream {
            number,
            bytes_max,
            phase: Phase::Running,
            open: Some(open),
            next: 0,
            under_way: UnderWay::default(),
            width_wanted: 1,
            update_due: false,
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

    /// Whether messages are still accepted: the stream is neither closed nor over.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Running && self.close == Close::No
    }

    /// Queues a message. Dropped if the stream is closed or over.
    pub fn send(&mut self, message: Message<B>) {
        if self.is_open() {
            self.outbox.push(message);
        }
    }

    /// Closes this direction: no more messages follow.
    pub fn close(&mut self) {
        if self.is_open() {
            self.close = Close::Wanted;
        }
    }

    /// R19: cancels the call. The application gets `status` and no other event, unless it already
    /// knows the end. The driver must first cancel the exchanges in progress, and must not pass on
    /// their answers.
    pub fn reset(&mut self, status: Status) {
        let end_is_known = self.phase != Phase::Running && self.end.is_none();
        self.phase = match self.phase {
            Phase::Running if self.open.is_none() => Phase::GivenUp,
            // A reset in progress was cancelled with the other exchanges.
            Phase::GivenUp | Phase::Resetting(_) => Phase::GivenUp,
            // The server does not know the stream, or has ended it.
            Phase::Running | Phase::Ended | Phase::Over => Phase::Over,
        };
        self.drop_exchanges();
        self.inbox.clear();
        self.outbox.clear();
        (self.head, self.open) = (None, None);
        self.end = (!end_is_known).then_some(status);
    }

    /// R18: the next exchange to send, if one is due. `lent_max` is the number of slots that the
    /// stream may use beyond its own two. If it already uses more, it takes no other one. Look at
    /// [`CallerStream::lent`] after each: it may be more or less than before.
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

    /// How many slots the stream uses beyond its own two. An exchange that the server asked for
    /// takes over the slot of the answer that asked for it: if other streams took that slot, this
    /// one could wait for ever. If that exchange turns out to have records, it goes to the slot
    /// that is the stream's own for those, and the other is given back.
    pub fn lent(&self) -> u32 {
        let bare = self.under_way.bare();
        u32::from(UnderWay::lent(bare + u16::from(self.update_due), self.under_way.len - bare))
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<CallerEvent<B>> {
        if let Some(head) = self.head.take() {
            return Some(CallerEvent::Head(head));
        }
        let message = self.inbox.pop().map(CallerEvent::Message);
        message.or_else(|| self.end.take().map(CallerEvent::End))
    }

    /// R15: handles the response to an exchange.
    ///
    /// # Errors
    /// The server broke a rule, which the driver should count. The stream is given up with
    /// `INTERNAL`, as by [`CallerStream::reset`].
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
            // The result of the stream is already known.
            (Err(_), Phase::Ended) => self.finish(),
            (Err(malformed), _) => self.reset(malformed.into()),
        }
        taken
    }

    /// Whether a head or a message was received. The application has seen it or will see it.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Sets whether the queue is kept if the stream ends before a head or a message. Then the
    /// driver may restart the call.
    pub fn keep_queue(&mut self, keeps: bool) {
        self.keeps_queue = keeps;
        if !keeps && self.phase != Phase::Running {
            self.outbox.clear();
        }
    }

    /// R20: forgets an attempt that has ended or failed before anything was delivered. The queue is
    /// kept for [`CallerStream::restart`].
    ///
    /// # Panics
    /// If something was delivered.
    pub fn rewind(&mut self) {
        assert!(!self.begun, "what was delivered is not taken back");
        (self.phase, self.end) = (Phase::Running, None);
        self.forget_exchanges();
    }

    /// Whether segment 0 has not been answered, so that no answer has been handled either.
    pub fn is_unanswered(&self) -> bool {
        self.phase == Phase::Running && !self.answered
    }

    /// R20: restarts in another session, with a number of that session. This is possible because
    /// segment 0 certainly has had no effect, so no other segment has. `open` and `sent` are what
    /// the earlier segments carried: they are sent again, before the queue.
    ///
    /// # Panics
    /// If an exchange was answered: see [`CallerStream::is_unanswered`].
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

    /// R20: fails the stream with this status, because an exchange failed. The driver cancels the
    /// other exchanges. If the session lives, the server is informed by a reset, which is repeated
    /// if it fails.
    pub fn handle_failure(&mut self, status: Status, session_lives: bool) {
        if self.phase == Phase::Running {
            self.reset(status);
        }
        match self.phase {
            Phase::GivenUp | Phase::Resetting(_) if session_lives => self.phase = Phase::GivenUp,
            _ => self.finish(),
        }
    }

    /// R20: whether the handler may have run, when an exchange fails that has certainly not run. It
    /// has not run if that exchange is the only one.
    pub fn may_have_run(&self) -> bool {
        self.went_on
    }

    /// The result of the stream, until the application has taken it.
    pub fn end(&self) -> Option<&Status> {
        self.end.as_ref()
    }

    /// Whether nothing more will be sent or handled, so that the stream's place in the session is
    /// free. Events can still be taken with [`CallerStream::poll_event`].
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Bytes of messages that the application has not taken.
    pub fn held_bytes(&self) -> usize {
        self.inbox.bytes() + self.parked.bytes()
    }

    fn forget_exchanges(&mut self) {
        (self.next, self.width_wanted) = (0, 1);
        (self.answered, self.send) = (false, true);
        self.allowance = Allowance::new();
        self.drop_exchanges();
    }

    /// Stops handling answers, and gives back the slots of exchanges in progress.
    fn finish(&mut self) {
        self.phase = Phase::Over;
        self.drop_exchanges();
    }

    fn drop_exchanges(&mut self) {
        (self.under_way, self.update_due) = (UnderWay::default(), false);
        self.parked.clear();
    }

    fn exchange(&mut self, lent_max: u32) -> Option<CallerSegment<B>> {
        let len = self.under_way.len;
        let receive = self.inbox.wants();
        let (may_have_records, may_be_bare) = self.may_send(receive, lent_max);
        // The server has handled all exchanges that it has answered.
        let handled = self.next.wrapping_sub(len + 1);
        let mut segment = CallerSegment::bare(self.number, self.next, receive);
        segment.under_way = u8::try_from(len).expect("fewer than 16 are under way");
        let bytes = if may_have_records { self.fill(&mut segment, handled) } else { 0 };
        let opens_again = len < WIDTH_OWN && self.under_way.latest_refuses();
        let is_useful = may_be_bare && (self.update_due || len < self.width_wanted);
        let is_bare_due = len == 0 || receive && (opens_again || is_useful);
        if segment.is_bare() && !is_bare_due {
            return None;
        }
        if receive {
            self.allowance = Allowance::new();
            self.update_due = false;
        }
        self.went_on |= self.next != 0;
        self.under_way.push(&segment, bytes);
        self.next = self.next.wrapping_add(1);
        Some(segment)
    }

    /// R15, R18: whether an exchange with records may be sent, and whether a bare one. Exchanges
    /// beyond the stream's own two wait for the first answer, because the stream may have to
    /// restart before it (R20). They must also be worth their cost.
    fn may_send(&self, receive: bool, lent_max: u32) -> (bool, bool) {
        let len = self.under_way.len;
        let bare = self.under_way.bare();
        let others = len - bare;
        let lent_max = if self.is_unanswered() { 0 } else { lent_max };
        // One that has *receive* is what the server has asked for.
        let update = u16::from(self.update_due && !receive);
        // What takes no further slot may be sent although others need those that are lent.
        let lent_max = lent_max.max(self.lent());
        let fits = |lent: u16| len < WIDTH_MAX && u32::from(lent) <= lent_max;
        let is_worth_it = others < WIDTH_OWN || self.outbox.bytes() >= LONE_BYTES_MIN;
        let with_records = is_worth_it && fits(UnderWay::lent(bare + update, others + 1));
        // One is left for records.
        let is_bare = len + 1 < WIDTH_MAX && fits(UnderWay::lent(bare + 1, others));
        (with_records, is_bare)
    }

    /// Moves queued items into a segment. Returns the bytes of messages in it.
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
        self.take(segment, bytes)?;
        while let Some((bytes, next)) = self.parked.take(self.oldest()) {
            self.take(next, bytes)?;
        }
        Ok(())
    }

    /// The number of the oldest exchange in progress.
    fn oldest(&self) -> u16 {
        self.next.wrapping_sub(self.under_way.len)
    }

    fn take(&mut self, segment: ServerSegment<B>, bytes: usize) -> Result<(), Malformed> {
        let receive = self.under_way.pop();
        self.answered = true;
        if self.phase == Phase::Running {
            self.note_width(&segment, bytes);
            self.take_records(receive, segment)?;
        }
        if self.phase == Phase::Ended && self.under_way.len == 0 {
            self.phase = Phase::Over;
        }
        Ok(())
    }

    /// R18: the server says how many exchanges it has use for: one more with each answer after
    /// which more messages wait, one less with each short answer after which none does. Long
    /// messages need fewer.
    fn note_width(&mut self, segment: &ServerSegment<B>, bytes: usize) {
        self.allowance.take(bytes);
        self.update_due |= segment.is_bare() && segment.more;
        let useful = u16::try_from(WIDE_BYTES_MAX / bytes.max(1)).unwrap_or(WIDTH_MAX);
        if segment.more && self.width_wanted < useful.clamp(WIDTH_OWN, WIDTH_MAX) {
            self.width_wanted += 1;
        } else if !segment.more && bytes < LONE_BYTES_MIN {
            // Nor for those that were never sent.
            self.width_wanted =
                self.width_wanted.saturating_sub(1).clamp(1, self.under_way.len.max(1));
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
            (self.phase, self.update_due) = (Phase::Ended, false);
            if self.begun || !self.keeps_queue {
                self.outbox.clear();
            }
        }
        Ok(())
    }
}

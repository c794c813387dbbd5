//! The caller's half of a stream.

use super::flow::{Inbox, Outbox, Room};
use super::segment::{Body, CallerSegment, Message, Open, ServerSegment};
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
    /// The answer to the younger exchange, if it came first.
    parked: Option<ServerSegment<B>>,
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

/// *Receive* of the exchanges under way, the oldest first (R15: at most two).
#[derive(Debug, Default)]
struct UnderWay {
    receive: [bool; 2],
    len: u16,
}

impl UnderWay {
    fn push(&mut self, receive: bool) {
        self.receive[usize::from(self.len)] = receive;
        self.len += 1;
    }

    fn pop(&mut self) -> bool {
        self.len -= 1;
        let [oldest, younger] = self.receive;
        self.receive[0] = younger;
        oldest
    }

    /// R18: the latest exchange did not allow messages.
    fn latest_refuses(&self) -> bool {
        self.len > 0 && !self.receive[usize::from(self.len) - 1]
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
            parked: None,
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
        self.under_way = UnderWay::default();
        self.inbox.clear();
        self.outbox.clear();
        (self.head, self.parked, self.open) = (None, None, None);
        self.end = (!end_is_known).then_some(status);
    }

    /// R18: the next exchange to send, if one is due.
    pub fn poll_exchange(&mut self) -> Option<CallerSegment<B>> {
        match self.phase {
            Phase::Running if self.under_way.len < 2 => self.exchange(),
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
            (Err(_), Phase::Ended) => self.phase = Phase::Over,
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
        (self.next, self.under_way, self.parked) = (0, UnderWay::default(), None);
        self.send = true;
    }

    /// Whether segment 0 has not been answered, and so no answer has been handled.
    pub fn is_unanswered(&self) -> bool {
        self.phase == Phase::Running && self.next == self.under_way.len
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
        (self.number, self.next, self.open) = (number, 0, Some(open));
        (self.under_way, self.parked) = (UnderWay::default(), None);
        (self.went_on, self.send) = (false, true);
    }

    /// R20: an exchange failed, so the stream does, with this status. The driver cancels the other
    /// exchange. If the session lives, the server is told by a reset, and again if that fails.
    pub fn handle_failure(&mut self, status: Status, session_lives: bool) {
        if self.phase == Phase::Running {
            self.reset(status);
        }
        self.phase = match self.phase {
            Phase::GivenUp | Phase::Resetting(_) if session_lives => Phase::GivenUp,
            _ => Phase::Over,
        };
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
        let parked = self.parked.iter().flat_map(|segment| segment.messages.iter());
        self.inbox.bytes() + parked.map(|message| message.body.len()).sum::<usize>()
    }

    fn exchange(&mut self) -> Option<CallerSegment<B>> {
        let receive = self.inbox.wants();
        let mut segment = CallerSegment::bare(self.number, self.next, receive);
        let mut room = Room::new(self.bytes_max);
        segment.open = self.open.take().inspect(|open| {
            room.take_record(open_bytes(open));
        });
        if self.send {
            self.outbox.fill(&mut segment.messages, &mut room);
        }
        let closing = self.close == Close::Wanted && self.outbox.is_empty();
        if closing && room.take_record(0) {
            segment.close = true;
            self.close = Close::Sent;
        }
        let permit = self.under_way.len == 0 || receive && self.under_way.latest_refuses();
        if segment.is_bare() && !permit {
            return None;
        }
        self.went_on |= self.next != 0;
        self.next = self.next.wrapping_add(1);
        self.under_way.push(receive);
        Some(segment)
    }

    /// Handles answers in order of their numbers.
    fn place(&mut self, segment: ServerSegment<B>) -> Result<(), Malformed> {
        let oldest = self.next.wrapping_sub(self.under_way.len);
        match segment.number.wrapping_sub(oldest) {
            0 if self.under_way.len > 0 => {
                self.take(segment)?;
                self.parked.take().map_or(Ok(()), |parked| self.take(parked))
            }
            1 if self.under_way.len > 1 && self.parked.is_none() => {
                self.parked = Some(segment);
                Ok(())
            }
            _ => Err(Malformed::Number),
        }
    }

    fn take(&mut self, segment: ServerSegment<B>) -> Result<(), Malformed> {
        let receive = self.under_way.pop();
        if self.phase == Phase::Running {
            self.take_records(receive, segment)?;
        }
        if self.phase == Phase::Ended && self.under_way.len == 0 {
            self.phase = Phase::Over;
        }
        Ok(())
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
            self.phase = Phase::Ended;
            if self.begun || !self.keeps_queue {
                self.outbox.clear();
            }
        }
        Ok(())
    }
}

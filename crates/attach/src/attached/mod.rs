//! The service's side of an attachment: it answers requests for extents, within the quotas, and
//! owns the heaps and lanes.
//!
//! Nothing here waits, and a turn is bounded: it reads at most [`READ_BYTES`], and handles no
//! further request while [`OUTPUT_FRAMES_MAX`] frames wait to be sent, besides those of the lanes.
//! So if an application sends requests and does not read the answers, the service stops reading its
//! requests, and detaches it after the listener's patience.

mod shared;

pub use shared::{AcceptError, Terms};

pub(crate) use shared::Shared;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use petasos_abi::Extent;
use petasos_base::Time;
use petasos_shm::{HeapError, HeapKind, Outside, OwnedHeap};

use crate::ask::{Answer, Ask, NotDone};
use crate::credentials::Credentials;
use crate::ended::Ended;
use crate::hello::{HANDOVER_VERSION, Hello, Limits, Versions, Welcome};
use crate::lane::Lane;
use crate::message::{FromApplication, FromService, Grow};
use crate::places::Place;
use crate::reason::{DetachCode, NoExtent, Text};
use crate::session::{Handover, ServiceSession, Violation};
use crate::socket::{self, Output, Received};

/// The most bytes that are read in a turn.
const READ_BYTES: usize = 1024;
/// Beyond so many frames that wait to be sent, and those of the lanes, an application is not heard.
const OUTPUT_FRAMES_MAX: usize = 16;
/// Bytes that the socket holds for an application that does not read, as far as the system lets
/// choose: what is in flight has descriptors.
const SOCKET_BYTES: usize = 4096;

/// A connection whose hello has come.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) socket: OwnedFd,
    pub(crate) session: ServiceSession,
    /// What came after the hello.
    pub(crate) rest: Vec<u8>,
    pub(crate) credentials: Credentials,
    pub(crate) patience: Duration,
}

/// What an application has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It was given this extent, for which it had asked.
    Grown(HeapKind, Extent),
    /// It was refused an extent.
    NotGrown(HeapKind, NoExtent),
    /// It has given up this extent of its send heap.
    GaveUp(Extent),
    /// D14: it has attached to the successor.
    HasAttached,
    /// D14: it begins no more calls here. What it has put into its lanes before is there.
    HasMoved,
    /// It asks for something. Until [`Attached::answer`] it is not heard any more.
    Asked(Ask),
}

/// Why an extent was not made or given up. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// No extent could be made.
    #[error(transparent)]
    NoExtent(#[from] NoExtent),
    /// The heap refused.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// The application has not taken what it was sent before. A retry is safe, after a turn.
    #[error("the application has to read first")]
    Busy,
}

/// An application that is attached.
#[derive(Debug)]
pub struct Attached {
    socket: OwnedFd,
    session: ServiceSession,
    /// What was read and not handled: less than [`READ_BYTES`], or what came with the hello.
    input: Vec<u8>,
    output: Output,
    /// See [`OUTPUT_FRAMES_MAX`].
    output_max: usize,
    patience: Duration,
    /// The number of the request that [`Attached::answer`] answers.
    asked: Option<u32>,
    /// When a frame that has begun has to be complete, and when what is sent has to be read.
    input_due: Option<Time>,
    output_due: Option<Time>,
    credentials: Credentials,
    hello: Hello,
    shared: Shared,
    _place: Place,
}

impl Attached {
    pub(crate) fn new(from: Beginning, hello: Hello, place: Place, shared: Shared) -> Attached {
        place.give();
        let Beginning { socket, session, rest, credentials, patience } = from;
        // If the system refuses, there is more in flight: no harm but that.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BYTES);
        let (output, input, input_due, output_due) = (Output::default(), rest, None, None);
        let mut attached = Attached {
            socket,
            session,
            input,
            output,
            output_max: OUTPUT_FRAMES_MAX,
            asked: None,
            patience,
            input_due,
            output_due,
            credentials,
            hello,
            shared,
            _place: place,
        };
        attached.welcome();
        attached
    }

    fn welcome(&mut self) {
        let version = self.version();
        let files = core::mem::take(&mut self.shared.lane_files);
        let welcome = Welcome { version, lanes: files.len() as u16, limits: self.shared.limits };
        self.output.push(&FromService::Welcome(welcome), Vec::new());
        self.output_max = 1 + files.len() + OUTPUT_FRAMES_MAX;
        for (index, files) in (0..).zip(files) {
            let lane = FromService::Lane { index, slots: self.shared.slots };
            self.output.push(&lane, files.into());
        }
    }

    /// Hears the application, answers it, and sends what waits. Call it when the socket is
    /// readable, or writable if [`Attached::wants_to_write`], and at [`Attached::next_due`].
    ///
    /// # Errors
    /// Why the attachment has ended. There is nothing more to do than to drop it.
    pub fn turn(&mut self, now: Time, mut on_event: impl FnMut(Event)) -> Result<(), Ended> {
        let heard = self.hear(&mut on_event);
        let sent = self.output.flush(self.socket.as_fd()).map_err(|_| Ended::Gone);
        let done = heard.and(sent).and_then(|sent| Ok(self.check_due(now, sent > 0)?));
        if let Err(Ended::Violation(violation)) = &done {
            self.say_detach(DetachCode::Violation, &violation.to_string());
        }
        done
    }

    /// Whether something waits until the socket is writable.
    pub fn wants_to_write(&self) -> bool {
        self.output.len() > 0
    }

    /// When the application will have taken too long.
    pub fn next_due(&self) -> Option<Time> {
        self.input_due.into_iter().chain(self.output_due).min()
    }

    /// Makes an extent for which the application has not asked, and announces it.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn grow(&mut self, kind: HeapKind, bytes: u64) -> Result<Extent, ChangeError> {
        self.check_output()?;
        Ok(self.make_extent(0, kind, bytes)?)
    }

    /// Removes the extent of the receive heap at this offset, and lets the application unmap it.
    /// Its bytes stay charged to the quota.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn give_up(&mut self, offset: u64) -> Result<Extent, ChangeError> {
        self.check_output()?;
        let extent = self.shared.receive.heap.remove(offset)?;
        self.output.push(&FromService::GiveUp { offset }, Vec::new());
        Ok(extent)
    }

    /// The version that both speak.
    ///
    /// # Panics
    /// Never: the session has checked the versions.
    pub fn version(&self) -> u16 {
        self.hello.versions.agree(Versions::SUPPORTED).expect("the session has checked them")
    }

    /// D14: how far the application has moved to the service's successor.
    pub fn handover(&self) -> Handover {
        self.session.handover()
    }

    /// D14: tells the application that a successor listens where it has attached. Says whether it
    /// was told: it has to know of successors, and is told once.
    pub fn announce_successor(&mut self) -> bool {
        let knows = self.version() >= HANDOVER_VERSION;
        let is_told = knows && self.session.say(Handover::Announced);
        if is_told {
            self.output.push(&FromService::Successor, Vec::new());
        }
        is_told
    }

    /// D14: tells the application to begin calls at the successor. Says whether it was told: it has
    /// to have attached there.
    pub fn let_move(&mut self) -> bool {
        let is_told = self.session.say(Handover::Moving);
        if is_told {
            self.output.push(&FromService::Move, Vec::new());
        }
        is_told
    }

    /// D13: answers what the application has asked for: a number, or why not.
    ///
    /// # Panics
    /// If it has asked for nothing, or was answered.
    pub fn answer(&mut self, result: Result<u32, NotDone>) {
        let request = self.asked.take().expect("it has asked for something");
        self.output.push(&FromService::Answer(Answer { request, result }), Vec::new());
    }

    /// D3: writes into the receive heap.
    ///
    /// # Errors
    /// [`Outside`] if the place has no memory; nothing was written.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Outside> {
        self.shared.receive.heap.write(offset, bytes)
    }

    /// Lets `fill` write a place of the receive heap (D3).
    ///
    /// # Errors
    /// [`Outside`] if the place has no memory; `fill` was not called.
    pub fn write_with(
        &mut self,
        offset: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Outside> {
        self.shared.receive.heap.write_with(offset, bytes, fill)
    }

    /// A heap, to be read.
    pub fn heap(&self, kind: HeapKind) -> &OwnedHeap {
        &self.shared.heap(kind).heap
    }

    /// Bytes that count towards a heap's quota.
    pub fn charged_bytes(&self, kind: HeapKind) -> u64 {
        self.shared.heap(kind).charged_bytes()
    }

    /// The lanes that have not been taken.
    pub fn lanes(&mut self) -> &mut [Lane] {
        &mut self.shared.lanes
    }

    /// The lanes, for the threads that use them. Each notices by itself when the application is
    /// gone.
    pub fn take_lanes(&mut self) -> Vec<Lane> {
        core::mem::take(&mut self.shared.lanes)
    }

    /// What the application said first.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Who it is.
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// What it may have.
    pub fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// Ends the attachment, and tells the application so if that is possible at once.
    pub fn detach(mut self, code: DetachCode, text: &str) {
        self.say_detach(code, text);
    }

    /// Tells the application that the attachment has ended, if that is possible at once. It is to
    /// be dropped.
    pub fn say_detach(&mut self, code: DetachCode, text: &str) {
        self.output.push(&FromService::Detach(code, Text::new(text)), Vec::new());
        let _ = self.output.flush(self.socket.as_fd());
    }

    fn check_output(&self) -> Result<(), ChangeError> {
        if self.output.len() < self.output_max { Ok(()) } else { Err(ChangeError::Busy) }
    }

    /// Handles what was left of the last turn, or reads.
    fn hear(&mut self, on_event: &mut impl FnMut(Event)) -> Result<(), Ended> {
        if self.input.is_empty() && self.asked.is_none() {
            self.read()?;
        }
        let input = core::mem::take(&mut self.input);
        let mut left = &input[..];
        let is_heard =
            |this: &Attached| this.output.len() < this.output_max && this.asked.is_none();
        while !left.is_empty() && is_heard(self) {
            if let Some(said) = self.session.poll_message(&mut left)? {
                self.on_message(said, on_event)?;
            }
        }
        self.input = left.to_vec();
        Ok(())
    }

    fn read(&mut self) -> Result<(), Ended> {
        let mut bytes = [0; READ_BYTES];
        match socket::receive(self.socket.as_fd(), &mut bytes) {
            Received::Bytes(count) => self.input.extend_from_slice(&bytes[..count]),
            Received::Nothing => {}
            Received::TooManyFiles => return Err(Violation::Descriptors.into()),
            Received::Closed => return Err(Ended::Gone),
        }
        Ok(())
    }

    fn on_message(
        &mut self,
        said: FromApplication,
        on_event: &mut impl FnMut(Event),
    ) -> Result<(), Ended> {
        match said {
            FromApplication::Hello(_) => unreachable!("a session takes one hello"),
            FromApplication::Grow(grow) => on_event(self.on_grow(grow)),
            FromApplication::Ask(request, ask) => {
                self.asked = Some(request);
                on_event(Event::Asked(ask));
            }
            FromApplication::GiveUp { offset } => on_event(self.on_give_up(offset)?),
            FromApplication::Attached => on_event(Event::HasAttached),
            FromApplication::Moved => on_event(Event::HasMoved),
            FromApplication::Detach(code, text) => return Err(Ended::Detached(code, text)),
        }
        Ok(())
    }

    fn on_grow(&mut self, grow: Grow) -> Event {
        let Grow { request, heap, bytes } = grow;
        match self.make_extent(request, heap, bytes) {
            Ok(extent) => Event::Grown(heap, extent),
            Err(reason) => {
                self.output.push(&FromService::NoExtent { request, reason }, Vec::new());
                Event::NotGrown(heap, reason)
            }
        }
    }

    fn on_give_up(&mut self, offset: u64) -> Result<Event, Ended> {
        match self.shared.send.heap.remove(offset) {
            Ok(extent) => Ok(Event::GaveUp(extent)),
            Err(HeapError::System(error)) => Err(Ended::System(error.error)),
            Err(_) => Err(Violation::NoSuchExtent(offset).into()),
        }
    }

    fn make_extent(
        &mut self,
        request: u32,
        heap: HeapKind,
        bytes: u64,
    ) -> Result<Extent, NoExtent> {
        let (extent, file) = self.shared.heap_mut(heap).grow(bytes)?;
        self.output.push(&FromService::Extent { request, heap, extent }, vec![file]);
        Ok(extent)
    }

    /// Whether the application has taken too long to end a frame or to read.
    fn check_due(&mut self, now: Time, has_sent: bool) -> Result<(), Violation> {
        let due = |was: Option<Time>, is_waiting: bool| {
            is_waiting.then(|| was.unwrap_or(now + self.patience))
        };
        let was = if has_sent { None } else { self.output_due };
        self.output_due = due(was, self.output.len() > 0);
        self.input_due = due(self.input_due, self.session.is_within_frame());
        match self.next_due() {
            Some(due) if due <= now => Err(Violation::Slow),
            _ => Ok(()),
        }
    }
}

impl AsFd for Attached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

//! The application's side of an attachment.
//!
//! [`Attachment::connect`] and [`Attachment::grow`] wait for the service, up to a given time.
//! Nothing else here waits.

mod connect;
mod wire;

pub use connect::ConnectError;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use petasos_abi::{Extent, HEAP_BYTES_MAX};
use petasos_base::SystemClock;
use petasos_shm::{AdoptError, AdoptedHeap, Buffers, HeapError, HeapKind, Outside};

use crate::ask::{Answer, Ask, NotDone};
use crate::credentials::Credentials;
use crate::ended::Ended;
use crate::hello::{Hello, Limits, Welcome};
use crate::lane::Lane;
use crate::message::{FromApplication, FromService};
use crate::reason::{DetachCode, NoExtent, Text};
use crate::session::{ApplicationSession, Handover, Violation};
use wire::{Said, Wire};

/// What the service has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changed {
    /// The heap has this extent now.
    Grown(HeapKind, Extent),
    /// A request for an extent was refused.
    NotGrown(NoExtent),
    /// The receive heap has this extent no more: it was unmapped.
    GaveUp(Extent),
    /// D14: a successor of the service listens where this was attached.
    Successor,
    /// D14: calls are to begin at the successor.
    Move,
    /// A request was answered: one of [`Attachment::begin_ask`], or one for which nobody waited any
    /// more.
    Answered(Answer),
}

/// Why a heap did not grow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrowError {
    /// The service makes no such extent.
    #[error(transparent)]
    NoExtent(#[from] NoExtent),
    /// No extent has so many bytes, or none. The caller is at fault; a retry fails again.
    #[error("no extent has {0} bytes")]
    Bytes(u64),
    /// The service has not answered in time. It still may: a later [`Attachment::poll`] or `grow`
    /// maps the extent.
    #[error("the service has not answered in time")]
    Timeout,
    /// The attachment has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// Why the service did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It refuses; the text says why.
    #[error("the service refuses: {0}")]
    Refused(Text),
    /// It does not know the schema that was named. Ask with its bytes.
    #[error("the service does not know the schema")]
    Unknown,
    /// It has not answered in time. A retry may succeed.
    #[error("the service has not answered in time")]
    Timeout,
    /// The attachment has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
}

impl From<NotDone> for AskError {
    fn from(why: NotDone) -> AskError {
        match why {
            NotDone::Refused(why) => AskError::Refused(why),
            NotDone::Unknown => AskError::Unknown,
        }
    }
}

/// An application's attachment to the service of its host.
#[derive(Debug)]
pub struct Attachment {
    wire: Wire,
    limits: Limits,
    send: AdoptedHeap,
    receive: AdoptedHeap,
    lanes: Vec<Lane>,
    service: Credentials,
    timeout: Duration,
}

impl Attachment {
    /// Attaches to the service that listens at `path`. `timeout` is for this, and later for each
    /// [`Attachment::grow`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        path: &Path,
        hello: &Hello,
        timeout: Duration,
    ) -> Result<Attachment, ConnectError> {
        let deadline = SystemClock::default().now() + timeout;
        let socket = connect::connect(path, deadline)?;
        let service = Credentials::of(socket.as_fd()).map_err(connect::system("identify it"))?;
        let mut wire = Wire::new(socket, ApplicationSession::new(hello));
        wire.send(&FromApplication::Hello(hello.clone()));
        let Welcome { limits, lanes, .. } = wire.await_welcome(deadline)?;
        let lanes = wire.await_lanes(lanes, deadline)?;
        let send = AdoptedHeap::reserve(HeapKind::Send, limits.send.range_bytes)?;
        let receive = AdoptedHeap::reserve(HeapKind::Receive, limits.receive.range_bytes)?;
        Ok(Attachment { wire, limits, send, receive, lanes, service, timeout })
    }

    /// What the service lets this application have.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The version that both speak.
    pub fn version(&self) -> u16 {
        self.wire.session.version()
    }

    /// Who listens at the socket.
    pub fn service(&self) -> Credentials {
        self.service
    }

    /// A heap, whose memory is accessed by whoever takes its start.
    pub fn heap(&self, kind: HeapKind) -> &AdoptedHeap {
        match kind {
            HeapKind::Send => &self.send,
            HeapKind::Receive => &self.receive,
        }
    }

    /// The lanes that have not been taken.
    pub fn lanes(&mut self) -> &mut [Lane] {
        &mut self.lanes
    }

    /// The lanes, for the threads that use them.
    pub fn take_lanes(&mut self) -> Vec<Lane> {
        core::mem::take(&mut self.lanes)
    }

    /// Asks for an extent of so many bytes at least, and waits for the answer.
    ///
    /// # Errors
    /// See [`GrowError`].
    pub fn grow(&mut self, heap: HeapKind, bytes: u64) -> Result<Extent, GrowError> {
        if !(1..=HEAP_BYTES_MAX).contains(&bytes) {
            return Err(GrowError::Bytes(bytes));
        }
        let deadline = SystemClock::default().now() + self.timeout;
        let grow = self.wire.session.ask(heap, bytes).ok_or(NoExtent::Room)?;
        self.wire.send(&FromApplication::Grow(grow));
        loop {
            let said = self.wire.await_message(deadline)?.ok_or(GrowError::Timeout)?;
            let answers = match &said.0 {
                FromService::Extent { request, .. } | FromService::NoExtent { request, .. } => {
                    *request == grow.request
                }
                _ => false,
            };
            match (answers, self.on_message(said)?) {
                (true, Changed::Grown(_, extent)) => return Ok(extent),
                (true, Changed::NotGrown(reason)) => return Err(reason.into()),
                _ => {}
            }
        }
    }

    /// D13: asks for something, and waits for the answer: a number.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn ask(&mut self, ask: &Ask) -> Result<u32, AskError> {
        let deadline = SystemClock::default().now() + self.timeout;
        let request = self.wire.session.next_request().ok_or(AskError::Timeout)?;
        self.wire.send(&FromApplication::Ask(request, ask.clone()));
        loop {
            match self.wire.await_message(deadline)?.ok_or(AskError::Timeout)? {
                (FromService::Answer(answer), _) if answer.request == request => {
                    return answer.result.map_err(AskError::from);
                }
                said => drop(self.on_message(said)?),
            }
        }
    }

    /// D13: asks for something without waiting, and gives the request's number. The answer comes
    /// from [`Attachment::poll`]. `None` after 2^32 - 1 requests.
    pub fn begin_ask(&mut self, ask: &Ask) -> Option<u32> {
        let request = self.wire.session.next_request()?;
        self.wire.send(&FromApplication::Ask(request, ask.clone()));
        Some(request)
    }

    /// Asks for an extent without waiting. The answer comes from [`Attachment::poll`]. `None` after
    /// 2^32 - 1 requests, and if no extent has so many bytes.
    pub fn begin_grow(&mut self, heap: HeapKind, bytes: u64) -> Option<u32> {
        if !(1..=HEAP_BYTES_MAX).contains(&bytes) {
            return None;
        }
        let grow = self.wire.session.ask(heap, bytes)?;
        self.wire.send(&FromApplication::Grow(grow));
        Some(grow.request)
    }

    /// D14: tells the service that the application has attached to the successor, and serves there
    /// what it serves here. Nothing is said unless [`Changed::Successor`] came, or twice.
    pub fn say_attached(&mut self) {
        if self.wire.session.say(Handover::Attached) {
            self.wire.send(&FromApplication::Attached);
        }
    }

    /// D14: tells the service that no more calls are begun here: the last one is in the lane.
    /// Nothing is said unless [`Changed::Move`] came, or twice.
    pub fn say_moved(&mut self) {
        if self.wire.session.say(Handover::Moved) {
            self.wire.send(&FromApplication::Moved);
        }
    }

    /// Writes to a place of the send heap that the service does not read at the time.
    ///
    /// # Errors
    /// The place has no memory.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Outside> {
        self.send.write(offset, bytes)
    }

    /// Gives the extent of the send heap at this offset to buffers of this heap.
    ///
    /// # Errors
    /// [`HeapError::NoExtent`].
    ///
    /// # Panics
    /// If the buffers are another heap's.
    pub fn give(&mut self, offset: u64, buffers: &Buffers) -> Result<(), HeapError> {
        self.send.give(offset, buffers)
    }

    /// What the service has done of itself, if anything. Call it when the socket is readable.
    ///
    /// # Errors
    /// Why the attachment has ended.
    pub fn poll(&mut self) -> Result<Option<Changed>, Ended> {
        match self.wire.poll_message()? {
            Some(said) => self.on_message(said).map(Some),
            None => Ok(None),
        }
    }

    /// Unmaps the extent of the send heap at this offset, and lets the service remove it. Nothing
    /// in it may be in use. It still counts towards the quota.
    ///
    /// # Errors
    /// [`HeapError::NoExtent`] and [`HeapError::System`]. That the service is gone shows elsewhere.
    pub fn give_up(&mut self, offset: u64) -> Result<Extent, HeapError> {
        let extent = self.send.unmap(offset)?;
        self.wire.send(&FromApplication::GiveUp { offset });
        Ok(extent)
    }

    /// Ends the attachment, and tells the service so if that is possible at once. Heaps and lanes
    /// that were not taken are unmapped.
    pub fn detach(mut self, code: DetachCode, text: &str) {
        self.wire.send(&FromApplication::Detach(code, Text::new(text)));
    }

    fn on_message(&mut self, (said, files): Said) -> Result<Changed, Ended> {
        match said {
            FromService::Extent { heap, extent, .. } => self.on_extent(heap, extent, files),
            FromService::NoExtent { reason, .. } => Ok(Changed::NotGrown(reason)),
            FromService::Answer(answer) => Ok(Changed::Answered(answer)),
            FromService::Successor => Ok(Changed::Successor),
            FromService::Move => Ok(Changed::Move),
            FromService::GiveUp { offset } => match self.receive.unmap(offset) {
                Ok(extent) => Ok(Changed::GaveUp(extent)),
                Err(_) => Err(Violation::NoSuchExtent(offset).into()),
            },
            FromService::Detach(code, text) => Err(Ended::Detached(code, text)),
            FromService::Welcome(_) | FromService::Refuse(..) | FromService::Lane { .. } => {
                unreachable!("an attached session does not take these")
            }
        }
    }

    fn on_extent(
        &mut self,
        kind: HeapKind,
        extent: Extent,
        files: Vec<OwnedFd>,
    ) -> Result<Changed, Ended> {
        let file = files.first().ok_or(Violation::Descriptors)?;
        let heap = match kind {
            HeapKind::Send => &mut self.send,
            HeapKind::Receive => &mut self.receive,
        };
        match heap.map(file.as_fd(), extent) {
            Ok(()) => Ok(Changed::Grown(kind, extent)),
            Err(AdoptError::File(petasos_shm::FileError::System(error))) => {
                Err(Ended::System(error.error))
            }
            Err(_) => Err(Violation::Extent.into()),
        }
    }
}

impl AsFd for Attachment {
    /// The socket: readable when the service has said something, or is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.socket.as_fd()
    }
}

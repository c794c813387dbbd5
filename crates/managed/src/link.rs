//! The attachment to the service: its lane, and the places in the send heap.
//!
//! Invariants: the link pushes descriptors in order, and those for which the ring has no room wait.
//! The application may reuse a place in the send heap when the service has released it. The service
//! may reuse a place in the receive heap when the application has released it here.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytes::Bytes;
use petasos_abi::{Blocks, CallNumber, Contents, Descriptor, Released, Request, Side};
use petasos_attach::ask::{Ask, RECALL_VERSION};
use petasos_attach::{Attachment, Changed, Ended, Lane, LaneError, PushError};
use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_endpoint::Notifier;
use petasos_shm::{Buffers, HeapKind};

use crate::again::Again;
use crate::buffers::LinkBuffers;
use crate::flow::Flow;
use crate::kept::KeptMessages;

/// By so much the send heap grows, unless a message needs more.
const GROW_BYTES: u64 = 1 << 20;
/// Bytes of an image before its root struct (M20), which is what a descriptor names (D6).
const ROOT_AT: u64 = 8;
/// The socket may be so much slower than the ring.
const PATIENCE: Duration = Duration::from_secs(5);
/// Messages of at least so many bytes are read where they lie: copying them costs more than what
/// gives them back.
const KEPT_BYTES_MIN: u32 = 64 << 10;
/// Such messages take at most this part of the receive heap's quota.
const KEPT_PART: u64 = 4;

/// Why something is not put into the send heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// There will be room when the service releases something, or gives more memory.
    Now,
    /// It is longer than all memory that the application may have.
    Ever,
}

/// Why the attachment has ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error(transparent)]
    Ended(#[from] Ended),
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// The service broke a rule of `docs/spec/abi.md`.
    #[error("the service has broken a rule: {0}")]
    Service(&'static str),
}

pub(crate) struct Link {
    attachment: Attachment,
    lane: Lane,
    blocks: Blocks,
    /// Descriptors for which the ring had no room.
    unpushed: VecDeque<Descriptor>,
    /// When they are tried again.
    again: Again,
    /// A descriptor of what lies in an extent that was not heard of yet, since the ring may be
    /// faster than the socket; with the time until which the extent may come.
    early: Option<(Descriptor, Time)>,
    released: Released,
    kept: KeptMessages,
    /// Calls that were begun, ever.
    begun: u64,
    buffers: LinkBuffers,
    /// The bytes of an extent that was asked for; 0 if none was.
    grows: u64,
    /// It was asked for buffers, not for `blocks`.
    grows_buffers: bool,
    /// The service gives no extent of so many bytes or more.
    refused_bytes: u64,
    /// The service has closed its end of the lane; what it has said before can be heard.
    is_gone: bool,
    is_dozing: bool,
}

impl Link {
    /// An attachment for a loop that `notifier` makes turn.
    ///
    /// # Panics
    /// If the attachment's lanes were taken.
    pub(crate) fn new(mut attachment: Attachment, notifier: Notifier) -> Link {
        let kept_bytes_max = attachment.limits().receive.quota_bytes / KEPT_PART;
        let quota_bytes = attachment.limits().send.quota_bytes;
        let send = attachment.heap(HeapKind::Send);
        let buffers = LinkBuffers::new(send, quota_bytes, notifier.clone());
        let lane = attachment.take_lanes().swap_remove(0);
        Link {
            attachment,
            lane,
            blocks: Blocks::new(),
            unpushed: VecDeque::new(),
            again: Again::new(),
            early: None,
            released: Released::new(),
            kept: KeptMessages::new(kept_bytes_max, notifier),
            buffers,
            begun: 0,
            grows: 0,
            grows_buffers: false,
            refused_bytes: u64::MAX,
            is_gone: false,
            is_dozing: false,
        }
    }

    /// The most calls that this side may have begun and not ended.
    pub(crate) fn calls_max(&self) -> usize {
        self.attachment.limits().calls_max as usize
    }

    /// D13: whether schemas can be named instead of sent.
    pub(crate) fn may_recall(&self) -> bool {
        self.attachment.version() >= RECALL_VERSION
    }

    /// Asks for the memory that is needed first, so that nothing has to wait for it later.
    pub(crate) fn prepare(&mut self) {
        if self.grows == 0 && self.attachment.begin_grow(HeapKind::Send, GROW_BYTES).is_some() {
            self.grows = GROW_BYTES;
        }
    }

    /// Buffers for the program.
    pub(crate) fn buffers(&self) -> &Buffers {
        self.buffers.shared()
    }

    /// What may be under way of a new stream.
    pub(crate) fn flow(&self) -> Flow {
        Flow::new(self.attachment.limits().grant_bytes)
    }

    /// Descriptors that are readable when there may be something to do.
    pub(crate) fn descriptors(&self) -> io::Result<[OwnedFd; 2]> {
        let lane = self.lane.as_fd().try_clone_to_owned()?;
        Ok([lane, self.attachment.as_fd().try_clone_to_owned()?])
    }

    /// The number of another call.
    pub(crate) fn next_call(&mut self) -> CallNumber {
        self.begun += 1;
        CallNumber::new(Side::Application, self.begun - 1)
    }

    pub(crate) fn ask(&mut self, ask: &Ask) -> Result<u32, LinkError> {
        self.attachment.begin_ask(ask).ok_or(LinkError::Service("it was asked too often"))
    }

    /// D14: the successor knows all that is served and called.
    pub(crate) fn say_attached(&mut self) {
        self.attachment.say_attached();
    }

    /// D14: no more calls are begun here.
    pub(crate) fn say_moved(&mut self) {
        self.attachment.say_moved();
    }

    /// What the service has said at its socket.
    pub(crate) fn hear(&mut self) -> Result<Option<Changed>, LinkError> {
        let changed = self.attachment.poll()?;
        match &changed {
            Some(Changed::Grown(HeapKind::Send, extent)) if self.grows_buffers => {
                let given = self.attachment.give(extent.offset, self.buffers.shared());
                given.expect("it was just mapped");
                (self.grows, self.grows_buffers) = (0, false);
            }
            Some(Changed::Grown(HeapKind::Send, extent)) => {
                self.blocks.add(extent.offset, extent.bytes);
                self.grows = 0;
            }
            Some(Changed::NotGrown(_)) if self.grows_buffers => {
                self.buffers.shared().complete();
                (self.grows, self.grows_buffers) = (0, false);
            }
            Some(Changed::NotGrown(_)) => {
                self.refused_bytes = self.refused_bytes.min(self.grows.max(1));
                self.grows = 0;
            }
            _ => {}
        }
        Ok(changed)
    }

    /// Asks for memory that the program wants for buffers.
    fn grow_buffers(&mut self) {
        if self.grows > 0 {
            return;
        }
        let Some(wanted) = self.buffers.take_wanted() else { return };
        if self.attachment.begin_grow(HeapKind::Send, wanted).is_some() {
            (self.grows, self.grows_buffers) = (wanted, true);
        }
    }

    /// Until when a descriptor waits for its extent.
    pub(crate) fn early_until(&self) -> Time {
        self.early.as_ref().map_or(Time::NEVER, |(_, until)| *until)
    }

    /// Whether memory is awaited: more of the send heap, or what a descriptor lies in.
    pub(crate) fn awaits_memory(&self) -> bool {
        self.grows > 0 || self.early.is_some()
    }

    /// Whether all that a descriptor names lies in memory that is mapped.
    fn has(&self, said: &Descriptor) -> bool {
        let extents = self.attachment.heap(HeapKind::Receive).extents();
        let is_there = |contents: &Contents| {
            contents.is_none() || extents.covers(contents.offset, contents.bytes.into())
        };
        match said {
            Descriptor::Request(Request { message, metadata, .. })
            | Descriptor::End { message, metadata, .. } => is_there(message) && is_there(metadata),
            Descriptor::Message { message, .. } => is_there(message),
            Descriptor::Head { metadata, .. } => is_there(metadata),
            _ => true,
        }
    }

    /// A place in the send heap.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<u64, NoRoom> {
        let bytes = u32::try_from(bytes).map_err(|_| NoRoom::Ever)?;
        if let Some(place) = self.blocks.allocate(bytes) {
            return Ok(place);
        }
        let bytes = u64::from(bytes);
        if self.grows == 0 && bytes < self.refused_bytes {
            // Less than is usual, if that is all that there may be.
            let wanted =
                if GROW_BYTES < self.refused_bytes { bytes.max(GROW_BYTES) } else { bytes };
            match self.attachment.begin_grow(HeapKind::Send, wanted) {
                Some(_) => self.grows = wanted,
                None => self.refused_bytes = bytes,
            }
        }
        let is_hopeless = self.is_refused(bytes) && self.is_empty();
        Err(if is_hopeless { NoRoom::Ever } else { NoRoom::Now })
    }

    /// Whether the service gives no more memory for so many bytes.
    pub(crate) fn is_refused(&self, bytes: u64) -> bool {
        self.grows == 0 && bytes >= self.refused_bytes
    }

    /// Whether nothing is in the send heap.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.used_bytes() == 0
    }

    /// Gives a place back that no descriptor has named.
    pub(crate) fn free(&mut self, place: u64) {
        self.blocks.free(place).expect("it was just allocated");
    }

    pub(crate) fn write(&mut self, place: u64, bytes: &[u8]) {
        self.attachment.write(place, bytes).expect("places lie in the heap");
    }

    /// Copies a part of a message, with what is attached to it.
    fn write_part(&mut self, place: u64, from: &MsgBuf, start: usize, bytes: usize) {
        if !from.has_tail() {
            return self.write(place, &from[start..start + bytes]);
        }
        let (mut skipped, mut done) = (start, 0);
        let attached = from.attached().iter().map(|piece| {
            let bytes = piece.owned().expect("programs attach what they own");
            bytes.as_ref()
        });
        for piece in [from.as_slice()].into_iter().chain(attached) {
            let begin = skipped.min(piece.len());
            skipped -= begin;
            let end = piece.len().min(begin + bytes - done);
            if begin == end {
                continue;
            }
            self.write(place + done as u64, &piece[begin..end]);
            done += end - begin;
        }
        assert_eq!(done, bytes, "the message has such a part");
    }

    /// Puts a tail into the send heap.
    pub(crate) fn put_tail(&mut self, tail: &[u8]) -> Result<Contents, NoRoom> {
        if tail.is_empty() {
            return Ok(Contents::NONE);
        }
        let offset = self.allocate(tail.len())?;
        self.write(offset, tail);
        Ok(Contents { offset, bytes: tail.len() as u32 })
    }

    /// Puts an image into the send heap: that of a unary message, or with `None` none.
    pub(crate) fn put_part(
        &mut self,
        from: &MsgBuf,
        start: usize,
        bytes: usize,
    ) -> Result<Contents, NoRoom> {
        if from.has_tail()
            && let Some(image) = self.buffers.send(from, start, bytes)
        {
            return Ok(image);
        }
        let place = self.allocate(bytes)?;
        self.write_part(place, from, start, bytes);
        Ok(Contents { offset: place + ROOT_AT, bytes: bytes as u32 })
    }

    /// Puts an image into the send heap.
    pub(crate) fn put_image(&mut self, image: &[u8]) -> Result<Contents, NoRoom> {
        let place = self.allocate(image.len())?;
        self.write(place, image);
        Ok(Contents { offset: place + ROOT_AT, bytes: image.len() as u32 })
    }

    /// Takes an image back that no descriptor has named.
    pub(crate) fn take_image_back(&mut self, image: Contents) {
        if !self.buffers.end(image.offset) {
            self.free(image.offset - ROOT_AT);
        }
    }

    /// Appends what lies in the receive heap, and releases it.
    ///
    /// # Errors
    /// The service names what is not there.
    pub(crate) fn take(&mut self, contents: Contents, to: &mut [u8]) -> Result<(), LinkError> {
        if contents.is_none() {
            return Ok(());
        }
        let copied = self.attachment.heap(HeapKind::Receive).copy_out(contents.offset, to);
        copied.map_err(|_| LinkError::Service("a message lies outside of the heap"))?;
        self.release(contents);
        Ok(())
    }

    /// Whether a message is so long that it should be [kept](Link::keep) instead of
    /// [taken](Link::take), and the application does not keep too much already.
    pub(crate) fn should_keep(&self, contents: Contents) -> bool {
        contents.bytes >= KEPT_BYTES_MIN && self.kept.has_room(contents)
    }

    /// Gives a message to be read where it lies. It is released when it is dropped.
    ///
    /// # Errors
    /// The service names what is not there, or what it gave before and did not get back.
    pub(crate) fn keep(&mut self, contents: Contents) -> Result<Bytes, LinkError> {
        let heap = self.attachment.heap(HeapKind::Receive);
        let slice = heap.slice(contents.offset, contents.bytes.into());
        let slice = slice.map_err(|_| LinkError::Service("a message lies outside of the heap"))?;
        let kept = self.kept.hand_out(contents, slice);
        kept.ok_or(LinkError::Service("it gave a message twice"))
    }

    /// Gives what lies in the receive heap back.
    pub(crate) fn release(&mut self, contents: Contents) {
        if contents.is_none() {
            return;
        }
        if self.released.is_full() {
            let full = std::mem::replace(&mut self.released, Released::new());
            self.push(Descriptor::Release(full));
        }
        self.released.push(contents.offset).expect("there is room now");
    }

    pub(crate) fn push(&mut self, descriptor: Descriptor) {
        if !self.unpushed.is_empty() {
            return self.unpushed.push_back(descriptor);
        }
        match self.lane.push(&descriptor) {
            Ok(()) => {}
            Err(PushError::Full(descriptor)) => self.unpushed.push_back(descriptor),
            // It shows when the lane is popped from.
            Err(_) => {}
        }
    }

    /// Whether so many descriptors wait for the ring that no more should be made.
    pub(crate) fn is_backed_up(&self) -> bool {
        !self.unpushed.is_empty()
    }

    /// Writes the next descriptor that is no release to where it is read. Says whether there was
    /// one.
    #[inline]
    pub(crate) fn pop_into(&mut self, to: &mut Descriptor, now: Time) -> Result<bool, LinkError> {
        if self.is_dozing || self.early.is_some() {
            return self.pop_after_wait(to, now);
        }
        self.pop_lane(to, now)
    }

    /// The same, after sleep or while a descriptor waits for its extent.
    #[cold]
    fn pop_after_wait(&mut self, to: &mut Descriptor, now: Time) -> Result<bool, LinkError> {
        if std::mem::take(&mut self.is_dozing) {
            match self.lane.rise() {
                Err(LaneError::Gone) => self.is_gone = true,
                risen => risen?,
            }
        }
        match self.early.take() {
            Some((early, _)) if self.has(&early) => {
                *to = early;
                Ok(true)
            }
            Some((early, until)) => self.wait_for_extent(early, until, now),
            None => self.pop_lane(to, now),
        }
    }

    #[inline]
    fn pop_lane(&mut self, to: &mut Descriptor, now: Time) -> Result<bool, LinkError> {
        while self.lane.pop_into(to)? {
            match to {
                Descriptor::Release(released) => self.free_released(released)?,
                said if self.has(said) => return Ok(true),
                early => return self.wait_for_extent(*early, now + PATIENCE, now),
            }
        }
        if self.is_gone { Err(LaneError::Gone.into()) } else { Ok(false) }
    }

    /// A descriptor came before the extent that its message lies in.
    #[cold]
    fn wait_for_extent(
        &mut self,
        early: Descriptor,
        until: Time,
        now: Time,
    ) -> Result<bool, LinkError> {
        self.early = Some((early, until));
        match now < until {
            true => Ok(false),
            false => Err(LinkError::Service("a message lies outside of the heap")),
        }
    }

    fn free_released(&mut self, released: &Released) -> Result<(), LinkError> {
        for token in released.tokens() {
            if self.buffers.end(*token) {
                continue;
            }
            // Messages are named by their root structs, metadata by their start.
            let freed = self.blocks.free(token - token % 16);
            freed.map_err(|_| LinkError::Service("it released what it does not have"))?;
        }
        Ok(())
    }

    /// When what waits for room in the ring is tried again, by [`Link::flush`].
    pub(crate) fn push_at(&self) -> Time {
        self.again.at()
    }

    /// Shows the service what was said.
    pub(crate) fn flush(&mut self, now: Time) {
        for dropped in self.kept.take_dropped() {
            self.release(dropped);
        }
        self.grow_buffers();
        if !self.released.tokens().is_empty() {
            let released = std::mem::replace(&mut self.released, Released::new());
            self.push(Descriptor::Release(released));
        }
        let waiting = self.unpushed.len();
        while let Some(descriptor) = self.unpushed.pop_front() {
            if let Err(PushError::Full(descriptor)) = self.lane.push(&descriptor) {
                self.unpushed.push_front(descriptor);
                break;
            }
        }
        let left = self.unpushed.len();
        self.again.note(left < waiting, left > 0, now);
        self.lane.release();
        self.lane.flush();
    }

    /// Whether the loop may sleep until a descriptor of [`Link::descriptors`] is readable.
    pub(crate) fn doze(&mut self) -> bool {
        self.is_dozing = true;
        self.lane.doze()
    }
}

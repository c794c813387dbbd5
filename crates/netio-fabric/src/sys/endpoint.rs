//! An endpoint with its queues, its address vector and its memory.
//!
//! Ownership of slots: `post` and `send` give a slot to the provider, and `poll` returns the slots
//! that it has finished with. The callers, `io` and `transmit`, track which slots belong to them,
//! and touch only those. The functions below that hand out memory state who must own it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use super::info::Info;
use super::memory::Memory;
use super::object::{Object, check};
use super::open::{
    Forced, at, bind, encode, local_address, open_addresses, open_endpoint, open_queue,
    open_rx_queue, register, shape, system,
};
use super::{POLL_MAX, ffi, open};
use crate::{FabricConfig, FabricError};

/// A peer's index in the address vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) u64);

/// The result of handing over a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It will be sent.
    Taken,
    /// The provider's queue is full.
    Full,
    /// It can never be sent.
    Failed,
}

/// One of the two completion queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Messages received.
    Receive,
    /// Messages that have left.
    Transmit,
}

/// The result of polling a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// This many completions: see [`Endpoint::completion`].
    Completions(usize),
    /// An operation that failed. Its slot belongs to us again, unless the provider did not name it.
    Failed {
        /// The slot.
        slot: usize,
        /// Whether the message was longer than the slot.
        truncated: bool,
    },
    /// The queue itself failed.
    Broken,
}

/// An endpoint that is ready. The fields are dropped in this order: users before what they use.
pub(crate) struct Endpoint {
    endpoint: Object<ffi::fid_ep>,
    rx_queue: Object<ffi::fid_cq>,
    tx_queue: Object<ffi::fid_cq>,
    addresses: Object<ffi::fid_av>,
    registration: Option<Object<ffi::fid_mr>>,
    _domain: Object<ffi::fid_domain>,
    fabric: Object<ffi::fid_fabric>,
    memory: Memory,
    info: Info,
    completions: [ffi::fi_cq_msg_entry; POLL_MAX],
    /// The origins of the messages in `completions`, if the provider reports them.
    sources: Option<Box<[u64; POLL_MAX]>>,
    descriptor: Option<RawFd>,
    local: SocketAddr,
    /// Messages complete in the order in which they were handed over.
    ordered: bool,
}

// SAFETY: libfabric's objects belong to the process. `FI_THREAD_DOMAIN` asks that one thread at a
// time uses a domain; each endpoint has a domain of its own, behind one `&mut`. The memory is
// reached through this only.
unsafe impl Send for Endpoint {}

impl Endpoint {
    pub(crate) fn open(
        address: SocketAddr,
        config: &FabricConfig,
        forced: Forced,
    ) -> Result<Endpoint, FabricError> {
        let info = open::find(address, config)?;
        let offer = info.first();
        let memory = Memory::new(shape(&info, address, config, forced)?);
        // SAFETY: all arguments are libfabric's own and live; each object is ours to close.
        let (fabric, domain) = unsafe {
            let fabric = Object::open(|place| {
                ffi::fi_fabric(offer.fabric_attr(), place, core::ptr::null_mut())
            })
            .map_err(system("open the fabric"))?;
            let domain =
                Object::open(|place| ffi::pf_domain(fabric.pointer(), info.pointer(), place))
                    .map_err(system("open the domain"))?;
            (fabric, domain)
        };
        let registered = offer.registered() || forced.registered;
        let registration = registered.then(|| register(&domain, &memory)).transpose()?;
        let (rx_queue, descriptor) = open_rx_queue(&domain, memory.shape.rx_slots, config.wakeups)?;
        let tx_queue = open_queue(&domain, memory.shape.tx_slots, ffi::FI_WAIT_NONE)
            .map_err(system("open a completion queue"))?;
        let addresses = open_addresses(&domain, config.routes_max)?;
        let endpoint = open_endpoint(&domain, &info, address)?;
        bind(&endpoint, &rx_queue, &tx_queue, &addresses)?;
        // SAFETY: the endpoint is live and bound to all that it needs.
        check(unsafe { ffi::pf_enable(endpoint.pointer()) }.into())
            .map_err(|error| at(address, "enable the endpoint", error))?;
        let local = local_address(&endpoint, &info, address)?;
        // SAFETY: numbers and pointers that are all zero are valid, and overwritten before use.
        let completions = unsafe { core::mem::zeroed() };
        let ordered = offer.ordered() && !forced.unordered;
        let sources = offer.has_sources().then(|| Box::new([u64::MAX; POLL_MAX]));
        Ok(Endpoint {
            endpoint,
            rx_queue,
            tx_queue,
            addresses,
            registration,
            _domain: domain,
            fabric,
            memory,
            info,
            completions,
            sources,
            descriptor,
            local,
            ordered,
        })
    }

    pub(crate) fn local_address(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn provider(&self) -> &str {
        self.info.first().provider()
    }

    pub(crate) fn software(&self) -> bool {
        self.info.first().software()
    }

    pub(crate) fn ordered(&self) -> bool {
        self.ordered
    }

    pub(crate) fn inject_bytes_max(&self) -> usize {
        self.info.first().inject_bytes_max()
    }

    pub(crate) fn rx_slots(&self) -> usize {
        self.memory.shape.rx_slots
    }

    pub(crate) fn tx_slots(&self) -> usize {
        self.memory.shape.tx_slots
    }

    pub(crate) fn prefix_bytes(&self) -> usize {
        self.memory.shape.prefix_bytes
    }

    /// The longest message, without the prefix.
    pub(crate) fn message_bytes_max(&self) -> usize {
        self.memory.shape.message_bytes_max
    }

    /// The longest datagram in a message.
    #[inline]
    pub(crate) fn datagram_bytes_max(&self) -> usize {
        self.memory.shape.datagram_bytes_max
    }

    /// The longest message with several datagrams.
    #[inline]
    pub(crate) fn fused_bytes_max(&self) -> usize {
        self.memory.shape.fused_bytes_max
    }

    /// Bytes from one receive slot to the next.
    pub(crate) fn stride(&self) -> usize {
        self.memory.shape.stride()
    }

    /// All receive slots, in order.
    #[inline]
    pub(crate) fn rx_memory(&self) -> &[u8] {
        let len = self.rx_slots() * self.stride();
        // SAFETY: the slots are initialised, next to each other, and live as long as this. The
        // provider writes to posted ones meanwhile; chunks name only slots that are not posted, so
        // that nobody reads those bytes.
        unsafe { core::slice::from_raw_parts(self.memory.slot(0), len) }
    }

    /// The prefix and message of a transmit slot, which must be ours.
    #[inline]
    pub(crate) fn tx_slot(&mut self, slot: usize) -> &mut [u8] {
        let start = self.memory.slot(self.rx_slots() + slot);
        // SAFETY: the slot lies in the allocation, and nobody else has it, by the caller's books.
        unsafe { core::slice::from_raw_parts_mut(start, self.memory.shape.slot_bytes()) }
    }

    /// Gives a receive slot to the provider. False if it has no room now.
    #[inline]
    pub(crate) fn post(&mut self, slot: usize) -> bool {
        debug_assert!(slot < self.rx_slots(), "a receive slot");
        let (start, context) = (self.memory.slot(slot), self.memory.context(slot));
        let len = self.memory.shape.slot_bytes();
        // SAFETY: slot and context live until the endpoint is closed, and are the provider's from
        // now on, by the caller's books.
        let code = unsafe {
            let desc = self.desc();
            ffi::pf_recv(self.endpoint.pointer(), start.cast(), len, desc, context.cast())
        };
        code == 0
    }

    /// Sends the first `len` bytes of a transmit slot, prefix included.
    #[inline]
    pub(crate) fn send(&mut self, slot: usize, len: usize, peer: Peer, report: bool) -> Outcome {
        let slot = self.rx_slots() + slot;
        assert!(len <= self.memory.shape.slot_bytes(), "a message fits its slot");
        let (start, context) = (self.memory.slot(slot), self.memory.context(slot));
        let flags = if report { ffi::FI_COMPLETION.into() } else { 0 };
        // SAFETY: as in `post`; the length was just checked.
        let code = unsafe {
            let (desc, endpoint) = (self.desc(), self.endpoint.pointer());
            ffi::pf_send(endpoint, start.cast(), len, desc, peer.0, context.cast(), flags)
        };
        outcome(code)
    }

    /// Like [`Endpoint::send`], but the slot stays ours, and nothing reports.
    #[inline]
    pub(crate) fn inject(&mut self, slot: usize, len: usize, peer: Peer) -> Outcome {
        let endpoint = self.endpoint.pointer();
        let bytes = &self.tx_slot(slot)[..len];
        // SAFETY: the provider copies the bytes during the call.
        outcome(unsafe { ffi::pf_inject(endpoint, bytes.as_ptr().cast(), len, peer.0) })
    }

    /// Polls a queue, which also lets the provider make progress.
    #[inline]
    pub(crate) fn poll(&mut self, queue: Queue, count_max: usize) -> Polled {
        let pointer = self.queue(queue);
        let (place, count) = (self.completions.as_mut_ptr(), count_max.min(POLL_MAX));
        let sources = self.sources.as_mut().filter(|_| queue == Queue::Receive);
        // SAFETY: there is room for that many, in the format that the queue was opened with.
        let code = unsafe {
            match sources {
                Some(sources) => ffi::pf_cq_readfrom(pointer, place, count, sources.as_mut_ptr()),
                None => ffi::pf_cq_read(pointer, place, count),
            }
        };
        match code as i64 {
            count @ 0.. => Polled::Completions(count as usize),
            code if code == -i64::from(ffi::FI_EAGAIN) => Polled::Completions(0),
            code if code == -i64::from(ffi::FI_EAVAIL) => self.failure(queue),
            _ => Polled::Broken,
        }
    }

    /// Slot and length (prefix included) of a completion that the latest `poll` brought.
    #[inline]
    pub(crate) fn completion(&self, queue: Queue, at: usize) -> (usize, usize) {
        let entry = &self.completions[at];
        (self.slot_in(queue, entry.op_context), entry.len)
    }

    /// The origin of a message that the latest `poll` received: `None` if the address vector does
    /// not have the sender.
    #[inline]
    pub(crate) fn source(&self, at: usize) -> Option<Peer> {
        let source = self.sources.as_ref()?[at];
        (source != u64::MAX).then_some(Peer(source))
    }

    /// Whether the provider reports where messages come from.
    #[inline]
    pub(crate) fn has_sources(&self) -> bool {
        self.sources.is_some()
    }

    #[cold]
    fn failure(&mut self, queue: Queue) -> Polled {
        // SAFETY: all zeroes are a valid entry, without room for the provider's own data.
        let mut entry: ffi::fi_cq_err_entry = unsafe { core::mem::zeroed() };
        // SAFETY: the queue is live and the entry is ours.
        let code = unsafe { ffi::pf_cq_readerr(self.queue(queue), &mut entry) };
        if code != 1 || entry.op_context.is_null() {
            return Polled::Broken;
        }
        let truncated = entry.err == ffi::FI_ETRUNC as i32 || entry.olen > 0;
        Polled::Failed { slot: self.slot_in(queue, entry.op_context), truncated }
    }

    /// Finds a peer's place. If the provider has its own kind of addresses, the peer is found by
    /// its name.
    pub(crate) fn insert(&mut self, peer: SocketAddr) -> io::Result<Peer> {
        if self.info.first().ip_addresses() {
            return self.insert_name(&encode(peer));
        }
        let hints = self.info.same_provider().and_then(|config| Info::hints(&config));
        let hints = hints.map_err(io::Error::other)?;
        let found = Info::ask(Some(peer), false, &hints)?;
        let name = found.first().peer_address();
        self.insert_name(name.ok_or(io::ErrorKind::HostUnreachable)?)
    }

    fn insert_name(&mut self, name: &[u8]) -> io::Result<Peer> {
        let mut place = u64::MAX;
        // SAFETY: the vector is live; a name has the length that the provider's format has.
        let code = unsafe {
            ffi::pf_av_insert(self.addresses.pointer(), name.as_ptr().cast(), &mut place)
        };
        match check(code.into())? {
            1 => Ok(Peer(place)),
            _ => Err(io::ErrorKind::HostUnreachable.into()),
        }
    }

    /// Removes a peer, to which nothing is sent any more.
    pub(crate) fn remove(&mut self, peer: Peer) {
        // SAFETY: the place came from this vector. That a provider cannot remove costs its memory.
        unsafe { ffi::pf_av_remove(self.addresses.pointer(), peer.0) };
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: it belongs to the queue, which lives as long as this.
        self.descriptor.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Arms the descriptor. Returns false if something has already arrived.
    pub(crate) fn may_wait(&mut self) -> bool {
        // SAFETY: both are live.
        let code = unsafe { ffi::pf_trywait(self.fabric.pointer(), self.rx_queue.pointer()) };
        code == 0
    }

    fn queue(&self, queue: Queue) -> *mut ffi::fid_cq {
        match queue {
            Queue::Receive => self.rx_queue.pointer(),
            Queue::Transmit => self.tx_queue.pointer(),
        }
    }

    fn slot_in(&self, queue: Queue, context: *const core::ffi::c_void) -> usize {
        let slot = self.memory.slot_of(context);
        match queue {
            Queue::Receive => Some(slot).filter(|slot| *slot < self.rx_slots()),
            Queue::Transmit => slot.checked_sub(self.rx_slots()),
        }
        .expect("a provider puts completions into the queue of their operation")
    }

    fn desc(&self) -> *mut core::ffi::c_void {
        let registration = self.registration.as_ref();
        // SAFETY: the registration is live.
        registration.map_or(core::ptr::null_mut(), |mr| unsafe { ffi::pf_mr_desc(mr.pointer()) })
    }
}

fn outcome(code: isize) -> Outcome {
    match code as i64 {
        0 => Outcome::Taken,
        code if code == -i64::from(ffi::FI_EAGAIN) => Outcome::Full,
        _ => Outcome::Failed,
    }
}

//! The two halves of an AF_XDP socket: rings and the frames that travel in them.
//!
//! Every frame of the UMEM belongs to one half for good. A receive frame is in the fill ring, with
//! the kernel, in the receive ring, or lent to the caller until the next receive; a transmit frame
//! is free, being filled, in the transmit ring, with the kernel, or in the completion ring. A
//! frame is in exactly one of these places, so none leaks.
//!
//! The rings that this process fills have twice as many entries as there are frames. The kernel
//! returns a received or completed frame before it shows that it has taken the frame's entry from
//! the ring, so a frame can be queued again while its old entry still counts. If even that is not
//! enough, the frame waits.
//!
//! The kernel may write frames of the receive half at any time, except those that are lent. Slices
//! of the whole receive memory exist, because batches are described by them; but frames that are
//! not lent are never read through them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use arrayvec::ArrayVec;
use rustix::net::xdp::{
    XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
    XdpDesc, XdpDescOptions, XdpMmapOffsets, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{RecvFlags, SendFlags, sockopt};

use super::memory::Mapping;
use super::ring::{Consumer, Producer};
use crate::flush::Flush;
use crate::xsk_config::XskConfig;

/// Frames that one receive lends at most.
pub(crate) const RX_BATCH_MAX: usize = 64;

/// One received frame: `len` bytes at `offset` of the half's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxDesc {
    /// Where its Ethernet header starts, in bytes.
    pub offset: u32,
    /// Bytes of the frame, without the frame check sequence.
    pub len: u32,
}

/// The memory that both halves share: receive frames first, transmit frames behind them.
pub(crate) struct FrameMemory {
    mapping: Mapping,
    config: XskConfig,
    huge_pages: bool,
}

impl FrameMemory {
    /// Maps the memory for `config`'s frames.
    pub(crate) fn map(config: &XskConfig) -> io::Result<Arc<FrameMemory>> {
        let (mapping, huge_pages) = Mapping::anonymous(config.umem_bytes(), config.huge_pages)?;
        Ok(Arc::new(FrameMemory { mapping, config: *config, huge_pages }))
    }

    /// Makes the memory `socket`'s UMEM.
    pub(crate) fn register(&self, socket: &OwnedFd) -> io::Result<()> {
        let area = XdpUmemReg {
            addr: self.mapping.as_ptr() as u64,
            len: self.config.umem_bytes() as u64,
            chunk_size: self.config.frame_bytes,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        Ok(sockopt::set_xdp_umem_reg(socket, area)?)
    }

    /// Whether the memory came from the pool of huge pages.
    pub(crate) fn huge_pages(&self) -> bool {
        self.huge_pages
    }
}

/// The receiving half.
pub struct RxHalf {
    socket: Arc<OwnedFd>,
    memory: Arc<FrameMemory>,
    fill: Producer<u64>,
    rx: Consumer<XdpDesc>,
    /// UMEM addresses of the frames that the caller has.
    lent: ArrayVec<u64, RX_BATCH_MAX>,
    descs: ArrayVec<RxDesc, RX_BATCH_MAX>,
    busy_poll: bool,
    /// All, and those in vain.
    wakeups: (u64, u64),
}

impl RxHalf {
    pub(crate) fn map(
        socket: Arc<OwnedFd>,
        memory: Arc<FrameMemory>,
        at: &XdpMmapOffsets,
    ) -> io::Result<RxHalf> {
        let fd = socket.as_fd();
        let frames = memory.config.rx_frames;
        let fill_entries = memory.config.fill_entries();
        let mut fill = Producer::map(fd, XDP_UMEM_PGOFF_FILL_RING, &at.fr, fill_entries)?;
        let rx = Consumer::map(fd, XDP_PGOFF_RX_RING, &at.rx, frames)?;
        for frame in 0..u64::from(frames) {
            fill.push(frame * u64::from(memory.config.frame_bytes));
        }
        fill.publish();
        let busy_poll = memory.config.busy_poll_us > 0;
        let (lent, descs) = (ArrayVec::new(), ArrayVec::new());
        Ok(RxHalf { socket, memory, fill, rx, lent, descs, busy_poll, wakeups: (0, 0) })
    }

    /// Takes back the frames lent before and lends those that have arrived, at most 64: the memory
    /// they lie in, and where.
    #[inline]
    pub fn receive(&mut self) -> (&[u8], &[RxDesc]) {
        self.give_back();
        if self.rx.available() == 0 && (self.busy_poll || self.fill.needs_wakeup()) {
            self.wake();
        }
        self.take();
        (self.bytes(), &self.descs)
    }

    /// System calls made so far to make the kernel look for frames, and those that were in vain.
    pub fn wakeups(&self) -> (u64, u64) {
        self.wakeups
    }

    #[inline]
    fn give_back(&mut self) {
        if !self.lent.is_empty() {
            while let Some(address) = self.lent.last().filter(|_| self.fill.has_room()) {
                self.fill.push(*address);
                self.lent.pop();
            }
            self.fill.publish();
        }
        self.descs.clear();
    }

    #[inline]
    fn take(&mut self) {
        let frame_bytes = u64::from(self.memory.config.frame_bytes);
        let end = frame_bytes * u64::from(self.memory.config.rx_frames);
        while self.lent.len() < RX_BATCH_MAX {
            let Some(desc) = self.rx.pop() else { break };
            let room = frame_bytes - desc.addr % frame_bytes;
            assert!(
                desc.addr < end && u64::from(desc.len) <= room,
                "the kernel returns frames that it was given"
            );
            self.lent.push(desc.addr - desc.addr % frame_bytes);
            self.descs.push(RxDesc { offset: desc.addr as u32, len: desc.len });
        }
        if !self.lent.is_empty() {
            self.rx.release();
        }
    }

    /// Lets the kernel run the driver's receive path (busy polling, or a driver that sleeps).
    #[cold]
    fn wake(&mut self) {
        self.wakeups.0 += 1;
        // That nothing is there, or that the interface is down, shows in what arrives: nothing.
        let _ = rustix::net::recv(&self.socket, &mut [0u8; 0][..], RecvFlags::DONTWAIT);
        self.wakeups.1 += u64::from(self.rx.available() == 0);
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        let len = self.memory.config.rx_bytes();
        // SAFETY: the receive frames are the first `len` bytes of the mapping, which the half keeps
        // alive. Nobody in this process writes them; the kernel writes frames that are not lent,
        // and those are not read (see the module's documentation). The borrow of the half ends
        // before the next receive gives the lent frames back.
        unsafe { core::slice::from_raw_parts(self.memory.mapping.as_ptr(), len) }
    }
}

/// The transmitting half.
pub struct TxHalf {
    socket: Arc<OwnedFd>,
    memory: Arc<FrameMemory>,
    tx: Producer<XdpDesc>,
    completion: Consumer<u64>,
    /// UMEM addresses of free frames, the one used last on top: it is still in the cache.
    free: Vec<u64>,
    unpublished: bool,
}

impl TxHalf {
    pub(crate) fn map(
        socket: Arc<OwnedFd>,
        memory: Arc<FrameMemory>,
        at: &XdpMmapOffsets,
    ) -> io::Result<TxHalf> {
        let fd = socket.as_fd();
        let config = memory.config;
        let tx = Producer::map(fd, XDP_PGOFF_TX_RING, &at.tx, config.tx_entries())?;
        let ring = XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = Consumer::map(fd, ring, &at.cr, config.tx_frames)?;
        let address = |frame| u64::from(config.rx_frames + frame) * u64::from(config.frame_bytes);
        let free = (0..config.tx_frames).rev().map(address).collect();
        Ok(TxHalf { socket, memory, tx, completion, free, unpublished: false })
    }

    /// A free frame to write to, or `None` if the kernel has them all. The same frame until
    /// [`TxHalf::push`].
    #[inline]
    pub fn frame(&mut self) -> Option<&mut [u8]> {
        // Once a batch, so that a frame is used again while the caches still have it.
        if !self.unpublished || self.free.is_empty() {
            self.reclaim();
        }
        let address = *self.free.last().filter(|_| self.tx.has_room())? as usize;
        let frame_bytes = self.memory.config.frame_bytes as usize;
        // SAFETY: the address is that of a whole frame in the mapping, which the half keeps alive;
        // the frame is free, so the kernel does not read it, and only one slice of it exists,
        // since it borrows the half.
        Some(unsafe {
            let start = self.memory.mapping.as_ptr().add(address);
            core::slice::from_raw_parts_mut(start, frame_bytes)
        })
    }

    /// Queues the first `len` bytes of the frame that [`TxHalf::frame`] returned. They are sent by
    /// the next [`TxHalf::flush`].
    ///
    /// # Panics
    /// If there is no such frame, or it is shorter: the caller's bug.
    #[inline]
    pub fn push(&mut self, len: usize) {
        let fits = len <= self.memory.config.frame_bytes as usize;
        let addr = self.free.pop().filter(|_| fits).expect("a frame that was lent is queued");
        let options = XdpDescOptions::empty();
        self.tx.push(XdpDesc { addr, len: len as u32, options });
        self.unpublished = true;
    }

    /// Frames that were queued and that the kernel has not looked at yet.
    #[inline]
    pub fn unsent(&mut self) -> u32 {
        self.tx.unconsumed()
    }

    /// Takes back the frames that have been sent.
    #[inline]
    pub fn reclaim(&mut self) {
        let count = self.completion.available();
        for _ in 0..count {
            let Some(address) = self.completion.pop() else { break };
            self.free.push(address);
        }
        if count > 0 {
            self.completion.release();
        }
        let frames = self.memory.config.tx_frames as usize;
        assert!(self.free.len() <= frames, "the kernel completes a frame once");
    }

    /// Hands all queued frames to the kernel and makes it send them: as many calls as it takes,
    /// because one sends at most 32 in copy mode. Never waits: what the kernel cannot send now
    /// stays in the ring for the next flush.
    #[inline]
    pub fn flush(&mut self) -> Flush {
        if self.unpublished {
            self.tx.publish();
            self.unpublished = false;
        }
        let mut outcome = Flush::default();
        let mut unsent = self.tx.unconsumed();
        while unsent > 0 && self.tx.needs_wakeup() {
            outcome.syscalls += 1;
            let dropped = match rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT) {
                Ok(_) => 0,
                Err(error) => outcome.note(error),
            };
            let left = self.tx.unconsumed();
            // A dropped frame counts as progress, although the index may show it late.
            if outcome.down || (left >= unsent && dropped == 0) || outcome.dropped > unsent {
                break;
            }
            unsent = left;
        }
        outcome
    }
}

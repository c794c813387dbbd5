//! A port with one queue in each direction, and its pool of frames.
//!
//! A frame (an mbuf of one segment) is in exactly one state: free in the pool, owned by the driver,
//! lent (received, until the next receive), or spare (allocated, to be filled and sent).

use core::ptr::NonNull;
use core::slice;
use core::time::Duration;
use std::ffi::CString;

use arrayvec::ArrayVec;
use petasos_netio_frame::Mac;

use super::environment::{Claim, lock};
use super::{BURST_MAX, error_of, ffi};
use crate::{DpdkConfig, DpdkError};

/// The parameters that were agreed when the port was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortSetup {
    /// Our Ethernet address.
    pub(crate) mac: Mac,
    /// Bytes of the longest IP packet.
    pub(crate) mtu: usize,
    /// Frames that the device may receive into.
    pub(crate) rx_descriptors: usize,
}

/// A started port.
pub(crate) struct Port {
    claim: Claim,
    pool: NonNull<ffi::pd_pool>,
    /// The start of the pool's frames.
    start: NonNull<u8>,
    len: usize,
    /// The bytes that fit into a spare frame.
    room: usize,
    lent: ArrayVec<ffi::pd_frame, BURST_MAX>,
    spare: ArrayVec<ffi::pd_frame, BURST_MAX>,
    pub(crate) setup: PortSetup,
}

// SAFETY: pools and queues belong to the process. DPDK wants one thread at a time for a queue,
// which `&mut` ensures, and any thread may use a pool without a cache, as this one.
unsafe impl Send for Port {}

impl Port {
    pub(crate) fn open(config: &DpdkConfig) -> Result<Port, DpdkError> {
        if !(FRAMES_MIN..=FRAMES_MAX).contains(&config.frames) {
            return Err(DpdkError::Config("frames are 256 to 2^20"));
        }
        let mut environment = lock();
        environment.start(&config.eal)?;
        let claim = environment.claim(&config.device)?;
        environment.pools += 1;
        match Port::start(claim, environment.pools, config) {
            Ok(port) => Ok(port),
            Err((claim, error)) => {
                environment.give_back(&claim);
                Err(error)
            }
        }
    }

    fn start(claim: Claim, number: u32, config: &DpdkConfig) -> Result<Port, (Claim, DpdkError)> {
        let (mut info, mtu) = match agree(&claim, config) {
            Ok(agreed) => agreed,
            Err(error) => return Err((claim, error)),
        };
        let room = (usize::from(mtu) + LINK_BYTES).next_multiple_of(64).max(ROOM_MIN);
        let (pool, start, len) = match create_pool(number, config.frames, room) {
            Ok(pool) => pool,
            Err(error) => return Err((claim, error)),
        };
        let set_mac = config.mac.is_some().into();
        let code = patiently(&config.device, || {
            // SAFETY: port and pool are live and ours; both are numbers and pointers from DPDK. A
            // port that did not start may be set up again.
            unsafe { ffi::pd_port_start(claim.port, mtu, pool.as_ptr(), &mut info, set_mac) }
        });
        let setup = PortSetup {
            mac: info.mac,
            mtu: mtu.into(),
            rx_descriptors: info.rx_descriptors.into(),
        };
        let (lent, spare) = (ArrayVec::new(), ArrayVec::new());
        if code < 0 {
            // SAFETY: nobody else knows of either, and the queues are stopped first.
            unsafe {
                ffi::pd_port_close(claim.port);
                ffi::pd_pool_free(pool.as_ptr());
            }
            let error = error_of(code);
            return Err((claim, DpdkError::System { attempt: "start the port", error }));
        }
        Ok(Port { claim, pool, start, len, room, lent, spare, setup })
    }

    /// Whether the device has a link.
    pub(crate) fn is_up(&self) -> bool {
        // SAFETY: the port is ours and started.
        unsafe { ffi::pd_link_up(self.claim.port) == 1 }
    }

    /// The driver's counters: frames missed, and frames with errors.
    pub(crate) fn counters(&self) -> ffi::pd_counters {
        let mut counters =
            ffi::pd_counters { rx_missed: 0, rx_no_mbuf: 0, rx_errors: 0, tx_errors: 0 };
        // SAFETY: the port is ours. A driver that cannot count leaves zeroes.
        unsafe { ffi::pd_counters(self.claim.port, &mut counters) };
        counters
    }

    /// Takes back the lent frames, and lends those that have arrived. Returns how many, and how
    /// many others could not be copied from foreign memory.
    #[inline]
    pub(crate) fn receive(&mut self) -> (usize, u32) {
        free(&mut self.lent);
        let mut dropped = 0;
        // SAFETY: there is room for a burst; what is written there is the frames' description.
        unsafe {
            let (port, pool) = (self.claim.port, self.pool.as_ptr());
            let place = self.lent.as_mut_ptr();
            let count = ffi::pd_receive(port, pool, place, BURST_MAX as u16, &mut dropped);
            self.lent.set_len(count.into());
        }
        (self.lent.len(), dropped)
    }

    /// The memory of all frames.
    #[inline]
    pub(crate) fn memory(&self) -> &[u8] {
        // SAFETY: the pool's memory is one mapping, initialised by the kernel with zeroes, and
        // lives as long as this. Drivers write to their frames meanwhile; the places that the
        // caller knows of are those of lent frames, which nobody writes to.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// A lent frame's offset in the memory, and its length.
    #[inline]
    pub(crate) fn lent(&self, at: usize) -> (usize, usize) {
        let frame = &self.lent[at];
        let offset = (frame.data as usize).wrapping_sub(self.start.as_ptr() as usize);
        (offset, frame.length as usize)
    }

    /// How many spare frames can be filled: at least 1, unless the pool is empty.
    #[inline]
    pub(crate) fn spare(&mut self) -> usize {
        if self.spare.is_empty() {
            // SAFETY: there is room for a burst, which is described if there is no error.
            unsafe {
                let (pool, place) = (self.pool.as_ptr(), self.spare.as_mut_ptr());
                if ffi::pd_allocate(pool, place, BURST_MAX as u16) == 0 {
                    self.spare.set_len(BURST_MAX);
                }
            }
        }
        self.spare.len()
    }

    /// Lets `write` fill a spare frame. `write` returns the frame's length.
    #[inline]
    pub(crate) fn fill(&mut self, at: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let frame = &mut self.spare[at];
        // SAFETY: a spare frame is ours alone, and has as much room behind its start.
        let room = unsafe { slice::from_raw_parts_mut(frame.data, self.room) };
        let len = write(room);
        assert!(len <= self.room, "a frame's bytes are in the frame");
        frame.length = len as u32;
    }

    /// Sends the first `count` spare frames, or fewer; returns how many.
    #[inline]
    pub(crate) fn send(&mut self, count: usize) -> usize {
        let count = count.min(self.spare.len());
        // SAFETY: as many frames are described, ours, and filled. Those sent are the driver's.
        let sent = unsafe { ffi::pd_send(self.claim.port, self.spare.as_mut_ptr(), count as u16) };
        self.spare.drain(..usize::from(sent));
        sent.into()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let mut environment = lock();
        free(&mut self.lent);
        free(&mut self.spare);
        // SAFETY: port and pool are ours; no frame of ours is in use. If another port still has
        // frames of the pool, the pool stays, for the other port's sake.
        unsafe {
            ffi::pd_port_close(self.claim.port);
            ffi::pd_pool_free(self.pool.as_ptr());
        }
        environment.give_back(&self.claim);
    }
}

/// Starts a device. A client of another process is started repeatedly for a while, because that
/// process may be starting, too, or may still be disconnecting its last client. Other devices get
/// one attempt.
fn patiently(device: &str, mut start: impl FnMut() -> i32) -> i32 {
    let is_guest = device.starts_with("net_memif") && !device.contains("role=server");
    let mut attempts = if is_guest { GUEST_ATTEMPTS } else { 1 };
    loop {
        let code = start();
        attempts -= 1;
        if code >= 0 || attempts == 0 {
            return code;
        }
        std::thread::sleep(GUEST_PAUSE);
    }
}

/// Determines what both the device and the caller support: address, descriptors, MTU.
fn agree(claim: &Claim, config: &DpdkConfig) -> Result<(ffi::pd_port, u16), DpdkError> {
    let mut info =
        ffi::pd_port { mac: [0; 6], mtu: 0, queues_max: 0, rx_descriptors: 0, tx_descriptors: 0 };
    // SAFETY: the port exists, and the information is ours to be written to.
    let code = unsafe { ffi::pd_port_info(claim.port, &mut info) };
    if code < 0 {
        let attempt = "ask the port what it can";
        return Err(DpdkError::System { attempt, error: error_of(code) });
    }
    let limit = |asked: u16, offered: u16, frames: u32| match offered {
        0 => u32::from(asked).min(frames) as u16,
        offered => u32::from(asked.min(offered)).min(frames) as u16,
    };
    // The rest is for frames that are lent, spare, or kept by the driver.
    info.rx_descriptors = limit(config.rx_descriptors, info.rx_descriptors, config.frames / 2);
    info.tx_descriptors = limit(config.tx_descriptors, info.tx_descriptors, config.frames / 4);
    info.mac = config.mac.unwrap_or(info.mac);
    if info.rx_descriptors == 0 || info.tx_descriptors == 0 {
        return Err(DpdkError::Config("no descriptor in one direction"));
    }
    if info.mac == [0; 6] || info.mac[0] & 1 == 1 {
        return Err(DpdkError::Config("the device has no Ethernet address of its own: set `mac`"));
    }
    let mtu = config.mtu.unwrap_or(info.mtu);
    Ok((info, mtu))
}

/// A pool of this many frames, and the place of its memory.
fn create_pool(
    number: u32,
    frames: u32,
    room: usize,
) -> Result<(NonNull<ffi::pd_pool>, NonNull<u8>, usize), DpdkError> {
    let name = CString::new(format!("petasos{number}")).expect("a name without zero bytes");
    let (mut error, mut start, mut len) = (0, core::ptr::null_mut(), 0);
    // SAFETY: the name is a text, and the places are ours to be written to.
    let pool = unsafe {
        let room = room as u16;
        ffi::pd_pool_create(name.as_ptr(), frames, room, -1, &mut error, &mut start, &mut len)
    };
    match (NonNull::new(pool), NonNull::new(start)) {
        (Some(pool), Some(start)) if len <= u32::MAX as usize => Ok((pool, start, len)),
        _ => Err(DpdkError::Memory { frames, error: error_of(error) }),
    }
}

#[inline]
fn free(frames: &mut ArrayVec<ffi::pd_frame, BURST_MAX>) {
    if !frames.is_empty() {
        // SAFETY: the frames are ours, and nobody knows of them afterwards.
        unsafe { ffi::pd_free(frames.as_mut_ptr(), frames.len() as u16) };
        frames.clear();
    }
}

const FRAMES_MIN: u32 = 256;
const FRAMES_MAX: u32 = 1 << 20;
/// Ethernet's header and checksum, and two VLAN tags.
const LINK_BYTES: usize = 26;
/// The least room that drivers ask for.
const ROOM_MIN: usize = 2048;
/// How often a client of another process is started before giving up, and at what interval.
const GUEST_ATTEMPTS: u32 = 40;
const GUEST_PAUSE: Duration = Duration::from_millis(50);

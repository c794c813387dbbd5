//! Guidelines on rings in shared memory. The calling thread has one end; a partner thread has the
//! other and spins, on a core of its own.

use std::sync::Arc;
use std::thread::JoinHandle;

use petasos_base::sync::{AtomicBool, AtomicUsize, Ordering};
use petasos_shm::{INLINE_BYTES_MAX, RingShape};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{BATCH, MESSAGE_BYTES, QUEUES, Switch};
use crate::FloorError;
use crate::ring::RingLink;

const SHAPE: RingShape = RingShape { slots: 1024, data_bytes: 1 << 18, record_bytes_max: 4096 };

/// Batches of a step: enough that reading the clock after each step costs little.
const BATCHES: usize = 16;

/// The longest record that is inlined in a slot, and one that is a byte too long for that.
const INLINED: [u8; INLINE_BYTES_MAX] = [1; INLINE_BYTES_MAX];
const REFERRED: [u8; INLINE_BYTES_MAX + 1] = [1; INLINE_BYTES_MAX + 1];
const _: () = assert!(INLINE_BYTES_MAX >= MESSAGE_BYTES);

/// A thread at the other ends of rings, until it is dropped.
struct Partner {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Partner {
    /// Starts a thread on `core` that runs until it is stopped or its ring breaks.
    fn start(
        core: usize,
        mut turn: impl FnMut() -> Result<(), FloorError> + Send + 'static,
    ) -> Partner {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut cores = CpuSet::new();
            cores.set(core);
            // On a machine without this core, the thread runs on any.
            let _ = sched_setaffinity(None, &cores);
            while !stopped.load(Ordering::Relaxed) && turn().is_ok() {}
        });
        Partner { stop, thread: Some(thread) }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a partner does not panic");
        }
    }
}

/// Pushes a batch as far as there is room; returns how many records that was.
#[inline]
fn push(link: &mut RingLink, record: &[u8], publish_each: bool) -> Result<u64, FloorError> {
    let mut pushed = 0;
    while pushed < BATCH as u64 && link.push(record, record.len())? {
        pushed += 1;
        if publish_each {
            link.ends.producer.publish();
        }
    }
    link.ends.producer.publish();
    Ok(pushed)
}

/// Pops a batch as far as there are records; returns how many.
#[inline]
fn pop(link: &mut RingLink, buffer: &mut [u8], release_each: bool) -> Result<u64, FloorError> {
    let mut popped = 0;
    while popped < BATCH as u64 && link.pop_unreleased(buffer)? {
        popped += 1;
        if release_each {
            link.ends.consumer.release();
        }
    }
    link.ends.consumer.release();
    Ok(popped)
}

/// Pushes several batches; returns how many records that was.
#[inline]
fn batches(mut batch: impl FnMut() -> Result<u64, FloorError>) -> Result<u64, FloorError> {
    let mut records = 0;
    for _ in 0..BATCHES {
        records += batch()?;
    }
    Ok(records)
}

/// A partner that takes records from the first `active` of `links`.
fn drain(core: usize, mut links: Vec<RingLink>, active: Arc<AtomicUsize>) -> Partner {
    let mut buffer = vec![0; SHAPE.record_bytes_max as usize];
    Partner::start(core, move || {
        let active = active.load(Ordering::Relaxed);
        let mut popped = 0;
        for link in links.iter_mut().take(active) {
            popped += pop(link, &mut buffer, false)?;
        }
        if popped == 0 {
            core::hint::spin_loop();
        }
        Ok(())
    })
}

/// A ring with a partner that empties it.
fn drained(core: usize) -> Result<(RingLink, Partner), FloorError> {
    let [near, far] = RingLink::pair(SHAPE)?;
    Ok((near, drain(core, vec![far], Arc::new(AtomicUsize::new(1)))))
}

/// Batched doorbells: the producer publishes each record separately, or a whole batch at once.
pub struct Publishing {
    link: RingLink,
    _partner: Partner,
}

impl Publishing {
    /// Makes the ring; its consumer runs on `core`.
    ///
    /// # Errors
    /// [`FloorError::Region`].
    pub fn open(core: usize) -> Result<Publishing, FloorError> {
        let (link, partner) = drained(core)?;
        Ok(Publishing { link, _partner: partner })
    }
}

impl Switch for Publishing {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        batches(|| push(&mut self.link, &INLINED, !follow))
    }
}

/// Inlining: records that are inlined in their slot, or records that are one byte too long for
/// that, so that the slot refers to them.
pub struct Inlining {
    link: RingLink,
    _partner: Partner,
}

impl Inlining {
    /// Makes the ring; its consumer runs on `core`.
    ///
    /// # Errors
    /// [`FloorError::Region`].
    pub fn open(core: usize) -> Result<Inlining, FloorError> {
        let (link, partner) = drained(core)?;
        Ok(Inlining { link, _partner: partner })
    }
}

impl Switch for Inlining {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        batches(|| push(&mut self.link, if follow { &INLINED } else { &REFERRED }, false))
    }
}

/// Unsignalled completions: the consumer reports each consumed record to the producer, or a batch
/// at once.
pub struct Releasing {
    link: RingLink,
    buffer: Vec<u8>,
    _partner: Partner,
}

impl Releasing {
    /// Makes the ring; its producer runs on `core`.
    ///
    /// # Errors
    /// [`FloorError::Region`].
    pub fn open(core: usize) -> Result<Releasing, FloorError> {
        let [link, mut far] = RingLink::pair(SHAPE)?;
        let partner = Partner::start(core, move || {
            if push(&mut far, &INLINED, false)? == 0 {
                core::hint::spin_loop();
            }
            Ok(())
        });
        let buffer = link.buffer();
        Ok(Releasing { link, buffer, _partner: partner })
    }
}

impl Switch for Releasing {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        batches(|| pop(&mut self.link, &mut self.buffer, !follow))
    }
}

/// Several queues: the same batches over one ring, or over several in turn, to one consumer.
pub struct RingCount {
    links: Vec<RingLink>,
    /// Rings in use.
    active: Arc<AtomicUsize>,
    _partner: Partner,
}

impl RingCount {
    /// Makes the rings; their consumer runs on `core`.
    ///
    /// # Errors
    /// [`FloorError::Region`].
    pub fn open(core: usize) -> Result<RingCount, FloorError> {
        let (mut links, mut fars) = (Vec::new(), Vec::new());
        for _ in 0..QUEUES {
            let [near, far] = RingLink::pair(SHAPE)?;
            links.push(near);
            fars.push(far);
        }
        let active = Arc::new(AtomicUsize::new(1));
        let partner = drain(core, fars, Arc::clone(&active));
        Ok(RingCount { links, active, _partner: partner })
    }
}

impl Switch for RingCount {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        let active = if follow { QUEUES } else { 1 };
        self.active.store(active, Ordering::Relaxed);
        let mut next = 0;
        batches(|| {
            next = (next + 1) % active;
            push(&mut self.links[next], &INLINED, false)
        })
    }
}

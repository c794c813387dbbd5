//! First packets that wait for a worker.

use petasos_base::Time;

/// The number of a frame that is in use.
pub(crate) type FrameId = u32;

/// One that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// The client's number, and the tag that tells it from others that had the number.
    pub(crate) client: (u32, u32),
    /// When the call's deadline passes (RT6).
    pub(crate) expires: Time,
    len: u32,
}

/// All of them. Memory is there from the start, and used when something waits for the first time.
pub(crate) struct Frames {
    memory: Vec<u8>,
    waiting: Vec<Waiting>,
    free: Vec<FrameId>,
    frame_bytes: usize,
}

impl Frames {
    /// One more than may wait, for the request that is being decided about.
    pub(crate) fn new(waiting_max: usize, frame_bytes: usize) -> Frames {
        let count = waiting_max + 1;
        Frames {
            memory: vec![0; count * frame_bytes],
            waiting: vec![Waiting { client: (0, 0), expires: Time::NEVER, len: 0 }; count],
            free: (0..count as FrameId).rev().collect(),
            frame_bytes,
        }
    }

    /// A frame for the next request. There is one, since the core's queue is bounded.
    #[inline]
    pub(crate) fn take(&mut self) -> FrameId {
        self.free.pop().expect("there are more frames than requests that may wait")
    }

    #[inline]
    pub(crate) fn give(&mut self, id: FrameId) {
        self.free.push(id);
    }

    /// Keeps a packet, which is no longer than the group's packets are.
    pub(crate) fn keep(&mut self, id: FrameId, bytes: &[u8], client: (u32, u32), expires: Time) {
        let at = id as usize * self.frame_bytes;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        self.waiting[id as usize] = Waiting { client, expires, len: bytes.len() as u32 };
    }

    pub(crate) fn get(&self, id: FrameId) -> (Waiting, &[u8]) {
        let (waiting, at) = (self.waiting[id as usize], id as usize * self.frame_bytes);
        (waiting, &self.memory[at..at + waiting.len as usize])
    }

    /// How many are in use.
    pub(crate) fn used(&self) -> usize {
        self.waiting.len() - self.free.len()
    }
}

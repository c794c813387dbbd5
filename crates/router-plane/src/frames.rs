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
    /// Of packets that wait.
    bytes: usize,
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
            bytes: 0,
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
        self.bytes += bytes.len();
    }

    pub(crate) fn get(&self, id: FrameId) -> (Waiting, &[u8]) {
        let (waiting, at) = (self.waiting[id as usize], id as usize * self.frame_bytes);
        (waiting, &self.memory[at..at + waiting.len as usize])
    }

    /// Gives the frame of a packet back that was kept.
    pub(crate) fn give_kept(&mut self, id: FrameId) {
        self.bytes -= self.waiting[id as usize].len as usize;
        self.give(id);
    }

    /// Makes room, if there is less: one more than may wait. Only what waits is copied.
    pub(crate) fn make_room(&mut self, waiting_max: usize) {
        let (before, count) = (self.waiting.len(), waiting_max + 1);
        if count <= before {
            return;
        }
        let frame_bytes = self.frame_bytes;
        let old = core::mem::replace(&mut self.memory, vec![0; count * frame_bytes]);
        let mut is_free = vec![false; before];
        self.free.iter().for_each(|id| is_free[*id as usize] = true);
        for id in (0..before).filter(|id| !is_free[*id]) {
            let frame = id * frame_bytes..(id + 1) * frame_bytes;
            self.memory[frame.clone()].copy_from_slice(&old[frame]);
        }
        self.waiting.resize(count, Waiting { client: (0, 0), expires: Time::NEVER, len: 0 });
        self.free.extend((before as FrameId..count as FrameId).rev());
    }

    /// What a frame has room for.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Bytes of packets that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many are in use.
    pub(crate) fn used(&self) -> usize {
        self.waiting.len() - self.free.len()
    }
}

//! The window between two services, which keeps sockets' buffers from overflowing.

/// The most cost under way in one direction: less than half of a socket's buffer.
pub const WINDOW: u64 = 3 << 19;
/// The cost of a short frame: the kernel's memory for it counts as well.
const COST_MIN: u64 = 1024;

/// What one side has sent and taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// The cost of all frames sent.
    sent: u64,
    /// What of it the other side has taken: at most `sent`.
    credited: u64,
    /// The cost of all frames taken.
    taken: u64,
    /// What of it the other side has been told: at most `taken`.
    told: u64,
}

/// The cost of a frame of this length.
fn cost(bytes: usize) -> u64 {
    (bytes as u64).max(COST_MIN)
}

impl Hop {
    /// Whether a frame of any length may be sent.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.sent - self.credited + cost(super::frame::FRAME_BYTES_MAX) <= WINDOW
    }

    /// A frame of this length is sent. Returns the credit that it carries.
    #[inline]
    pub fn send(&mut self, bytes: usize) -> u64 {
        self.sent += cost(bytes);
        self.tell()
    }

    /// The other side says how much it has taken. What it cannot have taken is ignored.
    #[inline]
    pub fn credit(&mut self, credit: u64) {
        if (self.credited..=self.sent).contains(&credit) {
            self.credited = credit;
        }
    }

    /// A frame of this length has been taken.
    #[inline]
    pub fn take(&mut self, bytes: usize) {
        self.taken += cost(bytes);
    }

    /// Whether the other side has to be told, although there is nothing to send.
    #[inline]
    pub fn must_tell(&self) -> bool {
        self.taken - self.told >= WINDOW / 4
    }

    /// The credit to send now.
    #[inline]
    pub fn tell(&mut self) -> u64 {
        self.told = self.taken;
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::FRAME_BYTES_MAX;
    use super::*;

    #[test]
    fn a_window_is_filled_and_opens_when_frames_are_taken() {
        let (mut near, mut far) = (Hop::default(), Hop::default());
        let mut frames = 0;
        while near.has_room() {
            near.send(FRAME_BYTES_MAX);
            frames += 1;
        }
        assert_eq!(frames, WINDOW / FRAME_BYTES_MAX as u64);
        while !far.must_tell() {
            far.take(FRAME_BYTES_MAX);
        }
        near.credit(far.tell());
        assert!(near.has_room() && !far.must_tell());
    }

    #[test]
    fn impossible_credit_is_ignored() {
        let mut hop = Hop::default();
        hop.send(100);
        hop.credit(5000);
        assert_eq!(hop.credited, 0);
        hop.credit(1024);
        hop.credit(3);
        assert_eq!(hop.credited, 1024);
    }
}

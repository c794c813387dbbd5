//! Frame headers in bytes that pass: what `h2` does not report.

const HEAD_BYTES: usize = 9;

/// Types of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;

/// Finds the frame headers in the bytes of one direction.
pub(crate) struct Frames {
    head: [u8; HEAD_BYTES],
    /// How many bytes of the current header have passed.
    head_bytes: usize,
    /// How many bytes pass before the next header.
    skip: usize,
}

pub(crate) struct Head {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Frames {
    pub(crate) fn new(skip: usize) -> Frames {
        Frames { head: [0; HEAD_BYTES], head_bytes: 0, skip }
    }

    pub(crate) fn pass(&mut self, mut bytes: &[u8], mut found: impl FnMut(Head)) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let count = bytes.len().min(HEAD_BYTES - self.head_bytes);
            self.head[self.head_bytes..][..count].copy_from_slice(&bytes[..count]);
            self.head_bytes += count;
            bytes = &bytes[count..];
            if self.head_bytes == HEAD_BYTES {
                self.head_bytes = 0;
                let [a, b, c, kind, flags, stream @ ..] = self.head;
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                found(Head { kind, flags, stream: u32::from_be_bytes(stream) & (u32::MAX >> 1) });
            }
        }
    }

    /// How many bytes of the current frame are still missing, as far as known.
    pub(crate) fn missing(&self) -> usize {
        match self.head_bytes {
            0 => self.skip,
            begun => HEAD_BYTES - begun,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_found_however_the_bytes_are_cut() {
        let mut bytes = vec![7; 24];
        bytes.extend([0, 0, 3, HEADERS, 5, 0x80, 0, 0, 9, 1, 2, 3]);
        bytes.extend([0, 0, 8, PING, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend([0, 0, 0, DATA, 1, 0, 0, 0, 9]);
        for size in 1..bytes.len() {
            let mut frames = Frames::new(24);
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                frames.pass(piece, |head| found.push((head.kind, head.flags, head.stream)));
            }
            assert_eq!(found, [(HEADERS, 5, 9), (PING, 1, 0), (DATA, 1, 9)], "{size}");
            assert_eq!(frames.missing(), 0);
        }
    }

    #[test]
    fn what_a_frame_lacks_is_known() {
        let mut frames = Frames::new(0);
        for (byte, missing) in [(0, 8), (0, 7), (2, 6)] {
            frames.pass(&[byte], |_| {});
            assert_eq!(frames.missing(), missing);
        }
        frames.pass(&[DATA, 0, 0, 0, 0, 1, 77], |_| {});
        assert_eq!(frames.missing(), 1);
    }
}

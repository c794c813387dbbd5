//! Frames: a header and a part of a request or response.
//!
//! ```text
//! 0       1       2        4               8            16            24
//! | app   | kind  | 0      | message bytes | call       | credit      | part …
//! ```
//!
//! All numbers are little-endian. `credit` belongs to the hop between services.

/// Bytes of the header: as many as Petasos's own.
pub const HEADER_BYTES: usize = 24;
/// The longest frame: a datagram that fits jumbo frames.
pub const FRAME_BYTES_MAX: usize = 8972;
/// The most bytes of a message in a frame.
pub const PART_BYTES_MAX: usize = FRAME_BYTES_MAX - HEADER_BYTES;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A part of a message, but not its last.
    Part = 1,
    /// The last part of a message.
    Last = 2,
    /// Only the credit.
    Credit = 3,
    /// The address of the service that sends it, as text.
    Hello = 4,
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of the application at its service.
    pub app: u8,
    pub kind: Kind,
    /// Bytes of the whole message.
    pub message_bytes: u32,
    /// The call's number.
    pub call: u64,
    /// The cost of all frames that the sender has taken from this hop so far.
    pub credit: u64,
}

impl Header {
    /// Writes the header to the start of a frame.
    ///
    /// # Panics
    /// If the frame is shorter than a header.
    pub fn write(self, frame: &mut [u8]) {
        frame[0] = self.app;
        frame[1] = self.kind as u8;
        frame[2..4].fill(0);
        frame[4..8].copy_from_slice(&self.message_bytes.to_le_bytes());
        frame[8..16].copy_from_slice(&self.call.to_le_bytes());
        frame[16..24].copy_from_slice(&self.credit.to_le_bytes());
    }

    /// Reads a frame's header; `None` if it is none.
    pub fn read(frame: &[u8]) -> Option<Header> {
        let header: &[u8; HEADER_BYTES] = frame.first_chunk()?;
        let kind = match header[1] {
            1 => Kind::Part,
            2 => Kind::Last,
            3 => Kind::Credit,
            4 => Kind::Hello,
            _ => return None,
        };
        let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let message_bytes = u32::from_le_bytes(header[4..8].try_into().ok()?);
        let (app, call, credit) = (header[0], word(8)?, word(16)?);
        Some(Header { app, kind, message_bytes, call, credit })
    }
}

/// Writes the application's number and the credit into a frame that is passed on.
///
/// # Panics
/// If the frame is shorter than a header.
pub fn stamp(frame: &mut [u8], app: u8, credit: u64) {
    frame[0] = app;
    frame[16..24].copy_from_slice(&credit.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written() {
        let header =
            Header { app: 3, kind: Kind::Last, message_bytes: 7, call: 1 << 40, credit: 99 };
        let mut frame = [0xff; 30];
        header.write(&mut frame);
        assert_eq!(Header::read(&frame), Some(header));
        stamp(&mut frame, 5, 100);
        assert_eq!(Header::read(&frame), Some(Header { app: 5, credit: 100, ..header }));
        assert_eq!(Header::read(&frame[..23]), None);
        for kind in [0, 5, 255] {
            frame[1] = kind;
            assert_eq!(Header::read(&frame), None);
        }
    }
}

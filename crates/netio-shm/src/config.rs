//! Sizes and limits of a backend.

use std::io;

use petasos_netio::SetupError;
use petasos_shm::RingShape;

/// How a [`crate::ShmIo`] behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShmConfig {
    /// The sizes of the rings of links that this side opens. A link in use takes twice
    /// [`RingShape::ring_bytes`] of memory.
    pub rings: RingShape,
    /// Largest datagram payload, in bytes: 1 to the longest record of a ring.
    pub datagram_bytes_max: usize,
    /// The most peers that the backend knows at once, at least 1. Further links are refused, unless
    /// one to which nobody here holds a route can be closed to make room.
    pub links_max: usize,
    /// Also accept processes of other users, and of containers with other mount or user namespaces.
    /// Such a peer can pretend to have any address.
    pub other_users: bool,
}

impl Default for ShmConfig {
    fn default() -> ShmConfig {
        ShmConfig {
            rings: RingShape {
                slots: 1024,
                data_bytes: 1 << 20,
                record_bytes_max: DATAGRAM_BYTES_MAX as u32,
            },
            datagram_bytes_max: DATAGRAM_BYTES_MAX,
            links_max: 1024,
            other_users: false,
        }
    }
}

/// The default limit of a datagram: see `docs/adr/0005-shared-memory-rings.md`.
const DATAGRAM_BYTES_MAX: usize = 16_128;

impl ShmConfig {
    pub(crate) fn check(&self) -> Result<(), SetupError> {
        let possible = self.rings.check().is_ok()
            && (1..=self.rings.record_bytes_max as usize).contains(&self.datagram_bytes_max)
            && self.links_max > 0;
        if possible {
            return Ok(());
        }
        let error = io::Error::new(io::ErrorKind::InvalidInput, "impossible sizes");
        Err(SetupError::System { attempt: "open a shared-memory backend", error })
    }
}

//! What can go wrong in a measurement.

use std::io;

use petasos_netio::SetupError;

/// Why a turn did not take place or ended early. Only the measurement is lost, so a retry is safe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FloorError {
    /// The socket could not be opened: see the inner error.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The system refused to send or to receive. `ConnectionRefused` means that the other role's
    /// socket was closed.
    #[error("the floor's socket failed: {0}")]
    Socket(#[from] io::Error),
    /// The other role's process has violated the protocol of the ring.
    #[error(transparent)]
    Ring(petasos_shm::Broken),
    /// The rings could not be made: see the inner error.
    #[error(transparent)]
    Region(#[from] petasos_shm::RegionError),
    /// The caller asked for datagrams of an impossible length.
    #[error("datagrams have 1 to {max} bytes, not {asked}", max = crate::DATAGRAM_BYTES_MAX)]
    DatagramBytes {
        /// The length asked for.
        asked: usize,
    },
    /// The caller asked for an empty window or batch, or for a batch larger than the window.
    #[error("a batch of {batch} in a window of {window} is not possible")]
    Batch {
        /// Datagrams in a batch.
        batch: usize,
        /// Datagrams outstanding.
        window: usize,
    },
    /// The caller's buffer is empty, or too small for what one call may receive.
    #[error("a buffer of {bytes} bytes is too small")]
    Memory {
        /// Its size.
        bytes: usize,
    },
}

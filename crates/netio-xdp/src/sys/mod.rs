//! All code that needs `unsafe`: memory shared with the kernel, and `bpf(2)`.
//!
//! The interface of this module is safe to use in any order: frames are lent as slices whose
//! lifetime ends before the kernel gets them, and maps, programs and links are file descriptors.

pub(crate) mod bpf;
mod halves;
mod memory;
mod options;
mod ring;
mod words;

pub(crate) use halves::{FrameMemory, RX_BATCH_MAX};
pub use halves::{RxDesc, RxHalf, TxHalf};
pub use options::wait_for_runs;
pub(crate) use options::{BusyPoll, drop_everything, drops, prefer_busy_poll};
pub use words::SharedWords;

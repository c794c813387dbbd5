//! A program whose process may be gone, in the hands of one that keeps it.

use std::os::fd::{AsFd, BorrowedFd};

use petasos_base::sync::Ordering;
use petasos_netio_xdp::{BpfFiles, FilesError, SharedWords, XdpMode};

use crate::layout::{MODE_ALONE, MODE_DIRECT, TABLE_WORDS, Table};

/// A program at an interface, and the part of its memory that says whether its process is there.
/// It decides as long as somebody has this, or its process lives.
#[derive(Debug)]
pub struct HeldProgram {
    files: BpfFiles,
    words: SharedWords,
    interface: u32,
    mode: XdpMode,
}

impl HeldProgram {
    /// Takes descriptors from a process that is not trusted to have sent the right ones. The
    /// program's process is there.
    ///
    /// # Errors
    /// One is not what it should be.
    pub fn new(files: BpfFiles, mode: XdpMode) -> Result<HeldProgram, FilesError> {
        let kept = files.check(TABLE_WORDS)?;
        let held = HeldProgram { files, words: kept.words, interface: kept.interface, mode };
        // It may have been lost to sight for a while.
        held.change(|mode| mode & !(MODE_ALONE | MODE_DIRECT));
        Ok(held)
    }

    /// The index of its interface.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// Where it runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Its link, which a successor's program is put into.
    pub fn link(&self) -> BorrowedFd<'_> {
        self.files.link.as_fd()
    }

    /// The program, which a successor's follows.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.files.program.as_fd()
    }

    /// Its process is gone: the program does not wait for what that would do, and leaves nothing
    /// to it. Where frames cannot grow, nothing waits any more.
    pub fn leave_alone(&self) {
        let direct = if self.mode == XdpMode::Generic { MODE_DIRECT } else { 0 };
        self.change(|mode| mode | MODE_ALONE | direct);
    }

    fn change(&self, to: impl Fn(u64) -> u64) {
        let word = &self.words.words()[Table::Mode as usize];
        let (ok, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        let _: Result<_, _> = word.fetch_update(ok, relaxed, |mode| Some(to(mode)));
    }
}

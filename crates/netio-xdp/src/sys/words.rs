//! The memory of a BPF map that a program and this process use at the same time.

use std::io;
use std::os::fd::BorrowedFd;

use petasos_base::sync::AtomicU64;

use super::memory::Mapping;

/// Words that a BPF program changes as well. They live as long as this, also when the program and
/// its maps are gone otherwise.
pub struct SharedWords {
    mapping: Mapping,
    len: usize,
}

impl SharedWords {
    /// The words of an array map that may be mapped, which has `len` at least.
    pub(crate) fn of_map(map: BorrowedFd<'_>, len: usize) -> io::Result<SharedWords> {
        let mapping = Mapping::of_file(map, 0, len * size_of::<u64>())?;
        Ok(SharedWords { mapping, len })
    }

    /// All of them.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has as many words, is aligned to a page, and lives as long as `self`;
        // every bit pattern is a word, and they are only ever used atomically.
        unsafe { core::slice::from_raw_parts(self.mapping.as_ptr().cast(), self.len) }
    }
}

impl core::fmt::Debug for SharedWords {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedWords").field("len", &self.len).finish_non_exhaustive()
    }
}

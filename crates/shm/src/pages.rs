//! Private memory in pages of a chosen size. Measurements of page sizes need it, since what an
//! allocator returns depends on the system's policy.

use core::ptr::{NonNull, null_mut};
use std::io;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a huge page, in bytes.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Why memory could not be allocated.
#[derive(Debug)]
#[non_exhaustive]
pub enum PagesError {
    /// The system gave no huge pages, or too few. Its administrator can change that, as the message
    /// says. Otherwise a retry fails again, unless memory was merely fragmented.
    NoHugePages {
        /// Huge pages needed.
        needed: usize,
    },
    /// The system refused; a retry may succeed when memory is free.
    System(io::Error),
}

impl core::fmt::Display for PagesError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            PagesError::NoHugePages { needed } => write!(
                f,
                "the system has no {needed} huge pages to give; reserve them (`sysctl \
                 vm.nr_hugepages={needed}`) or allow transparent ones (`echo madvise > \
                 /sys/kernel/mm/transparent_hugepage/enabled`)"
            ),
            PagesError::System(error) => write!(f, "cannot map memory: {error}"),
        }
    }
}

impl std::error::Error for PagesError {}

/// Zeroed memory in pages of one size, all of them present.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    len: usize,
    /// Keeps the memory.
    _mapped: Mapped,
}

/// A mapping, until it is dropped.
#[derive(Debug)]
struct Mapped {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is private memory with one owner, which accesses it like a `Vec`.
unsafe impl Send for Pages {}

impl Pages {
    /// At least `bytes` in ordinary pages, even where the system prefers huge ones.
    ///
    /// # Errors
    /// [`PagesError::System`].
    pub fn small(bytes: usize) -> Result<Pages, PagesError> {
        let mut pages = Pages::aligned(bytes, Advice::LinuxNoHugepage)?;
        pages.touch();
        Ok(pages)
    }

    /// At least `bytes` in huge pages: reserved ones if there are any, otherwise transparent ones.
    ///
    /// # Errors
    /// [`PagesError::NoHugePages`] if not all of it could be had, and [`PagesError::System`].
    pub fn huge(bytes: usize) -> Result<Pages, PagesError> {
        let len = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        if let Ok(mapped) = Mapped::new(len, MapFlags::HUGETLB | MapFlags::POPULATE) {
            return Ok(Pages { start: mapped.start, len, _mapped: mapped });
        }
        let no_huge_pages = PagesError::NoHugePages { needed: len / HUGE_PAGE_BYTES };
        let Ok(mut pages) = Pages::aligned(bytes, Advice::LinuxHugepage) else {
            return Err(no_huge_pages);
        };
        pages.touch();
        if pages.huge_bytes() < len { Err(no_huge_pages) } else { Ok(pages) }
    }

    /// The memory as words.
    pub fn words(&self) -> &[u64] {
        // SAFETY: the memory is mapped while `self` lives, zeroed by the system, and aligned to a
        // page; writes need `&mut self`.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 8) }
    }

    /// The memory as words, to be written.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `words`; `&mut self` makes it the only reference.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 8) }
    }

    /// Untouched memory that starts at a huge page's boundary, with `advice` to the system.
    fn aligned(bytes: usize, advice: Advice) -> Result<Pages, PagesError> {
        let len = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let mapped = Mapped::new(len + HUGE_PAGE_BYTES, MapFlags::empty());
        let mapped = mapped.map_err(PagesError::System)?;
        let offset = mapped.start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `offset` is less than the huge page by which the mapping is longer.
        let start = unsafe { mapped.start.add(offset) };
        // SAFETY: the range lies in the mapping, and the advice changes no content.
        let advised = unsafe { madvise(start.as_ptr().cast(), len, advice) };
        // A system without transparent huge pages supports neither advice.
        match advised {
            Err(error) if advice == Advice::LinuxHugepage => Err(PagesError::System(error.into())),
            _ => Ok(Pages { start, len, _mapped: mapped }),
        }
    }

    /// Makes every page present.
    fn touch(&mut self) {
        const SMALLEST_PAGE_WORDS: usize = 4096 / 8;
        self.words_mut().iter_mut().step_by(SMALLEST_PAGE_WORDS).for_each(|word| {
            // `black_box`, since the optimiser could omit a zero written over a zero.
            *word = core::hint::black_box(0);
        });
    }

    /// Bytes of this memory in transparent huge pages; 0 if the system does not say.
    fn huge_bytes(&self) -> usize {
        let start = self.start.as_ptr() as usize;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        huge_bytes_in(&maps, start..start + self.len)
    }
}

/// Bytes in transparent huge pages of the mappings that overlap with `range`.
fn huge_bytes_in(maps: &str, range: core::ops::Range<usize>) -> usize {
    let (mut bytes, mut inside) = (0, false);
    for line in maps.lines() {
        if let Some(found) = addresses(line) {
            inside = found.start < range.end && range.start < found.end;
        } else if let Some(rest) = line.strip_prefix("AnonHugePages:").filter(|_| inside) {
            let kib = rest.trim().trim_end_matches(" kB").parse::<usize>();
            bytes += kib.map_or(0, |kib| kib << 10);
        }
    }
    bytes
}

/// The addresses in the first line about a mapping.
fn addresses(line: &str) -> Option<core::ops::Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

impl Mapped {
    fn new(len: usize, flags: MapFlags) -> io::Result<Mapped> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | flags);
        // SAFETY: the system chooses addresses that nothing else uses.
        let start = unsafe { mmap_anonymous(null_mut(), len, access, flags) }?;
        let start = NonNull::new(start.cast()).expect("no mapping starts at address 0");
        Ok(Mapped { start, len })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` made exactly this mapping, and every pointer into it belongs to the owner
        // of this value. Unmapping fails only for what is no mapping, so the result can be ignored.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_whole_and_writable() {
        let mut pages = Pages::small(3 << 20).unwrap();
        assert_eq!(pages.words().len() * 8, 4 << 20);
        assert!(pages.words().iter().all(|word| *word == 0));
        pages.words_mut().fill(7);
        assert!(pages.words().iter().all(|word| *word == 7));
        assert_eq!(pages.huge_bytes(), 0);
    }

    #[test]
    fn huge_pages_are_huge_or_refused_with_advice() {
        match Pages::huge(3 << 20) {
            Ok(mut pages) => {
                pages.words_mut().fill(7);
                assert_eq!(pages.words().len() * 8, 4 << 20);
                assert!(pages.start.as_ptr().cast::<u8>().align_offset(HUGE_PAGE_BYTES) == 0);
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("nr_hugepages=2") && text.contains("madvise"), "{text}");
            }
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        assert!(matches!(Pages::small(1 << 60), Err(PagesError::System(_))));
        let needed = 1 << 39;
        let refused = Pages::huge(1 << 60);
        assert!(matches!(refused, Err(PagesError::NoHugePages { needed: n }) if n == needed));
    }

    #[test]
    fn huge_pages_are_counted_in_the_mappings_asked_for_only() {
        let maps = "1000-2000 rw-p 00000000 00:00 0\nAnonHugePages:      2048 kB\n\
                    2000-4000 rw-p 00000000 00:00 0 [heap]\nAnonHugePages:      4096 kB\n";
        assert_eq!(huge_bytes_in(maps, 0x2000..0x3000), 4 << 20);
        assert_eq!(huge_bytes_in(maps, 0x1800..0x2800), 6 << 20);
        assert_eq!(huge_bytes_in(maps, 0x4000..0x5000), 0);
    }
}

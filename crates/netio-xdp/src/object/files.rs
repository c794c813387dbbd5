//! The descriptors by which a process keeps another one's program, and what they are.
//!
//! What a descriptor is, `/proc/self/fdinfo` says, for which no privilege is needed: `bpf(2)` takes
//! some on many hosts. Who keeps a program can be a process that may do nothing.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{fs, io};

use crate::sys::{SharedWords, bpf};

/// What keeps a program at an interface, and lets who has it change its memory. Nothing of it is
/// detached when it is dropped; but a link goes with its last descriptor.
#[derive(Debug)]
pub struct BpfFiles {
    /// The link: it has the program at the interface.
    pub link: OwnedFd,
    /// The program.
    pub program: OwnedFd,
    /// A map that may be mapped.
    pub words: OwnedFd,
    /// A map of programs with one entry.
    pub programs: OwnedFd,
}

/// What descriptors were found to be.
#[derive(Debug)]
pub struct Kept {
    /// The index of the link's interface; 0 if the link was detached.
    pub interface: u32,
    /// The memory of the map.
    pub words: SharedWords,
}

/// Why descriptors are not what they are said to be. The fault of who has sent them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// One is something else.
    #[error("a descriptor is not {0}")]
    Other(&'static str),
    /// The system does not say what it is, or does not map it.
    #[error("a descriptor cannot be used: {0}")]
    System(#[from] io::Error),
}

impl BpfFiles {
    /// Looks what the descriptors are.
    ///
    /// # Errors
    /// If one is not what its name says, or the map has fewer than `words` words.
    pub fn check(&self, words: usize) -> Result<Kept, FilesError> {
        let is = |fd: &OwnedFd, name: &'static str, wanted: &[(&str, u64)]| {
            let info = Info::of(fd.as_fd())?;
            let is_it = wanted.iter().all(|(key, value)| info.number(key) == Some(*value));
            is_it.then_some(info).ok_or(FilesError::Other(name))
        };
        is(&self.program, "an XDP program", &[("prog_type", PROGRAM_XDP)])?;
        is(&self.programs, "a map of one program", &[("map_type", PROGRAMS), ("max_entries", 1)])?;
        let map = is(&self.words, "an array", &[("map_type", ARRAY), ("frozen", 0)])?;
        let hexadecimal = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let flags = map.text("map_flags").and_then(hexadecimal).unwrap_or(0);
        let bytes = map.number("value_size").unwrap_or(0);
        if flags & MAPPABLE == 0 || bytes < (words * size_of::<u64>()) as u64 {
            return Err(FilesError::Other("an array that can be mapped, and is long enough"));
        }
        let link = Info::of(self.link.as_fd())?;
        let interface = link.number("ifindex").and_then(|index| u32::try_from(index).ok());
        let interface = interface.filter(|_| link.text("link_type") == Some("xdp"));
        let interface = interface.ok_or(FilesError::Other("an XDP link"))?;
        let words = SharedWords::of_map(self.words.as_fd(), words)?;
        Ok(Kept { interface, words })
    }
}

/// The kernel's number of a program.
///
/// # Errors
/// If the descriptor is something else.
pub fn program_id(program: BorrowedFd<'_>) -> Result<u32, FilesError> {
    let id = Info::of(program)?.number("prog_id").and_then(|id| u32::try_from(id).ok());
    id.ok_or(FilesError::Other("a program"))
}

/// Whether the kernel still has the program of this number. For tests.
///
/// # Errors
/// If the process may not ask.
#[doc(hidden)]
pub fn has_program(id: u32) -> io::Result<bool> {
    bpf::has_program(id)
}

/// What the system says of a descriptor: lines of names and values.
struct Info(String);

impl Info {
    fn of(fd: BorrowedFd<'_>) -> io::Result<Info> {
        fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).map(Info)
    }

    fn text(&self, key: &str) -> Option<&str> {
        let pairs = self.0.lines().filter_map(|line| line.split_once(':'));
        pairs.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value.trim())
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }
}

const PROGRAM_XDP: u64 = 6;
const ARRAY: u64 = 2;
const PROGRAMS: u64 = 3;
const MAPPABLE: u64 = 1 << 10;

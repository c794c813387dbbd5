//! BPF programs that a compiler has made: objects whose files are committed.
//!
//! A [`BpfObject`] is an ELF file of clang's that was read; [`BpfObject::load`] makes its maps and
//! gives the program to the kernel, which verifies it. Maps are described in a section `maps` by
//! five numbers each (kind, bytes of a key and of a value, entries, flags); nothing of BTF is used.
//!
//! A [`BpfProgram`] runs when it is attached to an interface, for as long as the [`BpfLink`] lives,
//! or for one frame at a time ([`BpfProgram::run`]). Its maps are the memory that it shares with
//! this process. [`BpfFiles`] are what another process keeps it by.

mod elf;
mod files;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use petasos_netlink::{Interface, Netlink};

use crate::error::system;
use crate::mode::{AttachMode, XdpMode};
use crate::program::attach_program;
use crate::sys::SharedWords;
use crate::sys::bpf::{self, MapDefinition, ProgramKind, Ran};
use crate::{XdpError, program};

pub use files::{BpfFiles, FilesError, Kept, has_program, program_id};

/// Why a file is no object that can be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a BPF object as clang makes it: {0}")]
pub struct ObjectError(&'static str);

/// An object that was read. Any bytes may be given: what is no object is refused.
#[derive(Clone, Debug)]
pub struct BpfObject {
    instructions: Vec<u64>,
    maps: Vec<MapDefinition>,
    uses: Vec<(usize, usize)>,
}

impl BpfObject {
    /// Reads the program in a section of an ELF file.
    ///
    /// # Errors
    /// If it is none, or has what is not known here.
    pub fn parse(file: &[u8], section: &str) -> Result<BpfObject, ObjectError> {
        let elf::Read { instructions, maps, uses } = elf::read(file, section)?;
        Ok(BpfObject { instructions, maps, uses })
    }

    /// The instructions, as the file has them.
    pub fn instructions(&self) -> &[u64] {
        &self.instructions
    }

    /// Makes the maps, and loads the program. `entries` says how many entries maps have, instead of
    /// what the object says.
    ///
    /// # Errors
    /// If the process may not, or the kernel refuses: see [`XdpError`].
    pub fn load(&self, name: &str, entries: &[(&str, u32)]) -> Result<BpfProgram, XdpError> {
        let mut maps = Vec::new();
        for map in &self.maps {
            let wanted = entries.iter().find(|(name, _)| *name == map.name);
            let entries_max = wanted.map_or(map.entries_max, |(_, entries)| *entries);
            let map = MapDefinition { entries_max, ..map.clone() };
            let fd = bpf::map_create_as(&map).map_err(program::map_error)?;
            maps.push((map, fd));
        }
        let mut instructions = self.instructions.clone();
        for (at, map) in &self.uses {
            let fd = u64::from(maps[*map].1.as_raw_fd() as u32);
            // The source register says that the immediate is a descriptor.
            let operation = instructions[*at] & 0xfff;
            instructions[*at] = operation | u64::from(bpf::PSEUDO_MAP_FD) << 12 | fd << 32;
        }
        let program = bpf::program_load(ProgramKind::Xdp, &instructions, name);
        let program = program.map_err(program::load_error)?;
        Ok(BpfProgram { program, maps })
    }
}

/// A program that the kernel has, and its maps.
#[derive(Debug)]
pub struct BpfProgram {
    program: OwnedFd,
    maps: Vec<(MapDefinition, OwnedFd)>,
}

impl BpfProgram {
    /// The memory of a map whose flags allow that, as words.
    ///
    /// # Errors
    /// If the kernel refuses.
    ///
    /// # Panics
    /// If there is no such map. The program's fault.
    pub fn words(&self, map: &str) -> Result<SharedWords, XdpError> {
        let (map, fd) = self.map(map);
        let len = map.value_bytes as usize / 8 * map.entries_max as usize;
        SharedWords::of_map(fd.as_fd(), len).map_err(|error| system("share a BPF map", error))
    }

    /// Takes the first value of a map that is a queue. `false` if there is none.
    ///
    /// # Errors
    /// If the kernel refuses.
    ///
    /// # Panics
    /// If there is no such map, or `value` does not have its values' length. The program's fault.
    pub fn take(&self, map: &str, value: &mut [u8]) -> io::Result<bool> {
        let (map, fd) = self.map(map);
        assert_eq!(value.len(), map.value_bytes as usize, "a value of {}", map.name);
        bpf::queue_take(fd.as_fd(), value)
    }

    /// Runs the program on a frame. `out` receives the frame that it leaves, as far as it has room.
    ///
    /// # Errors
    /// If the kernel refuses: a frame of less than 14 or more than some 3,500 bytes, or no room.
    pub fn run(&self, frame: &[u8], out: &mut [u8], times: u32) -> io::Result<ProgramRun> {
        let Ran { verdict, len, nanos } = bpf::test_run(self.program.as_fd(), frame, out, times)?;
        let (len, time) = (len.min(out.len()), Duration::from_nanos(nanos.into()));
        Ok(ProgramRun { verdict, len, time })
    }

    /// Attaches the program to an interface of the thread's network namespace.
    ///
    /// # Errors
    /// See [`XdpError`]: mostly, another program is there.
    pub fn attach(&self, interface: &str, mode: AttachMode) -> Result<BpfLink, XdpError> {
        let (mut netlink, interface) = named(interface)?;
        let (link, mode) = attach_program(&mut netlink, &interface, self.program.as_fd(), mode)?;
        Ok(BpfLink { link, mode })
    }

    /// Takes the place of the program that a link has, at once: no packet meets none. The link is
    /// this program's from then on.
    ///
    /// # Errors
    /// If the kernel refuses, mostly since the link was detached. The link is as it was.
    pub fn replace(&self, link: OwnedFd, mode: XdpMode) -> Result<BpfLink, XdpError> {
        let replaced = bpf::link_update(link.as_fd(), self.program.as_fd());
        replaced.map_err(|error| system("replace the XDP program", error))?;
        Ok(BpfLink { link, mode })
    }

    /// Puts another program into a map of programs that has one entry, or takes it away. The entry
    /// is gone as well when no process has the map any more.
    ///
    /// # Errors
    /// If the kernel refuses: it is no program that may be there.
    ///
    /// # Panics
    /// If there is no such map. The program's fault.
    pub fn set_program(&self, map: &str, to: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let (_, map) = self.map(map);
        match to {
            Some(program) => bpf::map_update(map.as_fd(), &0u32, &program.as_raw_fd()),
            None => bpf::map_delete(map.as_fd(), &0u32),
        }
    }

    /// Descriptors for another process that is to keep the program at its link: with a map that it
    /// may change, and a map of programs.
    ///
    /// # Errors
    /// If the process has as many descriptors as it may.
    ///
    /// # Panics
    /// If there are no such maps. The program's fault.
    pub fn files(&self, link: BorrowedFd<'_>, words: &str, programs: &str) -> io::Result<BpfFiles> {
        Ok(BpfFiles {
            link: link.try_clone_to_owned()?,
            program: self.program.try_clone()?,
            words: self.map(words).1.try_clone()?,
            programs: self.map(programs).1.try_clone()?,
        })
    }

    fn map(&self, name: &str) -> &(MapDefinition, OwnedFd) {
        let found = self.maps.iter().find(|(map, _)| map.name == name);
        found.expect("the program uses a map of this name")
    }
}

impl AsFd for BpfProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// What a run has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramRun {
    /// What is to happen to the frame: 1 drop, 2 pass, 3 send.
    pub verdict: u32,
    /// The frame's bytes in `out`.
    pub len: usize,
    /// How long a run has taken, on average.
    pub time: Duration,
}

/// An attached program. Dropping it detaches the program.
#[derive(Debug)]
pub struct BpfLink {
    link: OwnedFd,
    mode: XdpMode,
}

impl BpfLink {
    /// Where the program runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }
}

impl AsFd for BpfLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// An interface of this host, in whichever network namespace it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfacePlace {
    /// The inode of its network namespace.
    pub namespace: u64,
    /// Its index there.
    pub interface: u32,
}

impl InterfacePlace {
    /// Of an interface of the thread's network namespace.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn of(interface: &str) -> Result<InterfacePlace, XdpError> {
        let (_, interface) = named(interface)?;
        Ok(InterfacePlace { namespace: program::namespace()?, interface: interface.index })
    }
}

/// The interface of this name.
fn named(interface: &str) -> Result<(Netlink, Interface), XdpError> {
    let mut netlink = Netlink::open().map_err(|error| system("open netlink", error))?;
    let interfaces = netlink.interfaces();
    let interfaces = interfaces.map_err(|error| system("list the interfaces", error))?;
    let found = interfaces.into_iter().find(|each| each.name == interface);
    let found = found.ok_or_else(|| XdpError::InterfaceMissing(interface.to_owned()))?;
    Ok((netlink, found))
}

impl Drop for BpfLink {
    fn drop(&mut self) {
        // Closing alone would not suffice while a child process between fork and exec has a copy.
        // If detaching fails, the interface is gone.
        let _ = bpf::link_detach(self.link.as_fd());
    }
}

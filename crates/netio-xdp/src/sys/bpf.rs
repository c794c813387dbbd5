//! The commands of `bpf(2)` that this crate's programs need.
//!
//! Each has an attribute struct with the layout of the matching part of `union bpf_attr` in
//! linux/bpf.h. For the kernel, all other fields are zero.

use core::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The kinds of map in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum MapKind {
    Hash = 1,
    Array = 2,
    XskMap = 17,
}

/// The kinds of program in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ProgramKind {
    /// A classifier of packets that enter or leave an interface.
    Classifier = 3,
    Xdp = 6,
}

/// Where a program is attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum AttachPoint {
    Xdp = 37,
    /// After the driver has received a packet.
    Ingress = 46,
    /// Before a packet reaches the interface's queueing discipline.
    Egress = 47,
}

/// A map as an object describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapDefinition {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) entries_max: u32,
    pub(crate) flags: u32,
}

/// Creates a map as an object describes it.
pub(crate) fn map_create_as(map: &MapDefinition) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        kind: map.kind,
        key_bytes: map.key_bytes,
        value_bytes: map.value_bytes,
        entries_max: map.entries_max,
        flags: map.flags,
        name: object_name(&map.name),
        ..MapCreate::default()
    };
    new_fd(MAP_CREATE, &mut attr)
}

/// Creates a map.
pub(crate) fn map_create(
    kind: MapKind,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    name: &str,
) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        kind: kind as u32,
        key_bytes,
        value_bytes,
        entries_max,
        name: object_name(name),
        ..MapCreate::default()
    };
    new_fd(MAP_CREATE, &mut attr)
}

/// Puts `value` under `key`. Both have the map's sizes.
pub(crate) fn map_update<K: Copy, V: Copy>(
    map: BorrowedFd<'_>,
    key: &K,
    value: &V,
) -> io::Result<()> {
    let mut attr = MapElement {
        map: map.as_raw_fd(),
        key: core::ptr::from_ref(key) as u64,
        value: core::ptr::from_ref(value) as u64,
        ..MapElement::default()
    };
    call(MAP_UPDATE, &mut attr).map(drop)
}

/// The words under `key`; as many, and a key as long, as the map's entries have.
pub(crate) fn map_lookup<K: Copy, const WORDS: usize>(
    map: BorrowedFd<'_>,
    key: &K,
) -> io::Result<[u64; WORDS]> {
    let mut value = [0u64; WORDS];
    let mut attr = MapElement {
        map: map.as_raw_fd(),
        key: core::ptr::from_ref(key) as u64,
        value: core::ptr::from_mut(&mut value) as u64,
        ..MapElement::default()
    };
    call(MAP_LOOKUP, &mut attr)?;
    Ok(value)
}

/// Removes what is under `key`.
pub(crate) fn map_delete<K: Copy>(map: BorrowedFd<'_>, key: &K) -> io::Result<()> {
    let mut attr = MapElement {
        map: map.as_raw_fd(),
        key: core::ptr::from_ref(key) as u64,
        ..MapElement::default()
    };
    call(MAP_DELETE, &mut attr).map(drop)
}

/// Takes the first value of a queue, which has as many bytes. `false` if there is none.
pub(crate) fn queue_take(map: BorrowedFd<'_>, value: &mut [u8]) -> io::Result<bool> {
    let mut attr = MapElement {
        map: map.as_raw_fd(),
        value: value.as_mut_ptr() as u64,
        ..MapElement::default()
    };
    match call(MAP_TAKE, &mut attr) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a test run of a program has left.
pub(crate) struct Ran {
    pub(crate) verdict: u32,
    /// The length of the frame, of which `out` has what it has room for.
    pub(crate) len: usize,
    /// Nanoseconds of a run, on average.
    pub(crate) nanos: u32,
}

/// Runs a program on a frame so many times.
pub(crate) fn test_run(
    program: BorrowedFd<'_>,
    frame: &[u8],
    out: &mut [u8],
    times: u32,
) -> io::Result<Ran> {
    let mut attr = TestRun {
        program: program.as_raw_fd() as u32,
        frame_bytes: frame.len() as u32,
        out_bytes: out.len() as u32,
        frame: frame.as_ptr() as u64,
        out: out.as_mut_ptr() as u64,
        times,
        ..TestRun::default()
    };
    call(PROGRAM_TEST_RUN, &mut attr)?;
    Ok(Ran { verdict: attr.verdict, len: attr.out_bytes as usize, nanos: attr.nanos })
}

/// Loads a program. With an error comes the end of what the verifier said.
pub(crate) fn program_load(
    kind: ProgramKind,
    instructions: &[u64],
    name: &str,
) -> Result<OwnedFd, (io::Error, String)> {
    const LICENSE: &core::ffi::CStr = c"MIT OR Apache-2.0";
    let mut attr = ProgramLoad {
        kind: kind as u32,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        name: object_name(name),
        ..ProgramLoad::default()
    };
    let mut loaded = new_fd(PROGRAM_LOAD, &mut attr);
    for _ in 0..LOADS_MAX {
        match &loaded {
            // A signal has ended the verifier's work, which is begun again.
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                loaded = new_fd(PROGRAM_LOAD, &mut attr);
            }
            _ => break,
        }
    }
    loaded.map_err(|error| {
        let mut log = vec![0u8; 1 << 16];
        attr.log_level = 1;
        attr.log_bytes = log.len() as u32;
        attr.log = log.as_mut_ptr() as u64;
        let _ = new_fd(PROGRAM_LOAD, &mut attr);
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        (error, String::from_utf8_lossy(&log[end.saturating_sub(400)..end]).into_owned())
    })
}

/// Attaches a program to an interface for as long as the returned descriptor is open.
pub(crate) fn link_create(
    program: BorrowedFd<'_>,
    interface_index: u32,
    point: AttachPoint,
    flags: u32,
) -> io::Result<OwnedFd> {
    let mut attr = LinkCreate {
        program: program.as_raw_fd() as u32,
        interface_index,
        attach_kind: point as u32,
        flags,
    };
    new_fd(LINK_CREATE, &mut attr)
}

/// Puts another program in the place of a link's, without a packet in between that meets none.
pub(crate) fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let (link, program) = (link.as_raw_fd(), program.as_raw_fd() as u32);
    call(LINK_UPDATE, &mut LinkUpdate { link, program, flags: 0, old_program: 0 }).map(drop)
}

/// Whether the kernel has a program of this number. It takes privileges.
pub(crate) fn has_program(id: u32) -> io::Result<bool> {
    match new_fd(PROGRAM_OF_ID, &mut OfId { id, next_id: 0, flags: 0 }) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Detaches a link's program now, whoever else holds the link.
pub(crate) fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    call(LINK_DETACH, &mut LinkDetach { link: link.as_raw_fd() }).map(drop)
}

fn object_name(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    // One byte is left for the terminating zero.
    let len = name.len().min(NAME_BYTES - 1);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    bytes
}

fn new_fd<T>(command: i32, attr: &mut T) -> io::Result<OwnedFd> {
    let fd = call(command, attr)?;
    // SAFETY: the command returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn call<T>(command: i32, attr: &mut T) -> io::Result<i64> {
    // SAFETY: the kernel reads and writes at most `size_of::<T>()` bytes at `attr`; the callers
    // above put only addresses of memory into it that outlives this call and has the length that
    // the command expects.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            core::ptr::from_mut(attr).cast::<c_void>(),
            size_of::<T>() as u32,
        )
    };
    if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error()) }
}

#[derive(Default)]
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; NAME_BYTES],
}

#[derive(Default)]
#[repr(C)]
struct MapElement {
    map: RawFd,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
}

#[derive(Default)]
#[repr(C)]
struct TestRun {
    program: u32,
    verdict: u32,
    frame_bytes: u32,
    out_bytes: u32,
    frame: u64,
    out: u64,
    times: u32,
    nanos: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface_index: u32,
    attach_kind: u32,
    flags: u32,
}

#[repr(C)]
struct LinkUpdate {
    link: RawFd,
    program: u32,
    flags: u32,
    old_program: u32,
}

#[repr(C)]
struct OfId {
    id: u32,
    next_id: u32,
    flags: u32,
}

#[repr(C)]
struct LinkDetach {
    link: RawFd,
}

// The kernel refuses sizes that leave garbage behind the last field; padding would be some.
const _: () = {
    assert!(size_of::<MapCreate>() == 44);
    assert!(size_of::<MapElement>() == 32);
    assert!(size_of::<ProgramLoad>() == 64);
    assert!(size_of::<TestRun>() == 64);
    assert!(size_of::<LinkCreate>() == 16);
    assert!(size_of::<LinkUpdate>() == 16);
    assert!(size_of::<OfId>() == 12);
};

const MAP_CREATE: i32 = 0;
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const PROGRAM_LOAD: i32 = 5;
/// How often a program is loaded although signals interrupt it.
const LOADS_MAX: u32 = 20;
const PROGRAM_TEST_RUN: i32 = 10;
const PROGRAM_OF_ID: i32 = 13;
const MAP_TAKE: i32 = 21;
const LINK_CREATE: i32 = 28;
const LINK_UPDATE: i32 = 29;
const LINK_DETACH: i32 = 34;
const NAME_BYTES: usize = 16;
/// In the source register of a load of 64 bits: the immediate is a map's descriptor.
pub(crate) const PSEUDO_MAP_FD: u8 = 1;

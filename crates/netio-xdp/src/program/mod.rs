//! The steering program of an interface. The process's first endpoint loads and attaches it, all
//! its endpoints share it, and the last one detaches it.
//!
//! - **Owner.** The program is attached with a BPF link, which is a file descriptor of this
//!   process: the kernel detaches it when the descriptor is closed, however the process ends.
//!   Nothing is pinned.
//! - **One per interface.** The kernel allows one program per interface, so a second process is
//!   refused, and told which process holds it ([`XdpError::ProgramHeld`]).
//! - **Locking.** The registry's lock is held while a program is attached or detached and while the
//!   tables change: at set-up, never per packet. The kernel reads the tables without it.

pub(crate) mod assembler;
mod steer;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard};

use petasos_netlink::{Interface, Netlink};

use crate::error::{PRIVILEGES, kernel_lacks, system};
use crate::holder::holders;
use crate::mode::{AttachMode, XdpMode};
use crate::sys::bpf::{self, AttachPoint, MapKind, ProgramKind};
use crate::{XdpError, XskSocket};
use steer::{KEY_BYTES, Key};

/// Endpoints that one interface can have.
pub(crate) const ENDPOINTS_MAX: u32 = 256;

/// An attached program and its tables.
struct Attached {
    place: Place,
    mode: XdpMode,
    endpoints: OwnedFd,
    sockets: OwnedFd,
    /// Which slots of `sockets` are taken.
    taken: Vec<bool>,
    link: OwnedFd,
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Closing alone would not suffice while a child process between fork and exec has a copy,
        // which keeps the next owner out for a moment. If detaching fails, the interface is gone.
        let _ = bpf::link_detach(self.link.as_fd());
    }
}

/// An interface: the inode of its network namespace, and its index there.
type Place = (u64, u32);

static REGISTRY: Mutex<Vec<Attached>> = Mutex::new(Vec::new());

/// One endpoint's entry in the steering tables. Dropping it gives the entry back, and detaches the
/// program with the last.
pub(crate) struct Steering {
    place: Place,
    key: Option<Key>,
    slot: u32,
    mode: XdpMode,
}

impl Steering {
    /// Attaches the program to `interface`, unless this process has, and reserves a slot.
    pub(crate) fn attach(
        netlink: &mut Netlink,
        interface: &Interface,
        wanted: AttachMode,
    ) -> Result<Steering, XdpError> {
        let place = (namespace()?, interface.index);
        let mut registry = lock();
        let at = match registry.iter().position(|attached| attached.place == place) {
            Some(at) => at,
            None => {
                let attached = attach(netlink, interface, place, wanted)?;
                registry.push(attached);
                registry.len() - 1
            }
        };
        let attached = &mut registry[at];
        let mode = attached.mode;
        if !wanted.allows(mode) {
            return Err(XdpError::ModeConflict { name: interface.name.clone() });
        }
        let slot = attached.taken.iter().position(|taken| !taken);
        let slot = slot.ok_or(XdpError::TooManyEndpoints { max: ENDPOINTS_MAX })?;
        attached.taken[slot] = true;
        Ok(Steering { place, key: None, slot: slot as u32, mode })
    }

    /// Steers datagrams for `address` on `queue` to `socket` from now on.
    pub(crate) fn start(
        &mut self,
        address: SocketAddr,
        queue: u32,
        socket: &XskSocket,
    ) -> Result<(), XdpError> {
        let queue = u16::try_from(queue).map_err(|_| XdpError::QueueMissing { queue })?;
        let registry = lock();
        let attached = find(&registry, self.place);
        let fd = socket.as_fd().as_raw_fd();
        bpf::map_update(attached.sockets.as_fd(), &self.slot, &fd)
            .map_err(|error| system("put the socket into the steering table", error))?;
        let key = Key::new(address.ip(), address.port(), queue);
        bpf::map_update(attached.endpoints.as_fd(), &key, &self.slot)
            .map_err(|error| system("put the address into the steering table", error))?;
        self.key = Some(key);
        Ok(())
    }

    pub(crate) fn mode(&self) -> XdpMode {
        self.mode
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        let mut registry = lock();
        let at = position(&registry, self.place);
        let attached = &mut registry[at];
        if let Some(key) = self.key {
            // The socket's own entry is removed with the socket. If this entry stayed, its
            // datagrams would go to the kernel, since it leads to a socket that is gone.
            let _ = bpf::map_delete(attached.endpoints.as_fd(), &key);
        }
        attached.taken[self.slot as usize] = false;
        if attached.taken.iter().all(|taken| !taken) {
            registry.swap_remove(at);
        }
    }
}

fn lock() -> MutexGuard<'static, Vec<Attached>> {
    // A thread that panicked with the lock has left a consistent table: every change is one step.
    REGISTRY.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn position(registry: &[Attached], place: Place) -> usize {
    let at = registry.iter().position(|attached| attached.place == place);
    at.expect("a program stays attached while it has an endpoint")
}

fn find(registry: &[Attached], place: Place) -> &Attached {
    &registry[position(registry, place)]
}

pub(crate) fn namespace() -> Result<u64, XdpError> {
    std::fs::metadata("/proc/thread-self/ns/net")
        .map(|metadata| metadata.ino())
        .map_err(|error| system("identify the network namespace", error))
}

/// Maps and a loaded program.
pub(crate) struct Loaded {
    program: OwnedFd,
    endpoints: OwnedFd,
    sockets: OwnedFd,
}

/// Why maps could not be made.
pub(crate) fn map_error(error: io::Error) -> XdpError {
    match error.raw_os_error() {
        Some(libc::EPERM) => XdpError::Privilege { attempt: "create BPF maps", needs: PRIVILEGES },
        Some(libc::ENOSYS | libc::EINVAL) => kernel_lacks("BPF maps for AF_XDP sockets", "4.18"),
        _ => system("create BPF maps", error),
    }
}

/// Why a program could not be loaded, and the end of what the verifier said.
pub(crate) fn load_error((error, said): (io::Error, String)) -> XdpError {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            XdpError::Privilege { attempt: "load an XDP program", needs: PRIVILEGES }
        }
        _ => system("load the XDP program", io::Error::other(format!("{error}; {said}"))),
    }
}

/// Loads the program, without attaching it to anything.
pub(crate) fn load() -> Result<Loaded, XdpError> {
    let endpoints = bpf::map_create(MapKind::Hash, KEY_BYTES, 4, ENDPOINTS_MAX, "petasos_ends");
    let sockets = bpf::map_create(MapKind::XskMap, 4, 4, ENDPOINTS_MAX, "petasos_socks");
    let (endpoints, sockets) = (endpoints.map_err(map_error)?, sockets.map_err(map_error)?);
    let code = steer::program(endpoints.as_raw_fd(), sockets.as_raw_fd());
    let program = bpf::program_load(ProgramKind::Xdp, &code, "petasos_steer");
    Ok(Loaded { program: program.map_err(load_error)?, endpoints, sockets })
}

fn attach(
    netlink: &mut Netlink,
    interface: &Interface,
    place: Place,
    wanted: AttachMode,
) -> Result<Attached, XdpError> {
    let Loaded { program, endpoints, sockets } = load()?;
    let (link, mode) = attach_program(netlink, interface, program.as_fd(), wanted)?;
    let taken = vec![false; ENDPOINTS_MAX as usize];
    Ok(Attached { place, mode, endpoints, sockets, taken, link })
}

/// Attaches a program to an interface.
pub(crate) fn attach_program(
    netlink: &mut Netlink,
    interface: &Interface,
    program: BorrowedFd<'_>,
    wanted: AttachMode,
) -> Result<(OwnedFd, XdpMode), XdpError> {
    let link_as = |mode| {
        let flags = match mode {
            XdpMode::Native => XDP_FLAGS_DRV_MODE,
            XdpMode::Generic => XDP_FLAGS_SKB_MODE,
        };
        bpf::link_create(program, interface.index, AttachPoint::Xdp, flags).map(|link| (link, mode))
    };
    let link = match wanted {
        AttachMode::Native => link_as(XdpMode::Native),
        AttachMode::Generic => link_as(XdpMode::Generic),
        AttachMode::Auto => link_as(XdpMode::Native).or_else(|error| match held(&error) {
            true => Err(error),
            false => link_as(XdpMode::Generic),
        }),
    };
    link.map_err(|error| attach_error(netlink, interface, error))
}

/// Whether another program is why this one could not be attached; with the other one in the other
/// mode, the kernel says that it exists.
fn held(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn attach_error(netlink: &mut Netlink, interface: &Interface, error: io::Error) -> XdpError {
    let name = interface.name.clone();
    match error.raw_os_error() {
        _ if held(&error) => {
            let program_id = netlink.interface_by_index(interface.index).ok().flatten();
            let program_id = program_id.and_then(|now| now.program_id).unwrap_or(0);
            XdpError::ProgramHeld { name, program_id, holders: holders(program_id) }
        }
        Some(libc::EPERM) => {
            XdpError::Privilege { attempt: "attach an XDP program", needs: PRIVILEGES }
        }
        _ => XdpError::DriverLacksXdp { name, error },
    }
}

const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

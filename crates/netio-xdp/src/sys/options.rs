//! Socket options without a safe wrapper elsewhere.

use core::ffi::c_void;
use core::mem::size_of_val;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// How the kernel polls the driver from our receive calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BusyPoll {
    /// Longest turn, in microseconds.
    pub us: u32,
    /// Most packets in a turn.
    pub budget: u32,
}

/// Makes receive calls run the driver's receive path, and interrupts wait (kernel 5.11).
pub(crate) fn prefer_busy_poll(socket: &OwnedFd, poll: BusyPoll) -> io::Result<()> {
    set(socket, libc::SO_PREFER_BUSY_POLL, &1i32)?;
    set(socket, libc::SO_BUSY_POLL, &(poll.us as i32))?;
    set(socket, libc::SO_BUSY_POLL_BUDGET, &(poll.budget as i32))
}

/// Makes `socket` drop, and count, all that it is given: a classic filter of one instruction.
pub(crate) fn drop_everything(socket: &impl AsRawFd) -> io::Result<()> {
    const RETURN_CONSTANT: u16 = 0x06;
    let mut code = libc::sock_filter { code: RETURN_CONSTANT, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut code };
    set(socket, libc::SO_ATTACH_FILTER, &program)
}

/// Waits until all runs of BPF programs that have begun have ended: mostly some milliseconds.
///
/// # Errors
/// If the kernel cannot wait.
pub fn wait_for_runs() -> io::Result<()> {
    // The global command waits for the end of all that is read without locks, which programs are
    // run as.
    const GLOBAL: libc::c_int = 1;
    // SAFETY: the call has no memory.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Datagrams that `socket` has dropped in its life, modulo 2^32.
pub(crate) fn drops(socket: &impl AsRawFd) -> io::Result<u32> {
    // `SO_MEMINFO` and its last field: linux/sock_diag.h.
    const DROPS: usize = 8;
    let mut info = [0u32; DROPS + 1];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which has as many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            info.as_mut_ptr().cast::<c_void>(),
            &raw mut len,
        )
    };
    if result == 0 { Ok(info[DROPS]) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(socket: &impl AsRawFd, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of_val(value)` bytes at `value`, and what a filter program
    // points to; both live longer than the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            core::ptr::from_ref(value).cast::<c_void>(),
            size_of_val(value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The same on all architectures that share the generic socket options.
const SO_MEMINFO: i32 = 55;

//! Opening, binding and configuring sockets.

use core::ffi::c_int;
use core::mem::size_of;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::SocketAddress;

/// A nonblocking UDP socket of `family` (`AF_INET` or `AF_INET6`).
pub(crate) fn open(family: c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let descriptor = check(unsafe { libc::socket(family, kind, libc::IPPROTO_UDP) })?;
    // SAFETY: the call above has just made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A nonblocking socket for queries about routes and interfaces: rtnetlink(7).
pub(crate) fn open_netlink() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let descriptor = check(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) })?;
    // SAFETY: the call above has just made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Gives the socket a local address.
pub(crate) fn bind(fd: BorrowedFd<'_>, address: &SocketAddress) -> io::Result<()> {
    // SAFETY: `address` holds `len()` initialised bytes of a `sockaddr` and outlives the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), address.as_ptr().cast(), address.len()) })?;
    Ok(())
}

/// Sets an integer option.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    let pointer = (&raw const value).cast();
    let len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `pointer` refers to `len` bytes of a local variable that outlives the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, pointer, len) })?;
    Ok(())
}

/// Reads an integer option.
pub(crate) fn option(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    let pointer = (&raw mut value).cast();
    // SAFETY: `pointer` refers to `len` writable bytes of a local variable; it and `len` outlive
    // the call, and the kernel writes at most `len` bytes.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, pointer, &raw mut len) })?;
    Ok(value)
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

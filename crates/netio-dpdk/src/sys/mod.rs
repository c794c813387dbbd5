//! Everything that needs `unsafe`: DPDK, behind a C shim, and the memory that it shares with us.
//!
//! - `ffi`: the declarations that bindgen makes of the shim.
//! - `environment`: what exists once per process, and which ports are claimed.
//! - `port`: a port with its pool of frames, and the owner of each frame.

mod environment;
mod ffi;
mod port;

pub(crate) use port::Port;

/// The most frames that one call moves.
pub(crate) const BURST_MAX: usize = ffi::PD_BURST_MAX as usize;

/// DPDK's name and version.
pub(crate) fn version() -> String {
    // SAFETY: it returns a static text.
    let text = unsafe { core::ffi::CStr::from_ptr(ffi::pd_version()) };
    text.to_string_lossy().into_owned()
}

/// The error of a negative code.
fn error_of(code: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(-code)
}

//! Packet I/O over AF_XDP: UDP datagrams that bypass the kernel's stack, on any interface.
//!
//! An XDP program passes the datagrams of one address and port to a socket whose frames are this
//! process's memory, and everything else to the kernel. So the kernel keeps doing its work: ARP and
//! neighbour discovery, routing tables, other sockets. The backend sends whole Ethernet frames,
//! which are built from templates. Peers may use kernel sockets; on the wire there is plain UDP.
//!
//! | module | does |
//! |---|---|
//! | `io` | [`XdpIo`], the backend |
//! | `socket`, `sys` | [`XskSocket`]: frames, rings and system calls; all `unsafe` |
//! | `program` | loads, attaches and shares the steering program |
//! | `object` | loads programs that a compiler has made ([`BpfObject`]) |
//! | `petasos-netio-frame`
//! builds and validates frames, knows peers and their headers |
//! | `impair` | a port that drops, marks and loses packets, for experiments |
//! | `probe` | what this host supports, and why not |
//!
//! Properties:
//!
//! - A frame is in exactly one place at a time, so none leaks: see `sys::halves`.
//! - However this process ends, the kernel removes the program: see `program`.
//! - A packet costs no heap allocation and no lock, and needs no system call for itself. One call
//!   sends up to 32 frames in copy mode; receiving needs none, except with busy polling or with
//!   drivers that sleep.
//! - Received bytes are untrusted: anything except a valid datagram for this endpoint is counted by
//!   its fault in [`XdpStats`] and dropped.
//!
//! Boundary rule: sees bytes and addresses; knows nothing of the protocol's headers.

mod config;
mod error;
mod flush;
mod holder;
mod impair;
mod io;
mod mode;
mod object;
mod probe;
mod program;
mod socket;
mod stats;
mod sys;
mod upkeep;
mod xsk_config;

pub use config::XdpConfig;
pub use error::XdpError;
pub use flush::Flush;
pub use holder::Holder;
pub use impair::{Impair, ImpairConfig, ImpairError, ImpairStats};
pub use io::XdpIo;
pub use mode::{AttachMode, XdpMode};
pub use object::{
    BpfFiles, BpfLink, BpfObject, BpfProgram, FilesError, InterfacePlace, Kept, ObjectError,
    ProgramRun, has_program, program_id,
};
pub use probe::{InterfaceProbe, Probe, check, interface_of, probe};
pub use socket::{CopyMode, XskSocket};
pub use stats::XdpStats;
pub use sys::{RxDesc, RxHalf, SharedWords, TxHalf, wait_for_runs};
pub use xsk_config::XskConfig;

//! What a router's packets come and go by, and its options for that.

use clap::ValueEnum;

use super::link::{INTERFACE, Link};
use crate::error::BenchError;

/// The plane of a router that is at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Plane {
    /// A socket of the kernel
    Udp,
    /// Two of them, and two threads: one for what workers tell
    UdpSplit,
    /// An AF_XDP socket
    XdpSocket,
    /// A program in the kernel before a socket
    Xdp,
}

impl Plane {
    /// Makes a link that the plane can have.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn link(self) -> Result<Link, BenchError> {
        let link = Link::new()?;
        if self == Plane::Xdp {
            link.cut_trains()?;
        }
        Ok(link)
    }

    /// The router's options.
    pub fn options(self, link: &Link) -> Vec<String> {
        let at_interface = |plane: &str| {
            ["--plane", plane, "--interface", INTERFACE, "--partial-checksums"]
                .map(str::to_owned)
                .to_vec()
        };
        let options = match self {
            Plane::Udp => vec![],
            Plane::UdpSplit => vec!["--feedback".to_owned(), format!("{}:0", link.far())],
            Plane::XdpSocket => at_interface("xdp-socket"),
            Plane::Xdp => at_interface("xdp"),
        };
        // The link is of this process alone.
        [options, vec!["--plaintext".to_owned()]].concat()
    }
}

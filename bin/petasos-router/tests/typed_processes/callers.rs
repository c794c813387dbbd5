//! Workers and callers at other places than this host, or with certificates.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use petasos::Security;

use crate::support::Process;
use crate::typed::{FOLDER, LISTEN, Seen, call_with, security, worker_with};

/// Where a client or worker is, and the folder of its certificate.
#[derive(Clone, Debug)]
pub struct Place {
    pub ip: IpAddr,
    pub folder: Option<PathBuf>,
}

/// On this host, without a certificate.
impl Default for Place {
    fn default() -> Place {
        Place { ip: Ipv4Addr::LOCALHOST.into(), folder: None }
    }
}

impl Place {
    /// TLS with the certificate, and plaintext without one.
    pub fn security(&self) -> Security {
        match self.folder.is_none() && !self.ip.is_loopback() {
            true => Security::Plaintext,
            false => security(self.folder.as_deref()),
        }
    }
}

/// A worker's process.
pub fn worker_at(group: &str, place: &Place) -> Process {
    worker_with(group, |command| {
        command.env(LISTEN, SocketAddr::new(place.ip, 0).to_string());
        command.envs(place.folder.iter().map(|folder| (FOLDER, folder)));
    })
}

/// Calls from several threads as long as something happens.
pub fn call_at(group: &str, place: &Place, happens: impl FnOnce(&dyn Fn(u64))) -> Seen {
    call_with(group, place.security(), |calls| happens(&|more| calls.until_more(more)))
}

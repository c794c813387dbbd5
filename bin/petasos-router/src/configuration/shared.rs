//! The virtual address that two routers share: what the options say.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use petasos_endpoint::NodeConfig;
use petasos_netlink::VirtualAddress;

use super::GroupOptions;
use crate::takeover::{Subnetted, TakeoverSettings};

/// What can be given as `takeover_ms`: one heartbeat is a sixth of it.
const TAKEOVER_MS: RangeInclusive<u64> = 12..=60_000;

impl GroupOptions {
    /// What the options say of a virtual address; `None`: there is none.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn takeover(&self) -> Result<Option<TakeoverSettings>, String> {
        let given = (self.virtual_address, &self.interface, self.peer);
        let (address, interface, peer) = match given {
            // The interface may be AF_XDP's.
            (None, _, None) => return Ok(None),
            (Some(address), Some(interface), Some(peer)) => (address, interface, peer),
            _ => return Err("give virtual_address, interface and peer together".to_owned()),
        };
        if self.standby {
            return Err("standby: the two routers of a virtual address find that out".to_owned());
        }
        if !self.listen.ip().is_unspecified() {
            let all = if address.address.is_ipv4() { "0.0.0.0" } else { "[::]" };
            let port = self.listen.port();
            return Err(format!("listen: {all}:{port}, to be reached at the virtual address, too"));
        }
        let own = kept("data", self.data, address)?;
        if !self.services.is_empty() {
            kept("binds", self.binds, address)?;
        }
        let name = SocketAddr::new(own, self.listen.port());
        if peer == name || peer.port() == 0 || peer.ip().is_unspecified() {
            return Err(format!("peer: {peer} is not the other router's control address"));
        }
        if !TAKEOVER_MS.contains(&self.takeover_ms) {
            let (least, most) = (TAKEOVER_MS.start(), TAKEOVER_MS.end());
            return Err(format!("takeover_ms: {} is not {least} to {most}", self.takeover_ms));
        }
        let shared = VirtualAddress::new(interface, address.address, address.prefix_bits);
        Ok(Some(TakeoverSettings {
            shared: shared.map_err(|error| error.to_string())?,
            own,
            peer,
            is_first: name < peer,
            failure: Duration::from_millis(self.takeover_ms),
            node: self.security().of_node(NodeConfig::default())?,
        }))
    }
}

/// The address that packets come to. It is the host's own, since the virtual one leaves it.
fn kept(what: &str, at: Option<SocketAddr>, shared: Subnetted) -> Result<IpAddr, String> {
    let ip = at.map(|at| at.ip()).filter(|ip| !ip.is_unspecified() && *ip != shared.address);
    ip.ok_or_else(|| format!("{what}: with a virtual address, one of this host's own is needed"))
}

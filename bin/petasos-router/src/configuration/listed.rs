//! A group's list of routers in etcd: what the options say.

use std::net::{IpAddr, SocketAddr};

use petasos::ConnectError;
use petasos_etcd::EtcdOptions;

use super::GroupOptions;
use crate::listing::ListingSettings;

impl GroupOptions {
    /// What the options say of a list in etcd; `None`: the router is in none.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn listing(&self) -> Result<Option<ListingSettings>, String> {
        let Some(target) = &self.etcd else {
            return match self.etcd_address {
                None => Ok(None),
                Some(_) => Err("etcd_address: give etcd, too".to_owned()),
            };
        };
        let options = EtcdOptions::from_env().map_err(|error| format!("etcd: {error}"))?;
        // As for members: whoever consents to plaintext beyond this host.
        let options = if self.plaintext { options.plaintext() } else { options };
        options.join(target).map(drop).map_err(|error| wrong_target(target, &error))?;
        let address = self.listed_address()?;
        Ok(Some(ListingSettings { target: target.clone(), options, address }))
    }

    /// The address by which others reach this router. Without a port, it is that of `listen`.
    fn listed_address(&self) -> Result<SocketAddr, String> {
        let is_own = |ip: &IpAddr| {
            let is_shared = self.virtual_address.is_some_and(|shared| shared.address == *ip);
            !ip.is_unspecified() && !ip.is_multicast() && !is_shared
        };
        if let Some(address) = self.etcd_address {
            if !is_own(&address.ip()) || address.port() == 0 {
                return Err(format!("etcd_address: {address} is not this router's own address"));
            }
            return Ok(address);
        }
        let data = self.data.map(|data| data.ip());
        let ip = [Some(self.listen.ip()), data].into_iter().flatten().find(is_own);
        let ip = ip.ok_or_else(|| {
            format!("etcd_address: members cannot reach {}: give this router's own", self.listen)
        })?;
        Ok(SocketAddr::new(ip, self.listen.port()))
    }

    /// What the list depends on.
    pub fn of_listing(&self) -> (Option<&str>, Option<SocketAddr>) {
        (self.etcd.as_deref(), self.etcd_address)
    }
}

fn wrong_target(target: &str, error: &ConnectError) -> String {
    match error {
        ConnectError::NoTls => {
            format!("etcd: {target} needs the authority of etcd's certificate: set ETCDCTL_CACERT")
        }
        _ => format!("etcd: `{target}` is not router+etcd://HOST:PORT[,HOST:PORT…]/PREFIX"),
    }
}

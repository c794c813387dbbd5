//! Which calls leave the host encrypted: what policies are told before a call has a channel.
//!
//! Invariant: what is told here is what the channels of now do. A call that was judged before they
//! have changed is refused by them ([`Outgoing::is_sealed`](petasos_service::Outgoing)).

use std::collections::HashMap;
use std::sync::Arc;

use petasos::Security;
use petasos_service::Sealing;

use super::config::TransportConfig;
use super::grpc::is_grpc;

/// The ways by which calls leave, of all callers.
pub struct Ways {
    /// The service's transport has certificates.
    is_secured: bool,
    /// That of an application has.
    by_caller: HashMap<Arc<str>, bool>,
    /// Targets by name.
    peers: HashMap<String, String>,
}

impl Ways {
    /// Those of a configuration.
    pub fn new(config: &TransportConfig) -> Ways {
        let by_caller = config.applications.iter().map(|its| {
            let security = its.security().unwrap_or(&config.security);
            (Arc::from(&*its.application), is_secured(security))
        });
        Ways {
            is_secured: is_secured(&config.security),
            by_caller: by_caller.collect(),
            peers: config.peers.peers.iter().cloned().collect(),
        }
    }
}

impl Sealing for Ways {
    fn is_sealed(&self, target: &str, caller: Option<&str>) -> bool {
        let target = self.peers.get(target).map_or(target, String::as_str);
        let its_own = caller.and_then(|caller| self.by_caller.get(caller));
        Way::to(target, its_own.copied().unwrap_or(self.is_secured)).is_sealed
    }
}

/// Whether a transport encrypts all packets.
pub fn is_secured(security: &Security) -> bool {
    matches!(security, Security::Tls(_))
}

/// How calls to a target are carried.
#[derive(Clone, Copy)]
pub struct Way {
    pub is_grpc: bool,
    pub is_sealed: bool,
}

impl Way {
    /// By a transport with certificates or without.
    pub fn to(target: &str, is_secured: bool) -> Way {
        let is_grpc = is_grpc(target);
        let is_sealed = if is_grpc { target.starts_with("grpcs://") } else { is_secured };
        Way { is_grpc, is_sealed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_and_the_callers_transport_decide() {
        let ways = Ways {
            is_secured: true,
            by_caller: HashMap::from([("open".into(), false)]),
            peers: HashMap::from([("old".into(), "grpc://h:1".into())]),
        };
        for (target, caller, is_sealed) in [
            ("petasos://h:1", None, true),
            ("petasos://h:1", Some("other"), true),
            ("petasos://h:1", Some("open"), false),
            ("grpcs://h:1", Some("open"), true),
            ("grpc://h:1", None, false),
            ("old", None, false),
        ] {
            assert_eq!(ways.is_sealed(target, caller), is_sealed, "{target} {caller:?}");
        }
    }
}

//! Remembers which endpoints of this process recently could not reach their rings to one peer.
//!
//! If a session's granted rings cannot be reached, it is asked for again over the network, which
//! costs its set-up twice. To save the next sessions from that, they do not ask for rings for some
//! time. The memory is kept per link, so that it ends with the peer's process, and per endpoint,
//! since each has its own rings. It has at most as many entries as the node has endpoints. An
//! endpoint that takes the index of one that is gone takes its entry too: its sessions do without
//! rings for a few seconds.

use std::collections::HashMap;

use core::time::Duration;

use petasos_base::Time;
use petasos_control::ConnectParams;

/// How long an endpoint does not ask for rings.
const AVOIDED_FOR: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct WithoutRings {
    /// Until when, by the endpoint's index.
    until: HashMap<u16, Time>,
}

impl WithoutRings {
    /// Notes that `endpoint` could not reach its rings.
    pub(super) fn note(&mut self, endpoint: u16, now: Time) {
        self.until.insert(endpoint, now + AVOIDED_FOR);
    }

    /// The parameters to ask for, instead of `params`.
    pub(super) fn apply(&mut self, params: ConnectParams, now: Time) -> ConnectParams {
        match self.until.get(&params.endpoint) {
            Some(&until) if now < until => ConnectParams { local: None, ..params },
            Some(_) => {
                self.until.remove(&params.endpoint);
                params
            }
            None => params,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use petasos_control::{DataAddress, LocalOffer, Recovery, Target};

    use super::*;

    fn asks(endpoint: u16) -> ConnectParams {
        let name = SocketAddr::from(([127, 0, 0, 1], 1));
        ConnectParams {
            target: Target::Any,
            address: DataAddress::udp(1, None),
            endpoint,
            session: 0,
            tag: 0,
            slots: 8,
            credits: 32,
            payload_bytes_max: 1448,
            request_bytes_max: 1 << 20,
            response_bytes_max: 1 << 20,
            recovery: Recovery::Selective,
            checksum: false,
            local: Some(LocalOffer { name, credits: 32, payload_bytes_max: 1448 }),
        }
    }

    #[test]
    fn an_endpoint_asks_again_after_a_while_and_others_are_not_concerned() {
        let begin = Time::from_nanos(5);
        let mut without = WithoutRings::default();
        assert_eq!(without.apply(asks(1), begin), asks(1));
        without.note(1, begin);
        let network = ConnectParams { local: None, ..asks(1) };
        let end = begin + AVOIDED_FOR;
        assert_eq!(without.apply(asks(1), begin), network);
        assert_eq!(without.apply(asks(2), begin), asks(2));
        assert_eq!(without.apply(asks(1), Time::from_nanos(end.as_nanos() - 1)), network);
        assert_eq!(without.apply(asks(1), end), asks(1));
        assert!(without.until.is_empty(), "nothing is kept for longer");
    }
}

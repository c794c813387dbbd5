//! A client that only claims.

use petasos_wire::{Header, Kind, RoutingBlock};

use crate::network::{Network, Node};
use crate::router::Attached;

/// A client of one router that claims, and hears nothing.
pub(crate) struct Claimer {
    node: Node,
    router: Node,
    told: Attached,
    number: u64,
    /// What it owes to its rate.
    due: f64,
}

impl Claimer {
    pub(crate) fn new(node: Node, router: Node, told: Attached) -> Claimer {
        Claimer { node, router, told, number: 0, due: 0.0 }
    }

    /// Sends as many claims as are due in a turn.
    pub(crate) fn turn(&mut self, network: &mut Network, claims: f64) {
        self.due += claims;
        while self.due >= 1.0 {
            self.due -= 1.0;
            self.number += 1;
            self.claim(network);
        }
    }

    fn claim(&self, network: &mut Network) {
        let Attached { client, tag } = self.told;
        let block = RoutingBlock {
            policy: Default::default(),
            priority: 0,
            is_claim: true,
            reply: self.node.address(),
            client,
            epoch: 0,
            pair: (1 << 19) + (self.number % 1000) as u32,
            pair_tag: 7,
            number: self.number,
            lifetime_us: None,
            key_hash: 0,
        };
        let message = [0; 8];
        let header = Header::for_session(client, tag)
            .with_request(Kind::Routed, self.number, block.transmission())
            .with_client(0, message.len() as u32, 1);
        let bytes = [&header.to_bytes()[..], &block.to_bytes(), &message].concat();
        network.send(self.node, self.router, &bytes);
    }
}

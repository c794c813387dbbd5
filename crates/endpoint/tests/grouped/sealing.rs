//! The parts that a group is sealed with: its secrets, epochs, and who damages packets.

use petasos_control::{Cipher, Epoch, Secret};
use petasos_endpoint::GroupError;
use petasos_netio::Ecn;
use petasos_seal::group::GroupSecret;
use petasos_wire::{Given, HEADER_BYTES};

use super::{CLIENT, Grouped, Member};

/// An epoch as workers are told.
pub fn epoch_of_workers(number: u16, cipher: Option<Cipher>) -> Epoch {
    let secret = cipher.map(|_| Secret::new([number as u8; 32]));
    Epoch { number, binds_anew: false, secret }
}

/// The same epoch as the client is told.
pub fn epoch_of_client(number: u16, cipher: Option<Cipher>) -> Epoch {
    let secret = cipher.map(|cipher| Secret::new(*secret(number, cipher).client(CLIENT).bytes()));
    Epoch { secret, ..epoch_of_workers(number, None) }
}

pub(super) fn secret(number: u16, cipher: Cipher) -> GroupSecret {
    let cipher = match cipher {
        Cipher::Aes128Gcm => petasos_endpoint::Cipher::Aes128Gcm,
        Cipher::ChaCha20Poly1305 => petasos_endpoint::Cipher::ChaCha20Poly1305,
    };
    GroupSecret::new(cipher, [number as u8; 32])
}

impl Grouped {
    /// With sealed packets.
    pub fn sealed(workers: usize, cipher: Cipher) -> Grouped {
        Grouped::of(workers, |_| {}, |_| {}, Some(cipher))
    }

    /// A worker joins anew: its membership before has ended.
    pub fn join_again(
        &mut self,
        at: usize,
        epoch: u16,
        incarnation: u64,
    ) -> Result<(), GroupError> {
        let member = &mut self.members[at];
        let former = member.id;
        let offer = member.endpoint.offer_membership()?;
        (member.id, member.session, member.tag) = (offer.id, offer.session, offer.tag);
        member.given = 0;
        let granted = self.grant(at, epoch, incarnation);
        self.members[at].endpoint.leave_group(former)?;
        granted
    }

    /// Begins an epoch at a worker.
    pub fn begin_at_worker(&mut self, at: usize, number: u16) -> Result<(), GroupError> {
        let Member { endpoint, id, .. } = &mut self.members[at];
        endpoint.begin_membership_epoch(*id, &epoch_of_workers(number, self.cipher))
    }

    /// Begins an epoch at the client.
    pub fn begin_at_client(&mut self, number: u16) -> Result<(), GroupError> {
        self.client.set_group_epoch(self.session, &epoch_of_client(number, self.cipher))
    }

    /// Turns all loops once. `alter` sees each packet before it is carried, a first packet as it is
    /// given, and may deliver others to where it goes.
    pub fn run_damaged(&mut self, mut alter: impl FnMut(bool, &[u8], &mut dyn FnMut(&[u8]))) {
        for packet in self.turn_loops() {
            let is_first = packet.to == self.router_port && packet.bytes.len() > HEADER_BYTES;
            if !is_first {
                let hub = &self.hub;
                let mut deliver = |bytes: &[u8]| _ = hub.deliver(packet.to, bytes, Ecn::NotCapable);
                alter(false, &packet.bytes, &mut deliver);
                self.carry(&packet);
                continue;
            }
            // The number that it is given is used up by the first of the altered ones, as if a
            // worker had seen none of them: each gets its own.
            let mut others = Vec::new();
            alter(true, &packet.bytes, &mut |bytes| others.push(bytes.to_vec()));
            others.iter().for_each(|bytes| self.give_raw(bytes.clone()));
            self.carry(&packet);
        }
    }

    /// Gives a worker bytes that are perhaps no first packet.
    fn give_raw(&mut self, mut bytes: Vec<u8>) {
        let member = &mut self.members[0];
        member.given += 1;
        let (session, tag, number) = (member.session, member.tag, member.given);
        let given = Given { session, tag, number, lifetime_us: None };
        given.write_to(bytes.first_chunk_mut().unwrap());
        self.hub.deliver(member.port, &bytes, Ecn::NotCapable);
    }
}

//! The path of packets into messages, and of messages to the provider.

use petasos_netio::TxPacket;

use crate::drafts::Draft;
use crate::io::FabricIo;
use crate::message::Writer;
use crate::sys::{Outcome, POLL_MAX, Peer, Polled, Queue};

impl FabricIo {
    /// Puts a packet into the message to its peer, or drops and counts it. Returns false if there
    /// is no room for it.
    #[inline]
    pub(crate) fn push(&mut self, packet: &TxPacket<'_>) -> bool {
        let fits = (1..=self.endpoint.datagram_bytes_max()).contains(&packet.len());
        let place = self.routes.get(packet.route).filter(|_| fits);
        let Some(place) = place else {
            self.stats.tx_errors += 1;
            return true;
        };
        let Some(at) = self.draft_for(packet, place.peer) else {
            self.stats.tx_full += 1;
            return false;
        };
        let prefix = self.endpoint.prefix_bytes();
        let draft = self.drafts.get_mut(at);
        let memory = &mut self.endpoint.tx_slot(draft.slot)[prefix..];
        draft.writer.push(memory, [packet.head, packet.body]);
        draft.bytes += packet.len();
        if !self.fuses || place.is_doubted {
            self.drafts.end(at);
            self.hand_over();
        }
        true
    }

    /// The message to a peer that has room for `packet`: the one before, or another.
    #[inline]
    fn draft_for(&mut self, packet: &TxPacket<'_>, peer: Peer) -> Option<usize> {
        if let Some(at) = self.drafts.find(packet.route) {
            let writer = self.drafts.get_mut(at).writer;
            if writer.fits(packet.len(), self.endpoint.fused_bytes_max()) {
                return Some(at);
            }
            self.drafts.end(at);
        } else if !self.drafts.has_room() {
            self.drafts.end(0);
        }
        // While messages wait, no more are begun: their packets wait with the caller.
        if !self.hand_over() {
            return None;
        }
        let slot = self.tx.take().or_else(|| self.make_room())?;
        let (route, writer) = (packet.route, Writer::default());
        Some(self.drafts.begin(Draft { route, peer, slot, writer, bytes: 0 }))
    }

    /// A slot, after all are in use.
    #[cold]
    fn make_room(&mut self) -> Option<usize> {
        self.drafts.end_all();
        self.hand_over();
        self.reclaim();
        self.tx.take()
    }

    /// Sends every message, except for want of room.
    #[inline]
    pub(crate) fn send_all(&mut self) -> bool {
        self.drafts.end_all();
        self.hand_over()
    }

    /// Hands messages that are ended over to the provider. Returns whether it has taken all.
    #[inline]
    pub(crate) fn hand_over(&mut self) -> bool {
        while let Some(draft) = self.drafts.next() {
            let mut outcome = self.offer(&draft);
            if outcome == Outcome::Full {
                self.reclaim();
                outcome = self.offer(&draft);
            }
            let packets = draft.writer.datagrams() as u64;
            match outcome {
                Outcome::Full => return false,
                Outcome::Failed => self.stats.tx_errors += packets,
                Outcome::Taken => {
                    self.stats.tx_frames += packets;
                    self.stats.tx_bytes += draft.bytes as u64;
                    self.own_stats.tx_messages += 1;
                    self.own_stats.tx_fused += if packets > 1 { packets } else { 0 };
                }
            }
            self.drafts.pop();
        }
        true
    }

    /// Offers a message to the provider, and frees its slot if that does not need it.
    #[inline]
    fn offer(&mut self, draft: &Draft) -> Outcome {
        let (slot, len) = (draft.slot, self.endpoint.prefix_bytes() + draft.writer.len());
        if draft.writer.len() <= self.inject_bytes_max {
            let outcome = self.endpoint.inject(slot, len, draft.peer);
            if outcome != Outcome::Full {
                self.tx.give_back(slot);
            }
            self.own_stats.tx_injected += u64::from(outcome == Outcome::Taken);
            return outcome;
        }
        let outcome = self.endpoint.send(slot, len, draft.peer, self.tx.reports_next());
        match outcome {
            Outcome::Taken => self.tx.hand_over(slot),
            Outcome::Failed => self.tx.give_back(slot),
            Outcome::Full => {}
        }
        outcome
    }

    /// Takes back transmit slots whose messages have left.
    fn reclaim(&mut self) {
        loop {
            match self.endpoint.poll(Queue::Transmit, POLL_MAX) {
                Polled::Completions(count) => {
                    for at in 0..count {
                        self.tx.complete(self.endpoint.completion(Queue::Transmit, at).0);
                    }
                    self.own_stats.tx_completions += count as u64;
                    if count < POLL_MAX {
                        return;
                    }
                }
                Polled::Failed { slot, .. } => {
                    self.tx.complete(slot);
                    self.stats.tx_errors += 1;
                }
                Polled::Broken => return,
            }
        }
    }

    /// Drops what waits for a peer that is not reached any more.
    pub(crate) fn drop_messages_to(&mut self, peer: Peer) {
        self.send_all();
        while let Some(draft) = self.drafts.drop_one(peer) {
            self.stats.tx_errors += draft.writer.datagrams() as u64;
            self.tx.give_back(draft.slot);
        }
    }
}

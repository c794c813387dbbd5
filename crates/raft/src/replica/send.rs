//! Messages to other members, written when they leave.

use super::Replica;
use crate::message::{APPEND_BYTES, Append, ENTRY_HEADER_BYTES, Envelope, Message, encode_entry};
use crate::peer::Mode;
use crate::{Entry, MemberId, Output, Position, Settings};

impl Replica {
    /// Writes the next message, and says to whom it goes.
    pub(super) fn poll_message(&mut self, bytes: &mut Vec<u8>) -> Option<MemberId> {
        let durability = &self.durability;
        let held = self.outbox.pop_front_if(|(barrier, _, _)| durability.is_done(*barrier));
        let held = held.map(|(_, to, message)| (to, message));
        if let Some((to, message)) = held.or_else(|| self.poll_answer()) {
            message.encode(self.envelope(to), 0, bytes);
            return Some(to);
        }
        self.begin_round();
        if let Some((to, message)) = self.leading.as_mut()?.fetched.pop_front() {
            *bytes = message;
            return Some(to);
        }
        let peers = self.leading.as_ref()?.peers.len();
        (0..peers).find_map(|at| self.poll_peer(at, bytes))
    }

    fn envelope(&self, to: MemberId) -> Envelope {
        let (group, from) = (self.settings.group, self.settings.id);
        Envelope { group, from, to, term: self.core.term() }
    }

    /// Writes the next message to a follower: entries if it may be sent any, or that the leader is
    /// there.
    fn poll_peer(&mut self, at: usize, bytes: &mut Vec<u8>) -> Option<MemberId> {
        let peer = &self.leading.as_ref()?.peers[at];
        let (id, next) = (peer.id, peer.next);
        let Settings { window_bytes, window_messages, .. } = self.settings;
        if next <= self.core.last().index && peer.may_send(window_bytes, window_messages) {
            if next <= self.core.begin().index {
                self.send_snapshot(id);
            } else if next < self.tail.first() {
                self.with_peer(id, |peer| peer.mode = Mode::Fetching);
                self.events.push_back(Output::Fetch { to: id, index: next });
            } else {
                let last = self.write_entries(id, next, bytes);
                let (now_us, length) = (self.now_us, bytes.len());
                self.with_peer(id, |peer| peer.sent(last, length, now_us));
                return Some(id);
            }
        }
        let peer = &mut self.leading.as_mut()?.peers[at];
        if !std::mem::take(&mut peer.is_due) {
            return None;
        }
        peer.asked();
        // What a follower that lacks this says tells where to go on.
        let before = self.core.position(next - 1).unwrap_or_else(|| self.core.last());
        self.write_append(id, before, bytes);
        Some(id)
    }

    fn write_append(&mut self, to: MemberId, previous: Position, bytes: &mut Vec<u8>) {
        let commit = self.committed();
        let envelope = self.envelope(to);
        let lease = self.settings.lease_drift.is_some();
        let Some(leading) = &mut self.leading else { return };
        let lease = lease && leading.hand_over.is_none();
        if lease {
            leading.lease_asked_us = Some(self.now_us);
        }
        let append = Append { previous, commit, round: leading.rounds.newest(), lease };
        Message::Append(append).encode(envelope, 0, bytes);
    }

    /// Writes entries from `next` on, as many as a message has, and says which is the last.
    fn write_entries(&mut self, to: MemberId, next: u64, bytes: &mut Vec<u8>) -> u64 {
        let before = self.core.position(next - 1).expect("the log begins before it");
        self.write_append(to, before, bytes);
        let mut last = next - 1;
        while let Some((kind, data)) = self.tail.get(last + 1) {
            let length = bytes.len() + ENTRY_HEADER_BYTES + data.len();
            if last >= next && length > self.settings.message_bytes {
                break;
            }
            encode_entry(kind, data, bytes);
            last += 1;
        }
        set_entries(bytes, last + 1 - next);
        last
    }

    /// Entries that [`Output::Fetch`] has asked for, in order: as many as the caller likes, or none
    /// if it has them no longer.
    pub fn fetched<'a>(
        &mut self,
        now_us: u64,
        to: MemberId,
        entries: impl IntoIterator<Item = Entry<'a>>,
    ) {
        self.now_us = now_us;
        let peer = self.leading.as_ref().and_then(|leading| leading.peer(to));
        let Some(next) = peer.filter(|peer| peer.mode == Mode::Fetching).map(|peer| peer.next)
        else {
            return;
        };
        let mut bytes = Vec::with_capacity(APPEND_BYTES);
        let Some(before) = self.core.position(next - 1) else { return self.send_snapshot(to) };
        self.write_append(to, before, &mut bytes);
        let mut last = next - 1;
        for Entry { position, kind, data } in entries {
            if position.index != last + 1 || self.core.position(last + 1) != Some(position) {
                break;
            }
            encode_entry(kind, data, &mut bytes);
            last += 1;
        }
        if last < next {
            return self.send_snapshot(to);
        }
        set_entries(&mut bytes, last + 1 - next);
        let length = bytes.len();
        self.with_peer(to, |peer| {
            peer.mode = Mode::Probing { asked: true };
            peer.sent(last, length, now_us);
        });
        if let Some(leading) = &mut self.leading {
            leading.fetched.push_back((to, bytes));
        }
    }

    /// The snapshot that [`Output::SendSnapshot`] has asked for has arrived, or not: the follower
    /// is asked what it has.
    pub fn snapshot_sent(&mut self, now_us: u64, to: MemberId) {
        self.now_us = now_us;
        let begin = self.core.begin().index;
        self.with_peer(to, |peer| peer.snapshot_sent(begin));
    }
}

/// Says how many entries a message has.
fn set_entries(bytes: &mut [u8], count: u64) {
    let count = u32::try_from(count).expect("a message has few entries");
    bytes[4..8].copy_from_slice(&count.to_le_bytes());
}

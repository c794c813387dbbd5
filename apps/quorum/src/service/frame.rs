//! What members say to each other by calls: who speaks, and a replica's message or a piece of a
//! snapshot.
//!
//! A frame begins with the sender's incarnation (16) and number (8). A piece has the snapshot's
//! index, term, length (8 each) and sum (4), and where it begins (8), before its bytes.

use petasos_journal::SnapshotId;
use petasos_raft::MemberId;

use petasos_base::ByteReader;

use crate::bytes::{push_numbers, push_u64};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Speaker {
    pub incarnation: u128,
    pub id: MemberId,
}

impl Speaker {
    pub fn push(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.incarnation.to_le_bytes());
        push_u64(to, self.id.0);
    }

    /// Who speaks, and what follows. Nobody vouches for the bytes.
    pub fn read(bytes: &[u8]) -> Option<(Speaker, &[u8])> {
        let (incarnation, rest) = bytes.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (incarnation, id) = (u128::from_le_bytes(*incarnation), u64::from_le_bytes(*id));
        Some((Speaker { incarnation, id: MemberId(id) }, rest))
    }
}

pub(super) fn push_piece(to: &mut Vec<u8>, id: SnapshotId, at: u64, bytes: &[u8]) {
    push_numbers(to, &[id.index, id.term, id.bytes]);
    to.extend_from_slice(&id.sum.to_le_bytes());
    push_u64(to, at);
    to.extend_from_slice(bytes);
}

/// A piece, from bytes that nobody vouches for.
pub(super) fn read_piece(bytes: &[u8]) -> Option<(SnapshotId, u64, &[u8])> {
    let mut bytes = ByteReader::new(bytes);
    let (index, term, length) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let (sum, at) = (bytes.u32()?, bytes.u64()?);
    (at <= length).then_some((SnapshotId { index, term, bytes: length, sum }, at, bytes.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_or_not_at_all() {
        let speaker = Speaker { incarnation: 1 << 100, id: MemberId(3) };
        let id = SnapshotId { index: 5, term: 2, bytes: 99, sum: 7 };
        let mut bytes = Vec::new();
        speaker.push(&mut bytes);
        push_piece(&mut bytes, id, 40, b"abc");
        let (who, rest) = Speaker::read(&bytes).unwrap();
        assert_eq!((who, read_piece(rest)), (speaker, Some((id, 40, &b"abc"[..]))));
        assert!((0..24).all(|length| Speaker::read(&bytes[..length]).is_none()));
        assert!((0..36).all(|length| read_piece(&rest[..length]).is_none()));
        let mut late = Vec::new();
        push_piece(&mut late, id, 100, b"");
        assert_eq!(read_piece(&late), None);
    }
}

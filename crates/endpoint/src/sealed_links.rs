//! Links of sealed groups: keys and numbers of what goes between a client and a worker directly
//! (`docs/spec/route.md`, RT28), at both ends.
//!
//! A link has one row of numbers in each direction, for all pairs together. It belongs to an epoch
//! and lasts as long as that is taken, or a pair is in it.
//!
//! Invariants:
//! - of a client, a worker and an epoch there is one link at a process, ever: its numbers would
//!   begin anew with another;
//! - a [`SealId`] names one link as long as anybody has it.

use core::num::NonZeroU32;

use petasos_seal::group::{ClientSecret, Link};
use petasos_seal::{End, KeyLife, OpenError, Seal, Sealer};
use petasos_wire::{Header, Packet, TRANSMISSION_NUMBERS};

/// Names a link of a sealed group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SealId(NonZeroU32);

impl SealId {
    fn of(place: usize) -> SealId {
        let number = u32::try_from(place + 1).ok().and_then(NonZeroU32::new);
        SealId(number.expect("links are bounded"))
    }

    #[inline]
    fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A link at one end.
#[derive(Debug)]
pub(crate) struct SealedLink {
    link: Link,
    /// The number of the last packet that was sent.
    pub(crate) last: u32,
}

impl SealedLink {
    /// Of the client with this secret and the worker with this number. The client is the end that
    /// sends requests.
    pub(crate) fn new(secret: &ClientSecret, worker: u16, end: End, life: KeyLife) -> SealedLink {
        SealedLink { link: Link::new(secret, worker, end, life), last: 0 }
    }

    /// This end's keys. `None` if they were not needed while the epoch was taken.
    #[inline]
    pub(crate) fn half(&mut self) -> Option<&mut Seal> {
        self.link.half()
    }

    /// Gives a header the next number of the row. `None` as of [`SealedLink::half`].
    #[inline]
    pub(crate) fn next(&mut self, header: Header) -> Option<(Header, &mut Sealer)> {
        self.last = (self.last + 1) % TRANSMISSION_NUMBERS;
        let header = header.with_checksum().with_transmission(self.last);
        Some((header, &mut self.link.half()?.sealer))
    }
}

/// The links of an endpoint, as a client or as a worker.
#[derive(Debug, Default)]
pub(crate) struct SealedLinks {
    links: Vec<Option<Box<SealedLink>>>,
    free: Vec<SealId>,
    /// Those whose epochs are not taken any more, and of which somebody had the name.
    closed: Vec<SealId>,
}

impl SealedLinks {
    pub(crate) fn add(&mut self, link: SealedLink) -> SealId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.links.push(None);
            SealId::of(self.links.len() - 1)
        });
        self.links[id.place()] = Some(Box::new(link));
        id
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SealId) -> &mut SealedLink {
        self.links[id.place()].as_deref_mut().expect("what names a link keeps it")
    }

    /// Opens a packet that has a block of so many bytes behind its header, into `out`.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(crate) fn open<'o>(
        &mut self,
        id: SealId,
        bytes: &[u8],
        packet: &Packet<'_>,
        block_bytes: usize,
        out: &'o mut Vec<u8>,
    ) -> Result<&'o [u8], OpenError> {
        make_room(out, bytes.len());
        // Without keys nothing can be told from a forgery.
        let half = self.get_mut(id).half().ok_or(OpenError::Forged)?;
        half.opener.open_behind(bytes, packet, block_bytes, out)
    }

    /// The epoch of these links is not taken any more. They go, now or with a later call, once
    /// nothing that `is_used` knows of has their names.
    pub(crate) fn close(
        &mut self,
        ids: impl IntoIterator<Item = SealId>,
        is_used: impl Fn(SealId) -> bool,
    ) {
        for id in ids {
            self.get_mut(id).link.close();
            self.closed.push(id);
        }
        let gone = self.closed.extract_if(.., |id| !is_used(*id)).collect::<Vec<_>>();
        for id in gone {
            self.links[id.place()] = None;
            self.free.push(id);
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.links.len() - self.free.len()
    }
}

/// The size of the buffer for opened packets: the longest datagram.
const OPENED_BYTES: usize = 1 << 16;

/// Makes a buffer for opened packets as long as a packet.
#[inline]
pub(crate) fn make_room(opened: &mut Vec<u8>, bytes: usize) {
    if opened.len() < bytes {
        opened.resize(OPENED_BYTES.max(bytes), 0);
    }
}

#[cfg(test)]
mod tests {
    use petasos_seal::Cipher;
    use petasos_seal::group::GroupSecret;

    use super::*;

    fn link() -> SealedLink {
        let secret = GroupSecret::new(Cipher::Aes128Gcm, [5; 32]).client(1);
        SealedLink::new(&secret, 2, End::Client, KeyLife::default())
    }

    #[test]
    fn rt28_a_link_lasts_as_long_as_its_epoch_or_a_pair_in_it() {
        let mut links = SealedLinks::default();
        let (used, unused) = (links.add(link()), links.add(link()));
        assert!(links.get_mut(used).half().is_some());
        links.close([used, unused], |id| id == used);
        assert_eq!(links.len(), 1);
        assert!(links.get_mut(used).half().is_some(), "it was made in time");
        let other = links.add(link());
        assert_ne!(other, used);
        links.close([], |_| false);
        assert_eq!(links.len(), 1, "the one in use goes once it is not");
        links.close([other], |_| true);
        assert!(links.get_mut(other).half().is_none(), "it is too late to make it");
    }

    #[test]
    fn rt28_each_packet_has_the_next_number() {
        let mut link = link();
        let header = Header::for_session(1, 2).with_request(petasos_wire::Kind::Pull, 7, 0);
        link.last = TRANSMISSION_NUMBERS - 2;
        let numbers = [(); 3].map(|()| {
            let (header, _) = link.next(header).expect("it can be made");
            Packet::parse(&header.to_bytes()).expect("it is one").transmission()
        });
        assert_eq!(numbers, [TRANSMISSION_NUMBERS - 1, 0, 1]);
    }
}

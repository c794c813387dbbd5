//! First packets of a client, which any worker of the group opens (RT27).
//!
//! Their numbers are explicit (RT3), and the key for each 2^21 of them is derived directly from the
//! client's secret: a worker hears only some of a client's packets, and jumps.

use petasos_base::{Freshness, ReplayWindow, replay_words};
use petasos_wire::{
    FIRST_BYTES, RoutedPacket, SEAL_BYTES, authenticated, first_number_of, set_key_phase,
};

use super::ClientSecret;
use crate::key::{Forged, PacketKey};
use crate::opener::FORGED_MAX;
use crate::{KeyLife, NotNewer};

/// The numbers of first packets that a worker remembers, per client and epoch: the router's queue
/// reorders them.
type Window = ReplayWindow<{ replay_words(16_384) }>;

/// Seals the first packets of a client in one epoch.
#[derive(Debug)]
pub struct FirstSealer {
    secret: ClientSecret,
    life: KeyLife,
    key: Key,
    /// Numbers below this were used, or are skipped for ever.
    next: u64,
}

/// Opens the first packets of a client in one epoch.
#[derive(Debug)]
pub struct FirstOpener {
    secret: ClientSecret,
    life: KeyLife,
    window: Window,
    /// The one of the highest number that was opened.
    newest: Option<Key>,
    /// Another that has opened something lately.
    other: Option<Key>,
    forged: u64,
}

#[derive(Debug)]
struct Key {
    generation: u64,
    key: PacketKey,
}

/// Why a first packet was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FirstOpenError {
    /// It was opened before: it is dropped. The network duplicated it, or an attacker replays it.
    #[error("the packet has been opened before")]
    Seen,
    /// The client has sealed it, and it is too old to know whether it was opened before: it is
    /// rejected with "again", as it may only have waited long.
    #[error("the packet is too old")]
    Old,
    /// It was not sealed by the client, or was changed: it is dropped.
    #[error("the packet was not sealed by the client, or was changed")]
    Forged,
    /// Too many packets failed to open, so no more are opened in this epoch.
    #[error("too many packets of the client did not open")]
    Worn,
}

impl Key {
    fn of(secret: &ClientSecret, generation: u64) -> Key {
        Key { generation, key: secret.first(generation).key(secret.cipher) }
    }

    fn is_odd(&self) -> bool {
        self.generation % 2 == 1
    }
}

impl FirstSealer {
    /// For the first packets of an attachment in one epoch. They are numbered from 1.
    pub fn new(secret: &ClientSecret, life: KeyLife) -> FirstSealer {
        let secret = secret.clone();
        let key = Key::of(&secret, 0);
        FirstSealer { secret, life, key, next: 1 }
    }

    /// Seals a packet in place: header, routing block, body, and room for the tag. Its number is in
    /// header and block.
    ///
    /// # Errors
    /// See [`NotNewer`]; the packet is unchanged.
    ///
    /// # Panics
    /// If `packet` is shorter than a header, a routing block and a tag.
    #[inline]
    pub fn seal(&mut self, packet: &mut [u8]) -> Result<(), NotNewer> {
        let (first, rest) = packet
            .split_first_chunk_mut::<FIRST_BYTES>()
            .expect("a first packet has header and block");
        let (body, tag) = rest
            .split_last_chunk_mut::<SEAL_BYTES>()
            .expect("a packet to be sealed has room for the tag");
        let number = first_number_of(first);
        if number < self.next {
            return Err(NotNewer);
        }
        self.next = number + 1;
        let generation = self.life.generation(number);
        if generation != self.key.generation {
            self.key = Key::of(&self.secret, generation);
        }
        let header = first.first_chunk_mut().expect("a header comes first");
        set_key_phase(header, self.key.is_odd());
        self.key.key.seal(number, &authenticated(first), body, tag);
        Ok(())
    }
}

impl FirstOpener {
    /// For the first packets of a client in one epoch.
    pub fn new(secret: &ClientSecret, life: KeyLife) -> FirstOpener {
        let secret = secret.clone();
        let window = Window::new();
        FirstOpener { secret, life, window, newest: None, other: None, forged: 0 }
    }

    /// Opens `bytes`, which were parsed as `packet`, into the beginning of `out`: the body.
    ///
    /// A number that is far from others costs one derivation of a key, which is kept only if the
    /// packet opens.
    ///
    /// # Errors
    /// See [`FirstOpenError`]. The content of `out` is then undefined.
    ///
    /// # Panics
    /// If `out` is shorter than the body, or `bytes` are another packet's.
    pub fn open<'o>(
        &mut self,
        bytes: &[u8],
        packet: &RoutedPacket<'_>,
        out: &'o mut [u8],
    ) -> Result<&'o [u8], FirstOpenError> {
        let first = bytes.first_chunk::<FIRST_BYTES>().expect("the packet has been parsed");
        let tag = packet.seal().ok_or(FirstOpenError::Forged)?;
        let (number, sealed) = (packet.number(), packet.body());
        let freshness = self.window.freshness(number);
        if freshness == Freshness::Seen {
            return Err(FirstOpenError::Seen);
        }
        if self.forged >= FORGED_MAX {
            return Err(FirstOpenError::Worn);
        }
        let generation = self.life.generation(number);
        let out = &mut out[..sealed.len()];
        let fresh = self.fresh(generation);
        let key = fresh.as_ref().or_else(|| self.kept(generation)).expect("it was made if missing");
        if let Err(Forged) = key.key.open(number, &authenticated(first), sealed, tag, out) {
            self.forged += 1;
            return Err(FirstOpenError::Forged);
        }
        if let Some(fresh) = fresh {
            self.keep(fresh);
        }
        if freshness == Freshness::Below {
            return Err(FirstOpenError::Old);
        }
        self.window.insert(number);
        Ok(out)
    }

    fn kept(&self, generation: u64) -> Option<&Key> {
        let mut kept = self.newest.iter().chain(&self.other);
        kept.find(|key| key.generation == generation)
    }

    /// The key of a generation, if it is not kept.
    #[inline]
    fn fresh(&self, generation: u64) -> Option<Key> {
        match self.kept(generation) {
            Some(_) => None,
            None => Some(Key::of(&self.secret, generation)),
        }
    }

    /// Keeps a key that has opened a packet.
    #[cold]
    fn keep(&mut self, key: Key) {
        let is_newer = |newest: &Key| key.generation > newest.generation;
        if self.newest.as_ref().is_none_or(is_newer) {
            self.other = self.newest.replace(key);
        } else {
            self.other = Some(key);
        }
    }
}

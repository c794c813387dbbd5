//! Opening received packets.

use petasos_base::{ReplayWindow, extend, replay_words};
use petasos_wire::{CREDITS_MAX, HEADER_BYTES, Packet, SEAL_BYTES, TRANSMISSION_NUMBERS};

use crate::KeyLife;
use crate::key::{Cipher, Forged, PacketKey, Secret};

/// The most packets of a session that may fail to open: the integrity limit of the weaker cipher
/// (RFC 9001, section 6.6).
pub(crate) const FORGED_MAX: u64 = 1 << 36;

/// The numbers that a receiver remembers (W31).
type Window = ReplayWindow<{ replay_words(4096) }>;

const _: () = assert!(Window::WIDTH > CREDITS_MAX as u64, "more than can be in flight (W10)");

/// Why a packet was not opened. Only a counter has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The packet is too short for a tag. The sender's fault, or noise.
    #[error("the packet has no tag")]
    Short,
    /// The packet was opened before, or is too old to know (W31). The network duplicated it, or an
    /// attacker replays it.
    #[error("the packet has been opened before, or is too old")]
    Replayed,
    /// The peer's sealer did not make the packet, or it was changed on the way.
    #[error("the packet was not sealed by the peer, or was changed")]
    Forged,
    /// Too many packets failed to open, so no more are opened (W30).
    #[error("too many packets of the session did not open")]
    Worn,
}

/// Opens the packets of one direction.
#[derive(Debug)]
pub struct Opener {
    window: Window,
    current: PacketKey,
    /// The generation of the highest number that was opened.
    generation: u64,
    previous: Option<PacketKey>,
    /// Made when it is needed for the first time.
    following: Option<PacketKey>,
    forged: u64,
    life: KeyLife,
    cipher: Cipher,
    /// The secret of the key after the current one.
    secret: Secret,
}

impl Opener {
    pub(crate) fn new(cipher: Cipher, secret: Secret, life: KeyLife) -> Opener {
        Opener {
            window: Window::new(),
            current: secret.key(cipher),
            generation: 0,
            previous: None,
            following: None,
            forged: 0,
            life,
            cipher,
            secret: secret.next(),
        }
    }

    /// Opens `bytes`, which were parsed as `packet`, into the beginning of `out`.
    ///
    /// # Errors
    /// See [`OpenError`]. The content of `out` is then undefined.
    ///
    /// # Panics
    /// If `out` is shorter than `bytes`.
    pub fn open<'o>(
        &mut self,
        bytes: &[u8],
        packet: &Packet<'_>,
        out: &'o mut [u8],
    ) -> Result<&'o [u8], OpenError> {
        self.open_behind(bytes, packet, 0, out)
    }

    /// The same, of a packet that has a block of so many bytes behind its header. It is
    /// authenticated, and was not encrypted (RT28). What is given is what follows it.
    ///
    /// # Errors
    /// See [`OpenError`]. The content of `out` is then undefined.
    ///
    /// # Panics
    /// If `out` is shorter than `bytes`.
    pub fn open_behind<'o>(
        &mut self,
        bytes: &[u8],
        packet: &Packet<'_>,
        block_bytes: usize,
        out: &'o mut [u8],
    ) -> Result<&'o [u8], OpenError> {
        let payload = packet.payload().get(block_bytes..);
        let (Some(clear), Some((sealed, tag))) = (
            bytes.get(..HEADER_BYTES + block_bytes),
            payload.and_then(|payload| payload.split_last_chunk::<SEAL_BYTES>()),
        ) else {
            return Err(OpenError::Short);
        };
        let number = self.number(packet.transmission());
        if !self.window.is_new(number) {
            return Err(OpenError::Replayed);
        }
        let generation = self.life.generation(number);
        if self.forged >= FORGED_MAX {
            return Err(OpenError::Worn);
        }
        let out = &mut out[..sealed.len()];
        let phase_fits = packet.key_phase() == (generation % 2 == 1);
        let key = self.key(generation).filter(|_| phase_fits).ok_or(OpenError::Forged)?;
        if let Err(Forged) = key.open(number, clear, sealed, tag, out) {
            self.forged += 1;
            return Err(OpenError::Forged);
        }
        self.window.insert(number);
        if generation > self.generation {
            self.advance();
        }
        Ok(out)
    }

    /// The number that is nearest to the highest one plus one (W29).
    #[inline]
    fn number(&self, transmission: u32) -> u64 {
        extend(self.window.next(), transmission.into(), TRANSMISSION_NUMBERS.ilog2())
    }

    /// The key of `generation`, if it is the current, previous or next one.
    #[inline]
    fn key(&mut self, generation: u64) -> Option<&PacketKey> {
        if generation == self.generation {
            return Some(&self.current);
        }
        self.other_key(generation)
    }

    #[cold]
    fn other_key(&mut self, generation: u64) -> Option<&PacketKey> {
        if generation + 1 == self.generation {
            return self.previous.as_ref();
        }
        if generation != self.generation + 1 {
            return None;
        }
        Some(self.following.get_or_insert_with(|| self.secret.key(self.cipher)))
    }

    /// Moves on to the following key, after it has opened a packet.
    #[cold]
    fn advance(&mut self) {
        let following = self.following.take().expect("what has just been opened with is there");
        self.previous = Some(core::mem::replace(&mut self.current, following));
        self.secret = self.secret.next();
        self.generation += 1;
    }

    /// The number of keys that the peer has used before the current one.
    pub fn rotations(&self) -> u64 {
        self.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opener() -> Opener {
        let session = crate::SessionSecret::new(Cipher::Aes128Gcm, [1; crate::SECRET_BYTES]);
        let (to_server, _) = session.directions(5);
        Opener::new(Cipher::Aes128Gcm, to_server, KeyLife::default())
    }

    #[test]
    fn w29_the_number_is_the_nearest() {
        const SPACE: u64 = TRANSMISSION_NUMBERS as u64;
        let mut opener = opener();
        assert_eq!(opener.number(1), 1);
        // There are no numbers before the first.
        assert_eq!(opener.number(TRANSMISSION_NUMBERS - 1), SPACE - 1);
        for highest in [5, SPACE - 2, SPACE + 3, 7 * SPACE - 1] {
            opener.window = Window::new();
            opener.window.insert(highest);
            for number in highest.saturating_sub(4000)..highest + 4000 {
                assert_eq!(opener.number((number % SPACE) as u32), number, "after {highest}");
            }
        }
    }

    /// RFC 9001, section 6.6.
    #[test]
    fn w30_after_too_many_forgeries_nothing_opens() {
        let mut opener = opener();
        opener.forged = FORGED_MAX;
        let header = petasos_wire::Header::for_session(1, 2).with_checksum();
        let mut bytes = header.with_request(petasos_wire::Kind::Request, 8, 1).to_bytes().to_vec();
        bytes.extend([0; SEAL_BYTES]);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(opener.open(&bytes, &packet, &mut [0; 64]), Err(OpenError::Worn));
    }
}

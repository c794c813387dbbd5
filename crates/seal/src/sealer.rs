//! Sealing packets to be sent.

use petasos_wire::{HEADER_BYTES, SEAL_BYTES, TRANSMISSION_NUMBERS};
use petasos_wire::{set_key_phase, transmission_of};

use crate::KeyLife;
use crate::key::{Cipher, PacketKey, Secret};

/// A packet number that is not greater than the earlier ones (W29). The packet was not sealed, and
/// must be dropped. The caller's fault; sending the packet again with a new number is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the packet's number is not above the last one")]
pub struct NotNewer;

/// Seals the packets of one direction.
#[derive(Debug)]
pub struct Sealer {
    key: PacketKey,
    /// Numbers below this were used, or are skipped for ever.
    next: u64,
    generation: u64,
    life: KeyLife,
    cipher: Cipher,
    /// The secret of the key after this one.
    secret: Secret,
}

impl Sealer {
    pub(crate) fn new(cipher: Cipher, secret: Secret, life: KeyLife) -> Sealer {
        let key = secret.key(cipher);
        Sealer { key, next: 0, generation: 0, life, cipher, secret: secret.next() }
    }

    /// Seals a packet in place. It consists of a header, a payload, and room for the tag.
    ///
    /// # Errors
    /// See [`NotNewer`]; the packet is unchanged.
    ///
    /// # Panics
    /// If `packet` is shorter than a header and a tag.
    #[inline]
    pub fn seal(&mut self, packet: &mut [u8]) -> Result<(), NotNewer> {
        self.seal_behind(packet, 0)
    }

    /// The same, of a packet that has a block behind its header: so many bytes are authenticated,
    /// but not encrypted (RT28).
    ///
    /// # Errors
    /// See [`NotNewer`]; the packet is unchanged.
    ///
    /// # Panics
    /// If `packet` is shorter than a header, the block and a tag.
    #[inline]
    pub fn seal_behind(&mut self, packet: &mut [u8], block_bytes: usize) -> Result<(), NotNewer> {
        let (clear, rest) = packet
            .split_at_mut_checked(HEADER_BYTES + block_bytes)
            .expect("a packet to be sealed has a header");
        let header = clear.first_chunk_mut().expect("it is at least a header");
        let (payload, tag) = rest
            .split_last_chunk_mut::<SEAL_BYTES>()
            .expect("a packet to be sealed has room for the tag");
        let number = self.number(transmission_of(header))?;
        self.next = number + 1;
        let generation = self.life.generation(number);
        while self.generation < generation {
            self.rotate();
        }
        set_key_phase(header, generation % 2 == 1);
        self.key.seal(number, clear, payload, tag);
        Ok(())
    }

    /// The smallest number, from `next` on, whose low bits are `transmission`. (62 bits last for
    /// 14,000 years at 10 M packets/s.)
    #[inline]
    fn number(&self, transmission: u32) -> Result<u64, NotNewer> {
        let ahead = transmission.wrapping_sub(self.next as u32) % TRANSMISSION_NUMBERS;
        if ahead < TRANSMISSION_NUMBERS / 2 {
            Ok(self.next + u64::from(ahead))
        } else {
            Err(NotNewer)
        }
    }

    /// Switches to the next key.
    #[cold]
    fn rotate(&mut self) {
        self.key = self.secret.key(self.cipher);
        self.secret = self.secret.next();
        self.generation += 1;
    }

    /// The number of keys used before the current one.
    pub fn rotations(&self) -> u64 {
        self.generation
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

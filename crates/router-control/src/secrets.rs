//! Secrets of a sealed group's epochs (RT27, RT30): drawn by this process for itself, in no file,
//! and given to workers and, each its own, to clients over TLS alone.

use petasos_base::SecretBlock;
use petasos_control::{Cipher, Epoch, Secret};
use petasos_seal::SECRET_BYTES;
use petasos_seal::group::{Epochs, GroupSecret};

/// The secrets of the epochs that are taken.
#[derive(Debug)]
pub(crate) struct Secrets {
    cipher: Cipher,
    epochs: Epochs<GroupSecret>,
}

impl Secrets {
    pub(crate) fn new(cipher: Cipher) -> Secrets {
        Secrets { cipher, epochs: Epochs::default() }
    }

    pub(crate) fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// An epoch begins: draws its secret.
    pub(crate) fn begin(&mut self, epoch: u16) -> GroupSecret {
        // Each has a block for itself, which is erased with it: there is one a minute.
        let mut block = SecretBlock::new();
        let mut bytes = [0; SECRET_BYTES];
        for part in bytes.chunks_exact_mut(8) {
            part.copy_from_slice(&block.next_u64().to_le_bytes());
        }
        let cipher = match self.cipher {
            Cipher::Aes128Gcm => petasos_seal::Cipher::Aes128Gcm,
            Cipher::ChaCha20Poly1305 => petasos_seal::Cipher::ChaCha20Poly1305,
        };
        let secret = GroupSecret::new(cipher, bytes);
        self.epochs.begin(epoch, secret.clone()).expect("epochs count up");
        secret
    }

    /// The epoch before the newest is not taken any more.
    pub(crate) fn end_before(&mut self) {
        self.epochs.end_before();
    }

    fn group(&mut self, epoch: u16) -> &GroupSecret {
        self.epochs.get(epoch).expect("what members are told is taken")
    }
}

/// An epoch as workers are told, whose messages are in any encoding but the native.
pub(crate) fn epoch_of_workers(secrets: Option<&mut Secrets>, number: u16) -> Epoch {
    let secret = secrets.map(|secrets| Secret::new(*secrets.group(number).bytes()));
    Epoch { number, binds_anew: false, secret }
}

/// The same as a client is told, with its own secret.
pub(crate) fn epoch_of_client(secrets: Option<&mut Secrets>, number: u16, client: u32) -> Epoch {
    let own = |secrets: &mut Secrets| Secret::new(*secrets.group(number).client(client).bytes());
    Epoch { number, binds_anew: false, secret: secrets.map(own) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rt30_each_epoch_has_a_secret_of_its_own_and_each_client() {
        let mut secrets = Secrets::new(Cipher::Aes128Gcm);
        secrets.begin(0);
        secrets.begin(1);
        let mut told = Vec::new();
        for number in [0, 1] {
            told.push(epoch_of_workers(Some(&mut secrets), number));
            for client in [0, 1] {
                told.push(epoch_of_client(Some(&mut secrets), number, client));
            }
        }
        for (at, epoch) in told.iter().enumerate() {
            let secret = epoch.secret.as_ref().expect("it is sealed");
            let others = told[at + 1..].iter();
            assert!(others.clone().all(|other| other.secret.as_ref() != Some(secret)), "{at}");
        }
        assert_eq!(epoch_of_client(None, 1, 0).secret, None);
    }
}

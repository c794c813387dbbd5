//! What a worker has of the epochs of sealed groups (RT27, RT28, RT30).
//!
//! Keys belong to a router's process and the number that it has given this endpoint, not to a
//! membership: an endpoint that joins anew has the number that it had (RT34), and goes on with its
//! windows and rows of numbers. So they outlive memberships. Of those that have ended longest ago
//! only the epoch is remembered, in which the endpoint then joins no more.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use petasos_control::Epoch;
use petasos_seal::group::{Epochs, FirstOpenError, FirstOpener, GroupSecret};
use petasos_seal::{Cipher, End, KeyLife};
use petasos_wire::RoutedPacket;

use crate::group::{GroupError, MEMBERSHIPS_MAX, RouterProcess};
use crate::sealed_links::{SealId, SealedLink, SealedLinks};

/// Keys of ended memberships that are kept whole.
const ENDED_MAX: usize = MEMBERSHIPS_MAX;
/// Ended memberships that are remembered by their epochs.
const FORGOTTEN_MAX: usize = 1024;

/// Whose keys: a router's process, and the number of this endpoint there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Whose {
    incarnation: u64,
    worker: u16,
}

/// The keys of a worker at one router.
#[derive(Debug)]
pub(crate) struct WorkerKeys {
    whose: Whose,
    cipher: Cipher,
    life: KeyLife,
    epochs: Epochs<EpochKeys>,
    /// The most clients of an epoch.
    clients_max: usize,
}

#[derive(Debug)]
struct EpochKeys {
    secret: GroupSecret,
    /// Each is made with the client's first packet.
    clients: HashMap<u32, ClientKeys>,
}

#[derive(Debug)]
struct ClientKeys {
    first: FirstOpener,
    link: SealId,
}

/// Why there is no body of a sealed first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// There are no keys: of the epoch, or for another client in it.
    NoKeys,
    /// See [`FirstOpenError`].
    Packet(FirstOpenError),
}

/// Where a membership's keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeysAt(usize);

/// The keys of a worker at all its routers.
#[derive(Debug, Default)]
pub(crate) struct KeysOfRouters {
    places: Vec<Option<WorkerKeys>>,
    /// Ended memberships whose keys are whole, the oldest first.
    ended: VecDeque<KeysAt>,
    forgotten: VecDeque<(Whose, u16)>,
}

impl WorkerKeys {
    /// An epoch has begun. Gives the links of the one that is not taken any more.
    fn begin(&mut self, epoch: &Epoch) -> Result<Vec<SealId>, GroupError> {
        let secret = epoch.secret.as_ref().ok_or(GroupError::Epoch)?;
        let secret = GroupSecret::new(self.cipher, *secret.bytes());
        let keys = EpochKeys { secret, clients: HashMap::new() };
        Ok(self.epochs.begin(epoch.number, keys)?.map_or_else(Vec::new, EpochKeys::into_links))
    }

    fn end_before(&mut self) -> Vec<SealId> {
        self.epochs.end_before().map_or_else(Vec::new, EpochKeys::into_links)
    }

    /// A client's keys in an epoch.
    fn client(
        &mut self,
        epoch: u16,
        client: u32,
        links: &mut SealedLinks,
    ) -> Option<&mut ClientKeys> {
        let its = self.epochs.get(epoch)?;
        let is_full = its.clients.len() >= self.clients_max;
        match its.clients.entry(client) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if is_full => None,
            Entry::Vacant(place) => {
                let secret = its.secret.client(client);
                let link = SealedLink::new(&secret, self.whose.worker, End::Server, self.life);
                let first = FirstOpener::new(&secret, self.life);
                Some(place.insert(ClientKeys { first, link: links.add(link) }))
            }
        }
    }
}

impl EpochKeys {
    fn into_links(self) -> Vec<SealId> {
        self.clients.into_values().map(|client| client.link).collect()
    }
}

impl KeysOfRouters {
    /// The keys of a membership that a router grants with this epoch, and links that are not taken
    /// any more.
    ///
    /// # Errors
    /// [`GroupError::Epoch`]: it is older than one that the router has told, or the keys of it are
    /// gone.
    pub(super) fn join(
        &mut self,
        (router, worker): (RouterProcess, u16),
        (cipher, life): (Cipher, KeyLife),
        epoch: &Epoch,
        clients_max: usize,
    ) -> Result<(KeysAt, Vec<SealId>), GroupError> {
        let whose = Whose { incarnation: router.incarnation, worker };
        if self.forgotten.contains(&(whose, epoch.number)) {
            return Err(GroupError::Epoch);
        }
        let mut known = self.places.iter().enumerate();
        let known = known.find(|(_, it)| it.as_ref().is_some_and(|it| it.whose == whose));
        if let Some(at) = known.map(|(at, _)| at) {
            let keys = self.places[at].as_mut().expect("it was just found");
            let is_newest = keys.epochs.newest().is_some_and(|(newest, _)| newest == epoch.number);
            let closed = if is_newest { Vec::new() } else { keys.begin(epoch)? };
            self.ended.retain(|it| it.0 != at);
            return Ok((KeysAt(at), closed));
        }
        let epochs = Epochs::default();
        let mut keys = WorkerKeys { whose, cipher, life, epochs, clients_max };
        keys.begin(epoch)?;
        let free = self.places.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[at] = Some(keys);
        Ok((KeysAt(at), Vec::new()))
    }

    /// The membership that has these keys has ended. Gives links that are not taken any more.
    pub(super) fn leave(&mut self, at: KeysAt) -> Vec<SealId> {
        self.ended.push_back(at);
        if self.ended.len() <= ENDED_MAX {
            return Vec::new();
        }
        let oldest = self.ended.pop_front().expect("there are several");
        let mut keys = self.places[oldest.0].take().expect("it was not forgotten");
        let mut closed = keys.end_before();
        if let Some((newest, its)) = keys.epochs.newest() {
            closed.extend(its.clients.values().map(|client| client.link));
            self.forgotten.push_back((keys.whose, newest));
            if self.forgotten.len() > FORGOTTEN_MAX {
                self.forgotten.pop_front();
            }
        }
        closed
    }

    /// An epoch has begun at a router. Gives the links of the one that is not taken any more.
    ///
    /// # Errors
    /// [`GroupError::Epoch`]: it is not newer.
    pub(super) fn begin(&mut self, at: KeysAt, epoch: &Epoch) -> Result<Vec<SealId>, GroupError> {
        self.at(at).begin(epoch)
    }

    pub(super) fn end_before(&mut self, at: KeysAt) -> Vec<SealId> {
        self.at(at).end_before()
    }

    /// Opens a first packet of a client that the router has told of, into `out`.
    ///
    /// # Errors
    /// See [`Unopened`].
    pub(super) fn open<'o>(
        &mut self,
        at: KeysAt,
        bytes: &[u8],
        first: &RoutedPacket<'_>,
        links: &mut SealedLinks,
        out: &'o mut [u8],
    ) -> Result<&'o [u8], Unopened> {
        let client = self.at(at).client(first.epoch(), first.client(), links);
        let client = client.ok_or(Unopened::NoKeys)?;
        client.first.open(bytes, first, out).map_err(Unopened::Packet)
    }

    /// The link to a client whose first packet was opened.
    pub(super) fn link(&mut self, at: KeysAt, epoch: u16, client: u32) -> Option<SealId> {
        Some(self.at(at).epochs.get(epoch)?.clients.get(&client)?.link)
    }

    fn at(&mut self, at: KeysAt) -> &mut WorkerKeys {
        self.places[at.0].as_mut().expect("a membership has them")
    }
}

#[cfg(test)]
mod tests {
    use petasos_control::Secret;

    use super::*;

    const SEAL: (Cipher, KeyLife) = (Cipher::Aes128Gcm, KeyLife::of_log2(21));

    fn epoch(number: u16) -> Epoch {
        let secret = Some(Secret::new([number as u8; 32]));
        Epoch { number, binds_anew: false, secret }
    }

    fn at(incarnation: u64) -> (RouterProcess, u16) {
        (RouterProcess { ip: [127, 0, 0, 1].into(), incarnation }, 3)
    }

    #[test]
    fn rt34_who_joins_anew_goes_on_with_its_keys() {
        let (mut keys, mut links) = (KeysOfRouters::default(), SealedLinks::default());
        let (first, _) = keys.join(at(1), SEAL, &epoch(4), 8).unwrap();
        let link = keys.at(first).client(4, 9, &mut links).unwrap().link;
        keys.leave(first);
        let (again, closed) = keys.join(at(1), SEAL, &epoch(4), 8).unwrap();
        assert_eq!((again, closed), (first, Vec::new()));
        assert_eq!(keys.link(again, 4, 9), Some(link));
        keys.leave(again);
        // Also over a change of epochs, of which the older one goes.
        let (again, _) = keys.join(at(1), SEAL, &epoch(5), 8).unwrap();
        assert_eq!((keys.link(again, 4, 9), keys.link(again, 5, 9)), (Some(link), None));
        assert_eq!(keys.begin(again, &epoch(6)).unwrap(), [link]);
        keys.leave(again);
        let older = keys.join(at(1), SEAL, &epoch(5), 8);
        assert!(matches!(older, Err(GroupError::Epoch)), "{older:?}");
        let (other, _) = keys.join(at(2), SEAL, &epoch(5), 8).unwrap();
        assert_ne!(other, first);
    }

    #[test]
    fn rt28_keys_that_are_forgotten_are_not_made_again() {
        let mut keys = KeysOfRouters::default();
        let mut links = SealedLinks::default();
        for incarnation in 0..=ENDED_MAX as u64 {
            let (joined, _) = keys.join(at(incarnation), SEAL, &epoch(4), 8).unwrap();
            keys.at(joined).client(4, 9, &mut links).unwrap();
            let closed = keys.leave(joined);
            assert_eq!(closed.len(), usize::from(incarnation == ENDED_MAX as u64));
        }
        let again = keys.join(at(0), SEAL, &epoch(4), 8);
        assert!(matches!(again, Err(GroupError::Epoch)), "{again:?}");
        keys.join(at(0), SEAL, &epoch(5), 8).expect("it has other keys");
    }

    #[test]
    fn rt39_clients_of_an_epoch_are_bounded() {
        let (mut keys, mut links) = (KeysOfRouters::default(), SealedLinks::default());
        let (joined, _) = keys.join(at(1), SEAL, &epoch(4), 2).unwrap();
        let made =
            [1, 2, 3, 1].map(|client| keys.at(joined).client(4, client, &mut links).is_some());
        assert_eq!(made, [true, true, false, true]);
        assert!(keys.at(joined).client(5, 1, &mut links).is_none(), "the epoch is not taken");
    }
}

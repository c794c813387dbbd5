//! What a client has of the epochs of a sealed group (RT27, RT28, RT30).

use std::collections::BTreeMap;

use petasos_seal::group::{ClientSecret, Epochs, FirstSealer, NotNext};
use petasos_seal::{Cipher, End, KeyLife, SECRET_BYTES};

use crate::group::MEMBERS_MAX;
use crate::sealed_links::{SealId, SealedLink, SealedLinks};

/// The most links of an epoch: those of workers that came and went are kept (RT28).
const LINKS_MAX: usize = 2 * MEMBERS_MAX;

/// The keys of an attachment.
#[derive(Debug)]
pub(crate) struct AttachmentKeys {
    cipher: Cipher,
    life: KeyLife,
    epochs: Epochs<EpochKeys>,
}

#[derive(Debug)]
struct EpochKeys {
    secret: ClientSecret,
    first: FirstSealer,
    /// By the number of the worker; 0 is the router. Each is made at the first need.
    links: BTreeMap<u16, SealId>,
}

impl AttachmentKeys {
    pub(crate) fn new(cipher: Cipher, life: KeyLife) -> AttachmentKeys {
        AttachmentKeys { cipher, life, epochs: Epochs::default() }
    }

    /// An epoch has begun, with the client's secret of it. Gives the links of the one that is not
    /// taken any more.
    ///
    /// # Errors
    /// The epoch is not newer: the router's fault. Nothing has changed.
    pub(crate) fn begin(
        &mut self,
        epoch: u16,
        secret: [u8; SECRET_BYTES],
    ) -> Result<Vec<SealId>, NotNext> {
        let secret = ClientSecret::new(self.cipher, secret);
        let first = FirstSealer::new(&secret, self.life);
        let keys = EpochKeys { secret, first, links: BTreeMap::new() };
        Ok(self.epochs.begin(epoch, keys)?.map_or_else(Vec::new, EpochKeys::into_links))
    }

    /// The epoch before the newest is not taken any more. Gives its links.
    pub(super) fn end_before(&mut self) -> Vec<SealId> {
        self.epochs.end_before().map_or_else(Vec::new, EpochKeys::into_links)
    }

    /// The links of all epochs.
    pub(super) fn into_links(mut self) -> Vec<SealId> {
        let mut links = self.end_before();
        links.extend(self.epochs.newest().into_iter().flat_map(|(_, its)| its.links.values()));
        links
    }

    /// What seals first packets of an epoch; `None` if it is not taken.
    #[inline]
    pub(super) fn first(&mut self, epoch: u16) -> Option<&mut FirstSealer> {
        self.epochs.get(epoch).map(|its| &mut its.first)
    }

    /// The link to a worker, or to the router, in an epoch; `None` if that is not taken.
    pub(super) fn link(
        &mut self,
        epoch: u16,
        worker: u16,
        links: &mut SealedLinks,
    ) -> Option<SealId> {
        let its = self.epochs.get(epoch)?;
        if let Some(link) = its.links.get(&worker) {
            return Some(*link);
        }
        if its.links.len() >= LINKS_MAX {
            return None;
        }
        let link = links.add(SealedLink::new(&its.secret, worker, End::Client, self.life));
        its.links.insert(worker, link);
        Some(link)
    }
}

impl EpochKeys {
    fn into_links(self) -> Vec<SealId> {
        self.links.into_values().collect()
    }
}

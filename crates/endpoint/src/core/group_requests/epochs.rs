//! Epochs of memberships, and in sealed groups their keys (RT27, RT28, RT30).

use std::collections::HashSet;

use petasos_control::Epoch;
use petasos_proto::taken::MembershipId;
use petasos_seal::{Cipher, KeyLife};
use petasos_wire::RoutedPacket;

use super::{GroupRequests, Joined, Unopened};
use crate::core::Core;
use crate::group::{GroupError, RouterProcess};
use crate::sealed_links::{SealId, make_room};

impl GroupRequests {
    /// Finds or makes the keys of a membership that is granted.
    pub(super) fn take_keys(
        &mut self,
        joined: &mut Joined,
        router: RouterProcess,
        seal: (Cipher, KeyLife),
        epoch: &Epoch,
    ) -> Result<(), GroupError> {
        let whose = (router, joined.worker);
        let (at, closed) = self.keys.join(whose, seal, epoch, joined.clients_max)?;
        joined.keys = Some(at);
        self.close_links(closed);
        Ok(())
    }

    /// A membership has ended: its keys are kept for the next one.
    pub(super) fn leave_keys(&mut self, joined: &Joined) {
        let Some(at) = joined.keys else { return };
        let others = self.memberships.iter().flatten().filter_map(|it| it.joined.as_deref());
        if others.into_iter().any(|other| other.keys == Some(at)) {
            // The router has granted another one to the same endpoint (RT34).
            return;
        }
        let closed = self.keys.leave(at);
        self.close_links(closed);
    }

    /// The epoch of these links is not taken any more.
    fn close_links(&mut self, links: Vec<SealId>) {
        let used: HashSet<_> = self.taken.contexts().filter_map(|of| of.answer_as.seal).collect();
        self.sealed.close(links, |id| used.contains(&id));
    }

    /// Opens a sealed first packet of a membership's router, into `out`.
    ///
    /// # Errors
    /// See [`Unopened`].
    pub(crate) fn open_first<'o>(
        &mut self,
        id: MembershipId,
        bytes: &[u8],
        first: &RoutedPacket<'_>,
        out: &'o mut Vec<u8>,
    ) -> Result<&'o [u8], Unopened> {
        let joined = self.joined(id).ok_or(Unopened::NoKeys)?;
        // Keys are made only for those of whom the router has told, so that they are bounded.
        let is_told = joined.told.contains_key(&first.client());
        let at = joined.keys.filter(|_| is_told).ok_or(Unopened::NoKeys)?;
        make_room(out, bytes.len());
        self.keys.open(at, bytes, first, &mut self.sealed, out)
    }

    /// What seals the answers to a first packet of a membership; `None` in a group in plaintext.
    pub(crate) fn seal_of(&mut self, id: MembershipId, first: &RoutedPacket<'_>) -> Option<SealId> {
        let at = self.joined(id)?.keys?;
        self.keys.link(at, first.epoch(), first.client())
    }
}

impl<S> Core<S> {
    /// First packets of this epoch are taken, too (RT30), and of the one that was the newest.
    pub(crate) fn begin_membership_epoch(
        &mut self,
        id: MembershipId,
        epoch: &Epoch,
    ) -> Result<(), GroupError> {
        let requests = self.group_requests_mut();
        let joined = requests.joined_mut(id).ok_or(GroupError::Unknown)?;
        let (keys, [newest, _]) = (joined.keys, joined.epochs);
        match (keys, &epoch.secret) {
            (Some(at), Some(_)) => {
                let closed = requests.keys.begin(at, epoch)?;
                requests.close_links(closed);
            }
            (None, None) => {}
            _ => return Err(GroupError::Epoch),
        }
        let joined = requests.joined_mut(id).expect("it was just found");
        joined.epochs = [Some(epoch.number), newest];
        Ok(())
    }

    /// First packets of the epoch before the newest are not taken any more (RT30).
    pub(crate) fn end_membership_epoch(&mut self, id: MembershipId) -> bool {
        let requests = self.group_requests_mut();
        let Some(joined) = requests.joined_mut(id) else { return false };
        joined.epochs[1] = None;
        if let Some(at) = joined.keys {
            let closed = requests.keys.end_before(at);
            requests.close_links(closed);
        }
        true
    }
}

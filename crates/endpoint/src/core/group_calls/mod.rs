//! Calls to groups of workers, at the client (`docs/spec/route.md`, RT10 to RT14).
//!
//! A call to a group is a pair ([`Pairs`]), which asks for a worker by first packets. Once one has
//! answered, it is a session of one slot with that worker ([`Bound`]). All of this is off the path
//! of sessions: indices of pairs have bit 19 set, so that the table of sessions does not have them,
//! and a miss leads here. Dirty lists, timers and the pacing wheel name pairs by the same indices.
//!
//! Who may touch what: `receive` handles packets of pairs; the rest is here.
//!
//! Invariants:
//! - a call's context is in its pair until that is bound, and then in its session's slot;
//! - there is a bound session at a pair's place exactly while the pair is bound;
//! - a link's `pairs` counts the bound sessions that name it;
//! - [`GROUP_TURN`] is on the dirty list exactly if `is_listed` is set.

mod ask;
mod attachment;
mod bound;
mod keys;
mod links;
mod sessions;

use std::collections::HashSet;
use std::net::SocketAddr;

use petasos_base::Time;
use petasos_control::Epoch;
use petasos_netio::{Origin, Route};
use petasos_proto::pairs::{
    Answer, Answered, Arrival, AttachmentId, Member, PAIR_BIT, PairStats, Pairs,
};
use petasos_proto::{CallOptions, ClientStats, LinkPath};
use petasos_tls::Holder;
use petasos_wire::{Packet, WorkerBlock};

use super::{CallContext, Chore, Core};
use crate::group::{GroupError, MEMBERS_MAX, Routing};
use crate::quota::PeerLimits;
use crate::sealed_links::{SealId, SealedLinks};
use crate::sessions::SessionId;
pub(crate) use attachment::Attachment;
pub(crate) use bound::Bound;
pub(crate) use keys::AttachmentKeys;
pub(crate) use links::LinkId;
use links::{Link, Links};

/// On a dirty list: groups have something to do in this turn. No session or pair has this index.
pub(crate) const GROUP_TURN: u32 = u32::MAX;

/// What is kept with a pair.
pub(crate) struct Asked<S> {
    /// Until the pair is bound.
    pub(crate) context: Option<CallContext<S>>,
    pub(crate) options: CallOptions,
    pub(crate) routing: Routing,
    /// Whether its first packets only claim a worker.
    pub(crate) is_claim: bool,
    /// The attachment by which the call was made. It may have been moved to another since (RT38).
    pub(crate) of: SessionId,
}

/// Who has sent a packet to a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) member: Member,
    /// What opens the packet; `None` in a group in plaintext.
    pub(crate) seal: Option<SealId>,
}

/// The calls of an endpoint to groups. See the module's documentation.
pub(crate) struct GroupCalls<S> {
    pub(crate) pairs: Pairs<Asked<S>>,
    /// By place.
    attachments: Vec<Option<Attachment>>,
    links: Links,
    pub(crate) sealed: SealedLinks,
    /// By the pair's place.
    bound: Vec<Option<Box<Bound<S>>>>,
    /// Sessions without a pair.
    #[allow(clippy::vec_box, reason = "the boxes go back into the table")]
    spare: Vec<Box<Bound<S>>>,
    is_listed: bool,
}

impl<S> GroupCalls<S> {
    pub(super) fn new() -> GroupCalls<S> {
        GroupCalls {
            pairs: Pairs::new(Default::default()),
            attachments: Vec::new(),
            links: Links::default(),
            sealed: SealedLinks::default(),
            bound: Vec::new(),
            spare: Vec::new(),
            is_listed: false,
        }
    }

    pub(crate) fn attachment(&self, session: SessionId) -> Option<&Attachment> {
        let at = session.is_group().then(|| session.place())?;
        self.attachments.get(at)?.as_ref().filter(|it| it.id.0 == session.generation)
    }

    fn attachment_mut(&mut self, session: SessionId) -> Option<&mut Attachment> {
        let at = session.is_group().then(|| session.place())?;
        self.attachments.get_mut(at)?.as_mut().filter(|it| it.id.0 == session.generation)
    }

    fn attachment_by_id(&self, id: AttachmentId) -> Option<&Attachment> {
        self.attachments.iter().flatten().find(|attachment| attachment.id == id)
    }

    /// The attachments that have not ended.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        let there = self.attachments.iter().enumerate();
        there.filter_map(|(at, it)| Some(SessionId::group(at as u32, it.as_ref()?.id.0)))
    }

    /// The session of the pair with this index. `None` for indices of other sessions.
    #[inline]
    pub(crate) fn bound(&self, index: u32) -> Option<&Bound<S>> {
        self.bound.get(index.checked_sub(PAIR_BIT)? as usize)?.as_deref()
    }

    #[inline]
    pub(crate) fn bound_mut(&mut self, index: u32) -> Option<&mut Bound<S>> {
        self.bound.get_mut(index.checked_sub(PAIR_BIT)? as usize)?.as_deref_mut()
    }

    #[inline]
    pub(crate) fn link(&self, id: LinkId) -> &Link {
        self.links.get(id)
    }

    /// What pairs know of a link, unless it is gone.
    pub(crate) fn path_mut(&mut self, id: LinkId) -> Option<&mut LinkPath> {
        self.links.find_mut(id).map(|link| &mut link.path)
    }

    /// Whom a packet is from, if the packet I/O confirms that (RT10). In a sealed group, what opens
    /// it: `None` as well if its epoch is not taken any more.
    #[inline]
    pub(crate) fn sender(
        &mut self,
        packet: &Packet<'_>,
        block: Option<WorkerBlock>,
        origin: Option<Origin>,
    ) -> Option<Sender> {
        if let Some(bound) = self.bound(packet.session())
            && block.is_none_or(|block| bound.is_named_by(block))
        {
            // Its attachment may have ended.
            let is_its = self.links.get(bound.link).origin.is_of(origin);
            let sender = Sender { member: bound.worker.member, seal: bound.seal };
            return is_its.then_some(sender);
        }
        let Answered { attachment: id, epoch } = self.pairs.answered(packet, block)?;
        let mut attachments = self.attachments.iter_mut().flatten();
        let attachment = attachments.find(|attachment| attachment.id == id)?;
        let worker = block?.worker;
        let expected = match worker {
            WorkerBlock::ROUTER => attachment.origin,
            worker => self.links.get(attachment.link(worker)?).origin,
        };
        if !expected.is_of(origin) {
            return None;
        }
        let seal = match attachment.keys.as_deref_mut() {
            // What is not worth opening needs no link either.
            Some(keys) if self.pairs.knows(packet) => {
                Some(keys.link(epoch?, worker, &mut self.sealed)?)
            }
            Some(_) => return None,
            None => None,
        };
        Some(Sender { member: Member { attachment: id, worker }, seal })
    }

    /// The epoch of these links is not taken any more.
    fn close_links(&mut self, links: Vec<SealId>) {
        let bound = self.bound.iter().flatten().filter_map(|bound| bound.seal);
        let used: HashSet<_> = bound.collect();
        self.sealed.close(links, |id| used.contains(&id));
    }

    pub(crate) fn handle(&mut self, now: Time, arrival: Arrival<'_>) -> Answer<Asked<S>> {
        self.pairs.handle(now, arrival)
    }

    /// Calls that have not ended.
    pub(crate) fn unfinished(&self) -> usize {
        self.pairs.len()
    }

    /// The counters of pairs, and of the sessions that they are or were bound to.
    pub(crate) fn stats(&self) -> (PairStats, ClientStats) {
        let mut sessions = ClientStats::default();
        let bound = self.bound.iter().flatten().chain(&self.spare);
        bound.for_each(|bound| sessions.add(&bound.session.stats()));
        (*self.pairs.stats(), sessions)
    }

    pub(crate) fn footprint_bytes(&self) -> usize {
        let bound = self.bound.iter().flatten().chain(&self.spare);
        bound.map(|bound| size_of::<Bound<S>>() + bound.session.footprint_bytes()).sum()
    }
}

impl<S> Core<S> {
    /// What there is of calls to groups.
    pub(crate) fn group_calls_mut(&mut self) -> &mut GroupCalls<S> {
        self.group_calls.get_or_insert_with(|| Box::new(GroupCalls::new()))
    }

    fn group_link(&self, id: LinkId) -> &Link {
        self.group_calls.as_deref().expect("a roster names it").links.get(id)
    }

    pub(crate) fn group_attachment(&self, session: SessionId) -> Option<&Attachment> {
        self.group_calls.as_deref()?.attachment(session)
    }

    /// Whether an attachment's router knows a worker.
    pub(crate) fn has_group_workers(&self, session: SessionId) -> bool {
        self.group_attachment(session).is_some_and(|it| it.workers_count() > 0)
    }

    /// Calls may be made by this attachment from now on.
    pub(crate) fn add_attachment(&mut self, attachment: Attachment) -> SessionId {
        let calls = self.group_calls_mut();
        calls.pairs.attach(attachment.id, attachment.asked_max, attachment.epoch);
        let free = calls.attachments.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            calls.attachments.push(None);
            calls.attachments.len() - 1
        });
        let session = SessionId::group(place as u32, attachment.id.0);
        calls.attachments[place] = Some(attachment);
        session
    }

    /// First packets name this epoch from now on (RT30).
    pub(crate) fn set_attachment_epoch(
        &mut self,
        session: SessionId,
        epoch: &Epoch,
    ) -> Result<(), GroupError> {
        let calls = self.group_calls.as_deref_mut().ok_or(GroupError::Unknown)?;
        let attachment = calls.attachment_mut(session).ok_or(GroupError::Unknown)?;
        let closed = match (attachment.keys.as_deref_mut(), &epoch.secret) {
            (Some(keys), Some(secret)) => keys.begin(epoch.number, *secret.bytes())?,
            (None, None) => Vec::new(),
            _ => return Err(GroupError::Epoch),
        };
        attachment.epoch = epoch.number;
        let id = attachment.id;
        calls.pairs.set_epoch(id, epoch.number);
        calls.close_links(closed);
        Ok(())
    }

    /// The epoch before an attachment's newest is not taken any more.
    pub(crate) fn end_attachment_epoch(&mut self, session: SessionId) {
        let Some(calls) = self.group_calls.as_deref_mut() else { return };
        let keys = calls.attachment_mut(session).and_then(|it| it.keys.as_deref_mut());
        if let Some(closed) = keys.map(AttachmentKeys::end_before) {
            calls.close_links(closed);
        }
    }

    /// The router has told of a worker (RT36). The route is the caller's if that is refused.
    pub(crate) fn add_member(
        &mut self,
        session: SessionId,
        worker: u16,
        address: SocketAddr,
        (route, origin): (Route, Origin),
    ) -> Result<(), GroupError> {
        let timers = self.config.timers;
        let attachment = self.group_attachment(session).ok_or(GroupError::Unknown)?;
        let known = attachment.link(worker).map(|link| self.group_link(link));
        if known.is_some_and(|known| (known.route, known.origin) == (route, origin)) {
            // It is told again (RT34, RT36): nothing has changed, and one hold of the route is
            // enough.
            self.chores.push(Chore::Release(route));
            return Ok(());
        }
        if known.is_none() && attachment.workers_count() >= MEMBERS_MAX {
            return Err(GroupError::Full);
        }
        let path = LinkPath::new(&timers, &attachment.congestion, &attachment.params);
        self.remove_member(session, worker);
        let holder = self.holders.take(Holder::Server(address), 0, PeerLimits::NONE);
        let holder = holder.expect("there is no limit");
        let calls = self.group_calls_mut();
        let link = Link { route, origin, path, holder, pairs: 0, is_listed: true };
        let link = calls.links.add(link);
        let attachment = calls.attachment_mut(session).expect("it was just found");
        attachment.list(worker, link);
        Ok(())
    }

    /// A worker has gone: pairs that are bound to it fail (RT14).
    pub(crate) fn remove_member(&mut self, session: SessionId, worker: u16) {
        let calls = self.group_calls.as_deref_mut();
        let attachment = calls.and_then(|calls| calls.attachment_mut(session));
        let Some(link) = attachment.and_then(|attachment| attachment.unlist(worker)) else {
            return;
        };
        let calls = self.group_calls_mut();
        let at_link = calls.bound.iter().flatten().filter(|bound| bound.link == link);
        for index in at_link.map(|bound| bound.pair.index).collect::<Vec<_>>() {
            self.fail_bound(index);
        }
        self.unlist(link);
    }

    /// The attachment has ended. What asks by it ends, unless it was moved (RT38); what is bound
    /// goes on (RT35).
    pub(crate) fn detach_group(&mut self, session: SessionId) -> bool {
        let Some(calls) = self.group_calls.as_deref_mut() else { return false };
        let Some(id) = calls.attachment(session).map(|attachment| attachment.id) else {
            return false;
        };
        calls.pairs.detach(id);
        let mut attachment = calls.attachments[session.place()].take().expect("it was just found");
        if let Some(keys) = attachment.keys.take() {
            calls.close_links(keys.into_links());
        }
        for (_, link) in attachment.workers() {
            self.unlist(link);
        }
        self.chores.push(Chore::Release(attachment.route));
        self.end_over();
        true
    }

    /// Ends the calls that ask by an attachment.
    pub(crate) fn end_asked_by(&mut self, session: SessionId) {
        let Some(calls) = self.group_calls.as_deref_mut() else { return };
        let Some(id) = calls.attachment(session).map(|attachment| attachment.id) else { return };
        calls.pairs.end_asked(id);
        self.end_over();
    }

    /// Whether calls that were made by an attachment, which may be gone, are not over.
    pub(crate) fn has_group_calls(&self, session: SessionId) -> bool {
        let calls = self.group_calls.as_deref();
        calls.is_some_and(|calls| !calls.pairs.unended(|asked| asked.of == session).is_empty())
    }

    /// Whether an attachment's numbers are half used (RT3).
    pub(crate) fn is_group_worn(&self, session: SessionId) -> bool {
        let calls = self.group_calls.as_deref();
        let id = calls.and_then(|calls| Some((calls, calls.attachment(session)?.id)));
        id.is_some_and(|(calls, id)| calls.pairs.is_worn(id))
    }

    /// A roster does not have the link any more.
    fn unlist(&mut self, link: LinkId) {
        self.group_calls_mut().links.get_mut(link).is_listed = false;
        self.drop_unused(link);
    }

    fn drop_unused(&mut self, link: LinkId) {
        if let Some(link) = self.group_calls_mut().links.take_unused(link) {
            self.chores.push(Chore::Release(link.route));
            self.holders.give(link.holder, 0);
        }
    }

    /// Lets groups do something in this turn.
    #[inline]
    pub(crate) fn list_group_calls(&mut self) {
        if let Some(calls) = &mut self.group_calls
            && !calls.is_listed
        {
            calls.is_listed = true;
            self.dirty_clients.push(GROUP_TURN);
        }
    }
}

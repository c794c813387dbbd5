//! What a worker has to say by the end of a turn: readies, rejections of what has lapsed, feedback.

use petasos_proto::SessionParams;
use petasos_proto::taken::{Asker, Due};
use petasos_wire::{Header, Kind};

use super::{GroupRequests, TakenOf};
use crate::core::{Core, Half};

impl<S> Core<S> {
    /// Sends what is due of requests, and the memberships' feedback (RT20).
    #[inline(never)]
    pub(crate) fn pump_group_requests(&mut self) {
        let now = self.now;
        let Some(requests) = self.group_requests.as_deref_mut() else { return };
        requests.is_listed = false;
        while let Some(requests) = self.group_requests.as_deref_mut()
            && let Some(due) = requests.taken.poll_due(now)
        {
            self.on_due(due);
        }
        let Core { group_requests, tx, .. } = self;
        let Some(requests) = group_requests.as_deref_mut() else { return };
        if requests.idle_bound.is_some() {
            requests.choose_bound();
        }
        let GroupRequests { memberships, taken, .. } = requests;
        for membership in memberships.iter().flatten() {
            if let Some(joined) = membership.joined.as_deref()
                && let Some(given) = taken.given(membership.id)
                && let Some(counts) = given.poll_feedback(now)
            {
                let told = joined.feedback(counts, given.take_failed());
                tx.push_bare(joined.feedback, told.header(), &[], None);
            }
        }
        self.note_group_timers();
    }

    fn on_due(&mut self, due: Due<TakenOf>) {
        match due {
            Due::Ready { id, session, asker, is_running } => {
                let of = self.group_requests_mut().taken.context(id).copied();
                let of = of.expect("a request that is not over has its data");
                if is_running {
                    self.bind_running(id, &asker, session.tag, of);
                }
                let credits = self.credits_for(&asker, id.index);
                let header = Header::for_session(asker.pair, asker.pair_tag)
                    .with_request(Kind::Ready, asker.request, 0)
                    .with_server(asker.echo, is_running.into(), credits);
                self.push_from_taken(id.index, session, header);
            }
            Due::Lapsed { id, code } => self.reject_bound(id, code),
            Due::Gone { id, .. } => self.free_taken(id),
        }
    }

    /// What ready grants to a pair (W26): a long request, which is to come, has a share of the
    /// receive queue from now on, and begins with what its place has had of it before.
    fn credits_for(&mut self, asker: &Asker, index: u32) -> u32 {
        let session = self.group_requests_mut().session(index);
        let is_long = |params: &SessionParams| asker.message_bytes > params.payload_bytes;
        if session.is_some_and(|bound| is_long(bound.session.params())) {
            self.share_with(Half::Server(index));
        }
        let session = self.group_requests_mut().session(index);
        session.map_or(1, |bound| bound.session.credits())
    }
}

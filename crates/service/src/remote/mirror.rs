//! Copies of requests that go to another server as well (E2).
//!
//! A copy is a call of its own. It begins behind the policies of its caller, with what these have
//! made of the request, and passes those of its server, which cannot tell it from the caller's
//! other calls. Nobody is told how it ends.
//!
//! # Bounds
//!
//! How many copies of a hub are under way, and their bytes, is bounded
//! ([`Copies`](crate::copies::Copies)). More are not made, since the calls that are copied matter
//! more. A copy is cancelled when the time of the call is up, at the latest after [`LIFE_MAX`].

use std::time::Duration;

use petasos_base::Time;
use petasos_call::Status;
use petasos_engine::{Application as Number, Finished, Peer};
use petasos_message::NativeMsg;

use super::incoming::Served;
use crate::application::{Application, Memory};
use crate::beyond::{Outgoing, RemoteCaller, ToHub};
use crate::carrier::Carrier;
use crate::copies::CopyCounts;
use crate::host::Server;
use crate::hub::{Hub, served};
use crate::stats::Way;
use crate::versions::retyped;

/// So long a copy may take.
const LIFE_MAX: Duration = Duration::from_secs(30);

impl<M: Memory> Application<M> {
    /// A copy of a request that has left the datapath, for a name that one of its engines knows.
    fn copy_of(
        &self,
        item: &Finished,
        message: &NativeMsg,
        peer: Peer,
        now: Time,
    ) -> Option<Outgoing> {
        let (target, outgoing) = (self.fields.name_of(peer)?, self.outgoing(item.call)?);
        let deadline = item.deadline.min(now + LIFE_MAX);
        let (message, metadata) = (Some(message.copy()), item.metadata.clone());
        // It goes as its target does: who has named that decides.
        Some(Outgoing { target, message, metadata, deadline, is_sealed: false, ..outgoing })
    }
}

impl<M: Memory> Hub<M> {
    /// Sends a copy of a request that has passed all policies of an application.
    #[cold]
    pub(crate) fn mirror(
        &mut self,
        number: Number,
        item: &Finished,
        message: &NativeMsg,
        (peer, now): (Peer, Time),
    ) {
        let Some(remote) = &self.remote else { return };
        let has_room = remote.copies.has_room(message.image_bytes());
        let application = self.applications.get(&number.0);
        let copy = application.filter(|_| has_room);
        let copy = copy.and_then(|application| application.copy_of(item, message, peer, now));
        let begun = copy.map(|copy| self.begin_copy(number, copy, now));
        let counts = &mut self.remote.as_mut().expect("it was there").copies.counts;
        match begun {
            Some(Ok(())) => counts.sent += 1,
            Some(Err(_)) | None => counts.dropped += 1,
        }
    }

    fn begin_copy(&mut self, number: Number, copy: Outgoing, now: Time) -> Result<(), Status> {
        let bytes = copy.message.as_ref().map_or(0, NativeMsg::image_bytes) as u32;
        let nobody = Carrier::Nobody { until: copy.deadline, bytes };
        let application = self.application(number).expect("it calls");
        let (peer, identity) = (Peer(application.policed.number.0), application.identity());
        let message_bytes_max = application.limits.message_bytes_max;
        let caller = RemoteCaller { peer, identity, is_sealed: false };
        let (hub, server) = match self.host.server(&copy.target) {
            Some(Server { hub, application }) if hub == self.id => {
                return self.begin_copy_here(application, caller, (copy, nobody, number), now);
            }
            Some(Server { hub, application }) => (hub, Some(application)),
            None => {
                let why = || Status::unavailable("nobody serves what a policy copies to");
                (self.host.transport().ok_or_else(why)?, None)
            }
        };
        let (crossing, carrier) = match hub == self.id {
            true => (None, Carrier::Transport),
            false => {
                let (partner, is_of_host) = (number.0, true);
                let to = ToHub { hub, server, caller, partner, is_of_host, message_bytes_max };
                (Some(Box::new(to)), Carrier::Hub(hub))
            }
        };
        let copy = Outgoing { crossing, ..copy };
        self.begin_through([nobody, carrier], copy, (message_bytes_max, number.0)).map(drop)
    }

    /// The server is an application of this hub.
    fn begin_copy_here(
        &mut self,
        server: Number,
        caller: RemoteCaller,
        (copy, carrier, number): (Outgoing, Carrier, Number),
        now: Time,
    ) -> Result<(), Status> {
        let gone = || Status::unavailable("the server has gone");
        let callee = self.applications.get(&server.0).ok_or_else(gone)?;
        let at = served(&self.host, callee, &copy.binding, usize::from(copy.method))?;
        let to = (callee.types(at), callee.method(at).request);
        let bytes_max = callee.limits.message_bytes_max;
        let body = copy.message.map(|message| retyped(message, to, bytes_max)).transpose()?;
        let (partner, is_idempotent, way) = (number.0, copy.is_idempotent, Way::FromLocal);
        let served = Served { server, at, partner, is_idempotent, carrier, way };
        self.begin_served(served, caller, (body, copy.metadata, copy.deadline), now).map(drop)
    }

    /// Cancels the copies whose time is up. Gives the time when the next one is.
    #[inline]
    pub(crate) fn end_late_copies(&mut self, now: Time) -> Time {
        let Some(remote) = &self.remote else { return Time::NEVER };
        match remote.copies.due() {
            due if due > now => due,
            _ => self.cancel_late_copies(now),
        }
    }

    #[cold]
    fn cancel_late_copies(&mut self, now: Time) -> Time {
        loop {
            let copies = &self.remote.as_ref().expect("it has copies").copies;
            let Some((until, call)) = copies.first() else { return Time::NEVER };
            if until > now {
                return until;
            }
            self.remote_cancel(call, now);
        }
    }

    /// What became of requests of which policies wanted copies.
    pub fn copy_counts(&self) -> CopyCounts {
        self.remote.as_ref().map(|remote| remote.copies.counts).unwrap_or_default()
    }
}

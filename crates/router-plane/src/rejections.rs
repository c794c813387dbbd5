//! What the plane rejects (RT24, RT25).

use petasos_wire::RejectCode;

use crate::frames::FrameId;
use crate::outbox::Receiver;
use crate::plane::Plane;
use crate::reject::Rejection;

impl Plane {
    pub(crate) fn reject_waiting(&mut self, token: FrameId, code: RejectCode) {
        let (waiting, bytes) = self.frames.get(token);
        let rejection = Rejection::of(bytes, self.group, code);
        match self.asker(waiting).is_some() {
            true => self.push_rejection(waiting.client.0, &rejection, code),
            false => self.stats.orphaned += 1,
        }
        self.leave(token);
    }

    /// Rejects a first packet (RT25), to the address with which its client has attached.
    #[cold]
    pub(crate) fn reject(&mut self, bytes: &[u8], client: u32, code: RejectCode) {
        let rejection = Rejection::of(bytes, self.group, code);
        self.push_rejection(client, &rejection, code);
    }

    fn push_rejection(&mut self, number: u32, rejection: &Rejection, code: RejectCode) {
        let Plane { clients, out, secrets_of_epochs, group, stats, rejections, .. } = self;
        let Some(client) = clients.get_mut(number) else { return };
        client.counts.rejected += 1;
        let to = Receiver::Client(client.route);
        if group.is_sealed {
            let link = client.links.get(secrets_of_epochs, rejection.epoch, number);
            let Some(bytes) = link.and_then(|link| rejection.sealed(link)) else {
                stats.unsealed += 1;
                return;
            };
            out.push(to, &bytes);
        } else {
            out.push(to, &rejection.plain());
        }
        stats.rejected += 1;
        rejections.count(code);
    }
}

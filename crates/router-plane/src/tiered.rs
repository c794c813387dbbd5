//! What a plane does with the tier before it.

use core::time::Duration;

use petasos_base::Time;
use petasos_router::{Admission, Affinity, Request, Rule};
use petasos_wire::{Packet, RejectCode, RoutedPacket};

use crate::plane::Plane;
use crate::reject::code_of;
use crate::tier::{Tier, TierPacket, Tiered};

/// While requests come, what the tier has done is looked at this often.
const LOOK: Duration = Duration::from_millis(1);
/// Without any for this long, the tier is asked to wake the plane.
const QUIET: Duration = Duration::from_millis(50);
/// What waits in the tier, and nothing moves for this long, is taken over: it may become too old.
const STUCK: Duration = Duration::from_millis(1);
/// Requests that are taken over from the tier in a turn.
const TAKEN_MAX: usize = 64;

impl Plane {
    /// Puts a tier before the plane, which has no clients and workers yet, and whose packet I/O
    /// gets what the tier passes on.
    ///
    /// # Panics
    /// If there are clients or workers, or there may be more workers than the tier knows.
    pub fn set_tier(&mut self, mut tier: Box<dyn Tier>) {
        assert!(
            self.clients.live() == 0 && self.members.iter().next().is_none(),
            "nobody is there"
        );
        assert!(self.core.config().workers_max <= tier.workers_max(), "it knows all workers");
        self.core.share(tier.slots());
        tier.set_epochs(self.epochs);
        let [quiet_since, stuck_since, look_at] = [Time::ZERO; 3];
        self.tier = Some(Tiered { tier, is_waiting: false, quiet_since, stuck_since, look_at });
        self.start_tier();
    }

    /// The tier knows how to compare loads, and nothing else.
    pub(crate) fn start_tier(&mut self) {
        let config = self.core.config();
        let is_known = config.policy.rule == Rule::ShortestQueue && config.hold.is_none();
        if let Some(tiered) = &mut self.tier {
            tiered.tier.start(is_known);
        }
    }

    /// Learns what the tier has done, before anything is decided.
    pub(crate) fn learn_from_tier(&mut self, now: Time) {
        if self.tier.is_none() {
            return;
        }
        let has_news = self.core.learn_shared(now);
        let Some(Tiered { tier, quiet_since, stuck_since, .. }) = &mut self.tier else { return };
        if has_news || tier.parked() == 0 {
            *stuck_since = now;
        }
        if has_news || tier.parked() > 0 || self.core.outstanding() > 0 {
            *quiet_since = now;
        }
    }

    /// Takes over what waits in the tier, if it can go, if nobody will take it, or if it would wait
    /// for too long: for others that wait here, or for nothing.
    pub(crate) fn take_from_tier(&mut self, now: Time) {
        for _ in 0..TAKEN_MAX {
            let Some(Tiered { tier, stuck_since, .. }) = &mut self.tier else { return };
            let core = &self.core;
            let can_go = core.has_free() || !core.has_willing();
            let is_stuck = core.waiting() > 0 || now - *stuck_since >= STUCK;
            let takes = tier.parked() > 0 && (can_go || is_stuck);
            let packet = if takes { tier.take_parked() } else { None };
            let Some(packet) = packet.or_else(|| tier.take_returned()) else { return };
            self.on_parked(&packet, now);
            // Those that can go, go first: there may be room for more.
            self.decide(now);
        }
    }

    /// A first packet whose number the tier has taken, and that has waited.
    fn on_parked(&mut self, packet: &TierPacket, now: Time) {
        let TierPacket { bytes, waited } = packet;
        let parsed = Packet::parse(bytes).ok();
        let first = parsed.and_then(|packet| {
            let tag = packet.tag();
            Some((RoutedPacket::from_client(packet, self.group).ok()?, tag))
        });
        // The tier has checked it, so it is void only if its client is gone.
        let asker = first.and_then(|(first, tag)| {
            let client = self.clients.get_mut(first.client())?;
            (client.tag == tag).then(|| {
                client.counts.requests += 1;
                (first, client.waiting)
            })
        });
        let Some((first, waiting)) = asker else {
            self.stats.orphaned += 1;
            return;
        };
        match self.judge(&first, waiting, now) {
            Ok((_, Time::NEVER)) => self.route_since(bytes, &first, Time::NEVER, *waited, now),
            Ok((_, expires)) if expires.nanos_since(now) > waited.as_nanos() as u64 => {
                let expires = Time::from_nanos(expires.as_nanos() - waited.as_nanos() as u64);
                self.route_since(bytes, &first, expires, *waited, now);
            }
            Ok(_) => self.reject(bytes, first.client(), RejectCode::Expired),
            Err(code) => self.reject(bytes, first.client(), code),
        }
    }

    fn route_since(
        &mut self,
        bytes: &[u8],
        first: &RoutedPacket<'_>,
        expires: Time,
        waited: Duration,
        now: Time,
    ) {
        let (token, client) = (self.frames.take(), first.client());
        let request =
            Request { token, affinity: Affinity::Any, priority: first.priority(), expires };
        let since = Time::from_nanos(now.as_nanos().saturating_sub(waited.as_nanos() as u64));
        // What has waited as long as it may, the core finds with its next look at the queue.
        match self.core.handle_request(since, request) {
            Admission::Admitted => self.keep(token, bytes, client, expires),
            Admission::Displaced(other) => {
                self.keep(token, bytes, client, expires);
                self.reject_waiting(other, RejectCode::QueueFull);
            }
            Admission::Refused(token, why) => {
                self.frames.give(token);
                self.reject(bytes, client, code_of(why));
            }
        }
    }

    /// Tells the tier what was decided, and when to wake the plane.
    pub(crate) fn tell_tier(&mut self, now: Time, was_busy: bool) {
        let Some(Tiered { tier, is_waiting, quiet_since, look_at, .. }) = &mut self.tier else {
            return;
        };
        self.core.publish();
        // What the tier has given as well.
        self.stats.given = self.core.counts().given;
        let waits = self.core.waiting() > 0;
        if core::mem::replace(is_waiting, waits) != waits {
            tier.set_waiting(waits);
        }
        if was_busy || waits {
            *quiet_since = now;
        }
        if now - *quiet_since < QUIET {
            *look_at = now + LOOK;
        } else if *look_at != Time::NEVER {
            tier.doze();
            // What has come before it heard that is not quiet.
            let has_news = self.core.learn_shared(now) || tier.parked() > 0;
            *quiet_since = if has_news { now } else { *quiet_since };
            *look_at = if has_news { now + LOOK } else { Time::NEVER };
        }
    }
}

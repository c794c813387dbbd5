//! Attachments: the routers by which this endpoint's calls ask for workers.

use core::time::Duration;
use std::net::SocketAddr;

use petasos_base::Time;
use petasos_netio::{Origin, Route};
use petasos_proto::pairs::AttachmentId;
use petasos_proto::{CongestionConfig, SessionParams};

use super::keys::AttachmentKeys;
use super::links::LinkId;

/// Pairs without an answer that say that a router's packets go nowhere (RT38).
const SILENCES: u32 = 3;
/// The time within which these have to be.
const SILENT_WITHIN: Duration = Duration::from_secs(2);

/// What an endpoint and a router have agreed on (RT33).
pub(crate) struct Attachment {
    pub(crate) id: AttachmentId,
    /// The client's number and tag at the router.
    pub(crate) client: u32,
    pub(crate) tag: u32,
    /// The epoch that first packets name (RT30).
    pub(crate) epoch: u16,
    /// Of a sealed group.
    pub(crate) keys: Option<Box<AttachmentKeys>>,
    pub(crate) asked_max: u32,
    /// The data address with which the client has attached (RT26).
    pub(crate) reply: SocketAddr,
    /// Where first packets go, and rejections come from.
    pub(crate) route: Route,
    pub(crate) origin: Origin,
    /// Of the sessions of its pairs, but for names and tags.
    pub(crate) params: SessionParams,
    pub(crate) congestion: CongestionConfig,
    roster: Roster,
    /// Pairs that have had no answer for long, since when, and how many.
    silence: (Time, u32),
}

/// Workers by number, ascending.
#[derive(Default)]
struct Roster(Vec<(u16, LinkId)>);

impl Attachment {
    pub(crate) fn new(
        id: AttachmentId,
        grant: &petasos_control::AttachGrant,
        reply: SocketAddr,
        (route, origin): (Route, Origin),
        params: SessionParams,
        congestion: CongestionConfig,
        keys: Option<Box<AttachmentKeys>>,
    ) -> Attachment {
        Attachment {
            id,
            client: grant.client,
            tag: grant.tag,
            epoch: grant.epoch.number,
            keys,
            asked_max: grant.asked_max,
            reply,
            route,
            origin,
            params,
            congestion,
            roster: Roster::default(),
            silence: (Time::ZERO, 0),
        }
    }

    /// Counts a pair that has had no answer for long. Returns whether it is the last of
    /// [`SILENCES`] within [`SILENT_WITHIN`].
    pub(super) fn note_silence(&mut self, now: Time) -> bool {
        let (since, count) = self.silence;
        let goes_on = count > 0 && now - since <= SILENT_WITHIN;
        self.silence = if goes_on { (since, count + 1) } else { (now, 1) };
        self.silence.1 == SILENCES
    }

    /// The link to a worker, if the roster has it.
    #[inline]
    pub(crate) fn link(&self, worker: u16) -> Option<LinkId> {
        let at = self.roster.0.binary_search_by_key(&worker, |(number, _)| *number).ok()?;
        Some(self.roster.0[at].1)
    }

    /// Puts a worker into the roster, instead of an earlier one with its number.
    pub(super) fn list(&mut self, worker: u16, link: LinkId) {
        let Roster(workers) = &mut self.roster;
        match workers.binary_search_by_key(&worker, |(number, _)| *number) {
            Ok(at) => workers[at].1 = link,
            Err(at) => workers.insert(at, (worker, link)),
        }
    }

    /// Takes a worker off the roster.
    pub(super) fn unlist(&mut self, worker: u16) -> Option<LinkId> {
        let Roster(workers) = &mut self.roster;
        let at = workers.binary_search_by_key(&worker, |(number, _)| *number).ok()?;
        Some(workers.remove(at).1)
    }

    pub(super) fn workers(&self) -> impl Iterator<Item = (u16, LinkId)> {
        self.roster.0.iter().copied()
    }

    pub(crate) fn workers_count(&self) -> usize {
        self.roster.0.len()
    }
}

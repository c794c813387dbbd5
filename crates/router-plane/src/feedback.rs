//! A loop that hears feedback, beside a plane that has first packets only: the split of R2P2's
//! router (section 4.2).
//!
//! Who may touch what: the loop and its packet I/O belong to one thread, the plane to another; they
//! share a [`FeedbackBoard`] and these counters. The plane's caller tells the loop who has joined
//! and ended.

use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::sync::{AtomicU64, Ordering};
use petasos_netio::{Frame, Origin, PacketIo, Route, RouteError};
use petasos_router::{FeedbackBoard, HeardWorker, Put, WorkerId};
use petasos_wire::{Feedback, Packet};

use crate::members::MemberJoined;

/// What both have.
#[derive(Debug)]
struct Heard {
    board: FeedbackBoard,
    /// Packets that were void, and feedback that was not the newest: the loop alone writes these.
    void: AtomicU64,
    stale: AtomicU64,
}

/// The plane's side.
#[derive(Debug)]
pub(crate) struct HeardElsewhere {
    shared: Arc<Heard>,
    /// What was counted there when it was looked at last.
    void: u64,
    stale: u64,
}

impl HeardElsewhere {
    /// What both sides of a plane with so many places have.
    pub(crate) fn split(places: usize) -> (HeardElsewhere, FeedbackLoop) {
        let [void, stale] = [0, 0].map(AtomicU64::new);
        let shared = Arc::new(Heard { board: FeedbackBoard::new(places), void, stale });
        let members = (0..places).map(|_| None).collect();
        let heard = FeedbackLoop { shared: shared.clone(), members };
        (HeardElsewhere { shared, void: 0, stale: 0 }, heard)
    }

    pub(crate) fn board(&self) -> &FeedbackBoard {
        &self.shared.board
    }

    /// Packets that were void, and feedback that was not the newest, since the last time.
    pub(crate) fn take_counts(&mut self) -> (u64, u64) {
        let [void, stale] =
            [&self.shared.void, &self.shared.stale].map(|it| it.load(Ordering::Relaxed));
        let since = |before: &mut u64, now: u64| now - core::mem::replace(before, now);
        (since(&mut self.void, void), since(&mut self.stale, stale))
    }
}

/// A worker that has joined the plane.
struct Member {
    heard: HeardWorker,
    route: Route,
    origin: Origin,
    own_tag: u32,
    secret: u64,
}

/// What a turn of a [`FeedbackLoop`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeardTurn {
    /// Something has arrived.
    pub is_busy: bool,
    /// The plane sleeps, and has to be woken: there is what it waits for.
    pub wakes: bool,
}

/// See the module's documentation.
pub struct FeedbackLoop {
    shared: Arc<Heard>,
    /// By their places.
    members: Box<[Option<Member>]>,
}

impl core::fmt::Debug for FeedbackLoop {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FeedbackLoop").finish_non_exhaustive()
    }
}

impl FeedbackLoop {
    /// A worker has joined the plane, and sends its feedback from this address.
    ///
    /// # Errors
    /// If the address cannot be reached by this packet I/O: so nothing of the worker is heard.
    pub fn join(
        &mut self,
        io: &mut impl PacketIo,
        joined: &MemberJoined,
        address: SocketAddr,
    ) -> Result<(), RouteError> {
        let route = io.route(address)?;
        let (origin, heard) = (io.origin(route), self.shared.board.hear(joined.id));
        let MemberJoined { id, tag: own_tag, secret, .. } = *joined;
        let member = Member { heard, route, origin, own_tag, secret };
        if let Some(before) = self.members[id.index()].replace(member) {
            io.release_route(before.route);
        }
        Ok(())
    }

    /// A membership has ended.
    pub fn end(&mut self, io: &mut impl PacketIo, id: WorkerId) {
        let member = self.members[id.index()].take_if(|member| member.heard.id() == id);
        if let Some(member) = member {
            io.release_route(member.route);
        }
    }

    /// Hears one batch.
    pub fn turn(&mut self, io: &mut impl PacketIo) -> HeardTurn {
        let batch = io.receive();
        let mut turn = HeardTurn { is_busy: !batch.chunks.is_empty(), wakes: false };
        let (mut void, mut stale) = (0, 0);
        let mut frames = batch.frames();
        while let Some(Frame { bytes, .. }) = frames.next() {
            match self.hear(bytes, frames.origin()) {
                Some(Put::There) => {}
                Some(Put::Wakes) => turn.wakes = true,
                Some(Put::Stale) => stale += 1,
                None => void += 1,
            }
        }
        let Heard { void: all_void, stale: all_stale, .. } = &*self.shared;
        for (count, news) in [(all_void, void), (all_stale, stale)] {
            count.store(count.load(Ordering::Relaxed) + news, Ordering::Relaxed);
        }
        turn
    }

    /// RT22; `None`: it is void.
    fn hear(&mut self, bytes: &[u8], origin: Option<Origin>) -> Option<Put> {
        let told = Feedback::of(Packet::parse(bytes).ok()?).ok()?;
        let member = self.members.get_mut(told.session as usize)?.as_mut()?;
        let is_its = (member.own_tag, member.secret) == (told.tag, told.secret);
        if !is_its || !member.origin.is_of(origin) {
            return None;
        }
        let board = &self.shared.board;
        let put = board.put(&mut member.heard, &told.counts);
        if put != Put::Stale && told.failed > 0 {
            board.add_failed(member.heard.id(), told.failed.into());
        }
        Some(put)
    }
}

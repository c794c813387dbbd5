//! A member as a server: its endpoint's methods, and its calls to other members.
//!
//! The raw interface. Clients call methods 1 to 6, with [`Command`](crate::state::Command)s,
//! queries and [`Admin`](crate::member::Admin) requests; responses are [`Reply`]s, and JSON of
//! [`MemberStatus`]. Members call 16 and 17.

mod frame;
mod links;
mod status;

use std::sync::{Arc, OnceLock};

use petasos_base::{Clock, Time};
use petasos_endpoint::{
    Backend, Completion, Context, Endpoint, EndpointConfig, Notifier, Payload, Request,
    RequestHandle,
};
use petasos_raft::{Diverged, MemberId, Refused};

use self::frame::{Speaker, push_piece, read_piece};
use self::links::Links;
pub use self::status::{Charter, Counts, ListedMember, MachineKind, MemberStatus};
use crate::log::Log;
use crate::machine::StateMachine;
use crate::member::{Action, Freshness, Member};
use crate::reply::{Reply, Status};

/// A command.
pub const COMMAND: u16 = 1;
/// A read: freshness (1; 0 the latest state, 1 what this member has applied), then a query.
pub const READ: u16 = 2;
/// The member's status, as JSON.
pub const STATUS: u16 = 3;
/// An operator's request.
pub const ADMIN: u16 = 4;
/// The digest at the last mark (QR23): the reply's number is the entry, its bytes the digest (16).
pub const DIGEST: u16 = 5;
/// A read of what this member has applied, once that is more than an entry: the entry's place (8),
/// then a query. It is answered after a second at the latest.
pub const FOLLOW: u16 = 6;
/// A replica's message.
pub const REPLICATE: u16 = 16;
/// A piece of a snapshot.
pub const PIECE: u16 = 17;

/// Why a member ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Its log contradicts the group's.
    #[error(transparent)]
    Diverged(#[from] Diverged),
    /// Its files have failed.
    #[error(transparent)]
    Files(#[from] petasos_journal::Error),
}

/// The state of a member's endpoint.
pub struct Server<M, L> {
    member: Member<M, L, RequestHandle>,
    group: (u128, Charter),
    links: Links,
    clock: Clock,
    /// The configuration that the links are of.
    followed: Option<u64>,
    /// Members whose sessions have ended. Kept for its memory.
    gone: Vec<MemberId>,
    /// Snapshots' pieces that are under way, by their members.
    pieces: Vec<(MemberId, petasos_journal::SnapshotId)>,
    ended: Option<Ended>,
}

/// Wakes a member's loop, from any thread, once it has one.
#[derive(Clone, Default)]
pub struct Waker(Arc<OnceLock<Notifier>>);

impl Waker {
    /// Makes the loop turn.
    pub fn wake(&self) {
        if let Some(notifier) = self.0.get() {
            notifier.notify();
        }
    }
}

impl<M: StateMachine + Send + 'static, L: Log + 'static> Server<M, L> {
    /// The endpoint of a member, with all methods. `waker` is what the member wakes its loop with.
    ///
    /// # Errors
    /// The system's, if it has no descriptor for the loop's mailbox.
    pub fn open(
        member: Member<M, L, RequestHandle>,
        group: (u128, Charter),
        incarnation: u128,
        config: EndpointConfig,
        io: impl Into<Backend>,
        clock: Clock,
        waker: &Waker,
    ) -> std::io::Result<Endpoint<Server<M, L>>> {
        let own = Speaker { incarnation, id: member.replica().id() };
        let server = Server {
            member,
            group,
            links: Links::new(own),
            clock: clock.clone(),
            followed: None,
            gone: Vec::new(),
            pieces: Vec::new(),
            ended: None,
        };
        let mut endpoint = Endpoint::new(config, io, clock, server);
        let notifier = endpoint.notifier()?;
        // What woke before had nobody to notify.
        notifier.notify();
        let _ = waker.0.set(notifier);
        endpoint.register(COMMAND, command);
        endpoint.register(READ, read);
        endpoint.register(STATUS, tell_status);
        endpoint.register(ADMIN, admin);
        endpoint.register(DIGEST, tell_digest);
        endpoint.register(FOLLOW, follow);
        endpoint.register(REPLICATE, replicate);
        endpoint.register(PIECE, receive_piece);
        endpoint.on_turn(end_turn);
        Ok(endpoint)
    }

    /// The process is about to end: if the member leads, it hands over (QR7).
    pub fn leave(&mut self) {
        self.member.leave(microseconds(self.clock.now()));
    }

    /// The member.
    pub fn member(&self) -> &Member<M, L, RequestHandle> {
        &self.member
    }

    fn end(&mut self, why: impl Into<Ended>) {
        self.ended.get_or_insert(why.into());
    }
}

/// Runs a member's loop until `is_over`, or until the member has to end.
///
/// # Errors
/// Why it ends.
pub fn run<M: StateMachine + Send + 'static, L: Log + 'static>(
    endpoint: &mut Endpoint<Server<M, L>>,
    mut is_over: impl FnMut(&mut Server<M, L>, Time) -> bool,
) -> Result<(), Ended> {
    let mut over = false;
    while !over {
        endpoint.run(|server, cx| {
            over = is_over(server, cx.now());
            over || server.ended.is_some() || server.links.has_chores()
        });
        if let Some(ended) = endpoint.state_mut().ended.take() {
            return Err(ended);
        }
        for session in endpoint.state_mut().links.take_closing() {
            endpoint.close_session(session);
        }
        while let Some((id, address)) = endpoint.state().links.wanted() {
            // Whoever cannot be called now is called again later.
            let session = endpoint.connect(address).ok();
            let now = endpoint.context().now();
            endpoint.state_mut().links.connecting(id, session, now);
        }
    }
    Ok(())
}

fn microseconds(time: Time) -> u64 {
    time.as_nanos() / 1000
}

fn free<S>(cx: &mut Context<S>, payload: Payload<'_>) {
    if let Payload::Buffer(buffer) = payload {
        cx.free(buffer);
    }
}

fn command<M: StateMachine + Send + 'static, L: Log>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
    asked: Request<'_>,
) {
    server.member.submit(microseconds(cx.now()), asked.handle, &asked.payload);
    free(cx, asked.payload);
}

fn read<M: StateMachine + Send + 'static, L: Log>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
    asked: Request<'_>,
) {
    // A lease has to hold after the read has come, and the turn began before.
    let now = if server.group.1.lease_drift.is_some() { server.clock.now() } else { cx.now() };
    let now_us = microseconds(now);
    match asked.payload.as_slice().split_first() {
        Some((0, query)) => server.member.read(now_us, asked.handle, Freshness::Latest, query),
        Some((1, query)) => server.member.read(now_us, asked.handle, Freshness::Stale, query),
        _ => respond(cx, asked.handle, &Reply::of(Status::Malformed)),
    }
    free(cx, asked.payload);
}

fn follow<M: StateMachine + Send + 'static, L: Log>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
    asked: Request<'_>,
) {
    match asked.payload.as_slice().split_first_chunk() {
        Some((index, query)) => {
            let index = u64::from_le_bytes(*index);
            server.member.follow(microseconds(cx.now()), asked.handle, index, query);
        }
        None => respond(cx, asked.handle, &Reply::of(Status::Malformed)),
    }
    free(cx, asked.payload);
}

fn respond<S>(cx: &mut Context<S>, handle: RequestHandle, reply: &Reply<'_>) {
    let mut bytes = Vec::new();
    reply.append(&mut bytes);
    cx.respond_with(handle, &bytes);
}

fn admin<M: StateMachine + Send + 'static, L: Log>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
    asked: Request<'_>,
) {
    server.member.admin(microseconds(cx.now()), asked.handle, &asked.payload);
    free(cx, asked.payload);
}

fn tell_status<M: StateMachine + Send + 'static, L: Log>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
    asked: Request<'_>,
) {
    let counted = (server.links.impostors, server.links.lost);
    let status = status::of(&server.member, server.group, counted);
    let bytes = serde_json::to_vec(&status).expect("numbers and texts are JSON");
    cx.respond_with(asked.handle, &bytes);
    free(cx, asked.payload);
}

fn tell_digest<M: StateMachine + Send + 'static, L: Log>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
    asked: Request<'_>,
) {
    let marked = server.member.state().marked();
    let (number, bytes) = marked.map_or((0, 0), |digest| (digest.index, digest.value));
    let reply = Reply { status: Status::Done, number, bytes: &bytes.to_le_bytes() };
    respond(cx, asked.handle, &reply);
    free(cx, asked.payload);
}

fn replicate<M: StateMachine + Send + 'static, L: Log>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
    asked: Request<'_>,
) {
    let Request { handle, payload, .. } = asked;
    match server.hear(cx.now(), &payload, None) {
        Some(from) => server.links.open(cx, from, handle),
        None => cx.respond_with(handle, &[]),
    }
    free(cx, payload);
}

impl<M: StateMachine + Send + 'static, L: Log> Server<M, L> {
    /// Takes a frame with a message, and says from whom it is. `expected` has been asked for it.
    fn hear(&mut self, now: Time, frame: &[u8], expected: Option<MemberId>) -> Option<MemberId> {
        let (speaker, message) = Speaker::read(frame)?;
        let is_expected = expected.is_none_or(|expected| expected == speaker.id);
        if !is_expected || !self.links.is_credible(speaker) {
            return None;
        }
        match self.member.message(microseconds(now), message) {
            Ok(()) => Some(speaker.id),
            // It is counted.
            Err(Refused::Malformed | Refused::Misaddressed) => None,
            Err(Refused::Diverged(diverged)) => {
                self.ended.get_or_insert(diverged.into());
                None
            }
        }
    }
}

fn receive_piece<M: StateMachine + Send + 'static, L: Log>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
    asked: Request<'_>,
) {
    let Request { handle, payload, .. } = asked;
    let now_us = microseconds(cx.now());
    let spoken = Speaker::read(&payload).filter(|(who, _)| server.links.is_credible(*who));
    match spoken.and_then(|(_, piece)| read_piece(piece)) {
        Some((id, at, bytes)) => server.member.piece(now_us, handle, id, at, bytes),
        None => respond(cx, handle, &Reply::of(Status::Malformed)),
    }
    free(cx, payload);
}

/// The end of a turn: the member's, and what follows from it.
fn end_turn<M: StateMachine + Send + 'static, L: Log + 'static>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
) -> Time {
    let now_us = microseconds(cx.now());
    let retry_at = server.links.look(cx, &mut server.gone);
    while let Some(id) = server.gone.pop() {
        server.member.disconnected(now_us, id);
    }
    if let Err(diverged) = server.member.end_turn(now_us) {
        server.end(diverged);
        return Time::NEVER;
    }
    let membership = Some(server.member.replica().membership_index());
    if server.followed != membership {
        server.followed = membership;
        server.links.follow(server.member.membership());
    }
    server.act(cx);
    let next_us = server.member.next_turn_us();
    let member_at = next_us.checked_mul(1000).map_or(Time::NEVER, Time::from_nanos);
    member_at.min(retry_at)
}

impl<M: StateMachine + Send + 'static, L: Log + 'static> Server<M, L> {
    fn act(&mut self, cx: &mut Context<Server<M, L>>) {
        let Server { member, links, pieces, ended, .. } = self;
        let mut unsent = Vec::new();
        member.act(|action, bytes| match action {
            Action::Answer(handle) => cx.respond_with(handle, bytes),
            Action::Send(to) => links.send(cx, to, bytes, REPLICATE, replicated),
            Action::Failed(error) => drop(ended.get_or_insert(error.into())),
            Action::Piece { to, id, at } => {
                let write = |frame: &mut Vec<u8>| push_piece(frame, id, at, bytes);
                match links.ask(cx, to, write, PIECE, piece_answered) {
                    true => pieces.push((to, id)),
                    false => unsent.push((to, id)),
                }
            }
        });
        let now_us = microseconds(cx.now());
        // The transfer begins anew when the replica asks for it again.
        for (to, id) in unsent {
            member.piece_answered(now_us, to, id, None);
        }
    }
}

/// A member has answered a message.
fn replicated<M: StateMachine + Send + 'static, L: Log>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
    completion: Completion<'_>,
) {
    let to = MemberId(completion.tag);
    server.links.answered(cx, to, completion.request);
    let Ok(payload) = completion.result else { return };
    if !payload.as_slice().is_empty() {
        server.hear(cx.now(), &payload, Some(to));
    }
    free(cx, payload);
}

fn piece_answered<M: StateMachine + Send + 'static, L: Log>(
    server: &mut Server<M, L>,
    cx: &mut Context<Server<M, L>>,
    completion: Completion<'_>,
) {
    let to = MemberId(completion.tag);
    server.links.answered(cx, to, completion.request);
    let payload = completion.result.ok();
    let reply = payload.as_ref().and_then(|payload| Reply::decode(payload));
    let next = reply.filter(|reply| reply.status == Status::Done).map(|reply| reply.number);
    if let Some(at) = server.pieces.iter().position(|(of, _)| *of == to) {
        let (_, id) = server.pieces.swap_remove(at);
        server.member.piece_answered(microseconds(cx.now()), to, id, next);
    }
    if let Some(payload) = payload {
        free(cx, payload);
    }
}

//! This process as the router of a group: what clients and workers ask goes to a [`GroupRouter`],
//! and what it says goes to them.
//!
//! Threat model: anyone who may dial can attach and join as often as the router grants, so the
//! router judges who may, and how many (RT39); the node bounds connections, and what is unanswered
//! (C8). A connection that was admitted to replace a lost one only is refused.

use petasos_base::Time;
use petasos_control::{Connection, GroupEvent, Refusal, RefuseCode, Text};

use super::Control;
use crate::group_router::{GroupPeer, GroupRouter, PeerLink, RouterAnswer, RouterAnswers};
use crate::node::link::Link;
use crate::sessions::PeerId;

/// The router, if this process is one.
#[derive(Default)]
pub(super) struct Router {
    router: Option<Box<dyn GroupRouter>>,
    /// What it has said and was not passed on.
    answers: RouterAnswers,
    /// When it wants to be called.
    turn_at: Time,
    /// The connections of its clients and workers.
    links: std::collections::BTreeSet<PeerId>,
}

impl Router {
    pub(super) fn set(&mut self, router: Box<dyn GroupRouter>) {
        self.router = Some(router);
        self.turn_at = Time::ZERO;
    }

    /// When it has something to do.
    pub(super) fn next_timeout(&self) -> Time {
        if self.router.is_some() { self.turn_at } else { Time::NEVER }
    }
}

impl Control {
    /// Handles what a client or worker says to this process.
    pub(super) fn on_said_to_router(&mut self, number: PeerId, event: GroupEvent) {
        let link = self.links.get_mut(&number).expect("an event's link exists");
        let peer = peer_of(number, link).filter(|_| link.resume_by == Time::NEVER);
        let Router { router, answers, links, .. } = &mut self.router;
        match (router, peer) {
            (Some(router), Some(peer)) => {
                links.insert(number);
                router.on_event(self.now, &peer, event, answers);
            }
            _ => answers.extend(refusal(&event).map(|answer| (PeerLink(number), answer))),
        }
        self.pass_answers();
    }

    /// A connection has ended.
    pub(super) fn on_group_peer_gone(&mut self, number: PeerId, is_broken: bool) {
        let Router { router, answers, links, .. } = &mut self.router;
        answers.retain(|(link, _)| link.0 != number);
        if links.remove(&number)
            && let Some(router) = router
        {
            router.on_gone(self.now, PeerLink(number), is_broken);
        }
    }

    /// Lets the router do what is due, and tell its peers what they have room for.
    pub(super) fn turn_router(&mut self) {
        let Router { router: Some(router), answers, turn_at, .. } = &mut self.router else {
            return;
        };
        *turn_at = router.turn(self.now, answers);
        self.pass_answers();
        let Router { router: Some(router), links, .. } = &mut self.router else { return };
        for &number in links.iter() {
            let Some(link) = self.links.get_mut(&number) else { continue };
            let Some(peer) = peer_of(number, link) else { continue };
            if let Some(connection) = link.connection() {
                router.tell(&peer, &mut |told| connection.tell(told));
            }
            link.give_output(self.now);
        }
    }

    fn pass_answers(&mut self) {
        for (PeerLink(number), answer) in core::mem::take(&mut self.router.answers) {
            // Who is gone waits for no answer.
            let link = self.links.get_mut(&number);
            if let Some(connection) = link.and_then(Link::connection) {
                pass(connection, answer);
            }
        }
    }
}

/// Passes an answer on. One that may not be given, such as a grant that exceeds what was asked, is
/// the router's mistake: the peer is refused.
fn pass(connection: &mut Connection, answer: RouterAnswer) {
    let passed = match answer {
        RouterAnswer::Attach { id, result } => connection
            .answer_attach(id, result)
            .or_else(|_| connection.answer_attach(id, Err(RefuseCode::Internal))),
        RouterAnswer::Join { id, result } => connection.answer_join(id, result).or_else(|_| {
            let refusal = Refusal { code: RefuseCode::Internal, detail: Text::default() };
            connection.answer_join(id, Err(refusal))
        }),
        RouterAnswer::Place { id, result } => connection
            .answer_place(id, result)
            .or_else(|_| connection.answer_place(id, Err(RefuseCode::Internal))),
        RouterAnswer::Leave(leave) => connection.leave(leave),
    };
    if let Err(error) = passed {
        tracing::debug!(%error, "what the router said was not sent");
    }
}

fn peer_of(number: PeerId, link: &mut Link) -> Option<GroupPeer> {
    let incarnation = link.incarnation()?;
    let identity = link.tls.as_mut().and_then(|tls| tls.identity());
    Some(GroupPeer { link: PeerLink(number), ip: link.peer_ip, identity, incarnation })
}

/// What a process answers that is no router.
fn refusal(event: &GroupEvent) -> Option<RouterAnswer> {
    let code = RefuseCode::NoSuchEndpoint;
    match event {
        GroupEvent::AttachRequested { id, .. } => {
            Some(RouterAnswer::Attach { id: *id, result: Err(code) })
        }
        GroupEvent::JoinRequested { id, .. } => {
            let detail = Text::new("this process is not a router");
            Some(RouterAnswer::Join { id: *id, result: Err(Refusal { code, detail }) })
        }
        GroupEvent::PlaceRequested { id, .. } => {
            Some(RouterAnswer::Place { id: *id, result: Err(code) })
        }
        _ => None,
    }
}

/// Whether an event is one of a router's: a client or worker has said it.
pub(super) fn is_said_to_router(event: &GroupEvent, is_acceptor: bool) -> bool {
    match event {
        GroupEvent::AttachRequested { .. }
        | GroupEvent::JoinRequested { .. }
        | GroupEvent::PlaceRequested { .. }
        | GroupEvent::EpochHeard { .. } => true,
        GroupEvent::Left { .. } | GroupEvent::LeaveAnswered { .. } => is_acceptor,
        _ => false,
    }
}

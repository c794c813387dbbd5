//! This process as the router of a group: what clients and workers ask goes to a [`GroupRouter`],
//! and what it says goes to them.
//!
//! Threat model: anyone who may dial can attach and join as often as the router grants, so the
//! router judges who may, and how many (RT39); the node bounds connections, and what is unanswered
//! (C8). A connection that was admitted to replace a lost one only is refused.

use petasos_base::Time;
use petasos_control::{
    Connection, GroupError, GroupEvent, Leave, Member, Refusal, RefuseCode, Text,
};

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
        let Router { router: Some(router), links, turn_at, .. } = &mut self.router else { return };
        for &number in links.iter() {
            let Some(link) = self.links.get_mut(&number) else { continue };
            let Some(peer) = peer_of(number, link) else { continue };
            let Some(connection) = link.connection() else { continue };
            let mut is_told = false;
            router.tell(&peer, &mut |told| {
                let said = connection.tell(told);
                is_told |= said.is_ok();
                said
            });
            if is_told {
                // An answer may have waited for it (RT29).
                *turn_at = self.now;
                link.give_output(self.now);
            }
        }
    }

    fn pass_answers(&mut self) {
        let answers = core::mem::take(&mut self.router.answers);
        for (PeerLink(number), answer) in answers {
            // Who is gone waits for no answer.
            let link = self.links.get_mut(&number);
            let Some(connection) = link.and_then(Link::connection) else { continue };
            match pass(connection, answer) {
                Passed::Sent => {}
                Passed::Later(answer) => self.router.answers.push((PeerLink(number), answer)),
                Passed::Refused(leave) => self.on_not_granted(number, leave),
            }
        }
    }

    /// A grant could not be given: nobody has it.
    fn on_not_granted(&mut self, number: PeerId, leave: Leave) {
        let Router { router: Some(router), answers, .. } = &mut self.router else { return };
        let Some(link) = self.links.get_mut(&number) else { return };
        if let Some(peer) = peer_of(number, link) {
            router.on_event(self.now, &peer, GroupEvent::Left { leave }, answers);
        }
    }
}

/// What has become of an answer.
enum Passed {
    /// It was sent, or concerns nobody any more.
    Sent,
    /// There was no room.
    Later(RouterAnswer),
    /// The grant may not be given, since it exceeds what was asked, say: the peer is refused. That
    /// is the router's mistake.
    Refused(Leave),
}

/// Passes an answer on.
fn pass(connection: &mut Connection, answer: RouterAnswer) -> Passed {
    match answer {
        RouterAnswer::Attach { id, result } => {
            let granted = result
                .as_ref()
                .ok()
                .map(|(grant, _)| Leave { member: Member::Client(grant.client), tag: grant.tag });
            let Err(error) = connection.answer_attach(id, result) else { return Passed::Sent };
            tracing::debug!(%error, "an attachment was not granted");
            let _ = connection.answer_attach(id, Err(RefuseCode::Internal));
            granted.map_or(Passed::Sent, Passed::Refused)
        }
        RouterAnswer::Join { id, result } => {
            let granted = result
                .as_ref()
                .ok()
                .map(|grant| Leave { member: Member::Worker(grant.worker), tag: grant.tag });
            let Err(error) = connection.answer_join(id, result) else { return Passed::Sent };
            tracing::debug!(%error, "a membership was not granted");
            let refusal = Refusal { code: RefuseCode::Internal, detail: Text::default() };
            let _ = connection.answer_join(id, Err(refusal));
            granted.map_or(Passed::Sent, Passed::Refused)
        }
        RouterAnswer::Place { id, result } => {
            if connection.answer_place(id, result).is_err() {
                // Who has given up waits for no answer.
                let _ = connection.answer_place(id, Err(RefuseCode::Internal));
            }
            Passed::Sent
        }
        RouterAnswer::Leave(leave) => match connection.leave(leave) {
            Err(GroupError::TooManyOutstanding | GroupError::Backlogged) => {
                Passed::Later(RouterAnswer::Leave(leave))
            }
            // Others say that it is gone already.
            _ => Passed::Sent,
        },
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

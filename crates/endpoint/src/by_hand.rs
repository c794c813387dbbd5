//! A node that is played by hand: for simulation of groups in virtual time.
//!
//! Endpoints tell a [`HandNode`] which routers they ask, and its owner tells them what these say.
//! There is no thread, no connection and no time: the owner decides what happens when. Sessions are
//! set up as by other harnesses ([`Endpoint::open_session`], [`Endpoint::accept_secured`]).

use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use petasos_control::{AttachGrant, AttachParams, DataAddress, JoinGrant, JoinParams, PlaceGrant};

use crate::endpoint::Endpoint;
use crate::enrolment::{Ended, Grant, Granted, MemberRequest, News, Reminder};
use crate::error::{AttachError, SessionError};
use crate::mail::{Command, Enrolment, GroupCommand, Mail};
use crate::mailbox::Mailbox;
use crate::node::Shared;
use crate::sessions::PeerId;

/// See the module's documentation.
pub struct HandNode {
    shared: Arc<Shared>,
}

/// What an endpoint wants of the node.
pub enum Asked {
    /// Ask a router, after a time.
    Router {
        /// What is asked, and who is to be told.
        asking: Asking,
        /// From now on.
        after: Duration,
    },
    /// The membership, or the attempt, with this name is not wanted any more.
    Leave(u64),
    /// A worker to connect to is wanted (RT37).
    Place {
        /// The name of the attachment.
        name: u64,
        /// A worker that has just failed.
        avoid: Option<u16>,
    },
    /// The endpoint wants to be called back after a time, instead of an earlier wish like it.
    CallBack {
        /// Calls back.
        call: CallBack,
        /// From now on.
        after: Duration,
    },
}

/// What an endpoint asks of a router.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    /// To be a client (RT33).
    Attach(AttachParams),
    /// To be a worker (RT34).
    Join(JoinParams),
}

/// What a router has granted.
#[derive(Debug)]
pub enum Granting {
    /// Answers [`Wish::Attach`].
    Attach(AttachGrant),
    /// Answers [`Wish::Join`].
    Join(JoinGrant),
}

/// The process of a router, and the connection with it.
#[derive(Clone, Copy, Debug)]
pub struct HandRouter {
    /// The endpoint's name for sessions with the process.
    pub link: PeerId,
    /// Its address.
    pub ip: IpAddr,
    /// What names the process.
    pub incarnation: u64,
}

/// An attempt of an endpoint to be a member at a router, and what comes of it.
pub struct Asking(Box<Enrolment>);

/// Calls an endpoint back.
pub struct CallBack {
    name: u64,
    reminder: Reminder,
    to: Arc<Mailbox<Mail>>,
}

impl HandNode {
    /// A node without endpoints.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<HandNode> {
        Ok(HandNode { shared: Arc::new(Shared::by_hand()?) })
    }

    /// Attaches an endpoint, as [`Endpoint::attach`] does to other nodes.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach<S>(&self, endpoint: &mut Endpoint<S>) -> Result<(), AttachError> {
        endpoint.attach_to(self.shared.clone())
    }

    /// Takes what endpoints have asked for. What concerns no group is dropped.
    pub fn asked(&self) -> Vec<Asked> {
        let mut commands = VecDeque::new();
        self.shared.commands.take(&mut commands);
        commands.into_iter().filter_map(Asked::of).collect()
    }
}

impl Asked {
    fn of(command: Command) -> Option<Asked> {
        let Command::Group(command) = command else { return None };
        Some(match command {
            GroupCommand::Enrol { enrolment, after } => {
                Asked::Router { asking: Asking(enrolment), after }
            }
            GroupCommand::Withdraw { enrolment } => Asked::Leave(enrolment),
            GroupCommand::Place { enrolment, wish } => {
                Asked::Place { name: enrolment, avoid: wish.avoid }
            }
            GroupCommand::Remind { enrolment, reminder, after, from } => {
                let call = CallBack { name: enrolment, reminder, to: from };
                Asked::CallBack { call, after }
            }
            GroupCommand::EpochTaken { .. } => return None,
            GroupCommand::SetRouter(_) | GroupCommand::TurnRouter => return None,
        })
    }
}

impl Asking {
    /// Its name, which no other one of the node has.
    pub fn name(&self) -> u64 {
        self.0.id
    }

    /// The router's control address.
    pub fn router(&self) -> SocketAddr {
        self.0.router
    }

    /// What is asked for.
    pub fn wish(&self) -> Wish {
        match self.0.request {
            MemberRequest::Attach(params) => Wish::Attach(params),
            MemberRequest::Join(params) => Wish::Join(params),
        }
    }

    /// The router grants it.
    pub fn grant(&self, granting: Granting, router: HandRouter) {
        let grant = match granting {
            Granting::Attach(grant) => Grant::Attached(Box::new(grant)),
            Granting::Join(grant) => Grant::Joined(Box::new(grant)),
        };
        let HandRouter { link, ip, incarnation } = router;
        let granted = Granted { grant, link, router_ip: ip, local_ip: ip, incarnation };
        self.tell(|news| news.granted = Some(granted));
    }

    /// The router has told all workers that it has now.
    pub fn tell_roster(&self) {
        self.tell(|news| news.has_roster = true);
    }

    /// A worker is there, at this address, or is gone (RT36).
    pub fn tell_worker(&self, worker: u16, at: Option<DataAddress>) {
        self.tell(|news| _ = news.members.insert(worker, at));
    }

    /// A client is there or gone (RT36).
    pub fn tell_client(&self, client: u32, is_there: bool) {
        self.tell(|news| _ = news.clients.insert(client, is_there.then_some(None)));
    }

    /// Answers [`Asked::Place`]; without a grant, there is no worker.
    pub fn place(&self, grant: Option<PlaceGrant>) {
        self.tell(|news| news.placed = Some(grant.ok_or(SessionError::Refused)));
    }

    /// There is no grant: the router is not there.
    pub fn refuse(&self) {
        self.tell(|news| {
            news.ended = Some(Ended::NotGranted(SessionError::Refused, String::new()))
        });
    }

    /// The connection with the router has broken, or the router has ended what it granted.
    pub fn end(&self, is_broken: bool) {
        self.tell(|news| {
            news.ended = Some(match is_broken {
                true => Ended::Broken(SessionError::ConnectionLost),
                false => Ended::Closed(SessionError::ClosedByPeer),
            });
        });
    }

    /// An endpoint that is gone need not be told.
    fn tell(&self, write: impl FnOnce(&mut News)) {
        self.0.leave(write);
    }
}

impl CallBack {
    /// The name of the membership or attempt that it is about.
    pub fn name(&self) -> u64 {
        self.name
    }

    /// Whether this is in the place of another.
    pub fn is_like(&self, other: &CallBack) -> bool {
        (self.name, self.reminder) == (other.name, other.reminder)
    }

    /// Whether it is for asking a router again that was not there or has refused. Then the time is
    /// partly random, and secret.
    pub fn asks_again(&self) -> bool {
        self.reminder == Reminder::AskAgain
    }

    /// Calls back.
    pub fn call(self) {
        // An endpoint that is gone need not be called.
        let (enrolment, reminder) = (self.name, self.reminder);
        let _ = self.to.post(Mail::GroupReminder { enrolment, reminder });
    }
}

//! An endpoint's links to other threads: its mailbox, its node, and the far ends of its sessions.
//!
//! Only set-up, tear-down and mail use this state; a turn of the loop only checks
//! [`Outside::has_mail`]. Invariant: `remotes` has an entry for every session that was established
//! through the node, until either end closes it or its link ends.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use arrayvec::ArrayVec;
use petasos_control::{RefuseCode, SessionRef};

use crate::error::SessionError;
use crate::group_members::EndpointGroups;
use crate::mail::{Command, GroupCommand, Mail};
use crate::mailbox::Mailbox;
use crate::node::Shared;
use crate::sessions::{PeerId, SessionId};
use crate::worker_method::WorkerMethod;

/// The most descriptors that a loop watches beside those of its packet I/O and its mailbox.
pub(crate) const WATCHED_MAX: usize = 4;

/// The far end of a session, and the link to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) link: PeerId,
    pub(crate) far: SessionRef,
}

pub(crate) struct Attachment {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: u16,
}

#[derive(Default)]
pub(crate) struct Outside {
    /// Made when something first needs it.
    mailbox: Option<Arc<Mailbox<Mail>>>,
    /// Whether the loop is driven by its descriptor. It then always counts as asleep.
    pub(crate) external: bool,
    /// The descriptor that drives the loop, if one does.
    pub(crate) joint: Option<OwnedFd>,
    /// Descriptors that end a sleep when they are readable.
    pub(crate) watched: ArrayVec<OwnedFd, WATCHED_MAX>,
    pub(crate) attachment: Option<Attachment>,
    /// An empty queue to swap with a full one.
    pub(crate) spare: VecDeque<Mail>,
    /// Why sessions failed, until they are closed.
    pub(crate) errors: HashMap<SessionId, SessionError>,
    /// The far ends of sessions, by this endpoint's ends.
    pub(crate) remotes: HashMap<SessionRef, Remote>,
    /// The links whose servers have successors, as long as they stand.
    pub(crate) succeeded: Vec<PeerId>,
    /// The groups that the endpoint calls and serves.
    pub(crate) groups: EndpointGroups,
    /// Methods that run on worker threads.
    pub(crate) workers: HashMap<u16, WorkerMethod>,
}

impl Outside {
    /// Whether there is mail. The loop checks this once per turn.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.mailbox.as_ref().is_some_and(|mailbox| mailbox.has_mail())
    }

    pub(crate) fn mailbox(&self) -> Option<&Arc<Mailbox<Mail>>> {
        self.mailbox.as_ref()
    }

    /// The mailbox, made if need be.
    pub(crate) fn open_mailbox(&mut self) -> io::Result<Arc<Mailbox<Mail>>> {
        match &self.mailbox {
            Some(mailbox) => Ok(mailbox.clone()),
            None => Ok(self.mailbox.insert(Arc::new(Mailbox::new()?)).clone()),
        }
    }

    /// The endpoint's index in its process.
    pub(crate) fn index(&self) -> u16 {
        self.attachment.as_ref().map_or(0, |attachment| attachment.index)
    }

    /// Whether the node's control connections are over TLS, so that sessions are sealed.
    pub(crate) fn is_secured(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.shared.guard.is_secured())
    }

    /// Whether packets must not go to `ip`: they would leave this host in plaintext, which is not
    /// allowed.
    pub(crate) fn forbids(&self, ip: IpAddr) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.shared.guard.forbids(ip))
    }

    /// Tells the node that the endpoint has handlers.
    pub(crate) fn serves(&self) {
        if let Some(Attachment { shared, index }) = &self.attachment {
            shared.members().serve(*index);
        }
    }

    /// Sends `command` to the control thread, if there is one.
    pub(crate) fn command(&self, command: Command) -> bool {
        let shared = self.attachment.as_ref().map(|attachment| &attachment.shared);
        shared.is_some_and(|shared| shared.commands.post(command).is_ok())
    }

    /// Forgets a session and tells its far end, if there is one.
    pub(crate) fn give_up(&mut self, own: &SessionRef) {
        if let Some(Remote { link, far }) = self.remotes.remove(own) {
            self.command(Command::Disconnect { link, session: far });
        }
    }

    /// Leaves the node; every far end is told.
    pub(crate) fn detach(&mut self) {
        let remotes = core::mem::take(&mut self.remotes);
        for Remote { link, far } in remotes.into_values() {
            self.command(Command::Disconnect { link, session: far });
        }
        for enrolment in core::mem::take(&mut self.groups).enrolments() {
            self.command(Command::Group(GroupCommand::Withdraw { enrolment }));
        }
        if let Some(Attachment { shared, index }) = self.attachment.take() {
            shared.members().leave(index);
        }
    }

    /// Answers mail that the endpoint will never handle.
    fn decline(&self, mail: Mail) {
        match mail {
            Mail::Connected { outcome: Ok(granted), .. } => {
                let session = granted.params.server_ref();
                self.command(Command::Disconnect { link: granted.link, session });
            }
            Mail::Asked { link, id, .. } => {
                if let Some(from) = &self.mailbox {
                    let result = Box::new(Err(RefuseCode::Draining));
                    self.command(Command::Reply { link, id, result, from: from.clone() });
                }
            }
            // The rest concerns state that is gone with the endpoint.
            _ => {}
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let unread = self.mailbox.as_ref().map(|mailbox| mailbox.close()).unwrap_or_default();
        for mail in core::mem::take(&mut self.spare).into_iter().chain(unread) {
            self.decline(mail);
        }
        self.detach();
    }
}

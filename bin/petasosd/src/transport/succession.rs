//! The transport's part in a takeover: another process, or another transport of this one, at the
//! address where other hosts connect.
//!
//! The new process accepts when the applications of the old one have attached to it; until then
//! the old one does. What other hosts have begun ends where it has begun.

use std::os::fd::OwnedFd;
use std::time::Duration;

use petasos_base::Time;

use super::Transport;
use crate::takeover::Reach;

/// So long the old process stays at least, for those that have just connected to hear where to:
/// they may take as long to say hello (C11).
const STAY: Duration = Duration::from_millis(2100);
/// Callers that know nothing of successors are refused after this time, and the others, which have
/// left by then, are not.
const REFUSED_AFTER: Duration = Duration::from_secs(1);

/// How far a takeover is.
pub(super) struct Succession {
    /// Others can connect.
    accepts: bool,
    /// Since when another process is at the address.
    left_at: Option<Time>,
    refuses: bool,
}

impl Succession {
    pub(super) fn new(accepts: bool) -> Succession {
        Succession { accepts, left_at: None, refuses: false }
    }
}

impl Transport {
    /// Lets other hosts connect from now on, if they cannot yet.
    pub fn accept(&mut self) {
        if !std::mem::replace(&mut self.succession.accepts, true) {
            self.event_loop.accept();
            self.grpc.accept();
        }
    }

    /// Whether others can connect.
    pub(super) fn accepts(&self) -> bool {
        self.succession.accepts
    }

    /// Descriptors of the sockets at which others than this host's connect, for the process that
    /// takes over.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn share_listeners(&self) -> std::io::Result<Vec<(Reach, OwnedFd)>> {
        let hosts = self.event_loop.share_listener()?.map(|it| (Reach::Hosts, it.into()));
        let grpc = self.grpc.share_listener()?.map(|it| (Reach::Grpc, it));
        Ok(hosts.into_iter().chain(grpc).collect())
    }

    /// Leaves the addresses to the process that has taken over, and tells those who are connected.
    /// What they have begun has `grace` to end.
    pub fn hand_over(&mut self, grace: Duration, now: Time) {
        if self.succession.left_at.is_none() {
            self.succession.left_at = Some(now);
            self.event_loop.hand_over();
            self.grpc.hand_over(grace);
        }
    }

    /// Whether no call of another host is under way, and none will come.
    pub fn has_nothing_left(&mut self, now: Time) -> bool {
        if self.local_address().is_none() && self.local_grpc_target().is_none() {
            return self.handles.is_empty();
        }
        let Some(left_at) = self.succession.left_at else { return false };
        if now >= left_at + REFUSED_AFTER && !self.succession.refuses {
            self.succession.refuses = true;
            self.event_loop.refuse_requests();
        }
        if now < left_at + STAY {
            return false;
        }
        let is_left = self.event_loop.served_sessions() == 0;
        let is_over = self.succession.refuses && self.event_loop.is_idle();
        self.handles.is_empty() && (is_left || is_over) && self.grpc.is_over()
    }
}

#[cfg(test)]
mod tests {
    use petasos::{PacketTransport, Security};
    use petasos_service::ListenerId;

    use super::super::config::{One, Peers};
    use super::*;

    #[test]
    fn who_knows_no_successors_is_refused_after_a_second_and_can_still_hear_of_one() {
        let config = One {
            listen: Some("127.0.0.1:0".parse().expect("an address")),
            listen_grpc: None,
            grpc_message_bytes: None,
            packets: PacketTransport::default(),
            nic: None,
            security: Security::default(),
            peers: &Peers::default(),
            listener: ListenerId::default(),
            vouches: true,
        };
        let mut transport = Transport::new(config, None).expect("loopback has ports");
        let left_at = Time::from_nanos(1);
        transport.within(|transport| {
            assert!(!transport.has_nothing_left(left_at), "it was not taken over from");
            transport.hand_over(Duration::from_secs(9), left_at);
            let mut after = |time| {
                let is_over = transport.has_nothing_left(left_at + time);
                (transport.succession.refuses, is_over)
            };
            assert_eq!(after(REFUSED_AFTER - Duration::from_millis(1)), (false, false));
            assert_eq!(after(REFUSED_AFTER), (true, false));
            assert_eq!(after(STAY), (true, true));
        });
    }
}

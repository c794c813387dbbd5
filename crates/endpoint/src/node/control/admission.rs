//! Which connections are accepted, and which of them may stay once the peer has proved its
//! identity.
//!
//! Lost connections still count, so that losing some makes no room for more. But a connection that
//! replaces a lost one must get in: beyond a limit, there is room for as many connections as were
//! lost, on condition that each resumes a lost one within the grace period and asks for nothing
//! before.

use std::net::{SocketAddr, TcpStream};

use petasos_base::Time;
use petasos_control::{Connection, Role};
use petasos_tls::Holder;

use super::{ACCEPT_PAUSE, ACCEPTS_MAX, Control};
use crate::node::link::Link;
use crate::node::quota::count;
use crate::sessions::PeerId;

impl Control {
    /// Accepts new connections, up to a turn's limit.
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                // Dropping the stream tells the peer, which may connect again.
                Ok((stream, peer)) => match self.admits(Holder::of(peer.ip(), None)) {
                    Some(resume_by) => self.begin(stream, peer, resume_by),
                    None => drop(stream),
                },
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.accept_at = self.now + ACCEPT_PAUSE;
                    return;
                }
            }
        }
    }

    fn begin(&mut self, stream: TcpStream, peer: SocketAddr, resume_by: Time) {
        let (config, hello) = (self.config, self.hello.clone());
        let mut connection = Connection::new(config, Role::Acceptor, hello, self.now);
        if self.draining {
            connection.drain();
        }
        if let Ok(mut link) = Link::accepted(stream, peer, connection, &self.shared.guard) {
            link.resume_by = resume_by;
            self.links.insert(self.next_link, link);
            self.next_link += 1;
        }
    }

    /// Until when a new connection from an address must have replaced a lost one: for ever if there
    /// is room for it anyway. `None` if there is no room, or the address has begun too many
    /// connections.
    fn admits(&mut self, address: Holder) -> Option<Time> {
        let refused = &self.shared.refused;
        let of_address = self.room(self.connections_per_address_max, |holder| *holder == address);
        let of_all = self.room(self.connections_max, |_| true);
        let full = match (of_address, of_all) {
            (None, _) => &refused.address_connections_refused,
            (_, None) => &refused.connections_refused,
            _ if !self.handshakes.take(address, self.now) => &refused.handshakes_refused,
            (Some(one), Some(other)) => return Some(one.min(other)),
        };
        count(full);
        None
    }

    /// Whether a connection may stay. Once its peer has proved a name, the connection counts for
    /// that, and no longer for its address, which others may share.
    pub(super) fn keeps(&mut self, number: PeerId) -> bool {
        let link = self.links.get_mut(&number).expect("a link's number was just read");
        if link.resume_by <= self.now {
            count(&self.shared.refused.connections_refused);
            return false;
        }
        let Some((address, name)) = link.take_name() else { return true };
        let refused = &self.shared.refused;
        if !self.handshakes.take(name.clone(), self.now) {
            count(&refused.handshakes_refused);
            return false;
        }
        self.handshakes.give_back(&address);
        // The connection itself is among the established ones.
        let Some(resume_by) =
            self.room(self.connections_per_name_max + 1, |holder| *holder == name)
        else {
            count(&refused.name_connections_refused);
            return false;
        };
        let link = self.links.get_mut(&number).expect("a link's number was just read");
        link.resume_by = link.resume_by.min(resume_by);
        true
    }

    /// Until when one more connection must have replaced a lost one, if peers may have
    /// `connections_max` that count for some holders. `None` if that many are established.
    fn room(&self, connections_max: usize, counts: impl Fn(&Holder) -> bool) -> Option<Time> {
        let links = self.links.values().filter(|link| link.server.is_none());
        let lost = self.lost.values().filter(|lost| lost.server.is_none());
        let stand = links.filter(|link| counts(&link.holder)).count();
        let lost = lost.filter(|lost| counts(&lost.peer.holder)).count();
        match stand {
            stand if stand + lost < connections_max => Some(Time::NEVER),
            stand if stand < connections_max => Some(self.now + self.grace),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;

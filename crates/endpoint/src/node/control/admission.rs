//! Which connections are taken, and which of them stay once the peer has proved who it is.

use std::net::{SocketAddr, TcpStream};

use petasos_control::{Connection, Role};

use super::{ACCEPT_PAUSE, ACCEPTS_MAX, Control};
use crate::node::link::Link;
use crate::node::quota::count;
use crate::sessions::PeerId;
use crate::source::Holder;

impl Control {
    /// Takes new connections, but no more than a turn's.
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                // Dropping the stream tells the peer; it may come again.
                Ok((stream, peer)) => match self.admits(Holder::of(peer.ip(), None)) {
                    true => self.begin(stream, peer),
                    false => drop(stream),
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

    fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        let (config, hello) = (self.config, self.hello.clone());
        let mut connection = Connection::new(config, Role::Acceptor, hello, self.now);
        if self.draining {
            connection.drain();
        }
        if let Ok(link) = Link::accepted(stream, peer, connection, &self.shared.guard) {
            self.links.insert(self.next_link, link);
            self.next_link += 1;
        }
    }

    /// Whether there is room for one more connection from an address, and it has not begun too
    /// many.
    fn admits(&mut self, address: Holder) -> bool {
        let refused = &self.shared.refused;
        let full = match () {
            () if self.accepted_of(&address) >= self.connections_per_address_max => {
                Some(&refused.address_connections_refused)
            }
            () if self.accepted().count() >= self.connections_max => {
                Some(&refused.connections_refused)
            }
            () if !self.handshakes.take(address, self.now) => Some(&refused.handshakes_refused),
            () => None,
        };
        full.inspect(|counter| count(counter)).is_none()
    }

    /// Whether a connection may stay. When its peer has proved a name, it counts for that, and for
    /// its address no more: others may be behind the same.
    pub(super) fn keeps(&mut self, number: PeerId) -> bool {
        let link = self.links.get_mut(&number).expect("a link's number was just read");
        let Some((address, name)) = link.take_name() else { return true };
        let refused = &self.shared.refused;
        let full = if self.accepted_of(&name) > self.connections_per_name_max {
            Some(&refused.name_connections_refused)
        } else if self.handshakes.take(name, self.now) {
            self.handshakes.give_back(&address);
            None
        } else {
            Some(&refused.handshakes_refused)
        };
        full.inspect(|counter| count(counter)).is_none()
    }

    /// For whom the connections count that peers have made. Lost ones count on: losing some must
    /// not make room for more.
    fn accepted(&self) -> impl Iterator<Item = &Holder> {
        let links = self.links.values().filter(|link| link.server.is_none());
        let lost = self.lost.values().filter(|lost| lost.server.is_none());
        links.map(|link| &link.holder).chain(lost.map(|lost| &lost.peer.holder))
    }

    fn accepted_of(&self, holder: &Holder) -> usize {
        self.accepted().filter(|other| *other == holder).count()
    }
}

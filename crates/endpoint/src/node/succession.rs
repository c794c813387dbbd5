//! A process in the place of another one at the same address (C22).
//!
//! The old process shares its listener, the new one adopts it, and begins to accept when the old
//! one hands over. Connections that neither has accepted wait in the socket, which both have.

use std::io;
use std::net::TcpListener;

use super::{Listening, Node, NodeConfig, failed, unblock};
use crate::error::NodeError;
use crate::mail::Command;

impl Node {
    /// Like [`Node::start`], at the listener of a process that this one succeeds, and not at
    /// [`NodeConfig::listen`]. Accepts nobody before [`Node::accept`].
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn adopt(config: NodeConfig, listener: TcpListener) -> Result<Node, NodeError> {
        unblock(&listener)?;
        let local = listener.local_addr().map_err(|error| failed("read the address", error))?;
        let config = NodeConfig { listen: Some(local), ..config };
        Node::start_with(config, Listening::Adopted(listener))
    }

    /// Accepts connections at an adopted listener from now on.
    pub fn accept(&self) {
        // If the thread is gone, nobody can connect.
        let _ = self.inner.shared.commands.post(Command::Accept);
    }

    /// Another descriptor of the listener, for the process that succeeds this one. `None` if this
    /// one does not listen, or has handed over.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn share_listener(&self) -> io::Result<Option<TcpListener>> {
        self.inner.listener.upgrade().map(|listener| listener.try_clone()).transpose()
    }

    /// Leaves the address to another process. Peers that have dialled it are told: they open new
    /// sessions there, and give those with this process back when their calls are over. This
    /// process accepts neither connections nor sessions from now on, and serves the sessions that
    /// there are.
    pub fn hand_over(&self) {
        // If the thread is gone, so is the listener.
        let _ = self.inner.shared.commands.post(Command::HandOver);
    }
}

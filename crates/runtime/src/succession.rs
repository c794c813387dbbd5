//! A process whose loop takes the place of another process's at the same address (C22).

use std::io;
use std::net::TcpListener;

use petasos_endpoint::Node;

use crate::config::{LoopConfig, LoopError};
use crate::runtime::Runtime;

impl Runtime {
    /// A runtime over UDP and shared memory, with its own node at another process's listener. It
    /// accepts nobody before [`Runtime::accept`].
    pub fn adopt(mut config: LoopConfig, listener: TcpListener) -> Result<Runtime, LoopError> {
        config.listen = Some(listener.local_addr().map_err(LoopError::Descriptor)?);
        Runtime::start_with(config, |node| Node::adopt(node, listener))
    }

    /// Accepts connections at the adopted listener from now on.
    pub fn accept(&self) {
        self.node.iter().for_each(Node::accept);
    }

    /// Another descriptor of the listener; `None` if the loop does not listen.
    pub fn share_listener(&self) -> io::Result<Option<TcpListener>> {
        self.node.as_ref().map_or(Ok(None), Node::share_listener)
    }

    /// Leaves the address to another process; see [`Node::hand_over`].
    pub fn hand_over(&self) {
        self.node.iter().for_each(Node::hand_over);
    }

    /// Refuses requests that come from now on: they have not run. What runs is finished.
    pub fn refuse_requests(&self) {
        self.turn(|endpoint| endpoint.drain());
    }

    /// The sessions of other processes with this loop.
    pub fn served_sessions(&self) -> usize {
        self.endpoint.borrow().served_sessions()
    }

    /// Whether no request of another process waits for its answer.
    pub fn is_idle(&self) -> bool {
        self.endpoint.borrow().state().parts.is_idle()
    }
}

//! Opening sessions: hosts ask for them here, and the harness sets them up (`wiring`).

use core::cell::RefCell;
use std::rc::Rc;

use petasos_base::Time;
use petasos_endpoint::SessionOffer;
use petasos_netio::memory::MemoryIo;
use petasos_runtime::dispatcher::Dispatcher;
use petasos_runtime::{Dial, Dialled};
use petasos_sim::cluster::Life;

/// A session that a client has asked for.
pub(crate) struct Asked {
    pub(crate) client: Life,
    pub(crate) server: Life,
    pub(crate) offer: Box<SessionOffer>,
    /// When it will be set up; `None` until that is decided.
    pub(crate) due: Option<Time>,
}

/// Requests for sessions by all hosts. Shared with the dials of all hosts.
#[derive(Clone, Default)]
pub(crate) struct Dials {
    pub(crate) asked: Rc<RefCell<Vec<Asked>>>,
    /// The current life of each host, dead or alive.
    lives: Rc<RefCell<Vec<Life>>>,
}

/// The name by which a host's endpoint knows another life.
pub(crate) fn peer_id(life: Life) -> u64 {
    u64::from(life.host) << 32 | u64::from(life.restarts)
}

impl Dials {
    /// Notes that a host begins a life.
    pub(crate) fn live(&self, life: Life) {
        let mut lives = self.lives.borrow_mut();
        lives.retain(|other| other.host != life.host);
        lives.push(life);
    }

    /// Makes the function that opens the sessions of one life, which are sealed or not.
    pub(crate) fn dial(&self, client: Life, sealed: bool) -> Dial<Dispatcher> {
        let dials = self.clone();
        Box::new(move |endpoint, server: Dialled<'_>, slots| {
            let address = server.address;
            let lives = dials.lives.borrow();
            let server = lives.iter().find(|life| MemoryIo::address(life.host) == address);
            let server = *server.ok_or("no such host")?;
            let peer = Some(peer_id(server));
            let offer = match sealed {
                true => endpoint.open_secured(address, peer),
                false => endpoint.open_session(address, peer),
            };
            let offer = offer.map_err(|error| error.to_string())?;
            let mut offer = Box::new(offer.ok_or("no room for another session")?);
            offer.params.slots = slots as u8;
            let session = offer.session;
            dials.asked.borrow_mut().push(Asked { client, server, offer, due: None });
            Ok(session)
        })
    }
}

//! Transports of applications that are added, replaced and removed while calls run.
//!
//! All that is new is opened before anything changes. Then the new transports take calls, and the
//! old ones leave (`leaving`).
//!
//! Invariant: a listener has another application only when no transport that leaves has it any
//! more. So who calls at an address that was an application's never gets to another one.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use petasos_base::Time;
use petasos_service::{Hub, ListenerId, Memory};

use super::Transport;
use super::config::{ApplicationTransport, Listeners};
use super::set::{TransportSet, check_applications, listener_of, open};
use crate::takeover::Reach;

/// With so many that leave, no other has to.
const LEAVING_MAX: usize = 64;
/// How often, and after what time again, an address is tried that a transport is leaving.
const CLOSING_LOOKS: u32 = 500;
const CLOSING_LOOK: Duration = Duration::from_millis(1);

/// What is open before it takes effect.
struct Opened {
    /// In the order of the applications; none where the one that there is stays.
    transports: Vec<Option<Transport>>,
    listeners: Vec<Option<Arc<str>>>,
}

impl TransportSet {
    /// Gives applications these transports. Gives those that there were, if anything changes. Calls
    /// that are under way go on.
    ///
    /// # Errors
    /// A text that says which cannot be opened. Nothing has changed then.
    pub fn set_applications<M: Memory>(
        &mut self,
        wanted: Vec<ApplicationTransport>,
        hub: &mut Hub<M>,
        now: Time,
    ) -> Result<Option<Vec<ApplicationTransport>>, String> {
        if self.config.applications == wanted {
            return Ok(None);
        }
        check_applications(&wanted)?;
        let Opened { transports, listeners } = self.open(&wanted)?;
        let before = std::mem::replace(&mut self.config.applications, wanted);
        let of_now =
            before.iter().map(|its| its.application.clone()).zip(self.transports.drain(1..));
        let mut of_now: HashMap<String, Transport> = of_now.collect();
        let mut new = Vec::new();
        for (its, opened) in self.config.applications.iter().zip(transports) {
            new.extend(opened.is_some().then_some(self.transports.len()));
            let stays = || of_now.remove(&its.application).expect("it stays if none was opened");
            self.transports.push(opened.unwrap_or_else(stays));
        }
        self.listeners = listeners;
        self.take_effect(hub);
        // A process that takes over lets others connect when its applications are there.
        let accepts = self.transports[0].accepts();
        for place in new {
            // Who connects finds what is served.
            self.transports[place].within(|transport| {
                transport.publish(hub);
                if accepts {
                    transport.accept();
                }
            });
        }
        for (_, old) in of_now {
            self.leaving.add(old, self.config.drain, now);
        }
        Ok(Some(before))
    }

    /// Opens what differs from what there is.
    fn open(&self, wanted: &[ApplicationTransport]) -> Result<Opened, String> {
        let has_address =
            |name: &str| wanted.iter().any(|its| its.application == name && its.has_address());
        let mut listeners = self.listeners.clone();
        for listener in &mut listeners {
            *listener = listener.take().filter(|name| has_address(name));
        }
        // Also one that its application loses now: until then, that one's transport has it.
        let is_in_use = |id: ListenerId| {
            let is_there = self.transports.iter().any(|transport| transport.listener == id);
            is_there || self.leaving.has_listener(id)
        };
        let transports = wanted.iter().map(|its| {
            let listener = listener_of(its, &mut listeners, is_in_use);
            if self.config.applications.contains(its) {
                return Ok(None);
            }
            let taken = self.sockets(its);
            let taken = taken.map_err(|why| format!("application `{}`: {why}", its.application))?;
            open(&self.config, its, listener, Some(taken)).map(Some)
        });
        let transports = transports.collect::<Result<_, String>>()?;
        Ok(Opened { transports, listeners })
    }

    /// The sockets at which others connect to a transport: those that the application has at its
    /// addresses now, or new ones.
    fn sockets(&self, its: &ApplicationTransport) -> Result<Listeners, String> {
        let hosts = self.socket(its, Reach::Hosts)?;
        let grpc = self.socket(its, Reach::Grpc)?;
        Ok(Listeners { hosts, grpc })
    }

    fn socket(
        &self,
        its: &ApplicationTransport,
        reach: Reach,
    ) -> Result<Option<TcpListener>, String> {
        let Some(at) = address(its, reach) else { return Ok(None) };
        // Only with itself: who has connected to an application gets to no other one.
        let mut all = self.config.applications.iter().zip(&self.transports[1..]);
        let before = all.find(|(before, _)| before.application == its.application);
        if let Some((before, transport)) = before
            && address(before, reach) == Some(at)
        {
            let shared = transport.share_listeners();
            let shared = shared.map_err(|error| format!("cannot share {at}: {error}"))?;
            let found = shared.into_iter().find(|(of, _)| *of == reach);
            return Ok(found.map(|(_, socket)| socket.into()));
        }
        let bound = self.bind(at);
        bound.map(Some).map_err(|error| format!("cannot listen at {at}: {error}"))
    }

    /// Listens at an address. If a transport that leaves has had it, its own thread closes that,
    /// soon.
    fn bind(&self, at: SocketAddr) -> io::Result<TcpListener> {
        let looks = if self.leaving.has_address(at) { CLOSING_LOOKS } else { 0 };
        for _ in 0..looks {
            match TcpListener::bind(at) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    std::thread::sleep(CLOSING_LOOK);
                }
                bound => return bound,
            }
        }
        TcpListener::bind(at)
    }

    /// Whether these transports may take the place of those that there are.
    ///
    /// # Errors
    /// Too many still leave: a text about that.
    pub fn may_become(&self, wanted: &[ApplicationTransport]) -> Result<(), String> {
        match self.leaving.len() {
            LEAVING_MAX.. if self.config.applications != wanted => Err(format!(
                "{LEAVING_MAX} transports that were replaced still end what is under way: try \
                 again later"
            )),
            _ => Ok(()),
        }
    }
}

fn address(its: &ApplicationTransport, reach: Reach) -> Option<SocketAddr> {
    match reach {
        Reach::Hosts => its.listen,
        Reach::Grpc => its.listen_grpc,
    }
}

#[cfg(test)]
mod tests {
    use petasos_service::SchemaLimits;
    use petasos_shm::OwnedHeap;

    use super::*;
    use crate::transport::TransportConfig;

    fn listens(name: &str, at: &str) -> ApplicationTransport {
        let listen = Some(at.parse().expect("an address"));
        let (application, listen_grpc) = (name.to_owned(), None);
        ApplicationTransport { application, listen, listen_grpc, carrier: None, certificate: None }
    }

    #[test]
    fn adr21_who_is_called_somewhere_no_more_leaves_the_listener_to_nobody_for_now() {
        let mut hub: Hub<(OwnedHeap, OwnedHeap)> = Hub::new(SchemaLimits::default());
        let drain = Duration::from_secs(1);
        let applications = vec![listens("shop", "127.0.0.1:0")];
        let config = TransportConfig { applications, drain, ..TransportConfig::default() };
        let mut set = TransportSet::new(config, None, &mut hub).expect("loopback has ports");
        let at = |set: &TransportSet, place: usize| set.transports[place].listener;
        let shop = at(&set, 1);
        let both = vec![listens("bank", "127.0.0.1:0"), listens("shop", "127.0.0.1:0")];
        let now = Time::from_nanos(1);
        assert!(set.set_applications(both.clone(), &mut hub, now).expect("it opens").is_some());
        let bank = at(&set, 1);
        assert!(at(&set, 2) == shop && bank != shop && set.leaving.is_empty(), "it stays");
        assert_eq!(set.set_applications(both, &mut hub, now), Ok(None));
        // Those of one that leaves may still come by it.
        let others = ["cafe", "dock"].map(|name| listens(name, "127.0.0.1:0")).to_vec();
        set.set_applications(others, &mut hub, now).expect("it opens");
        let new = [at(&set, 1), at(&set, 2)];
        assert!(new[0] != new[1] && !new.contains(&shop) && !new.contains(&bank), "{new:?}");
        assert_eq!(set.leaving.len(), 2);
        let late = now + drain;
        set.turn(&mut hub, late);
        assert!(set.leaving.is_empty(), "time is up");
        set.set_applications(vec![listens("shop", "127.0.0.1:0")], &mut hub, late)
            .expect("it opens");
        assert!([shop, bank].contains(&at(&set, 1)), "nobody comes by it any more");
    }

    #[test]
    fn what_cannot_be_opened_changes_nothing() {
        let mut hub: Hub<(OwnedHeap, OwnedHeap)> = Hub::new(SchemaLimits::default());
        let config = TransportConfig::default();
        let mut set = TransportSet::new(config, None, &mut hub).expect("loopback has ports");
        let now = Time::from_nanos(1);
        let shop = vec![listens("shop", "127.0.0.1:0")];
        set.set_applications(shop, &mut hub, now).expect("it opens");
        let held = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let at = held.local_addr().expect("it has one").to_string();
        let before = set.reached();
        let wrong = set.set_applications(
            vec![listens("cafe", "127.0.0.1:0"), listens("dock", &at)],
            &mut hub,
            now,
        );
        let wrong = wrong.expect_err("it is in use");
        assert!(wrong.starts_with("application `dock`: cannot listen at "), "{wrong}");
        assert!(set.reached() == before && set.leaving.is_empty());
    }
}

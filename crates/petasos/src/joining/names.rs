//! Routers of groups that a server joins, followed while it runs: names are looked up again, as
//! those of channels are, and resolvers tell of changes.
//!
//! Invariant: a lookup that fails, or finds nobody, changes nothing.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use petasos_rpc::settings::{FoundServers, Routers};

/// How often names are looked up again, and resolvers asked, as those of channels.
const LOOK_UP_AFTER: Duration = Duration::from_secs(30);

/// A thread that looks names up. Dropping this ends it, after a lookup that is under way.
#[derive(Debug)]
pub(crate) struct Names {
    _ends: Sender<Infallible>,
}

/// The routers of a group that was joined, by the order of joining.
pub(crate) struct Named {
    pub(crate) group: usize,
    pub(crate) routers: Routers,
    /// What was found last.
    pub(crate) found: Vec<SocketAddr>,
}

/// A group whose routers may become others, and who is told of that.
struct Followed {
    routers: Routers,
    found: FoundServers,
}

impl Names {
    /// As [`Names::start`], for one group.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn of_group(
        group: usize,
        routers: Routers,
        mut found: Vec<SocketAddr>,
        tell: impl Fn(usize, Vec<SocketAddr>) + Clone + Send + Sync + 'static,
    ) -> io::Result<Option<Names>> {
        found.sort_unstable();
        Names::start(vec![Named { group, routers, found }], tell)
    }

    /// Begins to look up, and to tell of groups that have other routers; `None` if none can have.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(
        mut named: Vec<Named>,
        tell: impl Fn(usize, Vec<SocketAddr>) + Clone + Send + Sync + 'static,
    ) -> io::Result<Option<Names>> {
        named.retain(|it| !matches!(it.routers, Routers::Addresses(_)));
        if named.is_empty() {
            return Ok(None);
        }
        let followed: Vec<_> = named.into_iter().map(|it| it.followed(tell.clone())).collect();
        let resolved = followed.iter().filter(|it| matches!(it.routers, Routers::Resolved(_)));
        resolved.for_each(Followed::look_again);
        let (ends, ended) = channel();
        let thread = std::thread::Builder::new().name("petasos-names".to_owned());
        thread.spawn(move || {
            while !has_ended(&ended, LOOK_UP_AFTER) {
                followed.iter().for_each(Followed::look_again);
            }
        })?;
        Ok(Some(Names { _ends: ends }))
    }
}

/// Waits, but not longer than the server is there.
fn has_ended(ended: &Receiver<Infallible>, wait: Duration) -> bool {
    ended.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected)
}

impl Named {
    fn followed(self, tell: impl Fn(usize, Vec<SocketAddr>) + Send + Sync + 'static) -> Followed {
        let Named { group, routers, found } = self;
        let known = Mutex::new(found);
        let found = FoundServers::new(move |found| {
            // Told in the order in which it became known.
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(news) = news(&mut known, found) {
                tell(group, news);
            }
        });
        Followed { routers, found }
    }
}

impl Followed {
    fn look_again(&self) {
        match &self.routers {
            Routers::Resolved(resolver) => resolver.resolve(self.found.clone()),
            named => self.found.set(named.look_up()),
        }
    }
}

/// What was found, if it is other than what is known.
fn news(
    known: &mut Vec<SocketAddr>,
    found: io::Result<Vec<SocketAddr>>,
) -> Option<Vec<SocketAddr>> {
    let mut found = match found {
        Ok(found) => found,
        Err(_error) => {
            #[cfg(feature = "tracing")]
            tracing::debug!(error = %_error, "routers are not found");
            return None;
        }
    };
    found = Routers::of_group(found);
    // Resolvers turn lists round.
    found.sort_unstable();
    if found.is_empty() || found == *known {
        return None;
    }
    known.clone_from(&found);
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use petasos_rpc::settings::{ROUTERS_MAX, Resolver};

    use super::*;

    fn at(ports: &[u16]) -> Vec<SocketAddr> {
        ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port))).collect()
    }

    fn failed() -> io::Result<Vec<SocketAddr>> {
        Err(io::ErrorKind::TimedOut.into())
    }

    #[test]
    fn only_what_is_news_is_told() {
        let mut known = at(&[1, 2]);
        for found in [Ok(at(&[2, 1])), failed(), Ok(Vec::new()), Ok(at(&[1, 2]))] {
            assert_eq!(news(&mut known, found), None);
        }
        let found = [Ok(at(&[5, 4])), Ok(at(&[4, 5])), failed(), Ok(at(&[4]))];
        let told: Vec<_> = found.into_iter().filter_map(|it| news(&mut known, it)).collect();
        assert_eq!(told, [at(&[4, 5]), at(&[4])]);
        let many: Vec<u16> = (1..20).collect();
        assert_eq!(news(&mut known, Ok(at(&many))), Some(at(&many[..ROUTERS_MAX])));
    }

    /// Keeps who wants to know, for the test to tell.
    #[derive(Clone, Debug, Default)]
    struct ByHand(Arc<Mutex<Vec<FoundServers>>>);

    impl Resolver for ByHand {
        fn resolve(&self, found: FoundServers) {
            self.0.lock().expect("nobody panics").push(found);
        }
    }

    #[test]
    fn resolvers_are_asked_at_once_and_tell_at_any_time() {
        let (resolver, (tell, told)) = (ByHand::default(), channel());
        let routers = Routers::Resolved(Box::new(resolver.clone()));
        let named = vec![Named { group: 3, routers, found: Vec::new() }];
        let tell = move |group, found| tell.send((group, found)).expect("the test listens");
        let names = Names::start(named, tell).expect("there are threads").expect("it can change");
        let asked = std::mem::take(&mut *resolver.0.lock().expect("nobody panics"));
        let [found] = &asked[..] else { panic!("{} questions", asked.len()) };
        for list in [failed(), Ok(at(&[7])), Ok(at(&[7])), Ok(Vec::new()), Ok(at(&[9, 8]))] {
            found.set(list);
        }
        drop(names);
        drop(asked);
        // All that it was told, until nobody is left who could tell more.
        let told: Vec<_> = told.into_iter().collect();
        assert_eq!(told, [(3, at(&[7])), (3, at(&[8, 9]))]);
    }

    #[test]
    fn addresses_are_not_looked_up_and_the_thread_ends_with_the_server() {
        let named = |target: &str| {
            let routers = Routers::parse(target).expect("it is right");
            vec![Named { group: 0, routers, found: Vec::new() }]
        };
        let none = Names::start(named("router://127.0.0.1:7000"), |_, _| {});
        assert!(none.expect("there are threads").is_none());
        let (tell, told) = channel::<()>();
        let keep = move |_, _| drop(tell.clone());
        let names = Names::start(named("router://localhost:7000"), keep);
        let names = names.expect("there are threads").expect("it has a name");
        drop(names);
        // The thread, which has the other end, is gone.
        assert!(
            told.recv_timeout(Duration::from_secs(30))
                .is_err_and(|it| { it == RecvTimeoutError::Disconnected })
        );
    }
}

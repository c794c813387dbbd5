//! Names of routers that are looked up again while a server runs, as those of channels are.
//!
//! Invariant: a lookup that fails, or finds nobody, changes nothing.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use petasos_rpc::settings::Routers;

/// How often names are looked up again, as those of channels.
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

impl Names {
    /// As [`Names::start`], for one group.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn of_group(
        group: usize,
        routers: Routers,
        mut found: Vec<SocketAddr>,
        tell: impl Fn(usize, Vec<SocketAddr>) + Send + 'static,
    ) -> io::Result<Option<Names>> {
        found.sort_unstable();
        Names::start(vec![Named { group, routers, found }], tell)
    }

    /// Begins to look up, and to tell of groups that have other routers; `None` if none has a name.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(
        mut named: Vec<Named>,
        tell: impl Fn(usize, Vec<SocketAddr>) + Send + 'static,
    ) -> io::Result<Option<Names>> {
        named.retain(|it| matches!(it.routers, Routers::Names(_)));
        if named.is_empty() {
            return Ok(None);
        }
        let (ends, ended) = channel();
        let thread = std::thread::Builder::new().name("petasos-names".to_owned());
        thread.spawn(move || {
            while !has_ended(&ended, LOOK_UP_AFTER) {
                named.iter_mut().for_each(|it| it.look_again(Routers::look_up, &tell));
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
    fn look_again(
        &mut self,
        look_up: impl FnOnce(&Routers) -> io::Result<Vec<SocketAddr>>,
        tell: &impl Fn(usize, Vec<SocketAddr>),
    ) {
        let mut found = match look_up(&self.routers) {
            Ok(found) if !found.is_empty() => found,
            Ok(_) => return,
            Err(_error) => {
                #[cfg(feature = "tracing")]
                tracing::debug!(error = %_error, "names of routers are not found");
                return;
            }
        };
        // Resolvers turn lists round.
        found.sort_unstable();
        if found != self.found {
            self.found = found.clone();
            tell(self.group, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn at(ports: &[u16]) -> Vec<SocketAddr> {
        ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port))).collect()
    }

    #[test]
    fn only_what_is_news_is_told() {
        let routers = Routers::parse("router://localhost:1").expect("it is right");
        let mut named = Named { group: 3, routers, found: at(&[1, 2]) };
        let told = RefCell::new(Vec::new());
        let tell = |group, found| told.borrow_mut().push((group, found));
        let failed = || Err(io::ErrorKind::TimedOut.into());
        for found in [Ok(at(&[2, 1])), failed(), Ok(Vec::new()), Ok(at(&[1, 2]))] {
            named.look_again(|_| found, &tell);
        }
        assert!(told.borrow().is_empty());
        for found in [Ok(at(&[5, 4])), Ok(at(&[4, 5])), failed(), Ok(at(&[4]))] {
            named.look_again(|_| found, &tell);
        }
        assert_eq!(told.into_inner(), [(3, at(&[4, 5])), (3, at(&[4]))]);
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

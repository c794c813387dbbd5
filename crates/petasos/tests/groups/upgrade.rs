//! Groups whose service gets another version while clients call it (RT31).

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use petasos::rt::Service;
use petasos::{Channel, Code, Msg, Server, block_on};
use petasos_base::sync::{AtomicBool, AtomicU64, Ordering};
use petasos_router_control::GroupSettings;

use crate::greeter::generated as older;
use crate::routers::Router;
use crate::servers::{connect, until};
use crate::versions::{Friendly, newer, older_name};

/// Epochs follow each other soon, so that several changes take less than a minute.
fn router() -> Router {
    let mut settings = GroupSettings::default();
    settings.epochs.overlap = Duration::from_secs(2);
    Router::with(settings)
}

/// A server that is one more member when this returns.
fn join(service: impl Service, router: &Router) -> Server {
    let before = router.snapshot().workers.len();
    let server = Server::builder().add(service).listen("127.0.0.1:0").join(router.target());
    let server = server.start().expect("loopback has ports");
    until(|| router.snapshot().workers.len() > before);
    server
}

/// A client of the older version that calls until it is told to stop.
struct Caller {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Caller {
    fn start(channel: Channel) -> Caller {
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts) = (stop.clone(), calls.clone());
        let client = older::GreeterClient::new(channel);
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let greeting =
                    block_on(client.greet(older_name("Ada"))).expect("somebody is there");
                assert_eq!(greeting.text(), "hello, Ada");
                let mut blob = older::Blob::new();
                blob.edit().set_bytes(vec![7; 3000]);
                let echo = block_on(client.echo(blob)).expect("this runs once at most");
                assert_eq!(echo.bytes(), [7; 3000]);
                counts.fetch_add(2, Ordering::Relaxed);
            }
        });
        Caller { stop, calls, thread }
    }

    /// Waits for so many calls more.
    fn more(&self, calls: u64) {
        let wanted = self.calls.load(Ordering::Relaxed) + calls;
        until(|| self.thread.is_finished() || self.calls.load(Ordering::Relaxed) >= wanted);
        assert!(!self.thread.is_finished(), "a call has failed");
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no call has failed");
    }
}

fn countess() -> Msg<newer::Name> {
    let mut name = newer::Name::new();
    name.edit().set_name("Ada").set_title("Countess");
    name
}

#[test]
fn rt31_a_new_method_is_there_once_all_workers_have_it_and_no_call_fails_meanwhile() {
    let router = router();
    let old = [(); 2].map(|()| join(older::GreeterServer::new(Friendly), &router));
    let caller = Caller::start(connect(&router.target()));
    let client = newer::GreeterClient::new(connect(&router.target()));
    let anew = || block_on(client.anew(countess()));
    assert_eq!(anew().expect_err("nobody has it").code(), Code::Unimplemented);
    let new = [(); 2].map(|()| join(newer::GreeterServer::new(Friendly), &router));
    caller.more(100);
    assert_eq!(anew().expect_err("not everybody has it").code(), Code::Unimplemented);
    for server in old {
        block_on(server.drain(Duration::from_secs(5)));
        drop(server);
        caller.more(20);
    }
    // The same channel finds it, without a new connection.
    until(|| anew().is_ok_and(|greeting| greeting.text() == "hello, Countess Ada"));
    caller.more(100);
    let greeting = block_on(client.greet(countess())).expect("they are the newer ones");
    assert_eq!((greeting.text(), greeting.words()), ("hello, Countess Ada", 2));
    caller.stop();
    drop(new);
}

/// Clients hear of the epoch of the new worker when it joins: until they have bound anew, nobody
/// takes their requests, which are sent again.
#[test]
fn rt31_old_workers_may_leave_as_soon_as_a_new_one_is_there() {
    let router = router();
    let old = [(); 2].map(|()| join(older::GreeterServer::new(Friendly), &router));
    let callers = [(); 3].map(|()| Caller::start(connect(&router.target())));
    callers.iter().for_each(|caller| caller.more(20));
    let new = join(newer::GreeterServer::new(Friendly), &router);
    until(|| new.routers().iter().all(|at| at.is_member));
    for server in old {
        block_on(server.drain(Duration::from_secs(5)));
        drop(server);
    }
    callers.iter().for_each(|caller| caller.more(100));
    callers.into_iter().for_each(Caller::stop);
}

#[test]
fn rt31_a_group_goes_back_to_an_older_version_once_nobody_has_the_newer() {
    let router = router();
    let new = join(newer::GreeterServer::new(Friendly), &router);
    let channel = Channel::builder(&router.target()).wait_for_ready(true);
    let channel = block_on(channel.connect()).expect("the router is there");
    let caller = Caller::start(channel.clone());
    let client = newer::GreeterClient::new(channel);
    assert!(block_on(client.anew(countess())).is_ok());
    caller.more(20);
    // It lacks a method of the group, as long as that is there.
    let server = Server::builder().add(older::GreeterServer::new(Friendly)).listen("127.0.0.1:0");
    let old = server.join(router.target()).start().expect("loopback has ports");
    until(|| router.snapshot().refused.1 > 0);
    assert_eq!(router.snapshot().workers.len(), 1);
    block_on(new.drain(Duration::from_secs(5)));
    drop(new);
    until(|| router.snapshot().workers.len() == 1);
    caller.more(20);
    until(|| {
        let ended = block_on(client.anew(countess()));
        ended.is_err_and(|status| status.code() == Code::Unimplemented)
    });
    caller.stop();
    drop(old);
}

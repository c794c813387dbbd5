//! Servers and channels whose routers are on a list that changes (RT38).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use petasos::{Channel, FoundServers, Join, Request, Resolver, Server, block_on};

use crate::greeter::generated::GreeterClient;
use crate::greeter::*;
use crate::servers::*;

/// A list of routers, which whoever asks is told, and again when it changes.
#[derive(Clone, Debug, Default)]
struct List(Arc<Mutex<Listed>>);

#[derive(Debug, Default)]
struct Listed {
    routers: Vec<SocketAddr>,
    asked: Vec<FoundServers>,
}

impl List {
    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.0.lock().expect("nothing panics under the lock")
    }

    fn set(&self, routers: &[&Router]) {
        let mut listed = self.listed();
        listed.routers = routers.iter().map(|router| router.address).collect();
        listed.asked.iter().for_each(|found| found.set(Ok(listed.routers.clone())));
    }
}

impl Resolver for List {
    fn resolve(&self, found: FoundServers) {
        let mut listed = self.listed();
        found.set(Ok(listed.routers.clone()));
        listed.asked.push(found);
    }
}

/// The routers at which the server is a member; none if it asks others as well.
fn members_at(server: &Server) -> Vec<SocketAddr> {
    let at = server.routers();
    let all = at.iter().all(|at| at.is_member);
    at.into_iter().filter(|_| all).map(|at| at.router).collect()
}

#[test]
fn rt38_a_server_and_a_channel_follow_a_list_of_routers() {
    let service = Service::default();
    let [old, new] = [(); 2].map(|()| Router::start());
    let (served, called) = (List::default(), List::default());
    let join = Join::new("router://listed").resolver(served.clone());
    let server = builder_with(&service, join).start().expect("it waits for no router");
    assert!(server.routers().is_empty(), "none is listed");
    served.set(&[&old]);
    until(|| members_at(&server) == [old.address]);
    called.set(&[&old]);
    let channel = Channel::builder("router://listed").router_resolver(called.clone());
    let client = GreeterClient::new(block_on(channel.connect()).expect("a router is listed"));
    let greet = || {
        let request = Request::new(name("x")).with_timeout(Duration::from_secs(20));
        block_on(client.greet(request)).expect("a router is there");
    };
    greet();
    served.set(&[&old, &new]);
    until(|| members_at(&server).len() == 2);
    // It calls by way of the new router, and is no client of the old one any more, which goes on.
    called.set(&[&new]);
    until(|| {
        greet();
        old.clients().is_empty() && given(&new) > 0
    });
    served.set(&[&new]);
    until(|| members_at(&server) == [new.address] && old.snapshot().workers.is_empty());
    let before = given(&new);
    (0..20).for_each(|_| greet());
    assert!(given(&new) >= before + 20, "all go by way of the new router");
}

/// Requests that a router has given to its workers.
fn given(router: &Router) -> u64 {
    router.snapshot().workers.iter().map(|worker| worker.state.account.given()).sum()
}

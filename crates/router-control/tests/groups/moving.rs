//! Two routers whose group is named by an address that moves from one to the other (RT38).

use std::net::SocketAddr;
use std::time::Duration;

use petasos_endpoint::{Clock, GroupId, ServedGroupId};
use petasos_router_control::GroupSettings;

use crate::operate::snapshot;
use crate::world::{LOCALHOST, Member, Router, Wire, until, worker};

/// Routers that are killed and started anew, and the ways to them.
struct Site {
    /// The group's address.
    group: Wire,
    /// The routers' own addresses.
    own: [Wire; 2],
    routers: [Option<Router>; 2],
}

impl Site {
    fn new() -> Site {
        let nobody = SocketAddr::new(LOCALHOST, 1);
        let [group, first, second] = [(); 3].map(|()| Wire::to(nobody));
        let mut site = Site { group, own: [first, second], routers: [None, None] };
        site.start(0);
        site.start(1);
        site
    }

    fn start(&mut self, at: usize) {
        let routers = self.own.iter().map(|own| own.address).collect();
        let router = Router::start(GroupSettings { routers, ..GroupSettings::default() });
        self.own[at].lead_to(router.address);
        self.routers[at] = Some(router);
    }

    fn move_to(&self, at: usize) {
        self.group.lead_to(self.routers[at].as_ref().expect("it runs").address);
    }

    /// Its connections break: nobody is told anything.
    fn kill(&mut self, at: usize) {
        self.own[at].lead_to(SocketAddr::new(LOCALHOST, 1));
        self.move_to(1 - at);
        self.routers[at] = None;
    }

    fn has_worker(&self, at: usize) -> bool {
        let router = self.routers[at].as_ref().expect("it runs");
        let workers = snapshot(&router.service.operator()).workers;
        workers.iter().any(|worker| !worker.state.is_lost)
    }

    fn until_known(&self, workers: &mut [Member<ServedGroupId>], routers: &[usize]) {
        let mut nobody: [Member<GroupId>; 0] = [];
        until(&mut nobody, workers, |_, _| routers.iter().all(|at| self.has_worker(*at)));
    }
}

#[test]
fn rt38_a_worker_is_at_both_routers_again_however_often_they_are_killed() {
    let mut site = Site::new();
    site.move_to(0);
    let mut workers = [worker(&[site.group.address])];
    site.until_known(&mut workers, &[0, 1]);
    for round in 0..4 {
        let active = round % 2;
        site.kill(active);
        site.until_known(&mut workers, &[1 - active]);
        site.start(active);
        site.until_known(&mut workers, &[0, 1]);
    }
}

fn pass(workers: &mut [Member<ServedGroupId>], time: Duration) {
    let (mut nobody, clock): ([Member<GroupId>; 0], _) = ([], Clock::system());
    let end = clock.now() + time;
    until(&mut nobody, workers, |_, _| clock.now() > end);
}

/// The membership that was broken at the group's address is over after ten seconds. Its router was
/// named there, and is known by its own address only by then, which was asked a while later.
#[test]
fn rt38_what_was_told_at_the_groups_address_is_not_forgotten_with_a_membership_there() {
    let mut site = Site::new();
    site.move_to(0);
    let mut workers = [worker(&[site.group.address])];
    site.until_known(&mut workers, &[0, 1]);
    site.kill(0);
    site.until_known(&mut workers, &[1]);
    // The own address of the first is asked ever more rarely.
    pass(&mut workers, Duration::from_secs(2));
    site.start(0);
    site.kill(1);
    site.until_known(&mut workers, &[0]);
    site.start(1);
    site.until_known(&mut workers, &[0, 1]);
    pass(&mut workers, Duration::from_secs(12));
    site.until_known(&mut workers, &[0, 1]);
    site.kill(0);
    site.until_known(&mut workers, &[1]);
}

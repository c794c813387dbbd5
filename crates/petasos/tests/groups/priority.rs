//! The priority of calls, which decides between those that wait in a router (RT24).

use petasos::{Join, Request, Routing, block_on};
use petasos_router_control::GroupSettings;

use crate::callers::Caller;
use crate::gated::gated;
use crate::greeter::blob;
use crate::servers::*;

/// One call at a time, and what waits may wait for any time.
fn router() -> Router {
    let mut settings = GroupSettings::default();
    settings.plane.core.policy = "jbsq1".parse().expect("it is a policy");
    settings.plane.core.waiting_age_max = None;
    Router::with(settings)
}

/// While another one runs, two calls come after each other, with these priorities. Returns in
/// which order all of them have run.
fn order_of(priorities: [u8; 2]) -> Vec<String> {
    let (service, gate) = gated();
    let router = router();
    let _server = service.start(1, Join::new(router.target()));
    let [holder, first, second] = [(); 3].map(|()| Caller::attach(&router));
    let mut calls = vec![holder.client.echo(blob(b"held"))];
    until(|| service.seen().running == 1);
    let later = [(first, "first"), (second, "second")];
    for ((caller, text), priority) in later.iter().zip(priorities) {
        let routing = Routing { priority, ..Routing::default() };
        let request = Request::new(blob(text.as_bytes())).with_routing(routing);
        calls.push(caller.client.echo(request));
        until(|| caller.waits());
    }
    gate.open(calls.len());
    for call in calls {
        block_on(call).expect("its turn comes");
    }
    let seen = service.seen();
    seen.echoes.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

#[test]
fn rt24_of_calls_that_wait_the_more_urgent_one_runs_first() {
    assert_eq!(order_of([0, 7]), ["held", "second", "first"]);
    assert_eq!(order_of([7, 0]), ["held", "first", "second"]);
    // What is above 15 counts as 15.
    assert_eq!(order_of([14, 200]), ["held", "second", "first"]);
}

#[test]
fn rt24_of_equally_urgent_calls_the_earlier_one_runs_first() {
    for priority in [0, 7] {
        assert_eq!(order_of([priority; 2]), ["held", "first", "second"]);
    }
    assert_eq!(order_of([15, 200]), ["held", "first", "second"]);
}

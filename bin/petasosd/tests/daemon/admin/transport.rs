//! What carries packets between hosts, changed while calls run.

use petasos::Code;
use petasos_admin::StepMut;

use super::Operator;
use crate::load::{LAST, Load};
use crate::support::Daemon;

fn gather(gathered: bool) -> impl Fn(StepMut<'_>) {
    move |mut step| {
        step.configure_transport_mut().set_gathered(gathered);
    }
}

#[test]
fn gathering_is_switched_while_calls_run_and_no_call_is_lost_or_repeated() {
    let (there, address) = Daemon::start_over_tcp("gather-there", "127.0.0.2:0", &[]);
    let peers = [("greeter", &*address)];
    let (here, _) = Daemon::start_over_tcp("gather-here", "127.0.0.1:0", &peers);
    let operators = [&here, &there].map(Operator::of);
    let server = there.serve_until("server", LAST);
    let load = Load::begin(here.attach("client"), "greeter");
    for round in 0..50 {
        operators.iter().for_each(|one| one.change(&[&gather(round % 2 == 1)]));
        // A plan that fails changes nothing for good.
        operators[0].fails(&[&gather(round % 2 == 0), &|mut step| {
            step.remove_policy_mut().set_id(99);
        }]);
    }
    load.end(server);
}

#[test]
fn datagrams_have_nothing_to_switch() {
    let (daemon, _) = Daemon::start_reached("gather-datagrams", None, "127.0.0.1:0", &[]);
    let (code, why) = Operator::of(&daemon).fails(&[&gather(true)]);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(why.contains("--transport"), "{why}");
}

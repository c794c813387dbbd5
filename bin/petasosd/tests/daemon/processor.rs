//! Quotas of processor time.

use std::time::{Duration, Instant};

use petasos_admin::ListApplicationsRequest;

use crate::admin::Operator;
use crate::flips::serve;
use crate::support::*;

/// Calls at a time.
const WINDOW: u64 = 64;
/// Percent of a processor.
const SHARE: f64 = 10.0;
/// So much is used before the share counts, and so much may be used beyond it at the end: what the
/// system runs instead of the service counts, too.
const SLACK: Duration = Duration::from_millis(60);

/// How long the service has worked for an application, and whether it is held up.
fn used(operator: &Operator, name: &str) -> (Option<Duration>, bool) {
    let request = ListApplicationsRequest::new();
    let answer = operator.ask(request, |client, request| client.list_applications(request));
    let answer = answer.unwrap();
    let it = answer.applications().iter().find(|one| one.name() == name).expect("it is there");
    (it.processor_ns().map(Duration::from_nanos), it.is_over_quota())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what may be used grows with the time of the system")]
fn an_application_with_a_quota_is_held_up_when_it_has_used_its_share_and_loses_nothing() {
    let daemon = Daemon::start("processor", None);
    let operator = Operator::of(&daemon);
    operator.change(&[&|mut step| {
        let mut set = step.set_quota_mut();
        set.quota_mut().set_application("greedy").set_processor_percent(SHARE);
    }]);
    let server = serve(&daemon);
    let begin = Instant::now();
    let mut greedy = daemon.attach("greedy");
    let mut modest = daemon.attach("modest");
    let (target, of_modest) = (greedy.target("greeter"), modest.target("greeter"));
    let message = greedy.kept_request("ann");
    assert_eq!(used(&operator, "modest"), (None, false));
    let (mut calls, mut was_held_up) = (0u64, false);
    let processor = loop {
        (0..WINDOW).for_each(|_| greedy.begin_kept(target, message));
        calls += WINDOW;
        // Rarely: an operator's look takes time, in which the share grows.
        let looks = calls.is_multiple_of(WINDOW * 32);
        let (processor, is_held_up) = if looks { used(&operator, "greedy") } else { (None, false) };
        was_held_up |= is_held_up;
        (0..WINDOW).for_each(|_| assert_eq!(greedy.next_status(), 0));
        greedy.poll();
        if looks {
            assert!(modest.greet(of_modest, "bob").is_ok(), "others are heard");
        }
        if let Some(processor) = processor.filter(|processor| *processor > 4 * SLACK) {
            break processor;
        }
    };
    let most = begin.elapsed().mul_f64(SHARE / 100.0) + SLACK;
    assert!(processor <= most, "{processor:?} of {most:?}, {calls} calls");
    assert!(was_held_up);
    assert!(greedy.greet(target, "stop").is_ok());
    server.join().unwrap();
}

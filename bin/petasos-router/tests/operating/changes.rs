//! Workers are drained and weighed, and policies change, while calls run.

use petasos::Code;
use petasos_admin::router as proto;

use crate::operator::{Router, call_while, pass, refusal, until, worker};

#[test]
fn no_call_fails_while_workers_are_drained_and_weighed_and_policies_change() {
    let router = Router::start("changes", "", "");
    let target = router.target();
    let _workers = [worker(&target), worker(&target), worker(&target)];
    let operator = router.operator();
    operator.until_workers(3);
    let first = operator.workers().workers()[0].worker();
    let calls = call_while(&target, |answered| {
        pass(answered, 100);
        let done = operator.drain(first, false).expect("it is there");
        assert!(done[0].contains("gets nothing more"), "{done:?}");
        until(|| operator.worker(first, |it| it.state() == "drained"));
        let given = operator.worker(first, proto::Worker::given);
        pass(answered, 100);
        assert_eq!(operator.worker(first, |it| (it.given(), it.limit())), (given, 0));
        operator.drain(first, true).expect("it is there");
        until(|| operator.worker(first, |it| it.given() > given));
        operator.weigh(first, 10).expect("it is there");
        assert_eq!(operator.worker(first, proto::Worker::weight), 10);
        for policy in ["random", "rr", "pl2", "jsq", "jbsq1"] {
            let done = operator.set(|to| _ = to.set_policy(policy)).expect("it is right");
            assert!(done[0].contains(policy), "{done:?}");
            pass(answered, 50);
        }
        let done = operator.set(|to| {
            to.set_limit(2).set_waiting_max(100).set_waiting_age_us(0);
        });
        assert_eq!(done.expect("it is right").len(), 3);
        pass(answered, 50);
    });
    let status = operator.status();
    let group = &status.groups()[0];
    let settings = group.settings().expect("it has some");
    assert_eq!((settings.policy(), settings.limit()), ("jbsq2", Some(2)));
    assert_eq!((settings.waiting_max(), settings.waiting_age_us()), (100, None));
    assert!(group.given() >= calls && group.settled() > 0 && group.feedback() > 0);
    assert_eq!((group.workers(), group.services().len()), (3, 1));
    let rejected: u64 = group.rejected().iter().map(proto::Count::count).sum();
    assert_eq!((rejected, group.waiting(), group.waiting_bytes()), (0, 0, 0));
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let router = Router::start("wrong", "", "");
    let target = router.target();
    let _worker = worker(&target);
    let operator = router.operator();
    operator.until_workers(1);
    for number in [0, 999, 70_000, u32::MAX] {
        let (code, why) = refusal(operator.drain(number, false));
        assert!(code == Code::NotFound && why.contains(&number.to_string()), "{why}");
        assert_eq!(refusal(operator.weigh(number, 50)).0, Code::NotFound);
    }
    let number = operator.workers().workers()[0].worker();
    for weight in [0, 101, 300, u32::MAX] {
        assert_eq!(refusal(operator.weigh(number, weight)).0, Code::InvalidArgument);
    }
    let wrong: [fn(&mut proto::SetPolicyRequestMut<'_>); 7] = [
        |_| {},
        |to| _ = to.set_policy("best"),
        |to| _ = to.set_policy("jbsq4096"),
        |to| _ = to.set_limit(5000),
        |to| _ = to.set_limit(70_000),
        |to| _ = to.set_waiting_max(u64::MAX),
        |to| _ = to.set_waiting_age_us(u64::MAX),
    ];
    for fill in wrong {
        let (code, why) = refusal(operator.set(fill));
        assert_eq!(code, Code::InvalidArgument, "{why}");
    }
    let mut request = proto::ListWorkersRequest::new();
    request.edit().set_group("127.0.0.1:1");
    let listed = operator.ask(request, |client, request| client.list_workers(request));
    let (code, why) = refusal(listed);
    assert!(code == Code::NotFound && why.contains(&router.group.to_string()), "{why}");
    let status = operator.status();
    let settings = status.groups()[0].settings().expect("it has some");
    assert_eq!((settings.policy(), settings.waiting_max()), ("jbsq3", 16_384));
    assert_eq!(operator.worker(number, |it| (it.weight(), it.is_draining())), (100, false));
}

#[test]
fn clients_are_listed_with_what_they_have_sent() {
    let router = Router::start("clients", "", "");
    let target = router.target();
    let _worker = worker(&target);
    let operator = router.operator();
    operator.until_workers(1);
    call_while(&target, |answered| {
        pass(answered, 100);
        let before = answered();
        let request = proto::ListClientsRequest::new();
        let listed = operator.ask(request, |client, it| client.list_clients(it));
        let listed = listed.expect("it answers");
        let requests: u64 = listed.clients().iter().map(proto::Client::requests).sum();
        assert!(requests >= before, "{requests} of {before}");
        assert!(listed.clients().iter().all(|it| it.peer() == "127.0.0.1") && !listed.has_more());
        let counted = || operator.status().groups()[0].clients() as usize;
        until(|| counted() == listed.clients().len());
    });
}

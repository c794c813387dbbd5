//! Workers that say that they fail are given nothing for a while (RT20, RT23).

use std::time::Duration;

use petasos::{Code, block_on};
use petasos_router_control::GroupSettings;

use crate::flaky::{Flaky, fail};
use crate::greeter::generated::GreeterClient;
use crate::greeter::*;
use crate::servers::*;

/// In turns, so that nobody is spared by chance.
fn router() -> Router {
    let mut settings = GroupSettings::default();
    let core = &mut settings.plane.core;
    core.policy = "rr".parse().expect("it is a policy");
    let ejection = core.ejection.insert(Default::default());
    (ejection.failures_min, ejection.time) = (5, Duration::from_secs(300));
    Router::with(settings)
}

#[test]
fn rt23_a_worker_whose_handlers_fail_gets_no_more_and_the_other_has_all_calls() {
    let (router, failing, good) = (router(), Flaky::default(), Flaky::default());
    let join = |service: &Flaky| {
        let server = service.builder().listen("127.0.0.1:0").join(router.target());
        server.start().expect("loopback has ports")
    };
    let _servers = [join(&failing), join(&good)];
    until(|| router.snapshot().workers.iter().filter(|it| it.state.limit > 0).count() == 2);
    let client = GreeterClient::new(connect(&router.target()));
    // Who asks for what is not there is not failed by the worker.
    failing.state().always = Some(fail(Code::NotFound));
    for _ in 0..40 {
        let _answer = block_on(client.echo(blob(b"who?")));
    }
    assert!(failing.count() > 5, "it got some of these");
    assert_eq!(router.snapshot().counts.ejections, 0);
    failing.state().always = Some(fail(Code::Internal));
    until(|| {
        let _answer = block_on(client.echo(blob(b"fails?")));
        router.snapshot().counts.ejections == 1
    });
    let before = failing.count();
    for _ in 0..40 {
        block_on(client.echo(blob(b"hello"))).expect("only the other one is asked");
    }
    assert_eq!(failing.count(), before);
    // The last one stays, whatever it does.
    good.state().always = Some(fail(Code::Internal));
    for _ in 0..40 {
        let failed = block_on(client.echo(blob(b"hello"))).expect_err("its handlers fail");
        assert_eq!(failed.code(), Code::Internal);
    }
    assert_eq!(router.snapshot().counts.ejections, 1);
}

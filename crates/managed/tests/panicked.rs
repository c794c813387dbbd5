//! A carrier that has panicked leaves no call to wait for ever.

use std::net::{Ipv4Addr, SocketAddr};

use petasos_endpoint::{
    CallError, Clock, Completion, Context, Endpoint, EndpointConfig, MsgBuf, NoPackets,
    SessionState,
};
use petasos_managed::{Carrier, ServiceConfig};

/// How each call has ended.
type Outcomes = Vec<Result<(), CallError>>;

fn note(outcomes: &mut Outcomes, _: &mut Context<Outcomes>, done: Completion<'_>) {
    outcomes.push(done.result.map(drop));
}

#[test]
fn its_calls_fail_and_it_attaches_anew() {
    let io = NoPackets::new().unwrap();
    let mut endpoint =
        Endpoint::new(EndpointConfig::default(), io, Clock::system(), Outcomes::new());
    let notifier = endpoint.notifier().unwrap();
    let service = ServiceConfig::new("unix:/no/service/here").unwrap();
    let mut carrier = Carrier::new(service, 1, notifier);
    let (outcomes, cx) = endpoint.split();
    let session = carrier.open(cx, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), 8);
    cx.establish_external(session);
    cx.enqueue_request(session, 1, MsgBuf::from(&b"hello"[..]), note, 0).expect("it is ready");

    carrier.has_panicked();

    assert!(carrier.next_turn_at() <= cx.now(), "it is looked at soon");
    assert!(carrier.receive(outcomes, cx));
    assert_eq!(cx.session_state(session), SessionState::Failed);
    endpoint.run_once();
    let (outcomes, cx) = endpoint.split();
    assert!(matches!(outcomes[..], [Err(_)]), "{outcomes:?}");
    assert!(carrier.is_serving().unwrap_err().contains("panicked"));
    // It is used again.
    carrier.open(cx, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), 8);
    assert!(!carrier.receive(outcomes, cx), "it attaches");
}

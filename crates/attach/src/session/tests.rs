use petasos_abi::Extent;
use petasos_shm::HeapKind;
use proptest::prelude::*;

use super::*;
use crate::ask::{Answer, Ask, NotDone};
use crate::hello::{Hello, Limits, Welcome};
use crate::kind;
use crate::message::{FromApplication, FromService, Grow};
use crate::reason::{DetachCode, Text};

fn hello() -> Hello {
    Hello::new("test", 2).expect("a hello")
}

fn from_application(said: &[FromApplication]) -> Vec<u8> {
    let mut out = Vec::new();
    said.iter().for_each(|said| said.write(&mut out));
    out
}

fn from_service(said: &[FromService]) -> Vec<u8> {
    let mut out = Vec::new();
    said.iter().for_each(|said| said.write(&mut out));
    out
}

fn grow(request: u32) -> FromApplication {
    FromApplication::Grow(Grow { request, heap: HeapKind::Send, bytes: 1 })
}

fn welcome() -> FromService {
    FromService::Welcome(Welcome { version: 1, lanes: 2, limits: Limits::default() })
}

fn lane(index: u16) -> FromService {
    FromService::Lane { index, slots: 8 }
}

fn extent(request: u32) -> FromService {
    let extent = Extent { offset: 0, bytes: 1 << 16 };
    FromService::Extent { request, heap: HeapKind::Send, extent }
}

/// How the service takes these bytes: the messages, or the violation.
fn heard(bytes: &[u8]) -> Result<usize, Violation> {
    let (mut session, mut input, mut count) = (ServiceSession::default(), bytes, 0);
    while session.poll_message(&mut input)?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// The same of an application that has asked for an extent twice.
fn told(bytes: &[u8]) -> Result<usize, Violation> {
    let (mut session, mut input, mut count) = (ApplicationSession::new(&hello()), bytes, 0);
    session.ask(HeapKind::Send, 1);
    session.ask(HeapKind::Send, 1);
    while session.poll_message(&mut input)?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[test]
fn d1_an_application_says_hello_first_and_once() {
    let hello = FromApplication::Hello(hello());
    assert_eq!(heard(&from_application(&[hello.clone(), grow(1), grow(2)])), Ok(3));
    assert_eq!(heard(&from_application(&[grow(1)])), Err(Violation::HelloExpected(kind::GROW)));
    assert_eq!(heard(&from_application(&[hello.clone(), hello])), Err(Violation::HelloTwice));
}

#[test]
fn d1_versions_are_judged_before_anything_else_of_a_hello() {
    let mut body = [&crate::hello::MAGIC[..], &[5, 0, 9, 0]].concat();
    body.extend_from_slice(b"what nobody knows yet");
    let mut bytes = vec![body.len() as u8, 0, kind::HELLO, 0];
    bytes.extend_from_slice(&body);
    let versions = Versions { oldest: 5, newest: 9 };
    assert_eq!(heard(&bytes), Err(Violation::Versions(versions)));
    assert_eq!(Violation::Versions(versions).refuse_code(), RefuseCode::Versions);
    bytes[10..12].copy_from_slice(&[1, 0]);
    assert_eq!(heard(&bytes), Err(Malformed::Value("versions").into()), "no range at all");
}

#[test]
fn d1_requests_count_up() {
    let hello = FromApplication::Hello(hello());
    for (second, expected) in [(1, 2), (3, 2), (u32::MAX, 2)] {
        let bytes = from_application(&[hello.clone(), grow(1), grow(second)]);
        assert_eq!(heard(&bytes), Err(Violation::Request { expected, found: second }));
    }
}

#[test]
fn d1_nothing_is_heard_after_the_end() {
    let detach = FromApplication::Detach(DetachCode::Done, Text::new("bye"));
    let hello = FromApplication::Hello(hello());
    assert_eq!(heard(&from_application(&[hello.clone(), detach, grow(7), hello])), Ok(2));
    let mut session = ServiceSession::default();
    assert!(session.poll_message(&mut &[9, 9, 9, 9][..]).is_err());
    let mut input = &[1, 2, 3][..];
    assert!(matches!(session.poll_message(&mut input), Ok(None)));
    assert!(input.is_empty() && !session.is_within_frame());
}

#[test]
fn d1_lanes_come_first_and_in_order() {
    let whole = [welcome(), lane(0), lane(1), extent(0), extent(1), extent(2)];
    assert_eq!(told(&from_service(&whole)), Ok(6));
    let lane_field: Violation = Malformed::Value("lane").into();
    for (said, violation) in [
        (&[lane(0)][..], Violation::Unexpected(kind::LANE)),
        (&[welcome(), welcome()], Violation::Unexpected(kind::WELCOME)),
        (&[welcome(), lane(1)], lane_field),
        (&[welcome(), lane(0), extent(0)], Violation::Unexpected(kind::EXTENT)),
        (&[welcome(), lane(0), lane(1), lane(2)], Violation::Unexpected(kind::LANE)),
    ] {
        assert_eq!(told(&from_service(said)), Err(violation));
    }
}

#[test]
fn d1_answers_come_in_the_order_of_requests() {
    let begun = [welcome(), lane(0), lane(1)];
    for (answers, expected) in [(&[2][..], 1), (&[1, 1], 2), (&[1, 2, 3], 3)] {
        let answers: Vec<_> = answers.iter().map(|request| extent(*request)).collect();
        let Err(Violation::Request { expected: found, .. }) =
            told(&from_service(&[&begun[..], &answers].concat()))
        else {
            panic!("it is a violation");
        };
        assert_eq!(found, expected);
    }
}

#[test]
fn d1_a_service_takes_no_more_lanes_or_other_versions_than_it_was_offered() {
    let limits = Limits::default();
    let of = |version, lanes| FromService::Welcome(Welcome { version, lanes, limits });
    let field = |field| Err(Malformed::Value(field).into());
    assert_eq!(told(&from_service(&[of(5, 1)])), field("version"));
    assert_eq!(told(&from_service(&[of(1, 3)])), field("lanes"));
    assert_eq!(told(&from_service(&[of(1, 1), lane(0), extent(1)])), Ok(3));
}

#[test]
fn d13_schemas_are_named_from_version_3_on() {
    let recall = || {
        let (digest, service) = ([7; 32], Text::new("greet.Greeter"));
        FromApplication::Ask(1, Ask::Recall { digest, is_served: true, service })
    };
    let unknown = || FromService::Answer(Answer { request: 1, result: Err(NotDone::Unknown) });
    for (version, is_known) in [(1, false), (2, false), (3, true)] {
        let versions = Versions { oldest: 1, newest: version };
        let hello = FromApplication::Hello(Hello { versions, ..hello() });
        let heard = heard(&from_application(&[hello, recall()]));
        let limits = Limits::default();
        let welcome = FromService::Welcome(Welcome { version, lanes: 1, limits });
        let told = told(&from_service(&[welcome, lane(0), unknown()]));
        let unexpected = Err(Violation::Unexpected(kind::ANSWER));
        assert_eq!(told, if is_known { Ok(3) } else { unexpected }, "{version}");
        let unexpected = Err(Violation::Unexpected(kind::RECALL));
        assert_eq!(heard, if is_known { Ok(2) } else { unexpected }, "{version}");
    }
}

#[test]
fn d14_an_application_moves_step_by_step_when_it_is_told() {
    let attached = from_application(&[FromApplication::Attached]);
    let moved = from_application(&[FromApplication::Moved]);
    let poll = |session: &mut ServiceSession, bytes: &[u8]| {
        session.poll_message(&mut &*bytes).map(|said| said.is_some())
    };
    // What it was not told, or has said, is a violation.
    for (told, said, violation) in [
        (0, &[&attached][..], kind::ATTACHED),
        (0, &[&moved], kind::MOVED),
        (1, &[&moved], kind::MOVED),
        (1, &[&attached, &attached], kind::ATTACHED),
        (1, &[&attached, &moved], kind::MOVED),
    ] {
        let mut session = ServiceSession::default();
        poll(&mut session, &from_application(&[FromApplication::Hello(hello())])).expect("first");
        assert!(!session.say(Handover::Moving), "nobody has attached");
        assert_eq!(told == 1, told == 1 && session.say(Handover::Announced));
        let (last, before) = said.split_last().expect("it says something");
        before.iter().for_each(|said| assert_eq!(poll(&mut session, said), Ok(true)));
        assert_eq!(poll(&mut session, last), Err(Violation::Unexpected(violation)));
    }
    let mut session = ServiceSession::default();
    poll(&mut session, &from_application(&[FromApplication::Hello(hello())])).expect("first");
    assert!(session.say(Handover::Announced) && !session.say(Handover::Announced));
    assert_eq!(poll(&mut session, &attached), Ok(true));
    assert!(!session.say(Handover::Moved), "that is for the application to say");
    assert!(session.say(Handover::Moving));
    assert_eq!(poll(&mut session, &moved), Ok(true));
    assert_eq!(session.handover(), Handover::Moved);
}

#[test]
fn d14_a_service_announces_a_successor_once_and_to_those_who_know() {
    let begun = |version| {
        let limits = Limits::default();
        let welcome = FromService::Welcome(Welcome { version, lanes: 1, limits });
        let mut session = ApplicationSession::new(&hello());
        let bytes = from_service(&[welcome, lane(0)]);
        let mut input = &bytes[..];
        while session.poll_message(&mut input).expect("it begins").is_some() {}
        session
    };
    let successor = from_service(&[FromService::Successor]);
    let go = from_service(&[FromService::Move]);
    let poll = |session: &mut ApplicationSession, bytes: &[u8]| {
        session.poll_message(&mut &*bytes).map(|said| said.is_some())
    };
    let unexpected = |kind| Err(Violation::Unexpected(kind));
    assert_eq!(poll(&mut begun(1), &successor), unexpected(kind::SUCCESSOR), "not in version 1");
    assert_eq!(poll(&mut begun(2), &go), unexpected(kind::MOVE));
    let mut session = begun(2);
    assert!(!session.say(Handover::Attached), "there is no successor");
    assert_eq!(poll(&mut session, &successor), Ok(true));
    assert!(session.say(Handover::Attached) && !session.say(Handover::Attached));
    assert!(!session.say(Handover::Moved));
    assert_eq!(poll(&mut session, &go), Ok(true));
    assert!(session.say(Handover::Moved) && !session.say(Handover::Moved));
    assert_eq!(poll(&mut session, &successor), unexpected(kind::SUCCESSOR));
}

proptest! {
    #[test]
    fn d1_any_bytes_are_heard_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..300), after_hello: bool,
    ) {
        let mut all = Vec::new();
        if after_hello {
            FromApplication::Hello(hello()).write(&mut all);
        }
        all.extend_from_slice(&bytes);
        let _ = (heard(&all), told(&bytes));
        let begun = from_service(&[welcome(), lane(0), lane(1)]);
        let _ = told(&[begun, bytes].concat());
    }
}

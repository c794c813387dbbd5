//! What an application and the managed service say to each other over their socket (D1), in pieces
//! of any size.

use petasos_abi::Extent;
use petasos_attach::frame::Deframer;
use petasos_attach::hello::{Hello, Limits, Welcome};
use petasos_attach::message::{FromApplication, FromService, Grow};
use petasos_attach::reason::{DetachCode, NoExtent, RefuseCode, Text};
use petasos_attach::session::{ApplicationSession, Handover, ServiceSession};
use petasos_shm::HeapKind;

use crate::{Input, Seed};

/// The first byte says who hears the rest, and in pieces of how many bytes. A service that hears
/// odd pieces has a successor (D14).
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let how = input.u8();
    let pieces = usize::from(how >> 1).max(1);
    if how & 1 == 0 {
        hear(input.rest().chunks(pieces), pieces % 2 == 1);
    } else {
        be_told(input.rest().chunks(pieces));
    }
}

/// As the service.
fn hear<'a>(pieces: impl Iterator<Item = &'a [u8]>, has_successor: bool) {
    let (mut session, mut requests, mut hellos) = (ServiceSession::default(), 0, 0);
    for mut piece in pieces {
        while !piece.is_empty() {
            let said = match session.poll_message(&mut piece) {
                Ok(Some(said)) => said,
                Ok(None) => continue,
                Err(_) => return is_over(&mut session),
            };
            match &said {
                FromApplication::Hello(hello) => {
                    hellos += 1;
                    assert!(hello.name.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
                    assert!(!has_successor || session.say(Handover::Announced));
                }
                FromApplication::Attached => {
                    assert!(has_successor && session.say(Handover::Moving), "it was asked to");
                }
                FromApplication::Moved => assert_eq!(session.handover(), Handover::Moved),
                FromApplication::Grow(grow) => {
                    requests += 1;
                    assert_eq!(grow.request, requests, "requests count up");
                }
                FromApplication::Ask(request, _) => {
                    requests += 1;
                    assert_eq!(*request, requests, "requests count up");
                }
                FromApplication::GiveUp { .. } => {}
                FromApplication::Detach(..) => return is_over(&mut session),
            }
            assert_eq!(hellos, 1, "a hello comes first, and once");
            let mut again = Vec::new();
            said.write(&mut again);
            assert_one_frame(&again);
        }
    }
}

fn is_over(session: &mut ServiceSession) {
    let mut input = &[0; 9][..];
    assert!(matches!(session.poll_message(&mut input), Ok(None)) && input.is_empty());
}

/// As an application that wants two lanes and has asked for three extents.
fn be_told<'a>(pieces: impl Iterator<Item = &'a [u8]>) {
    let hello = Hello::new("fuzz", 2).expect("it is a hello");
    let mut session = ApplicationSession::new(&hello);
    for _ in 0..3 {
        session.ask(HeapKind::Send, 1).expect("three are few");
    }
    let (mut answered, mut lanes) = (0, 0);
    for mut piece in pieces {
        while !piece.is_empty() {
            let said = match session.poll_message(&mut piece) {
                Ok(Some(said)) => said,
                Ok(None) => continue,
                Err(_) => return,
            };
            match &said {
                FromService::Lane { .. } => lanes += 1,
                FromService::Extent { request, .. } if *request != 0 => answered += 1,
                FromService::NoExtent { .. } => answered += 1,
                _ => {}
            }
            assert!(answered <= 3 && lanes <= 2 && said.descriptors() <= 2);
            let mut again = Vec::new();
            said.write(&mut again);
            let (kind, body) = assert_one_frame(&again);
            assert_eq!(FromService::read(kind, &body), Ok(said), "it means the same again");
        }
    }
}

fn assert_one_frame(bytes: &[u8]) -> (u8, Vec<u8>) {
    let (mut deframer, mut input) = (Deframer::default(), bytes);
    let frame = deframer.next_frame(&mut input).expect("it is a frame").expect("and whole");
    assert!(input.is_empty(), "one frame and no more");
    (frame.kind, frame.body.to_vec())
}

/// Both sides of an attachment, and refusals.
pub fn seeds() -> Vec<Seed> {
    let hello = FromApplication::Hello(Hello::new("example/1.0", 2).expect("it is a hello"));
    let grow =
        |request| FromApplication::Grow(Grow { request, heap: HeapKind::Receive, bytes: 100_000 });
    let done = Text::new("done");
    let application = series(60, 0, |out| {
        let bye = FromApplication::Detach(DetachCode::Done, done.clone());
        let give_up = FromApplication::GiveUp { offset: 1 << 16 };
        let all = [hello.clone(), grow(1), grow(2), give_up, bye];
        all.iter().for_each(|said| said.write(out));
    });
    let moves = series(61, 0, |out| {
        let all = [hello, FromApplication::Attached, grow(1), FromApplication::Moved];
        all.iter().for_each(|said| said.write(out));
    });
    let welcome = Welcome { version: 1, lanes: 2, limits: Limits::default() };
    let lane = |index| FromService::Lane { index, slots: 1024 };
    let extent = Extent { offset: 1 << 17, bytes: 1 << 16 };
    let extent = |request| FromService::Extent { request, heap: HeapKind::Receive, extent };
    let refused = FromService::NoExtent { request: 2, reason: NoExtent::Quota };
    let service = series(60, 1, |out| {
        let give_up = FromService::GiveUp { offset: 1 << 17 };
        let stops = FromService::Detach(DetachCode::Stopping, done.clone());
        let begin = [FromService::Welcome(welcome), lane(0), lane(1), extent(0), extent(1)];
        begin.iter().chain(&[refused, give_up, stops]).for_each(|said| said.write(out));
    });
    let refuse = FromService::Refuse(RefuseCode::Busy, Text::new("too many"));
    let refuse = series(60, 1, |out| refuse.write(out));
    vec![("application", application), ("moves", moves), ("service", service), ("refuse", refuse)]
}

/// For the side `who`, in pieces of so many bytes.
fn series(pieces: u8, who: u8, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![pieces << 1 | who];
    write(&mut bytes);
    bytes
}

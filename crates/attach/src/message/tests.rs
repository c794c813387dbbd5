use proptest::prelude::*;

use super::*;
use crate::ask::NotDone;
use crate::frame::Deframer;
use crate::hello::{HeapLimits, Limits, MAGIC, Name, Token, Versions};

/// The kind and the body of what `write` appends.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> (u8, Vec<u8>) {
    let mut bytes = Vec::new();
    write(&mut bytes);
    let mut deframer = Deframer::default();
    let frame = deframer.next_frame(&mut &bytes[..]).expect("it is a frame").expect("a whole one");
    (frame.kind, frame.body.to_vec())
}

fn heaps() -> impl Strategy<Value = HeapKind> {
    prop_oneof![Just(HeapKind::Send), Just(HeapKind::Receive)]
}

fn heap_limits() -> impl Strategy<Value = HeapLimits> {
    (1..=1u64 << 24, 0..=1u64 << 40)
        .prop_map(|(units, quota_bytes)| HeapLimits { range_bytes: units << 16, quota_bytes })
}

prop_compose! {
    fn welcome()(
        version in 1..=u16::MAX, lanes in 1..=LANES_MAX, calls_max in 1..=u32::MAX,
        grant_bytes: u64, send in heap_limits(), receive in heap_limits()
    ) -> Welcome {
        Welcome { version, lanes, limits: Limits { calls_max, grant_bytes, send, receive } }
    }
}

fn texts() -> impl Strategy<Value = Text> {
    ".{0,300}".prop_map(|text| Text::new(&text))
}

fn detach_codes() -> impl Strategy<Value = DetachCode> {
    (1..=3u8).prop_map(|byte| DetachCode::from_byte(byte).expect("there are three"))
}

fn refuse_codes() -> impl Strategy<Value = RefuseCode> {
    (1..=u8::MAX).prop_map(|byte| RefuseCode::from_byte(byte).expect("all but 0 are codes"))
}

fn extents() -> impl Strategy<Value = Extent> {
    (0..1u64 << 23, 1..=1u64 << 23)
        .prop_map(|(offset, bytes)| Extent { offset: offset << 16, bytes: bytes << 16 })
}

fn from_service() -> impl Strategy<Value = FromService> {
    let slots = (1..=16u32).prop_map(|log| 1 << log);
    let reason = (1..=3u8).prop_map(|byte| NoExtent::from_byte(byte).expect("there are three"));
    prop_oneof![
        welcome().prop_map(FromService::Welcome),
        (refuse_codes(), texts()).prop_map(|(code, text)| FromService::Refuse(code, text)),
        (0..LANES_MAX, slots).prop_map(|(index, slots)| FromService::Lane { index, slots }),
        (any::<u32>(), heaps(), extents())
            .prop_map(|(request, heap, extent)| FromService::Extent { request, heap, extent }),
        (1..=u32::MAX, reason)
            .prop_map(|(request, reason)| FromService::NoExtent { request, reason }),
        (0..1u64 << 24).prop_map(|unit| FromService::GiveUp { offset: unit << 16 }),
        (detach_codes(), texts()).prop_map(|(code, text)| FromService::Detach(code, text)),
        Just(FromService::Successor),
        Just(FromService::Move),
    ]
}

fn hello(name: &str, token: &[u8], lanes: u16) -> Hello {
    let (name, token) = (Name::new(name).expect("a name"), Token::new(token).expect("a token"));
    let is_moving = name.as_str().len().is_multiple_of(2);
    Hello { versions: Versions::SUPPORTED, lanes, name, token, is_moving }
}

proptest! {
    #[test]
    fn d1_what_the_service_says_is_read_as_it_was_meant(said in from_service()) {
        let (kind, body) = written(|out| said.write(out));
        prop_assert_eq!(FromService::read(kind, &body), Ok(said));
        let wrong_side = matches!(kind, kind::WELCOME..=kind::EXTENT | kind::NO_EXTENT);
        if wrong_side {
            let read = FromApplication::read(kind, &body).map(drop);
            prop_assert_eq!(read, Err(Malformed::Side(kind)));
        }
    }

    #[test]
    fn d1_a_body_that_is_cut_or_goes_on_is_refused(said in from_service(), more in 1..9usize) {
        let (kind, mut body) = written(|out| said.write(out));
        for length in 0..body.len() {
            prop_assert_eq!(FromService::read(kind, &body[..length]), Err(Malformed::Truncated));
        }
        body.resize(body.len() + more, 0);
        prop_assert_eq!(FromService::read(kind, &body), Err(Malformed::Trailing));
    }

    #[test]
    fn d1_a_hello_is_read_as_it_was_meant(
        name in "[a-zA-Z0-9._/-]{1,64}", token in prop::collection::vec(any::<u8>(), 0..=64),
        lanes in 1..=LANES_MAX,
    ) {
        let said = hello(&name, &token, lanes);
        let (kind, body) = written(|out| FromApplication::Hello(said.clone()).write(out));
        prop_assert_eq!(kind, kind::HELLO);
        let read = Hello::read(&body).expect("it is a hello");
        prop_assert_eq!((read.versions, read.lanes), (said.versions, lanes));
        prop_assert_eq!(&read.name, &said.name);
        prop_assert!(read.token.matches(&said.token));
        for length in 0..body.len() {
            prop_assert!(Hello::read(&body[..length]).is_err());
        }
    }

    #[test]
    fn d1_any_body_is_a_message_or_refused(
        kind in 0..12u8, body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Ok(said) = FromService::read(kind, &body) {
            prop_assert_eq!(written(|out| said.write(out)), (kind, body.clone()));
        }
        if let Ok(said) = FromApplication::read(kind, &body) {
            let again = written(|out| said.write(out));
            prop_assert_eq!(again, (kind, body));
        }
    }

    #[test]
    fn d1_a_name_has_only_what_can_be_printed(name in ".{0,70}") {
        if let Ok(name) = Name::new(&name) {
            let printed = name.to_string();
            prop_assert!(printed.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert!((1..=64).contains(&printed.len()));
        }
    }
}

#[test]
fn d1_names_with_other_characters_are_refused() {
    for name in ["", "a b", "a\u{1b}[2J", "a\n", "ä", "a\0", &"a".repeat(65)] {
        assert!(Name::new(name).is_err(), "{name:?}");
        let mut body = [&MAGIC[..], &[1, 0, 1, 0, 1, 0, name.len() as u8, 0]].concat();
        body.extend_from_slice(name.as_bytes());
        assert_eq!(Hello::read(&body).map(drop), Err(Malformed::Value("name")), "{name:?}");
    }
}

#[test]
fn d1_numbers_out_of_range_are_refused() {
    let grow = |request: u32, heap: u8, bytes: u64| {
        let mut body = request.to_le_bytes().to_vec();
        body.push(heap);
        body.extend_from_slice(&bytes.to_le_bytes());
        FromApplication::read(kind::GROW, &body).map(drop)
    };
    assert_eq!(grow(1, 1, 1 << 40), Ok(()));
    assert_eq!(grow(0, 1, 1), Err(Malformed::Value("request")));
    for heap in [0, 3, 255] {
        assert_eq!(grow(1, heap, 1), Err(Malformed::Value("heap")));
    }
    for bytes in [0, (1 << 40) + 1, u64::MAX] {
        assert_eq!(grow(1, 2, bytes), Err(Malformed::Value("bytes")));
    }
    let give_up = |heap: u8, offset: u64| {
        let body = [&[heap][..], &offset.to_le_bytes()].concat();
        FromApplication::read(kind::GIVE_UP, &body).map(drop)
    };
    assert_eq!(give_up(1, 1 << 16), Ok(()));
    assert_eq!(give_up(2, 1 << 16), Err(Malformed::Value("heap")));
    for offset in [1, 1 << 40, u64::MAX - 0xffff] {
        assert_eq!(give_up(1, offset), Err(Malformed::Value("offset")));
    }
}

#[test]
fn d1_unknown_kinds_and_those_of_the_other_side_are_told_apart() {
    let unknown = kind::RECALL + 1;
    assert_eq!(FromService::read(unknown, &[]), Err(Malformed::UnknownKind(unknown)));
    assert_eq!(FromApplication::read(0, &[]).map(drop), Err(Malformed::UnknownKind(0)));
    assert_eq!(FromService::read(kind::GROW, &[]), Err(Malformed::Side(kind::GROW)));
    assert_eq!(FromApplication::read(kind::LANE, &[]).map(drop), Err(Malformed::Side(kind::LANE)));
}

#[test]
fn d14_who_moves_says_so_from_version_4_on() {
    for (newest, is_said) in [(3, false), (4, true), (9, true)] {
        for is_moving in [false, true] {
            let versions = Versions { oldest: 1, newest };
            let hello = Hello { versions, is_moving, ..hello("a", b"", 1) };
            let (_, body) = written(|out| FromApplication::Hello(hello.clone()).write(out));
            let read = Hello::read(&body).expect("it is a hello");
            assert_eq!((read.is_moving, read.tells_moving()), (is_moving && is_said, is_said));
        }
    }
    let (_, mut body) = written(|out| FromApplication::Hello(hello("a", b"", 1)).write(out));
    *body.last_mut().expect("flags") = 2;
    assert_eq!(Hello::read(&body).map(drop), Err(Malformed::Value("flags")));
    body.pop();
    assert_eq!(Hello::read(&body).map(drop), Err(Malformed::Truncated));
}

#[test]
fn d1_what_a_later_version_adds_to_a_hello_is_skipped_only_if_it_may_have() {
    let mut later = hello("a", b"", 1);
    later.versions.newest = Versions::SUPPORTED.newest + 1;
    for (hello, result) in [(later, Ok(())), (hello("a", b"", 1), Err(Malformed::Trailing))] {
        let (_, mut body) = written(|out| FromApplication::Hello(hello).write(out));
        body.extend_from_slice(b"more");
        assert_eq!(Hello::read(&body).map(drop), result);
    }
}

#[test]
fn texts_cannot_control_a_terminal() {
    assert_eq!(Text::new("a\u{1b}[2J").to_string(), "a\\u{1b}[2J");
    assert!(Text::new(&"ä".repeat(200)).as_str().len() <= 255);
}

#[test]
fn d1_only_an_equal_token_matches() {
    let token = |bytes: &[u8]| Token::new(bytes).expect("it is short");
    assert!(token(b"secret").matches(&token(b"secret")));
    for other in [&b"secreT"[..], b"secre", b"secrets", b""] {
        assert!(!token(b"secret").matches(&token(other)));
        assert!(!token(other).matches(&token(b"secret")));
    }
    assert!(Token::new(&[0; 65]).is_err());
    assert_eq!(format!("{:?}", token(b"secret")), "Token(6 bytes)");
}

#[test]
fn d13_asks_and_answers_come_back_as_they_were_written() {
    let name = || Text::new("greet.Greeter");
    let asks = [
        Ask::Bind { offset: 1 << 39, bytes: 9, is_served: true, service: name() },
        Ask::Recall { digest: [0xa5; 32], is_served: true, service: name() },
        Ask::Target(name()),
        Ask::Serve(Text::default()),
    ];
    for ask in asks {
        let (kind, body) = written(|out| FromApplication::Ask(7, ask.clone()).write(out));
        match FromApplication::read(kind, &body) {
            Ok(FromApplication::Ask(7, again)) => assert_eq!(again, ask),
            other => panic!("{other:?}"),
        }
        for cut in 0..body.len() {
            assert!(FromApplication::read(kind, &body[..cut]).is_err(), "{ask:?}: {cut}");
        }
        let longer = [&body[..], &[0]].concat();
        assert!(matches!(FromApplication::read(kind, &longer), Err(Malformed::Trailing)));
        assert!(FromService::read(kind, &body).is_err(), "an application asks");
    }
    let refused = NotDone::Refused(Text::new("no"));
    for result in [Ok(0), Ok(u32::MAX), Err(refused), Err(NotDone::Unknown)] {
        let answer = FromService::Answer(Answer { request: 1, result });
        let (kind, body) = written(|out| answer.write(out));
        assert_eq!(FromService::read(kind, &body), Ok(answer));
        assert!(FromApplication::read(kind, &body).is_err(), "the service answers");
    }
}

#[test]
fn d13_what_cannot_be_is_refused() {
    let body = |request: u32, offset: u64, bytes: u32| {
        let service = Text::new("s");
        let ask = Ask::Bind { offset, bytes, is_served: false, service };
        written(|out| FromApplication::Ask(request, ask).write(out)).1
    };
    for (request, offset, bytes) in [(0, 0, 1), (1, 1 << 40, 1), (1, 0, 0)] {
        let read = FromApplication::read(kind::BIND, &body(request, offset, bytes));
        assert!(matches!(read, Err(Malformed::Value(_))), "{request} {offset} {bytes}");
    }
    // Refused with a number, done with a text, unknown with either, and nothing of it.
    let wrong = [(1, 5, "no"), (0, 5, "no"), (2, 5, ""), (2, 0, "no"), (3, 0, "")];
    for (code, number, text) in wrong {
        let mut body = 1u32.to_le_bytes().to_vec();
        body.push(code);
        body.extend_from_slice(&u32::to_le_bytes(number));
        body.push(text.len() as u8);
        body.extend_from_slice(text.as_bytes());
        assert_eq!(FromService::read(kind::ANSWER, &body), Err(Malformed::Value("answer")));
    }
}

use petasos_base::Rng;
use proptest::prelude::*;

use super::*;

fn check(bytes: &[u8], from: Side) -> Result<Descriptor, Refusal> {
    Untrusted::new(bytes).check(from)
}

fn call(begun_by: Side) -> CallNumber {
    CallNumber::new(begun_by, 0x1234_5678_9abc)
}

fn contents() -> impl Strategy<Value = Contents> {
    let some = (any::<u64>(), 1..=u32::MAX).prop_map(|(offset, bytes)| Contents { offset, bytes });
    prop_oneof![Just(Contents::NONE), some]
}

fn message() -> impl Strategy<Value = Contents> {
    (any::<u64>(), 1..=u32::MAX).prop_map(|(offset, bytes)| Contents { offset, bytes })
}

fn calls() -> impl Strategy<Value = CallNumber> {
    any::<u64>().prop_map(CallNumber::from_bits)
}

prop_compose! {
    fn request()(
        call in calls(), numbers in any::<(u16, u16, u32, u64)>(), flags in any::<[bool; 3]>(),
        unary in message(), metadata in contents()
    ) -> Descriptor {
        let (binding, method, partner, time_left_us) = numbers;
        let [is_stream, is_idempotent, waits_for_ready] = flags;
        let message = if is_stream { Contents::NONE } else { unary };
        Descriptor::Request(Request {
            call, binding, method, partner, is_stream, is_idempotent, waits_for_ready, time_left_us,
            message, metadata,
        })
    }
}

prop_compose! {
    fn end()(
        call in calls(), status in 0..=16u8, not_run in any::<bool>(), response in contents(),
        metadata in contents()
    ) -> Descriptor {
        let is_ok = status == 0;
        let message = if is_ok { response } else { Contents::NONE };
        Descriptor::End { call, status, has_not_run: not_run && !is_ok, message, metadata }
    }
}

fn released() -> impl Strategy<Value = Descriptor> {
    proptest::collection::vec(any::<u64>(), 1..=6).prop_map(|tokens| {
        let mut released = Released::new();
        tokens.into_iter().for_each(|token| released.push(token).expect("six fit"));
        Descriptor::Release(released)
    })
}

fn descriptor() -> impl Strategy<Value = Descriptor> {
    prop_oneof![
        request(),
        end(),
        released(),
        (calls(), message()).prop_map(|(call, message)| Descriptor::Message { call, message }),
        (calls(), contents()).prop_map(|(call, metadata)| Descriptor::Head { call, metadata }),
        (calls(), any::<u64>()).prop_map(|(call, bytes)| Descriptor::Grant { call, bytes }),
        calls().prop_map(|call| Descriptor::Close { call }),
        calls().prop_map(|call| Descriptor::Cancel { call }),
    ]
}

/// The side that may send it.
fn sender(descriptor: &Descriptor) -> Side {
    let begun_by = descriptor.call().map_or(Side::Application, CallNumber::begun_by);
    match descriptor.kind() {
        Kind::Head | Kind::End => begun_by.other(),
        _ => begun_by,
    }
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn d4_d7_d8_d9_descriptors_come_back_as_they_were(descriptor in descriptor()) {
        let bytes = descriptor.to_bytes();
        prop_assert_eq!(check(&bytes, sender(&descriptor)), Ok(descriptor));
    }

    /// D10: so no two records mean the same, and no bit is passed over.
    #[test]
    fn d10_what_is_accepted_is_written_exactly_so(
        descriptor in descriptor(), flip in 0..448usize
    ) {
        let mut bytes = descriptor.to_bytes();
        bytes[flip / 8] ^= 1 << (flip % 8);
        for from in [Side::Application, Side::Service] {
            if let Ok(other) = check(&bytes, from) {
                prop_assert_eq!(other.to_bytes(), bytes);
            }
        }
    }
}

#[test]
fn d10_any_record_is_a_descriptor_or_refused() {
    let mut rng = Rng::new(7);
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        // Few fields are set, so that some are accepted.
        for _ in 0..rng.below(6) {
            bytes[rng.below(56) as usize] = rng.below(256) as u8;
        }
        bytes[at::KIND] = rng.below(10) as u8;
        let from = if rng.chance(0.5) { Side::Application } else { Side::Service };
        if let Ok(descriptor) = check(&bytes, from) {
            accepted += 1;
            assert_eq!(descriptor.to_bytes(), bytes);
        }
    }
    assert!(accepted > 1000, "{accepted}");
    for length in (0..200).filter(|length| *length != DESCRIPTOR_BYTES) {
        let refused = check(&vec![1; length], Side::Service);
        assert_eq!(refused, Err(Refusal::Length(length)));
    }
}

#[test]
fn d5_d7_each_side_sends_what_is_its_to_say() {
    use Side::{Application, Service};
    let message = Contents { offset: 8, bytes: 8 };
    for (begun_by, from) in [
        (Application, Application),
        (Application, Service),
        (Service, Application),
        (Service, Service),
    ] {
        let call = call(begun_by);
        let said = |descriptor: Descriptor| check(&descriptor.to_bytes(), from).is_ok();
        let by_caller = [Descriptor::Close { call }, Descriptor::Cancel { call }];
        assert!(by_caller.into_iter().all(|descriptor| said(descriptor) == (begun_by == from)));
        let metadata = Contents::NONE;
        assert_eq!(said(Descriptor::Head { call, metadata }), begun_by != from);
        assert!(said(Descriptor::Message { call, message }));
        assert!(said(Descriptor::Grant { call, bytes: 1 }));
    }
    let stolen = Descriptor::Cancel { call: call(Service) }.to_bytes();
    assert_eq!(check(&stolen, Application), Err(Refusal::Side(Kind::Cancel)));
}

#[test]
fn d6_d7_d9_numbers_that_cannot_be_are_refused() {
    let from = Side::Application;
    let call = call(from);
    let mut broken = Descriptor::Close { call }.to_bytes();
    broken[at::KIND] = 9;
    assert_eq!(check(&broken, from), Err(Refusal::Kind(9)));
    broken[at::KIND] = Kind::Message as u8;
    assert_eq!(check(&broken, from), Err(Refusal::Range(Kind::Message)), "no message");
    let mut place = Descriptor::Head { call, metadata: Contents::NONE }.to_bytes();
    place[at::METADATA] = 8;
    assert_eq!(check(&place, from.other()), Err(Refusal::Range(Kind::Head)), "nothing somewhere");
    let ok = |message| Descriptor::End {
        call,
        status: 0,
        has_not_run: false,
        message,
        metadata: Contents::NONE,
    };
    let mut end = ok(Contents { offset: 8, bytes: 8 }).to_bytes();
    end[at::VALUE] = 5;
    assert_eq!(check(&end, from.other()), Err(Refusal::Range(Kind::End)), "a failure's response");
    let mut end = ok(Contents::NONE).to_bytes();
    end[at::VALUE] = 17;
    assert_eq!(check(&end, from.other()), Err(Refusal::Range(Kind::End)), "no such status");
    let mut release = [0; DESCRIPTOR_BYTES];
    for count in [0, 7, 255] {
        (release[at::KIND], release[at::FLAGS]) = (Kind::Release as u8, count);
        assert_eq!(check(&release, from), Err(Refusal::Range(Kind::Release)), "{count} tokens");
    }
}

#[test]
fn d10_what_has_to_be_zero_is_looked_at() {
    let from = Side::Application;
    let mut bytes = Descriptor::Close { call: call(from) }.to_bytes();
    for at in (at::FLAGS..at::CALL).chain(at::MESSAGE..DESCRIPTOR_BYTES) {
        bytes[at] = 1;
        assert_eq!(check(&bytes, from), Err(Refusal::NotZero(Kind::Close)), "byte {at}");
        bytes[at] = 0;
    }
    assert!(check(&bytes, from).is_ok());
}

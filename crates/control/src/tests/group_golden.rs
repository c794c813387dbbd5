//! The bytes of each message of a group, written down so that the format cannot drift, and what is
//! out of range in them.

use petasos_wire::RoutePolicy;

use super::golden::assert_golden;
use super::{decoded, encoded};
use crate::*;

/// Where first packets go, and where feedback goes.
fn address(port: u16) -> DataAddress {
    DataAddress::udp(port, Some("10.1.2.3".parse().unwrap()))
}

pub(super) fn attach() -> AttachParams {
    AttachParams {
        endpoint: 2,
        payload_bytes_max: 1448,
        asked_max: 4096,
        address: DataAddress::udp(0x1234, None),
    }
}

pub(super) fn epoch(number: u16) -> Epoch {
    Epoch { number, binds_anew: false, secret: None }
}

pub(super) fn attached(client: u32) -> AttachGrant {
    AttachGrant {
        client,
        tag: 0x0abc_def1,
        payload_bytes: 1408,
        asked_max: 256,
        has_no_window: false,
        cipher: None,
        epoch: epoch(7),
        address: address(0x4321),
    }
}

pub(super) fn join() -> JoinParams {
    JoinParams {
        endpoint: 2,
        session: 0x8_0003,
        tag: 0x0abc_def1,
        payload_bytes_max: 1448,
        bound: 4,
        weight: 100,
        is_primary: true,
        dial_port: Some(0x1f90),
        address: DataAddress::udp(0x1234, None),
    }
}

pub(super) fn joined(worker: u16) -> JoinGrant {
    JoinGrant {
        worker,
        session: 5,
        tag: 0x0123_4567,
        secret: 0x12_3456_789a,
        payload_bytes: 1408,
        clients_max: 2048,
        beat_us: 20_000,
        hole_us: 2_000,
        claim_us: 20_000,
        cipher: None,
        epoch: epoch(7),
        source: address(0x4321),
        feedback: address(0x4322),
    }
}

fn golden(message: GroupMessage, hex: &str) {
    assert_golden(Message::Group(message), hex);
}

const SECRET: [u8; 32] = *b"thirty-two bytes of a secret ...";
const SECRET_HEX: &str = "7468697274792d74776f206279746573206f66206120736563726574202e2e2e";

#[test]
fn rt33_attach_and_attached() {
    golden(
        GroupMessage::Attach { attach_id: 7, params: attach() },
        "1300 0f 01  0700000000000000 0200 a805 00100000 3412 00",
    );
    golden(
        GroupMessage::Attached { attach_id: 7, result: Ok(attached(0x5_1234)) },
        "2700 10 01  0700000000000000 00 34120500 f1debc0a 8005 00010000 00 00
         34120500 0700 00  2143 04 0a010203",
    );
    let sealed = AttachGrant {
        has_no_window: true,
        cipher: Some(Cipher::ChaCha20Poly1305),
        epoch: Epoch { secret: Some(Secret::new(SECRET)), binds_anew: true, ..epoch(0xabc) },
        ..attached(0x5_1234)
    };
    golden(
        GroupMessage::Attached { attach_id: 7, result: Ok(sealed) },
        &format!(
            "4700 10 01  0700000000000000 00 34120500 f1debc0a 8005 00010000 01 02
             34120500 bc0a 02 {SECRET_HEX}  2143 04 0a010203"
        ),
    );
    golden(
        GroupMessage::Attached { attach_id: 7, result: Err(RefuseCode::QuotaUsedUp) },
        "0900 10 01  0700000000000000 07",
    );
}

#[test]
fn rt34_join_and_joined() {
    golden(
        GroupMessage::Join { join_id: 7, params: join() },
        "1e00 11 01  0700000000000000 0200 03000800 f1debc0a a805 0400 6400 01 901f 3412 00",
    );
    golden(
        GroupMessage::Joined { join_id: 7, result: Ok(joined(300)) },
        "4000 12 01  0700000000000000 00 2c01 05000000 67452301 9a78563412 8005 00080000
         204e0000 d0070000 204e0000 00  ffffffff 0700 00  2143 04 0a010203 2243 04 0a010203",
    );
    let detail = Text::new("no");
    let refusal = Refusal { code: RefuseCode::IncompatibleParameters, detail };
    golden(
        GroupMessage::Joined { join_id: 7, result: Err(refusal) },
        "0c00 12 01  0700000000000000 04 02 6e6f",
    );
}

#[test]
fn rt35_leave() {
    let leave = |member| GroupMessage::Leave(Leave { member, tag: 0x0123_4567 });
    golden(leave(Member::Client(0x5_1234)), "0900 1c 01  00 34120500 67452301");
    golden(leave(Member::Worker(300)), "0900 1c 01  01 2c010000 67452301");
}

#[test]
fn rt36_what_a_router_tells() {
    let told = |told| GroupMessage::Told(told);
    let methods = vec![Text::new("Get"), Text::new("Put")];
    let service = Text::new("kv.Store");
    let table = Table { epoch: 7, first: 258, is_last: true, service, methods };
    golden(
        told(Told::Table(table)),
        "1600 13 01  0700 0201 01 08 6b762e53746f7265 03 476574 03 507574",
    );
    let there = MemberChange { worker: 1, state: MemberState::There(address(0x4321)) };
    let draining = MemberChange { worker: 2, state: MemberState::Draining(address(0x4322)) };
    let gone = MemberChange { worker: 3, state: MemberState::Gone };
    golden(
        told(Told::Members(vec![there, draining, gone])),
        "1700 14 01  0100 01 2143 04 0a010203  0200 02 2243 04 0a010203  0300 00",
    );
    golden(told(Told::Members(vec![])), "0000 14 01");
    let names = Some(vec!["a.b".to_owned(), "c".to_owned()]);
    let known = ClientChange { client: 0x5_1234, names };
    let gone = ClientChange { client: 2, names: None };
    golden(
        told(Told::Clients(vec![known, gone])),
        "1400 15 01  34120500 01 0800 0300 612e62 0100 63  02000000 00",
    );
    golden(told(Told::Epoch { client: None, epoch: epoch(7) }), "0700 16 01  ffffffff 0700 00");
    let sealed = Epoch { secret: Some(Secret::new(SECRET)), ..epoch(8) };
    golden(
        told(Told::Epoch { client: Some(3), epoch: sealed }),
        &format!("2700 16 01  03000000 0800 00 {SECRET_HEX}"),
    );
    golden(GroupMessage::EpochHeard { epoch: 7 }, "0200 17 01  0700");
    let active = Active { is_active: true, term: 9 };
    golden(told(Told::Active(active)), "0500 18 01  01 09000000");
    let routers = ["10.1.2.3:7411".parse().unwrap(), "[2001:db8::7]:7411".parse().unwrap()];
    golden(
        told(Told::Routers(routers.to_vec())),
        "1a00 19 01  f31c 04 0a010203  f31c 06 20010db8000000000000000000000007",
    );
}

#[test]
fn rt37_place_and_placed() {
    let policy = RoutePolicy::Hash;
    let params = PlaceParams { client: 3, policy, key_hash: 0x5566_7788, avoid: Some(300) };
    golden(
        GroupMessage::Place { place_id: 7, params },
        "1300 1a 01  0700000000000000 03000000 02 88776655 2c01",
    );
    let grant = PlaceGrant { worker: 300, address: "10.1.2.3:7411".parse().unwrap() };
    golden(
        GroupMessage::Placed { place_id: 7, result: Ok(grant) },
        "1200 1b 01  0700000000000000 00 2c01 f31c 04 0a010203",
    );
    golden(
        GroupMessage::Placed { place_id: 7, result: Err(RefuseCode::SessionsFull) },
        "0900 1b 01  0700000000000000 02",
    );
}

/// What becomes of `message` after a change to its body.
fn with(message: &GroupMessage, change: impl FnOnce(&mut [u8])) -> Result<Message, Malformed> {
    let mut bytes = encoded(&Message::Group(message.clone()));
    change(&mut bytes[FRAME_HEADER_BYTES..]);
    decoded(&bytes)
}

#[test]
fn rt33_fields_out_of_range_are_named() {
    let named = |field| Err(Malformed::Value(field));
    let attach = GroupMessage::Attach { attach_id: 7, params: attach() };
    assert_eq!(with(&attach, |body| body[11] = 3), named("payload_bytes"));
    assert_eq!(with(&attach, |body| body[12..16].fill(0)), named("asked_max"));
    assert_eq!(with(&attach, |body| body[14] = 9), named("asked_max"));
    assert_eq!(with(&attach, |body| body[18] = 16), named("address"), "not of TCP");
    let attached = GroupMessage::Attached { attach_id: 7, result: Ok(attached(0x5_1234)) };
    assert_eq!(with(&attached, |body| body[11] = 0x15), named("client"));
    assert_eq!(with(&attached, |body| body[16] = 0x1a), named("tag"));
    assert_eq!(with(&attached, |body| body[23] = 2), named("flags"));
    assert_eq!(with(&attached, |body| body[24] = 3), named("cipher"));
    assert_eq!(with(&attached, |body| body[25] = 0x35), named("client"), "it is the same one");
    assert_eq!(with(&attached, |body| body[30] = 0x10), named("epoch"));
    assert_eq!(with(&attached, |body| body[31] = 4), named("flags"));
    assert_eq!(with(&attached, |body| body[24] = 1), Err(Malformed::Truncated), "no secret");
}

#[test]
fn rt34_fields_out_of_range_are_named() {
    let named = |field| Err(Malformed::Value(field));
    let join = GroupMessage::Join { join_id: 7, params: join() };
    assert_eq!(with(&join, |body| body[12] = 7), named("session"), "bit 19 is clear");
    assert_eq!(with(&join, |body| body[12] = 0x18), named("session"));
    assert_eq!(with(&join, |body| body[17] = 0x1a), named("tag"));
    assert_eq!(with(&join, |body| body[21] = 0x10), named("n"));
    assert_eq!(with(&join, |body| body[24] = 2), named("flags"));
    let joined = GroupMessage::Joined { join_id: 7, result: Ok(joined(300)) };
    assert_eq!(with(&joined, |body| body[9..11].fill(0)), named("worker"));
    assert_eq!(with(&joined, |body| body[30..34].fill(0)), named("beat"));
    assert_eq!(with(&joined, |body| body[34..38].fill(0)), named("hole"));
    assert_eq!(with(&joined, |body| body[38..42].fill(0)), named("claim"));
    assert_eq!(with(&joined, |body| body[43..47].fill(0)), named("client"), "it is for workers");
}

#[test]
fn rt35_rt36_rt37_fields_out_of_range_are_named() {
    let refused = |kind, body: &[u8]| Message::decode(kind, body).unwrap_err();
    let named = Malformed::Value;
    assert_eq!(refused(28, &[2, 1, 0, 0, 0, 0, 0, 0, 0]), named("role"));
    assert_eq!(refused(28, &[1, 0, 0, 0, 0, 0, 0, 0, 0]), named("worker"));
    assert_eq!(refused(28, &[1, 0, 0, 1, 0, 0, 0, 0, 0]), named("worker"));
    assert_eq!(refused(28, &[0, 0, 0, 0x10, 0, 0, 0, 0, 0]), named("client"));
    assert_eq!(refused(28, &[0, 0, 0, 0, 0, 0, 0, 0, 0x10]), named("tag"));
    assert_eq!(refused(19, &[0, 0x10, 0, 0, 0, 1, b'a']), named("epoch"));
    assert_eq!(refused(19, &[0, 0, 0, 0, 2, 1, b'a']), named("flags"));
    assert_eq!(refused(19, &[0, 0, 0, 0, 0, 0]), named("service"));
    assert_eq!(refused(19, &[0, 0, 0, 0, 0, 1, b'a', 0]), named("method"));
    assert_eq!(refused(19, &[0, 0, 0xff, 0xff, 0, 1, b'a', 1, b'b', 1, b'c']), named("first"));
    assert_eq!(refused(20, &[0, 0, 0]), named("worker"));
    assert_eq!(refused(20, &[1, 0, 3]), named("state"));
    assert_eq!(refused(20, &[1, 0, 1, 1, 0, 0]), named("address"), "no IP address");
    assert_eq!(refused(21, &[0, 0, 0x10, 0, 0]), named("client"));
    assert_eq!(refused(21, &[0, 0, 0, 0, 2]), named("state"));
    assert_eq!(refused(21, &[0, 0, 0, 0, 1, 2, 0, 0, 0]), named("names"), "an empty one");
    assert_eq!(refused(21, &[0, 0, 0, 0, 1, 3, 0, 1, 0, 0xff]), named("names"), "no UTF-8");
    assert_eq!(refused(21, &[0, 0, 0, 0, 1, 3, 0, 2, 0, b'a', b'b']), Malformed::Truncated);
    assert_eq!(refused(23, &[0, 0x10]), named("epoch"));
    assert_eq!(refused(24, &[2, 0, 0, 0, 0]), named("state"));
    assert_eq!(refused(25, &[1, 0, 0x14, 10, 1, 2, 3]), named("address"), "marked as TCP");
    assert_eq!(refused(25, &[1, 0, 4, 10, 1, 2, 3].repeat(9)), named("routers"));
    let place = |policy| [&[0; 12][..], &[policy], &[0; 6]].concat();
    assert_eq!([3, 15].map(|policy| refused(26, &place(policy))), [named("policy"); 2]);
}

#[test]
fn rt36_names_have_a_bound_and_a_message_has_room_for_it() {
    let named = |bytes: usize| {
        let names = Some(vec!["n".repeat(bytes - 2)]);
        Message::Group(GroupMessage::Told(Told::Clients(vec![ClientChange { client: 1, names }])))
    };
    let longest = named(NAMES_BYTES_MAX);
    assert_eq!(decoded(&encoded(&longest)), Ok(longest));
    assert_eq!(decoded(&encoded(&named(NAMES_BYTES_MAX + 1))), Err(Malformed::Value("names")));
}

#[test]
fn secrets_are_compared_and_kept_out_of_logs() {
    let secret = Secret::new(SECRET);
    let mut other = SECRET;
    other[31] ^= 1;
    assert!(secret == Secret::new(SECRET) && secret != Secret::new(other));
    assert_eq!((format!("{secret:?}"), secret.bytes()), ("Secret(..)".to_owned(), &SECRET));
}

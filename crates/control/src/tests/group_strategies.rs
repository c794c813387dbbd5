//! Arbitrary valid messages of groups.

use petasos_wire::{CLIENTS_MAX, EPOCHS, RoutePolicy, SESSIONS_MAX, TAG_MAX};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::strategies::{address, local_name, text};
use crate::*;

fn packets() -> impl Strategy<Value = DataAddress> {
    address().prop_map(|address| match address.carrier {
        Carrier::Tcp => DataAddress { carrier: Carrier::Datagrams, ..address },
        _ => address,
    })
}

fn code() -> impl Strategy<Value = RefuseCode> {
    (1..=u8::MAX).prop_map(RefuseCode::from_bits)
}

fn name() -> impl Strategy<Value = Text<NAME_MAX>> {
    "[a-z]{1,20}".prop_map(|name| Text::new(&name))
}

pub(super) fn epoch(sealed: bool) -> impl Strategy<Value = Epoch> {
    let parts = (0..EPOCHS, any::<bool>(), any::<[u8; 32]>());
    parts.prop_map(move |(number, binds_anew, secret)| Epoch {
        number,
        binds_anew,
        secret: sealed.then(|| Secret::new(secret)),
    })
}

/// A cipher, and an epoch that goes with it.
fn sealing() -> impl Strategy<Value = (Option<Cipher>, Epoch)> {
    let ciphers = [None, Some(Cipher::Aes128Gcm), Some(Cipher::ChaCha20Poly1305)];
    prop::sample::select(ciphers.to_vec())
        .prop_flat_map(|cipher| (Just(cipher), epoch(cipher.is_some())))
}

fn attach() -> impl Strategy<Value = AttachParams> {
    (any::<u16>(), 1024..=65000u16, 1..=ASKED_MAX, packets()).prop_map(
        |(endpoint, payload_bytes_max, asked_max, address)| AttachParams {
            endpoint,
            payload_bytes_max,
            asked_max,
            address,
        },
    )
}

fn attached() -> impl Strategy<Value = AttachGrant> {
    let numbers = (0..CLIENTS_MAX, 0..TAG_MAX, 1024..=65000u16, 1..=ASKED_MAX);
    (numbers, any::<bool>(), sealing(), packets()).prop_map(
        |(numbers, has_no_window, (cipher, epoch), address)| AttachGrant {
            client: numbers.0,
            tag: numbers.1,
            payload_bytes: numbers.2,
            asked_max: numbers.3,
            has_no_window,
            cipher,
            epoch,
            address,
        },
    )
}

fn join() -> impl Strategy<Value = JoinParams> {
    let numbers = (any::<u16>(), SESSIONS_MAX / 2..SESSIONS_MAX, 0..TAG_MAX, 1024..=65000u16);
    let offer = (0..=4095u16, any::<u16>(), any::<bool>(), option::of(1..=u16::MAX));
    (numbers, offer, packets()).prop_map(|(numbers, offer, address)| JoinParams {
        endpoint: numbers.0,
        session: numbers.1,
        tag: numbers.2,
        payload_bytes_max: numbers.3,
        bound: offer.0,
        weight: offer.1,
        is_primary: offer.2,
        dial_port: offer.3,
        address,
    })
}

fn joined() -> impl Strategy<Value = JoinGrant> {
    let numbers = (1..=u16::MAX, 0..SESSIONS_MAX, 0..TAG_MAX, 0..1u64 << 40, 1024..=65000u16);
    let times = (any::<u32>(), 1..=u32::MAX, 1..=u32::MAX, 1..=u32::MAX);
    (numbers, times, sealing(), packets(), packets()).prop_map(
        |(numbers, times, (cipher, epoch), source, feedback)| JoinGrant {
            worker: numbers.0,
            session: numbers.1,
            tag: numbers.2,
            secret: numbers.3,
            payload_bytes: numbers.4,
            clients_max: times.0,
            beat_us: times.1,
            hole_us: times.2,
            claim_us: times.3,
            cipher,
            epoch,
            source,
            feedback,
        },
    )
}

fn place() -> impl Strategy<Value = PlaceParams> {
    let policies = [RoutePolicy::Any, RoutePolicy::Primary, RoutePolicy::Hash];
    let policy = prop::sample::select(policies.to_vec());
    (0..CLIENTS_MAX, policy, any::<u32>(), option::of(1..=u16::MAX)).prop_map(
        |(client, policy, key_hash, avoid)| PlaceParams { client, policy, key_hash, avoid },
    )
}

fn table() -> impl Strategy<Value = Table> {
    (0..EPOCHS, 0..60_000u16, any::<bool>(), name(), vec(name(), 0..10)).prop_map(
        |(epoch, first, is_last, service, methods)| Table {
            epoch,
            first,
            is_last,
            service,
            methods,
        },
    )
}

fn member() -> impl Strategy<Value = MemberChange> {
    let address = packets().prop_filter("third processes have one", |it| it.ip.is_some());
    (1..=u16::MAX, 0..3, address).prop_map(|(worker, state, address)| MemberChange {
        worker,
        state: match state {
            0 => MemberState::Gone,
            1 => MemberState::There(address),
            _ => MemberState::Draining(address),
        },
    })
}

fn client() -> impl Strategy<Value = ClientChange> {
    (0..CLIENTS_MAX, option::of(vec("[a-z]{1,9}", 0..4)))
        .prop_map(|(client, names)| ClientChange { client, names })
}

pub(super) fn told() -> impl Strategy<Value = Told> {
    let epoch = any::<bool>().prop_flat_map(epoch);
    let active = (any::<bool>(), any::<u32>());
    prop_oneof![
        table().prop_map(Told::Table),
        vec(member(), 0..6).prop_map(Told::Members),
        vec(client(), 0..6).prop_map(Told::Clients),
        (option::of(0..CLIENTS_MAX), epoch)
            .prop_map(|(client, epoch)| Told::Epoch { client, epoch }),
        active.prop_map(|(is_active, term)| Told::Active(Active { is_active, term })),
        vec(local_name(), 0..=ROUTERS_MAX).prop_map(Told::Routers),
    ]
}

fn leave() -> impl Strategy<Value = Leave> {
    let member = prop_oneof![
        (0..CLIENTS_MAX).prop_map(Member::Client),
        (1..=u16::MAX).prop_map(Member::Worker),
    ];
    (member, 0..TAG_MAX).prop_map(|(member, tag)| Leave { member, tag })
}

/// Any message of a group.
pub(super) fn message() -> impl Strategy<Value = GroupMessage> {
    let attached = prop_oneof![attached().prop_map(Ok), code().prop_map(Err)];
    let refusal = (code(), text()).prop_map(|(code, detail)| Refusal { code, detail });
    let joined = prop_oneof![joined().prop_map(Ok), refusal.prop_map(Err)];
    let place_grant =
        (1..=u16::MAX, local_name()).prop_map(|(worker, address)| PlaceGrant { worker, address });
    let placed = prop_oneof![place_grant.prop_map(Ok), code().prop_map(Err)];
    let others = prop_oneof![
        (any::<u64>(), attach())
            .prop_map(|(attach_id, params)| GroupMessage::Attach { attach_id, params }),
        (any::<u64>(), attached)
            .prop_map(|(attach_id, result)| GroupMessage::Attached { attach_id, result }),
        (any::<u64>(), join()).prop_map(|(join_id, params)| GroupMessage::Join { join_id, params }),
        (any::<u64>(), joined)
            .prop_map(|(join_id, result)| GroupMessage::Joined { join_id, result }),
        (0..EPOCHS).prop_map(|epoch| GroupMessage::EpochHeard { epoch }),
        (any::<u64>(), place())
            .prop_map(|(place_id, params)| GroupMessage::Place { place_id, params }),
        (any::<u64>(), placed)
            .prop_map(|(place_id, result)| GroupMessage::Placed { place_id, result }),
        leave().prop_map(GroupMessage::Leave),
    ];
    prop_oneof![told().prop_map(GroupMessage::Told), others]
}

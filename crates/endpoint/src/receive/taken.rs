//! Packets to workers of groups: first packets from routers, and packets of clients to the sessions
//! of their requests (RT16 to RT18, RT26).

use petasos_netio::Origin;
use petasos_proto::RequestAction;
use petasos_proto::taken::{Arrived, MembershipId, Progress, SessionName, TakenId};
use petasos_seal::group::FirstOpenError;
use petasos_wire::{Group, Kind, Packet, RejectCode, RoutedPacket};

use super::protected::count_unopened;
use super::requests::run_handler;
use crate::core::{AnswerAs, Chore, Context, Core, GroupRequests, TakenOf, Unopened};
use crate::handler::{Payload, RequestHandle};
use crate::sealed_links::SealId;

/// Handles a first packet (RT16).
pub(super) fn on_first_packet<S>(
    state: &mut S,
    cx: &mut Context<S>,
    bytes: &[u8],
    packet: Packet<'_>,
    origin: Option<Origin>,
) {
    let core = &mut cx.core;
    let now = core.now;
    let Some((id, group)) = router_of(core, &packet, origin) else { return };
    core.list_group_requests();
    let requests = core.group_requests_mut();
    let first = RoutedPacket::from_router(packet, group);
    let is_probe = first.as_ref().is_ok_and(RoutedPacket::is_probe);
    let Some(arrived) = requests.taken.arrive(now, id, packet.packet_index(), is_probe) else {
        return;
    };
    let Ok(first) = first else {
        requests.taken.refuse(arrived);
        core.stats.malformed_block += 1;
        core.note_suspect();
        return;
    };
    let (mut opened, mut first) = (Vec::new(), first);
    if group.is_sealed {
        opened = core::mem::take(&mut core.opened);
        match open_first(core, id, bytes, &first, &mut opened) {
            Ok(body) => first = first.with_body(body),
            Err(unopened) => {
                on_unopened(core, (id, arrived), &first, unopened);
                core.opened = opened;
                return;
            }
        }
    }
    meet(state, cx, (id, arrived), bytes, first);
    if group.is_sealed {
        cx.core.opened = opened;
    }
}

/// Opens a first packet (RT27). Out of line, so that what is not sealed is not slowed down by that.
#[inline(never)]
fn open_first<'o, S>(
    core: &mut Core<S>,
    id: MembershipId,
    bytes: &[u8],
    first: &RoutedPacket<'_>,
    opened: &'o mut Vec<u8>,
) -> Result<&'o [u8], Unopened> {
    core.group_requests_mut().open_first(id, bytes, first, opened)
}

/// Takes a first packet, now or once its client has a place.
#[inline(always)]
fn meet<S>(
    state: &mut S,
    cx: &mut Context<S>,
    (id, arrived): (MembershipId, Arrived),
    bytes: &[u8],
    first: RoutedPacket<'_>,
) {
    let core = &mut cx.core;
    let requests = core.group_requests_mut();
    let joined = requests.joined(id).expect("it was just found");
    match requests.client(joined, first.client(), first.reply()) {
        Some(place) => take_first(state, cx, arrived, first, place),
        None => {
            requests.defer(id, arrived, bytes, first.body());
            core.chores.push(Chore::MeetStrangers);
        }
    }
}

/// A sealed first packet was not opened (RT27).
#[cold]
fn on_unopened<S>(
    core: &mut Core<S>,
    (id, arrived): (MembershipId, Arrived),
    first: &RoutedPacket<'_>,
    unopened: Unopened,
) {
    let now = core.now;
    let requests = core.group_requests_mut();
    requests.taken.refuse(arrived);
    if matches!(unopened, Unopened::Packet(_)) {
        core.note_suspect();
    }
    match unopened {
        Unopened::NoKeys => core.stats.without_keys += 1,
        Unopened::Packet(FirstOpenError::Seen) => core.stats.seals_replayed += 1,
        Unopened::Packet(FirstOpenError::Old) => {
            // It is the client's, and may only have waited long.
            core.stats.seals_replayed += 1;
            let requests = core.group_requests_mut();
            let seal = requests.seal_of(id, first);
            let Some(joined) = requests.joined(id).filter(|_| seal.is_some()) else { return };
            let answer_as = AnswerAs { worker: joined.worker, seal };
            if let Some(place) = requests.client(joined, first.client(), first.reply()) {
                let asker = GroupRequests::asker(first, place, now);
                core.reject_first(&asker, answer_as, RejectCode::Again);
            }
        }
        Unopened::Packet(_) => core.stats.seals_broken += 1,
    }
}

/// The membership whose router has sent a first packet, and its group (RT16, step 1).
fn router_of<S>(
    core: &mut Core<S>,
    packet: &Packet<'_>,
    origin: Option<Origin>,
) -> Option<(MembershipId, Group)> {
    let requests = core.group_requests.as_deref();
    let membership = requests.and_then(|it| it.membership_at(packet.session(), packet.tag()));
    let joined = membership.and_then(|it| Some((it.id, it.joined.as_deref()?)));
    let Some((id, joined)) = joined else {
        core.stats.unknown_session += 1;
        return None;
    };
    if !joined.source.is_of(origin) {
        core.stats.wrong_origin += 1;
        core.note_suspect();
        return None;
    }
    Some((id, joined.group))
}

/// Takes a first packet whose client has a place (RT16, from step 3 on).
pub(crate) fn take_first<S>(
    state: &mut S,
    cx: &mut Context<S>,
    arrived: Arrived,
    first: RoutedPacket<'_>,
    place: u32,
) {
    let core = &mut cx.core;
    let (now, tag) = (core.now, core.tags.take());
    let judged = judge(core, &first, place);
    let requests = core.group_requests_mut();
    let client = requests.clients.at(place);
    let (session, membership) = (client.id, client.membership);
    let asker = GroupRequests::asker(&first, place, now);
    let Some(joined) = requests.joined(membership) else { return requests.taken.refuse(arrived) };
    let mut seal = None;
    if joined.group.is_sealed {
        seal = requests.seal_of(membership, &first);
        if seal.is_none() {
            // Its epoch has just ended. What it were answered would be in plaintext.
            requests.taken.refuse(arrived);
            core.stats.without_keys += 1;
            return;
        }
    }
    let Some(joined) = requests.joined(membership) else { return requests.taken.refuse(arrived) };
    let answer_as = AnswerAs { worker: joined.worker, seal };
    let method = match judged {
        Ok(method) => method,
        Err(code) => {
            requests.taken.refuse(arrived);
            return core.reject_first(&asker, answer_as, code);
        }
    };
    let of = TakenOf { answer_as, payload_bytes: joined.group.payload_bytes, method };
    let taken = match first.is_claim() {
        true => requests.taken.take_claim(now, arrived, asker, tag, of),
        false => requests.taken.take_whole(now, arrived, asker, tag, of),
    };
    match taken {
        Err(_) => core.reject_first(&asker, answer_as, RejectCode::Overloaded),
        Ok(id) if first.is_claim() => core.bind_claimed(id, &asker, tag, of),
        Ok(id) => {
            let handle = RequestHandle { session, request: id.to_bits() };
            let payload = Payload::Frame(first.message());
            run_taken(state, cx, (id, handle), method, payload);
        }
    }
}

/// Whether a first packet is taken, if there is room (RT16, step 3). Returns its method, by the
/// endpoint's own number.
fn judge<S>(core: &Core<S>, first: &RoutedPacket<'_>, place: u32) -> Result<u16, RejectCode> {
    let requests = core.group_requests.as_deref().expect("it has the client");
    let client = requests.clients.at(place);
    let joined = requests.joined(client.membership);
    let is_known = client.told.is_some();
    let joined = joined.filter(|joined| is_known && joined.takes_epoch(first.epoch()));
    let joined = joined.ok_or(RejectCode::Again)?;
    if first.lifetime_us() == Some(0) {
        return Err(RejectCode::Expired);
    }
    let bytes = first.header().message_bytes();
    if bytes > core.config.session.message_bytes_max {
        return Err(RejectCode::TooLarge);
    }
    // Of a whole request, the handler that is not there rejects.
    let is_there = |method: &u16| !first.is_claim() || usize::from(*method) < core.handlers.len();
    let Some(method) = joined.own_method(first.header().method()).filter(is_there) else {
        let draining = core.draining;
        return Err(if draining { RejectCode::Draining } else { RejectCode::UnknownMethod });
    };
    match core.has_room_for(place, 0) {
        true => Ok(method),
        false => Err(RejectCode::Overloaded),
    }
}

/// Runs the handler of a request, and notes that it is this one's that runs.
fn run_taken<S>(
    state: &mut S,
    cx: &mut Context<S>,
    (id, handle): (TakenId, RequestHandle),
    method: u16,
    payload: Payload<'_>,
) {
    let now = cx.core.now;
    cx.core.group_requests_mut().begin(id, now);
    run_handler(state, cx, handle, method, payload);
    cx.core.group_requests_mut().running = None;
}

/// Handles a packet of a client to the session of its request.
pub(super) fn on_taken_packet<S>(
    state: &mut S,
    cx: &mut Context<S>,
    bytes: &[u8],
    packet: Packet<'_>,
    origin: Option<Origin>,
) {
    let core = &mut cx.core;
    let name = SessionName { index: packet.session(), tag: packet.tag() };
    let requests = core.group_requests.as_deref_mut();
    let found = requests.and_then(|requests| {
        let id = requests.taken.find(name, packet.request())?;
        let client = requests.taken.asker(id)?.client;
        let seal = requests.taken.context(id).and_then(|of| of.answer_as.seal);
        Some((id, client, seal, requests.clients.at(client).origin.is_of(origin)))
    });
    let Some((id, client, seal, is_from_client)) = found else {
        core.stats.unknown_session += 1;
        return;
    };
    if !is_from_client || packet.has_checksum() != seal.is_some() {
        core.stats.wrong_origin += u64::from(!is_from_client);
        core.stats.malformed_checksum += u64::from(is_from_client);
        return;
    }
    let (mut opened, mut packet) = (Vec::new(), packet);
    if let Some(seal) = seal {
        opened = core::mem::take(&mut core.opened);
        match open(core, (bytes, packet), seal, &mut opened) {
            Some(payload) => packet = packet.with_payload(payload),
            None => {
                core.opened = opened;
                return;
            }
        }
    }
    on_its_packet(state, cx, (id, client), packet);
    if seal.is_some() {
        cx.core.opened = opened;
    }
}

#[inline(never)]
fn open<'o, S>(
    core: &mut Core<S>,
    (bytes, packet): (&[u8], Packet<'_>),
    seal: SealId,
    opened: &'o mut Vec<u8>,
) -> Option<&'o [u8]> {
    let sealed = &mut core.group_requests_mut().sealed;
    let error = match sealed.open(seal, bytes, &packet, 0, opened) {
        Ok(payload) => return Some(payload),
        Err(error) => error,
    };
    count_unopened(core, error);
    None
}

/// Handles a packet of a client to its request, which was opened or was not sealed.
#[inline(always)]
fn on_its_packet<S>(
    state: &mut S,
    cx: &mut Context<S>,
    (id, client): (TakenId, u32),
    packet: Packet<'_>,
) {
    let core = &mut cx.core;
    let packet = packet.request_without_padding();
    match packet.kind() {
        Kind::Done => {
            if core.group_requests_mut().taken.done(id).is_some() {
                core.free_taken(id);
            }
        }
        Kind::Cancel => cancel(state, cx, id, client),
        Kind::Request => on_part(state, cx, id, client, packet),
        _ => pull(core, id, packet),
    }
}

/// The client has given a request up (W21). The handler, if it runs, still has to answer.
fn cancel<S>(state: &mut S, cx: &mut Context<S>, id: TakenId, client: u32) {
    let core = &mut cx.core;
    let requests = core.group_requests_mut();
    let was_running = requests.taken.is_wanted(id);
    let session = requests.clients.at(client).id;
    requests.taken.cancel(id);
    core.free_taken(id);
    core.list_group_requests();
    if was_running && let Some(hook) = core.hooks.on_abandoned {
        hook(state, cx, session.key(id.to_bits()));
    }
}

/// A packet of the request of a claim, or of a whole one that the client repeats.
fn on_part<S>(state: &mut S, cx: &mut Context<S>, id: TakenId, client: u32, packet: Packet<'_>) {
    let core = &mut cx.core;
    if core.receive_part(id, &packet) != Progress::Run {
        return;
    }
    let requests = core.group_requests_mut();
    let session = requests.clients.at(client).id;
    // What the claim has named: its packets cannot make it another one.
    let Some(method) = requests.taken.context(id).map(|of| of.method) else { return };
    let handle = RequestHandle { session, request: id.to_bits() };
    let payload = match core.take_taken(id.index) {
        Some(buf) => Payload::Buffer(buf),
        None => Payload::Frame(packet.payload()),
    };
    run_taken(state, cx, (id, handle), method, payload);
}

fn pull<S>(core: &mut Core<S>, id: TakenId, packet: Packet<'_>) {
    let now = core.now;
    let requests = core.group_requests_mut();
    requests.taken.hear(now, id);
    let Some(session) = requests.session_mut(id.index) else { return };
    if let RequestAction::Pull { start, end, .. } = session.session.handle_packet(&packet, false) {
        core.pull_taken(id.index, (start, end));
    }
}

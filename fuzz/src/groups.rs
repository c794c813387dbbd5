//! Clients, workers and routers of a group on a control connection: the part of the target
//! `control` about them (RT33 to RT37).
//!
//! Every attempt is answered once, a leave is confirmed if it was said, and nobody is told what
//! does not concern it.

use std::collections::BTreeSet;

use petasos_base::Time;
use petasos_control::{
    Active, AttachGrant, AttachParams, BODY_BYTES_MAX, ClientChange, Connection, DataAddress,
    Epoch, GroupEvent, GroupMessage, JoinGrant, JoinParams, Leave, Member, MemberChange,
    MemberState, Message, PlaceGrant, PlaceParams, Refusal, RefuseCode, Role, Table, Text, Told,
};
use petasos_wire::RoutePolicy;

use crate::Input;
use crate::hello::encoded;

const ATTACH: u8 = 0;
const JOIN: u8 = 1;
const PLACE: u8 = 2;

/// What was asked in either direction.
#[derive(Default)]
pub(crate) struct Groups {
    /// Attempts that were accepted as commands and not answered, by kind and id.
    waiting: BTreeSet<(u8, u64)>,
    /// The peer's attempts that were not answered.
    requested: Vec<(u8, u64)>,
    leaving: BTreeSet<Leave>,
    /// Whether this process has ever been attached, or has asked to join.
    was_attached: bool,
    has_joined: bool,
}

impl Groups {
    /// Whether every attempt is answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A command of the process, or a message of the peer.
    pub(crate) fn step(&mut self, connection: &mut Connection, input: &mut Input<'_>, now: Time) {
        let id = u64::from(input.u8() % 8);
        match input.u8() % 8 {
            0 => self.note(ATTACH, id, connection.attach(id, attach(input)).is_ok()),
            1 => self.note(JOIN, id, connection.join(id, join(input)).is_ok()),
            2 => self.note(PLACE, id, connection.place(id, place(input)).is_ok()),
            3 => {
                let leave = leave(input);
                if connection.leave(leave).is_ok() {
                    self.leaving.insert(leave);
                }
            }
            4 => drop(connection.confirm_epoch(input.u16())),
            5 => self.answer(connection, input),
            6 => drop(connection.tell(told(input))),
            _ => {
                let message = said(id, input);
                let fits = |told: &Told| told.body_bytes() <= BODY_BYTES_MAX;
                if !matches!(&message, GroupMessage::Told(told) if !fits(told)) {
                    connection.handle_bytes(&encoded(&Message::Group(message)), now);
                }
            }
        }
    }

    fn note(&mut self, kind: u8, id: u64, is_asked: bool) {
        assert!(!is_asked || self.waiting.insert((kind, id)), "{kind} {id} was in use");
        self.has_joined |= is_asked && kind == JOIN;
    }

    fn answer(&mut self, connection: &mut Connection, input: &mut Input<'_>) {
        let (grants, at) = (input.bool(), usize::from(input.u8()));
        if self.requested.is_empty() {
            return;
        }
        let (kind, id) = self.requested.remove(at % self.requested.len());
        let code = RefuseCode::SessionsFull;
        let granted = grants
            && match kind {
                ATTACH => connection.answer_attach(id, Ok((attached(input), active(input)))),
                JOIN => connection.answer_join(id, Ok(joined(input))),
                _ => connection.answer_place(id, Ok(placed(input))),
            }
            .is_ok();
        if granted {
            return;
        }
        let refused = match kind {
            ATTACH => connection.answer_attach(id, Err(code)),
            JOIN => connection.answer_join(id, Err(Refusal { code, detail: Text::new("no") })),
            _ => connection.answer_place(id, Err(code)),
        };
        assert!(refused.is_ok() || !connection.is_open(), "{kind} {id}: {refused:?}");
    }

    /// Something has happened at an end with `role`.
    pub(crate) fn check(&mut self, role: Role, event: GroupEvent) {
        let is_router = role == Role::Acceptor;
        let answered = |groups: &mut Groups, kind, id| {
            assert!(!is_router && groups.waiting.remove(&(kind, id)), "{kind} {id}");
        };
        match event {
            GroupEvent::AttachRequested { id, .. } => self.requested.push((ATTACH, id)),
            GroupEvent::JoinRequested { id, .. } => self.requested.push((JOIN, id)),
            GroupEvent::PlaceRequested { id, .. } => self.requested.push((PLACE, id)),
            GroupEvent::AttachAnswered { id, result } => {
                self.was_attached |= result.is_ok();
                answered(self, ATTACH, id);
            }
            GroupEvent::JoinAnswered { id, .. } => answered(self, JOIN, id),
            GroupEvent::PlaceAnswered { id, .. } => answered(self, PLACE, id),
            GroupEvent::LeaveAnswered { leave } => assert!(self.leaving.remove(&leave)),
            GroupEvent::Told(told) => {
                let concerns = match told {
                    Told::Members(_) | Told::Active(_) => self.was_attached,
                    Told::Epoch { client: Some(_), .. } => self.was_attached,
                    Told::Table(_) | Told::Clients(_) => self.has_joined,
                    Told::Epoch { client: None, .. } => self.has_joined,
                    Told::Routers(_) => self.was_attached || self.has_joined,
                };
                assert!(!is_router && concerns, "{told:?}");
            }
            GroupEvent::EpochHeard { .. } => assert!(is_router),
            GroupEvent::Left { .. } => {}
        }
    }
}

fn address(port: u16) -> DataAddress {
    DataAddress::udp(port, Some([10, 1, 2, 3].into()))
}

fn attach(input: &mut Input<'_>) -> AttachParams {
    let (payload_bytes_max, asked_max) = (input.u16(), input.u32() >> 12);
    AttachParams { endpoint: 1, payload_bytes_max, asked_max, address: address(9) }
}

fn join(input: &mut Input<'_>) -> JoinParams {
    JoinParams {
        endpoint: 1,
        session: 0x8_0000 | u32::from(input.u8()),
        tag: 3,
        payload_bytes_max: input.u16(),
        bound: input.u16(),
        weight: 100,
        is_primary: false,
        dial_port: None,
        address: address(9),
    }
}

fn place(input: &mut Input<'_>) -> PlaceParams {
    let client = u32::from(input.u8() % 4);
    PlaceParams { client, policy: RoutePolicy::Any, key_hash: 0, avoid: None }
}

fn leave(input: &mut Input<'_>) -> Leave {
    let (is_client, number, tag) = (input.bool(), input.u8() % 4, u32::from(input.u8() % 4));
    let member =
        if is_client { Member::Client(number.into()) } else { Member::Worker(number.into()) };
    Leave { member, tag }
}

fn epoch(input: &mut Input<'_>) -> Epoch {
    Epoch { number: input.u16(), binds_anew: false, secret: None }
}

fn active(input: &mut Input<'_>) -> Active {
    Active { is_active: input.bool(), term: 1 }
}

fn attached(input: &mut Input<'_>) -> AttachGrant {
    AttachGrant {
        client: u32::from(input.u8() % 4),
        tag: u32::from(input.u8() % 4),
        payload_bytes: 1024,
        asked_max: 1,
        has_no_window: false,
        cipher: None,
        epoch: epoch(input),
        address: address(10),
    }
}

fn joined(input: &mut Input<'_>) -> JoinGrant {
    JoinGrant {
        worker: u16::from(input.u8() % 4),
        session: 1,
        tag: u32::from(input.u8() % 4),
        secret: 5,
        payload_bytes: 1024,
        clients_max: 2048,
        beat_us: 20_000,
        hole_us: 2_000,
        claim_us: 20_000,
        cipher: None,
        epoch: epoch(input),
        source: address(10),
        feedback: address(11),
    }
}

fn placed(input: &mut Input<'_>) -> PlaceGrant {
    PlaceGrant { worker: u16::from(input.u8() % 4), address: ([10, 1, 2, 3], 7411).into() }
}

fn told(input: &mut Input<'_>) -> Told {
    let choice = input.u8();
    let client = choice.is_multiple_of(2).then(|| u32::from(choice / 8 % 4));
    match choice % 7 {
        0 => Told::Table(Table {
            epoch: input.u16(),
            first: 1,
            is_last: input.bool(),
            service: Text::new("kv.Store"),
            methods: vec![Text::new("Get")],
        }),
        1 => {
            let change = MemberChange { worker: 1, state: MemberState::There(address(12)) };
            Told::Members(vec![change; usize::from(input.u16() % 600)])
        }
        2 => Told::Clients(vec![ClientChange { client: 1, names: Some(vec!["a.b".into()]) }]),
        3 | 4 => Told::Epoch { client, epoch: epoch(input) },
        5 => Told::Active(active(input)),
        _ => Told::Routers(vec![([10, 1, 2, 3], 7411).into()]),
    }
}

/// What an honest peer might say, in or out of place.
fn said(id: u64, input: &mut Input<'_>) -> GroupMessage {
    match input.u8() % 9 {
        0 => GroupMessage::Attach { attach_id: id, params: attach(input) },
        1 => GroupMessage::Attached { attach_id: id, result: Ok(attached(input)) },
        2 => GroupMessage::Join { join_id: id, params: join(input) },
        3 => GroupMessage::Joined { join_id: id, result: Ok(joined(input)) },
        4 => GroupMessage::EpochHeard { epoch: input.u16() },
        5 => GroupMessage::Place { place_id: id, params: place(input) },
        6 => GroupMessage::Placed { place_id: id, result: Ok(placed(input)) },
        7 => GroupMessage::Leave(leave(input)),
        _ => GroupMessage::Told(told(input)),
    }
}

/// Steps of a client: it attaches, hears who is active and who is a member, is placed, and leaves.
pub(crate) const CLIENT: [&[u8]; 8] = [
    &[0, 0, 0xa8, 5, 0, 0, 1, 0],
    &[0, 7, 1, 3, 1, 7, 0],
    &[0, 7, 8, 5, 1],
    &[0, 7, 8, 1, 2, 0],
    &[0, 2, 3],
    &[0, 7, 6, 1],
    &[0, 3, 1, 3, 1],
    &[0, 7, 7, 1, 3, 1],
];

/// Steps of a worker: it joins, between a table and an epoch that it confirms, and leaves.
pub(crate) const WORKER: [&[u8]; 8] = [
    &[0, 1, 1, 0xa8, 5, 4, 0],
    &[0, 7, 8, 0, 7, 0, 1],
    &[0, 7, 3, 3, 1, 7, 0],
    &[0, 4, 7, 0],
    &[0, 7, 8, 3, 8, 0],
    &[0, 4, 8, 0],
    &[0, 3, 0, 3, 1],
    &[0, 7, 7, 0, 3, 1],
];

/// Steps of a router with a client and a worker.
pub(crate) const ROUTER: [&[u8]; 11] = [
    &[1, 7, 0, 0xa8, 5, 0, 0, 1, 0],
    &[0, 5, 1, 0, 3, 1, 7, 0, 1],
    &[0, 6, 1, 2, 0],
    &[2, 7, 2, 1, 0xa8, 5, 4, 0],
    &[0, 6, 0, 7, 0, 1],
    &[0, 5, 1, 0, 3, 1, 7, 0],
    &[0, 7, 4, 7, 0],
    &[0, 6, 3, 8, 0],
    &[3, 7, 5, 3],
    &[0, 5, 0, 0],
    &[0, 7, 7, 1, 3, 1],
];

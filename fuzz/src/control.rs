//! Messages of a control connection after the hello, from a peer that may say anything, between
//! commands of the process (C6 to C17, C21, RT33 to RT37).
//!
//! Every connect is answered once, tickets and resumes come in their order, nothing follows the
//! last event, and the output stays bounded.

use std::collections::BTreeSet;

use petasos_base::Time;
use petasos_control::{
    AcceptParams, ByeReason, Capabilities, Config, ConnectParams, Connection, DataAddress, Event,
    Hello, LocalOffer, Message, OWED_BYTES_MAX, RESUMES_MAX, Recovery, RefuseCode, Role,
    ServerLimits, SessionRef, SessionRole, Target, Ticket,
};

use crate::groups::{self, Groups};
use crate::hello::{encoded, ours};
use crate::{Input, Seed};

/// Kinds of messages, and one number that is none.
const KINDS: u8 = 29;

/// Two bytes of choices (the role; whether the peer is beside, and whether both have groups), then
/// operations.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let role = if input.bool() { Role::Dialler } else { Role::Acceptor };
    let choices = input.u8();
    let mut scene = Scene::new(role, choices & 1 != 0, choices & 2 != 0);
    while !input.is_empty() {
        scene.step(&mut input);
        scene.check();
    }
    scene.connection.handle_eof(scene.now);
    scene.check();
    assert!(scene.ended && scene.waiting.is_empty(), "every connect is answered");
    assert!(scene.groups.is_answered(), "every attempt is answered");
}

struct Scene {
    connection: Connection,
    now: Time,
    /// Connects that were accepted as commands and not answered.
    waiting: BTreeSet<u64>,
    /// The peer's connects that were not answered.
    requested: Vec<(u64, ConnectParams)>,
    ended: bool,
    role: Role,
    /// Whether the peer has sent its ticket.
    has_ticket: bool,
    /// Whether the process has asked to take another connection's place, and heard nothing.
    resumes: bool,
    /// How often the peer has, whether that waits for an answer, and whether one was yes.
    asked: (usize, bool, bool),
    /// Whether the peer reads what we send.
    reads: bool,
    groups: Groups,
}

impl Scene {
    fn new(role: Role, beside: bool, groups: bool) -> Scene {
        let now = Time::from_nanos(1);
        let own = if groups { Capabilities::GROUPS } else { Capabilities::default() };
        let hello = Hello { capabilities: ours().capabilities.with(own), ..ours() };
        let mut connection = Connection::new(Config::default(), role, hello, now);
        let capabilities = Capabilities::CLIENT.with(Capabilities::SERVER);
        let capabilities = if beside { ours().capabilities } else { capabilities };
        let hello = Hello { incarnation: 22, capabilities: capabilities.with(own), ..ours() };
        connection.handle_bytes(&encoded(&Message::Hello(hello)), now);
        let (waiting, requested) = (BTreeSet::new(), Vec::new());
        Scene {
            connection,
            now,
            waiting,
            requested,
            ended: false,
            role,
            has_ticket: false,
            resumes: false,
            asked: (0, false, false),
            reads: true,
            groups: Groups::default(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 13 {
            0 => self.connection.handle_bytes(input.short(), self.now),
            // A frame, so that its body is looked at.
            1..=3 => {
                let (kind, flags, body) = (input.u8() % KINDS, input.u8() & 1, input.short());
                let frame = [&(body.len() as u16).to_le_bytes()[..], &[kind, flags], body].concat();
                self.connection.handle_bytes(&frame, self.now);
            }
            4 => {
                let id = u64::from(input.u8() % 8);
                let asked = self.connection.connect(id, wish(input), self.now);
                assert!(asked.is_err() || self.waiting.insert(id), "{id} was in use");
            }
            5 => self.reply(input),
            6 => {
                let role = if input.bool() { SessionRole::Client } else { SessionRole::Server };
                let session = u32::from(input.u8() % 8);
                let tag = input.u32() >> 4;
                let _ = self.connection.disconnect(SessionRef { role, endpoint: 1, session, tag });
            }
            7 => self.now = self.now.plus_nanos(u64::from(input.u16()) * 100_000),
            8 => self.connection.handle_timeout(self.now),
            9 => self.reads = input.bool(),
            10 => match input.u8() % 8 {
                0 => self.connection.drain(),
                1 => self.connection.close(ByeReason::Shutdown),
                2 => self.connection.handle_eof(self.now),
                3 => self.connection.handle_reset(self.now),
                4..=6 => self.resume(input),
                _ => {
                    let answers = self.connection.take_answers();
                    self.connection.inherit_answers(answers);
                }
            },
            // Many of one kind: limits are reached.
            11 => {
                let (kind, count, body) = (input.u8() % KINDS, input.u16() % 1200, input.short());
                for at in 0..count {
                    let mut body = body.to_vec();
                    body.iter_mut().zip(at.to_le_bytes()).for_each(|(byte, by)| *byte ^= by);
                    let length = (body.len() as u16).to_le_bytes();
                    let frame = [&length[..], &[kind, 0], &body].concat();
                    self.connection.handle_bytes(&frame, self.now);
                }
            }
            _ => self.groups.step(&mut self.connection, input, self.now),
        }
    }

    /// What the process does about tickets, wherever it stands.
    fn resume(&mut self, input: &mut Input<'_>) {
        let ticket = Ticket::new([input.u8(); 16]);
        match self.role {
            Role::Acceptor if input.bool() => {
                let gives = self.connection.give_ticket(ticket);
                assert!(!gives || !core::mem::replace(&mut self.has_ticket, true), "one ticket");
            }
            Role::Acceptor => {
                let accepted = input.bool();
                self.connection.answer_resume(accepted);
                self.asked.2 |= core::mem::take(&mut self.asked.1) && accepted;
            }
            Role::Dialler => {
                let asks = self.connection.resume(ticket);
                assert!(!asks || !core::mem::replace(&mut self.resumes, true), "one at a time");
            }
        }
    }

    /// What the peer says of tickets comes in its order, whatever it sends.
    fn check_resumption(&mut self, event: &Event) {
        match event {
            Event::Ticket(_) => {
                assert!(self.role == Role::Dialler, "acceptors give tickets");
                assert!(!core::mem::replace(&mut self.has_ticket, true), "one ticket");
            }
            Event::ResumeRequested(_) => {
                let (count, waits, accepted) = &mut self.asked;
                *count += 1;
                assert!(self.role == Role::Acceptor && *count <= RESUMES_MAX);
                assert!(!*accepted && !core::mem::replace(waits, true), "one at a time");
            }
            Event::ResumeAnswered { .. } => {
                assert!(core::mem::take(&mut self.resumes), "only what was asked is answered");
            }
            _ => {}
        }
    }

    fn reply(&mut self, input: &mut Input<'_>) {
        let (grants, index) = (input.bool(), usize::from(input.u8()));
        if self.requested.is_empty() {
            let _ = self.connection.reply(index as u64, Err(RefuseCode::Internal));
            return;
        }
        let (id, params) = self.requested.remove(index % self.requested.len());
        let result = if grants { grant(&params, input) } else { Err(RefuseCode::SessionsFull) };
        let answered = self.connection.reply(id, result);
        assert!(answered.is_ok() || self.ended, "a grant that was made of the wish: {answered:?}");
    }

    fn check(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            assert!(!self.ended, "{event:?} after the last event");
            self.check_resumption(&event);
            match event {
                Event::ConnectAnswered { id, .. } => assert!(self.waiting.remove(&id)),
                Event::ConnectRequested { id, params } => self.requested.push((id, params)),
                Event::Group(event) => self.groups.check(self.role, event),
                Event::PeerFailed(_) | Event::Closed { .. } => self.ended = true,
                _ => {}
            }
        }
        assert!(!self.ended || self.connection.poll_timeout().is_none());
        let unsent = self.connection.poll_output().map_or(0, <[u8]>::len);
        let room = Config::default().output_bytes_max + OWED_BYTES_MAX;
        assert!(unsent <= room + 4096, "{unsent} bytes of output");
        if self.reads {
            self.connection.advance_output(unsent);
        }
    }
}

/// What this process asks for.
fn wish(input: &mut Input<'_>) -> ConnectParams {
    let local = input.bool().then(|| LocalOffer {
        name: ([127, 0, 0, 1], 9).into(),
        credits: input.u16(),
        payload_bytes_max: 16_000,
    });
    ConnectParams {
        target: if input.bool() { Target::Any } else { Target::Index(2) },
        address: DataAddress::udp(input.u16(), None),
        endpoint: 1,
        session: input.u8().into(),
        tag: input.u32(),
        slots: input.u8(),
        credits: input.u16(),
        payload_bytes_max: input.u16(),
        request_bytes_max: input.u32(),
        response_bytes_max: 1 << 22,
        recovery: Recovery::Selective,
        checksum: false,
        local,
    }
}

/// What a server answers to a wish.
fn grant(wish: &ConnectParams, input: &mut Input<'_>) -> Result<AcceptParams, RefuseCode> {
    let endpoint = match wish.target {
        Target::Any => 0,
        Target::Index(index) => index,
    };
    let server = SessionRef { role: SessionRole::Server, endpoint, session: 7, tag: 9 };
    let limits = ServerLimits {
        slots_max: input.u8(),
        credits_max: input.u16(),
        payload_bytes_max: input.u16(),
        request_bytes_max: input.u32() >> 4,
        response_bytes_max: 1 << 20,
    };
    let local = (wish.local.is_some() && input.bool()).then(|| ([127, 0, 0, 1], 8).into());
    // Packets travel both ways alike.
    let address = DataAddress { carrier: wish.address.carrier, ..DataAddress::udp(77, None) };
    wish.accept(&limits, server, address, local)
}

/// Each message once behind the operation that sends it, and whole conversations.
pub fn seeds() -> Vec<Seed> {
    let params = ConnectParams {
        target: Target::Any,
        address: DataAddress::udp(0x1234, None),
        endpoint: 1,
        session: 3,
        tag: 0x0abc_def1,
        slots: 8,
        credits: 32,
        payload_bytes_max: 1448,
        request_bytes_max: 1 << 23,
        response_bytes_max: 1 << 22,
        recovery: Recovery::Selective,
        checksum: false,
        local: None,
    };
    let name = ([127, 0, 0, 1], 9).into();
    let offer = LocalOffer { name, credits: 64, payload_bytes_max: 16_000 };
    let beside = ConnectParams { local: Some(offer), ..params };
    let server = SessionRef { role: SessionRole::Server, endpoint: 2, session: 7, tag: 9 };
    let connect = |params| said(&Message::Connect { connect_id: 5, params });
    let (reply, ask) = (vec![5, 1, 0, 8, 32, 0, 0xa8, 5], 4_u8);
    let wish = [&[ask, 5, 0, 1, 0x34, 0x12, 3, 1, 2, 3, 0, 8, 32, 0, 0xa8, 5][..], &[0, 0, 1, 0]];
    let refused = said(&Message::ConnectReply { connect_id: 5, result: Err(RefuseCode::Draining) });
    let whole = |parts: &[&[u8]]| [&[0, 1][..], &parts.concat()].concat();
    let ticket = Ticket::new([7; 16]);
    let resume = said(&Message::Resume(ticket));
    let resumed = |accepted| said(&Message::Resumed { accepted });
    let (given, yes, no) = ([10, 4, 7, 1], [10, 4, 0, 0, 1], [10, 4, 0, 0, 0]);
    let dialled = |parts: &[&[u8]]| [&[1, 1][..], &parts.concat()].concat();
    let (heard, shown) = (said(&Message::Ticket(ticket)), [10, 4, 7]);
    vec![
        ("ticket-given", whole(&[&given, &given, &connect(params), &reply])),
        ("resume", whole(&[&given, &resume, &yes, &connect(params), &reply])),
        ("resume-refused", whole(&[&given, &resume, &no, &resume, &yes, &resume])),
        ("resume-after-connect", whole(&[&given, &connect(params), &reply, &resume])),
        ("resume-flood", whole(&[&[resume.clone(), no.to_vec()].concat().repeat(6)])),
        ("ticket-heard", dialled(&[&heard, &wish.concat(), &refused])),
        ("resumed", dialled(&[&heard, &shown, &resumed(true), &wish.concat(), &refused])),
        ("resumed-not", dialled(&[&heard, &shown, &resumed(false), &shown, &resumed(true)])),
        ("resumed-unasked", dialled(&[&heard, &resumed(true), &heard])),
        ("successor", dialled(&[&said(&Message::Successor), &wish.concat(), &refused])),
        ("successor-twice", dialled(&[&said(&Message::Successor).repeat(2)])),
        ("successor-misplaced", whole(&[&said(&Message::Successor)])),
        ("group-client", grouped(1, &groups::CLIENT)),
        ("group-worker", grouped(1, &groups::WORKER)),
        ("group-router", grouped(0, &groups::ROUTER)),
        ("connect", whole(&[&connect(params), &reply])),
        ("connect-beside", whole(&[&connect(beside), &reply, &[0xff; 8]])),
        ("repeated", whole(&[&connect(params), &reply, &connect(params)])),
        ("refused", whole(&[&wish.concat(), &refused])),
        ("timed-out", whole(&[&wish.concat(), &[7, 0xff, 0xff, 8, 8], &refused])),
        ("disconnect", whole(&[&connect(params), &reply, &said(&Message::Disconnect(server))])),
        ("ping", whole(&[&said(&Message::Ping { nonce: 4 }), &[7, 0, 4, 8, 7, 0, 4, 8]])),
        ("drain", whole(&[&said(&Message::Drain), &wish.concat(), &[10, 0]])),
        ("bye", whole(&[&said(&Message::Bye { reason: ByeReason::Shutdown })])),
        ("flood", whole(&[&[9, 0], &many(&Message::Connect { connect_id: 5, params })])),
    ]
}

/// Operations about groups, at an end with that role.
fn grouped(role: u8, operations: &[&[u8]]) -> Vec<u8> {
    let operations = operations.iter().flat_map(|bytes| [&[12][..], bytes].concat());
    [role, 3].into_iter().chain(operations).collect()
}

/// The operation by which the peer says `message`.
fn said(message: &Message) -> Vec<u8> {
    let frame = encoded(message);
    let body = &frame[4..];
    [&[1, frame[2], frame[3], body.len() as u8][..], body].concat()
}

/// The operation by which it says it a thousand times, a little altered.
fn many(message: &Message) -> Vec<u8> {
    let frame = encoded(message);
    let body = &frame[4..];
    [&[11, frame[2], 0xb0, 4, body.len() as u8][..], body].concat()
}

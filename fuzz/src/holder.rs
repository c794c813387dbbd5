//! Packets between routers and the holder of their programs (`petasos-router --hold`): any bytes,
//! with descriptors, and routers that come, take over, end and are lost in any order.
//!
//! Something that is kept has one router at most, only what a router has left is given to another,
//! and no descriptor stays open. What is kept here is no program: whether it is one, the kernel
//! says (`petasos_router_xdp::HeldProgram`).

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use petasos_attach::packet;
use petasos_base::Time;
use petasos_netio_xdp::{BpfFiles, InterfacePlace, XdpMode};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use self::keeper::{Keeper, OUTLIVE, Peer};
use self::wire::{Answer, Received, Said};
use crate::{Input, Seed};

#[allow(missing_docs, reason = "a part of the program")]
#[path = "../../bin/petasos-router/src/holder/keeper.rs"]
mod keeper;
#[allow(missing_docs, reason = "a part of the program")]
#[path = "../../bin/petasos-router/src/holder/wire.rs"]
mod wire;

const PEERS: usize = 3;
const STEPS_MAX: usize = 64;

/// Steps, each of a byte that says which, and what it takes.
pub fn run(bytes: &[u8]) {
    let before = open_files();
    let mut stage = Stage::default();
    let mut input = Input::new(bytes);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        stage.step(&mut input);
    }
    drop(stage);
    assert_eq!(open_files(), before, "no descriptor stays open");
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("there is a /proc").count()
}

/// A holder and its connections.
#[derive(Default)]
struct Stage {
    keeper: Keeper<(XdpMode, BpfFiles)>,
    peers: [Option<Connected>; PEERS],
    next: Peer,
    now: Time,
    /// Where routers run, and until when what others have left is there.
    runs: HashMap<(u64, u32), Peer>,
    left: HashMap<(u64, u32), Time>,
}

struct Connected {
    peer: Peer,
    router: OwnedFd,
    holder: OwnedFd,
}

fn key(place: InterfacePlace) -> (u64, u32) {
    (place.namespace, place.interface)
}

fn place(input: &mut Input<'_>) -> InterfacePlace {
    InterfacePlace { namespace: u64::from(input.u8() % 2), interface: u32::from(input.u8() % 3) }
}

fn mode(input: &mut Input<'_>) -> XdpMode {
    if input.bool() { XdpMode::Native } else { XdpMode::Generic }
}

fn file() -> OwnedFd {
    File::open("/dev/null").expect("it is there").into()
}

impl Stage {
    fn step(&mut self, input: &mut Input<'_>) {
        let at = usize::from(input.u8()) % PEERS;
        let next = &mut self.next;
        let connected = self.peers[at].get_or_insert_with(|| connect(next));
        let socket = connected.router.as_fd();
        let sent = match input.u8() % 8 {
            0 | 1 => wire::send_ask(socket, place(input)),
            2 | 3 => {
                let [link, program, words, programs] = core::array::from_fn(|_| file());
                let files = BpfFiles { link, program, words, programs };
                wire::send_keep(socket, place(input), mode(input), &files)
            }
            4 => wire::send_forget(socket),
            5 => {
                let files: Vec<_> = (0..input.u8() % 5).map(|_| file()).collect();
                let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
                let bytes = [&[input.u8() % 2][..], input.short()].concat();
                // It may have no bytes, or too many: that is for the system to refuse.
                return match packet::send(socket, &bytes, &files) {
                    Ok(()) => self.hear(at),
                    Err(_) => {}
                };
            }
            6 => {
                // What a holder may not say.
                let bytes = [&[input.u8() % 2][..], input.short()].concat();
                let file = file();
                let files = if input.bool() { vec![file.as_fd(); 2] } else { vec![] };
                if packet::send(connected.holder.as_fd(), &bytes, &files).is_ok() {
                    let answer = wire::receive_answer(socket);
                    assert!(matches!(answer, Received::Said(_) | Received::Garbage), "{answer:?}");
                }
                return;
            }
            _ => return self.passes(at, input),
        };
        sent.expect("the socket has room");
        self.hear(at);
    }

    /// Time, or a router that is lost.
    fn passes(&mut self, at: usize, input: &mut Input<'_>) {
        if input.bool() {
            let lost = self.peers[at].take().expect("it is connected");
            drop(lost.router);
            assert!(matches!(wire::receive(lost.holder.as_fd()), Received::Gone));
            self.lose(lost.peer);
            return;
        }
        self.now = self.now + OUTLIVE / u32::from(1 + input.u8() % 4);
        let lapsed = self.keeper.lapse(self.now).len();
        let before = self.left.len();
        self.left.retain(|_, until| *until > self.now);
        assert_eq!(lapsed, before - self.left.len());
        let due = self.left.values().copied().min().unwrap_or(Time::NEVER);
        assert_eq!(self.keeper.next_due(), due);
    }

    fn lose(&mut self, peer: Peer) {
        let has_left = self.keeper.lose(peer, self.now).is_some();
        let mut leaves = false;
        self.runs.retain(|place, runs| {
            let is_it = *runs == peer;
            if is_it {
                leaves = true;
                self.left.insert(*place, self.now + OUTLIVE);
            }
            !is_it
        });
        assert_eq!(has_left, leaves);
    }

    /// As the holder does.
    fn hear(&mut self, at: usize) {
        let connected = self.peers[at].as_ref().expect("it has said something");
        let (peer, socket) = (connected.peer, connected.holder.as_fd());
        let mut given = None;
        let sent = match wire::receive(socket) {
            Received::Said(Said::Ask(place)) => match self.keeper.ask(peer, place) {
                Some((mode, files)) => {
                    assert!(self.left.contains_key(&key(place)), "its router is gone");
                    given = Some(*mode);
                    wire::send_given(socket, *mode, [files.link.as_fd(), files.program.as_fd()])
                }
                None => wire::send_nothing(socket),
            },
            Received::Said(Said::Keep(place, mode, files)) => {
                let runs = self.runs.get(&key(place)).copied();
                match self.keeper.keep(peer, place, (mode, files)) {
                    Ok(()) => {
                        assert!(runs.is_none_or(|runs| runs == peer), "one runs there at most");
                        self.runs.insert(key(place), peer);
                        self.left.remove(&key(place));
                        let places = self.runs.values().filter(|it| **it == peer).count();
                        assert_eq!(places, 1, "a connection is for one interface");
                        wire::send_done(socket)
                    }
                    Err(why) => wire::send_refused(socket, why),
                }
            }
            Received::Said(Said::Forget) => {
                let places = self.runs.len();
                self.runs.retain(|_, runs| *runs != peer);
                assert_eq!(self.keeper.forget(peer).len(), places - self.runs.len());
                wire::send_done(socket)
            }
            Received::Garbage => {
                self.peers[at] = None;
                return self.lose(peer);
            }
            other => panic!("something was sent: {other:?}"),
        };
        sent.expect("the router reads its answers");
        self.is_answered(at, given);
    }

    /// What the holder has said is understood: that it has given a program, in this mode, or not.
    fn is_answered(&self, at: usize, given: Option<XdpMode>) {
        let connected = self.peers[at].as_ref().expect("it was heard");
        let answer = wire::receive_answer(connected.router.as_fd());
        let Received::Said(answer) = answer else { panic!("{answer:?}") };
        let got = match answer {
            Answer::Given(mode, files) => {
                assert!(files.iter().all(|file| rustix::fs::fstat(file).is_ok()), "they are open");
                Some(mode)
            }
            Answer::Refused(why) => {
                assert!(!why.is_empty());
                None
            }
            Answer::Nothing | Answer::Done => None,
        };
        assert_eq!(got, given);
        let keeps = self.runs.values().any(|runs| *runs == connected.peer);
        assert_eq!(self.keeper.keeps_for(connected.peer), keeps);
    }
}

fn connect(next: &mut Peer) -> Connected {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (router, holder) = pair.expect("the system has descriptors");
    *next += 1;
    Connected { peer: *next, router, holder }
}

/// A router that is replaced, several at once, and bytes that are no packets.
pub fn seeds() -> Vec<Seed> {
    let (ask, keep) = (|peer| [peer, 0, 1, 2], |peer| [peer, 2, 1, 2, 1]);
    let replaced = [&ask(0)[..], &keep(0), &[0, 7, 1], &ask(1), &keep(1), &[1, 4]].concat();
    let refused = [&keep(0)[..], &keep(1), &ask(1), &[0, 2, 0, 0, 0], &[0, 4, 1, 4]].concat();
    let late = [&keep(0)[..], &[0, 7, 1], &[1, 7, 0, 0], &ask(1), &keep(1)].concat();
    let garbage = [0, 5, 4, 1, 1, 9, 1, 5, 0, 1, 1, 3, 2, 6, 1, 2, 5, 1, 1, 2, 6, 0, 1, 4];
    vec![
        ("replaced", replaced),
        ("refused", refused),
        ("late", late),
        ("garbage", garbage.to_vec()),
    ]
}

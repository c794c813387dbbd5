//! The control connections with routers: who attaches and joins, and what is told to whom and when.
//!
//! What nodes, connections and a router's control do, in virtual time: this plays all three by hand
//! (`petasos_endpoint::by_hand`). Each router has two hosts. One is its plane. The other one is
//! where endpoints ask it, and where its clients bind: a loop with the service of the workers,
//! which gives its methods the same numbers.

use core::time::Duration;
use std::net::SocketAddr;

use petasos_base::{Rng, Time};
use petasos_control::{AttachGrant, DataAddress, Epoch, JoinGrant, PlaceGrant};
use petasos_endpoint::by_hand::{Asked, Asking, CallBack, Granting, HandRouter, Wish};
use petasos_netio::memory::MemoryIo;
use petasos_router::{Join, WorkerId};
use petasos_router_plane::MemberJoin;
use petasos_sim::World;
use petasos_sim::cluster::Life;

use crate::dials::peer_id;
use crate::program::Program;
use crate::router::PAYLOAD_BYTES;
use crate::scenario::Scenario;
use crate::wiring;

/// A message takes so long at most.
const MESSAGE_NANOS: u64 = 500_000;
/// A broken connection is noticed after so long at most.
const NOTICE_NANOS: u64 = 30_000_000;
/// Routers that were not there are asked again after so long at most.
const AGAIN_NANOS: u64 = 60_000_000;

/// See the module's documentation.
pub(crate) struct Control {
    rng: Rng,
    routers: Vec<Router>,
    members: Vec<Member>,
    later: Vec<(Time, Later)>,
}

struct Router {
    /// The hosts where it is asked, and of its plane.
    door: u32,
    plane: u32,
    /// How many workers have joined, for their numbers.
    joined: u16,
}

/// A client or worker of a router's present life.
struct Member {
    life: Life,
    asking: Asking,
    router: usize,
    address: SocketAddr,
    role: Role,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Client(u32),
    Worker(u16, WorkerId),
}

enum Later {
    Ask(Life, Asking),
    Call(Life, CallBack),
    Place(Life, u64, Option<u16>),
    /// A host has died, and those that were connected with it notice.
    Lost(Life),
}

impl Later {
    /// Whether it is a wish of this life in whose place another one comes.
    fn is_like(&self, life: Life, call: &CallBack) -> bool {
        match self {
            Later::Call(of, other) => *of == life && call.is_like(other),
            _ => false,
        }
    }
}

impl Control {
    pub(crate) fn new(scenario: &Scenario, rng: Rng) -> Control {
        let of = |(door, plane)| Router { door, plane, joined: 0 };
        let routers = scenario.routers().map(of).collect();
        Control { rng, routers, members: Vec::new(), later: Vec::new() }
    }

    /// Hears what endpoints ask for, and does what is due.
    pub(crate) fn tick(&mut self, world: &mut World<Program>, loops: u32) {
        if self.routers.is_empty() {
            return;
        }
        for host in (0..loops).filter(|host| world.is_alive(*host)).collect::<Vec<_>>() {
            let (life, asked) = (world.host(host).node().life, world.host(host).node().asked());
            asked.into_iter().for_each(|asked| self.hear(world, life, asked));
        }
        for router in 0..self.routers.len() {
            self.look_for_gone(world, router);
        }
        let now = world.now();
        let due: Vec<_> = self.later.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, later) in due {
            self.act(world, later);
        }
    }

    /// A host has died.
    pub(crate) fn died(&mut self, now: Time, life: Life) {
        let at = now.plus_nanos(self.rng.below(NOTICE_NANOS));
        self.later.push((at, Later::Lost(life)));
    }

    /// Whether a router has died and nobody has noticed: sessions with it are asked for on the
    /// connection by which one is its client, and fail with that.
    pub(crate) fn hides(&self, life: Life) -> bool {
        let is_door = self.routers.iter().any(|router| router.door == life.host);
        is_door && self.later.iter().any(|(_, it)| matches!(it, Later::Lost(of) if *of == life))
    }

    fn hear(&mut self, world: &mut World<Program>, life: Life, asked: Asked) {
        let now = world.now();
        let message = now.plus_nanos(self.rng.below(MESSAGE_NANOS));
        match asked {
            Asked::Router { asking, after } => {
                let at = if after.is_zero() { message } else { self.again(now) };
                self.later.push((at, Later::Ask(life, asking)));
            }
            Asked::Leave(name) => self.leave(world, life, name),
            Asked::Place { name, avoid } => {
                self.later.push((message, Later::Place(life, name, avoid)));
            }
            Asked::CallBack { call, after } => {
                self.later.retain(|(_, later)| !later.is_like(life, &call));
                let at = if call.asks_again() { self.again(now) } else { now + after };
                self.later.push((at, Later::Call(life, call)));
            }
        }
    }

    /// The endpoint's own time is partly of secret randomness, which no seed repeats.
    fn again(&mut self, now: Time) -> Time {
        now.plus_nanos(AGAIN_NANOS / 2 + self.rng.below(AGAIN_NANOS / 2))
    }

    fn act(&mut self, world: &mut World<Program>, later: Later) {
        match later {
            Later::Ask(life, asking) if wiring::is_current(world, life) => {
                self.answer(world, life, asking);
                wake(world, life);
            }
            Later::Call(life, call) if wiring::is_current(world, life) => {
                call.call();
                wake(world, life);
            }
            Later::Place(life, name, avoid) if wiring::is_current(world, life) => {
                self.place(world, (life, name), avoid);
            }
            Later::Lost(life) => self.lost(world, life),
            Later::Ask(..) | Later::Call(..) | Later::Place(..) => {}
        }
    }

    /// Answers a client or worker that asks a router.
    fn answer(&mut self, world: &mut World<Program>, life: Life, asking: Asking) {
        let is_it = |router: &Router| MemoryIo::address(router.door) == asking.router();
        let router = self.routers.iter().position(is_it).expect("it is one of them");
        let Router { door, plane, .. } = self.routers[router];
        if !world.is_alive(door) || !world.is_alive(plane) {
            return asking.refuse();
        }
        let own = world.host(door).node().life;
        let there = HandRouter {
            link: peer_id(own),
            ip: MemoryIo::address(door).ip(),
            incarnation: peer_id(own),
        };
        let (address, role) = match asking.wish() {
            Wish::Attach(params) => {
                let at = socket(&params.address);
                let (grant, role) = attach(world, plane, at, params.asked_max);
                asking.grant(Granting::Attach(grant), there);
                (at, role)
            }
            Wish::Join(params) => {
                self.routers[router].joined += 1;
                let joining = MemberJoin {
                    worker: self.routers[router].joined,
                    address: socket(&params.address),
                    session: params.session,
                    tag: params.tag,
                    join: Join {
                        identity: peer_id(life),
                        bound: params.bound,
                        weight: params.weight as u8,
                    },
                    is_primary: params.is_primary,
                };
                let (grant, role) = join(world, plane, &joining);
                asking.grant(Granting::Join(grant), there);
                (joining.address, role)
            }
        };
        let member = Member { life, asking, router, address, role };
        self.introduce(world, &member);
        self.members.push(member);
    }

    /// Tells a new member of the others, and them of it (RT36).
    fn introduce(&self, world: &mut World<Program>, new: &Member) {
        for other in self.members.iter().filter(|other| other.router == new.router) {
            tell(new, other.role, other.address, true);
            tell(other, new.role, new.address, true);
            wake(world, other.life);
        }
        if let Role::Client(_) = new.role {
            new.asking.tell_roster();
        }
    }

    fn leave(&mut self, world: &mut World<Program>, life: Life, name: u64) {
        self.later.retain(|(_, later)| match later {
            Later::Ask(of, asking) => (*of, asking.name()) != (life, name),
            Later::Call(of, call) => (*of, call.name()) != (life, name),
            Later::Place(..) | Later::Lost(_) => true,
        });
        let is_it = |member: &Member| (member.life, member.asking.name()) == (life, name);
        if let Some(at) = self.members.iter().position(is_it) {
            let gone = self.members.remove(at);
            self.take_leave(world, &gone);
        }
    }

    /// A router takes a member off its lists, and tells the others.
    fn take_leave(&self, world: &mut World<Program>, gone: &Member) {
        let plane = self.routers[gone.router].plane;
        if world.is_alive(plane) {
            world.with_host(plane, |program, _| {
                let router = program.router_mut();
                match gone.role {
                    Role::Client(client) => _ = router.plane.detach(&mut router.io, client),
                    Role::Worker(_, id) => _ = router.plane.end(&mut router.io, id),
                }
            });
        }
        for other in self.members.iter().filter(|other| other.router == gone.router) {
            tell(other, gone.role, gone.address, false);
            wake(world, other.life);
        }
    }

    /// Ends workers that a router has given up: they have to join anew (RT35).
    fn look_for_gone(&mut self, world: &mut World<Program>, router: usize) {
        let plane = self.routers[router].plane;
        if !world.is_alive(plane) {
            return;
        }
        for id in world.host(plane).router().take_gone() {
            let is_it = |member: &Member| {
                member.router == router && matches!(member.role, Role::Worker(_, of) if of == id)
            };
            let Some(at) = self.members.iter().position(is_it) else { continue };
            let gone = self.members.remove(at);
            self.take_leave(world, &gone);
            gone.asking.end(false);
            wake(world, gone.life);
        }
    }

    /// Names a worker for streams (RT37).
    fn place(&mut self, world: &mut World<Program>, of: (Life, u64), avoid: Option<u16>) {
        let is_it = |member: &&Member| (member.life, member.asking.name()) == of;
        let Some(asker) = self.members.iter().find(is_it) else { return };
        let workers = self.members.iter().filter(|it| it.router == asker.router);
        let workers: Vec<_> = workers
            .filter_map(|it| match it.role {
                Role::Worker(worker, _) => Some((worker, it.life)),
                Role::Client(_) => None,
            })
            .collect();
        let others: Vec<_> =
            workers.iter().filter(|(worker, _)| avoid != Some(*worker)).copied().collect();
        let from = if others.is_empty() { workers } else { others };
        let chosen = (!from.is_empty()).then(|| from[self.rng.below(from.len() as u64) as usize]);
        asker.asking.place(
            chosen
                .map(|(worker, life)| PlaceGrant { worker, address: MemoryIo::address(life.host) }),
        );
        wake(world, of.0);
    }

    /// Connections with a host that has died have broken.
    fn lost(&mut self, world: &mut World<Program>, life: Life) {
        let is_door = |router: &Router| router.door == life.host;
        match self.routers.iter().position(is_door) {
            Some(router) => {
                let left: Vec<_> =
                    self.members.extract_if(.., |member| member.router == router).collect();
                for member in left {
                    member.asking.end(true);
                    wake(world, member.life);
                }
                wiring::tell_death(world, life);
            }
            None => {
                let gone: Vec<_> =
                    self.members.extract_if(.., |member| member.life == life).collect();
                gone.iter().for_each(|member| self.take_leave(world, member));
            }
        }
    }

    /// A router that has died is told of, at once, if it was not.
    pub(crate) fn tell_now(&mut self, world: &mut World<Program>, life: Life) {
        let is_it = |later: &Later| matches!(later, Later::Lost(of) if *of == life);
        self.later.retain(|(_, later)| !is_it(later));
        self.lost(world, life);
    }
}

/// Tells a member of another one, if that concerns it.
fn tell(member: &Member, of: Role, at: SocketAddr, is_there: bool) {
    match (member.role, of) {
        (Role::Client(_), Role::Worker(worker, _)) => {
            member.asking.tell_worker(worker, is_there.then(|| data(at)));
        }
        (Role::Worker(..), Role::Client(client)) => member.asking.tell_client(client, is_there),
        _ => {}
    }
}

fn attach(
    world: &mut World<Program>,
    plane: u32,
    at: SocketAddr,
    asked_max: u32,
) -> (AttachGrant, Role) {
    world.with_host(plane, |program, _| {
        let router = program.router_mut();
        let told = router.plane.attach(&mut router.io, at).expect("there is room");
        let grant = AttachGrant {
            client: told.client,
            tag: told.tag,
            payload_bytes: PAYLOAD_BYTES,
            asked_max,
            has_no_window: false,
            cipher: None,
            epoch: epoch(),
            address: data(own_address(&router.io)),
        };
        (grant, Role::Client(told.client))
    })
}

fn join(world: &mut World<Program>, plane: u32, joining: &MemberJoin) -> (JoinGrant, Role) {
    world.with_host(plane, |program, now| {
        let router = program.router_mut();
        let told = router.plane.join(&mut router.io, now, joining).expect("there is room");
        let us = |time: Duration| time.as_micros() as u32;
        let at = data(own_address(&router.io));
        let grant = JoinGrant {
            worker: joining.worker,
            session: told.session,
            tag: told.tag,
            secret: told.secret,
            payload_bytes: PAYLOAD_BYTES,
            clients_max: 4096,
            beat_us: us(Duration::from_millis(20)),
            hole_us: us(Duration::from_millis(2)),
            claim_us: us(Duration::from_millis(20)),
            cipher: None,
            epoch: epoch(),
            source: at,
            feedback: at,
        };
        (grant, Role::Worker(joining.worker, told.id))
    })
}

fn epoch() -> Epoch {
    Epoch { number: 0, binds_anew: false, secret: None }
}

fn own_address(io: &MemoryIo) -> SocketAddr {
    MemoryIo::address(io.number())
}

fn data(at: SocketAddr) -> DataAddress {
    DataAddress::udp(at.port(), Some(at.ip()))
}

fn socket(at: &DataAddress) -> SocketAddr {
    SocketAddr::new(at.ip.expect("simulated endpoints have one"), at.port)
}

/// Has a host look at what it was told.
fn wake(world: &mut World<Program>, life: Life) {
    if wiring::is_current(world, life) {
        world.with_host(life.host, |_, _| ());
    }
}

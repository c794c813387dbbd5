//! Calls between the hubs of one host.

use std::sync::Arc;

use petasos_abi::{COUNTED_BYTES_MIN, CallNumber, Contents, Descriptor};
use petasos_call::Code;
use petasos_engine::Policy;
use petasos_message::Leaf;
use petasos_schema::Digest;
use petasos_service::{
    ApplicationLimits, Crossing, Host, HubError, HubId, Letter, ListenerId, Memory, RemoteLimits,
    SchemaLimits, Way,
};

use crate::remote::{NO_EVE, encoded, incoming, policy, say};
use crate::support::*;

/// The hubs of a host, and what carries calls between them.
pub struct Hubs {
    pub worlds: Vec<World>,
    pub crossings: Vec<Crossing>,
    /// Letters on their way, to each hub.
    pub letters: Vec<Vec<Letter>>,
}

impl Hubs {
    pub fn new(count: usize) -> Hubs {
        let host = Host::new(SchemaLimits::default());
        let mut worlds: Vec<World> = (0..count).map(|_| World::on(&host)).collect();
        let crossings = worlds.iter_mut().map(|world| Crossing::new(&mut world.hub)).collect();
        let letters = (0..count).map(|_| Vec::new()).collect();
        Hubs { worlds, crossings, letters }
    }

    /// Sends what a hub has to send, and gives it what has come.
    pub fn carry(&mut self, index: usize) -> bool {
        let hub = &mut self.worlds[index].hub;
        let mut has_moved = self.crossings[index].turn(hub, NOW);
        for letter in self.letters[index].drain(..) {
            self.crossings[index].hear(hub, letter, NOW);
            has_moved = true;
        }
        has_moved |= self.crossings[index].turn(hub, NOW);
        while let Some((HubId(to), letter)) = self.crossings[index].next_letter() {
            self.letters[to as usize].push(letter);
            has_moved = true;
        }
        has_moved
    }

    /// Runs until nothing moves. Each application is at the hub of its number here.
    pub fn run(&mut self, apps: &mut [(usize, &mut App)]) {
        loop {
            let mut has_moved = false;
            for index in 0..self.worlds.len() {
                has_moved |= self.worlds[index].hub.turn(NOW);
                has_moved |= self.carry(index);
            }
            for (index, app) in apps.iter_mut() {
                has_moved |= self.worlds[*index].listen(app);
            }
            if !has_moved {
                return;
            }
        }
    }

    /// A client at hub 0 and a server at hub 1 that it can call.
    pub fn pair(&mut self, limits: ApplicationLimits) -> (App, App) {
        let client = self.worlds[0].app_with("client", SEND_BYTES, limits);
        let server = self.worlds[1].app_with("server", SEND_BYTES, limits);
        self.worlds[1].hub.serve(server.number, "greeter").unwrap();
        self.worlds[0].hub.target(client.number, "greeter").unwrap();
        (client, server)
    }

    /// Nothing is left of any call.
    pub fn assert_idle(&mut self) {
        assert!(self.crossings.iter().all(|crossing| crossing.calls() == 0));
        assert!(self.letters.iter().all(Vec::is_empty));
        for world in &mut self.worlds {
            assert!(world.hub.applications().all(|application| application.load().calls == 0));
            assert_eq!(world.hub.remote_calls(), 0);
        }
    }
}

fn attach<M: Memory>(hub: &mut petasos_service::Hub<M>, app: &App, policy: Arc<dyn Policy>) {
    hub.application(app.number).unwrap().attach(0, policy).unwrap();
}

fn sums(world: &World, way: Way) -> (u64, u64) {
    let rows = world.hub.applications().flat_map(|application| application.stats().rows());
    let of = rows.filter(|row| row.way == way);
    of.fold((0, 0), |(begun, ok), row| (begun + row.sums.begun, ok + row.sums.ended[0]))
}

#[test]
fn a_call_passes_the_policies_of_both_hubs_and_is_answered() {
    let mut hubs = Hubs::new(2);
    let (mut client, mut server) = hubs.pair(ApplicationLimits::default());
    attach(&mut hubs.worlds[1].hub, &server, policy("access", NO_EVE));
    hubs.worlds[0].call(&mut client, "eve");
    let call = hubs.worlds[0].call(&mut client, "ann");
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    assert_eq!(hubs.worlds[1].serve(&mut server), ["ann"]);
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    let ends = client.ends();
    assert_eq!((ends[0].1, ends[0].2), (Code::PermissionDenied as u8, true));
    assert_eq!((ends.len(), ends[1].0, ends[1].1), (2, call, 0));
    let text = hubs.worlds[0].text(&client, "greet.Response", ends[1].3, "text");
    assert_eq!(text, "hello, ann");
    // Both applications are of this host.
    assert_eq!(sums(&hubs.worlds[0], Way::ToLocal), (2, 1));
    assert_eq!(sums(&hubs.worlds[1], Way::FromLocal), (2, 1));
    hubs.assert_idle();
}

#[test]
fn policies_know_an_application_and_a_peer_by_one_number_at_all_hubs() {
    let mut hubs = Hubs::new(2);
    let limit = policy(
        "rate_limit",
        r#"{"rate_per_s": 1, "burst": 3, "by": "application", "waiting_max": 0}"#,
    );
    let mut server = hubs.worlds[1].app("server");
    hubs.worlds[1].hub.serve(server.number, "greeter").unwrap();
    let mut served = 0;
    for index in [0, 1] {
        let user = ("client", Some(7));
        let mut app = hubs.worlds[index].app_of(user, SEND_BYTES, ApplicationLimits::default());
        hubs.worlds[index].hub.target(app.number, "greeter").unwrap();
        attach(&mut hubs.worlds[index].hub, &app, limit.clone());
        for _ in 0..2 {
            hubs.worlds[index].call(&mut app, "ann");
        }
        hubs.run(&mut [(index, &mut app), (1, &mut server)]);
        served += hubs.worlds[1].serve(&mut server).len();
        hubs.run(&mut [(index, &mut app), (1, &mut server)]);
    }
    assert_eq!(served, 3, "two applications of one name have one share");
}

#[test]
fn names_and_services_are_those_of_the_host() {
    let mut hubs = Hubs::new(2);
    let (client, server) = hubs.pair(ApplicationLimits::default());
    let numbers = [client.number, server.number].map(|number| number.0);
    assert_eq!(numbers, [0, 1], "no number is given twice");
    let taken = hubs.worlds[0].hub.serve(client.number, "greeter");
    assert!(matches!(taken, Err(HubError::NameTaken(_))));
    hubs.worlds[0].hub.reserve(&["elsewhere"]).expect("nobody has it");
    let reserved = hubs.worlds[1].hub.serve(server.number, "elsewhere");
    assert!(matches!(reserved, Err(HubError::Reserved(_))));
    for world in &hubs.worlds {
        let exports = world.hub.exports(ListenerId::default());
        assert_eq!(exports.len(), 1);
        assert_eq!(&*exports[0].service, "greet.Greeter");
        assert_eq!(&*world.hub.served_by(server.number)[0], "greeter");
    }
    let digest = Digest::of(&hubs.worlds[0].schema);
    assert!(hubs.worlds.iter().all(|world| world.hub.schemas().get(digest).is_some()));
    let changes = hubs.worlds[0].hub.export_changes();
    hubs.worlds[1].hub.remove(server.number, NOW);
    assert!(hubs.worlds[0].hub.export_changes() > changes, "the other hub notices");
    assert!(hubs.worlds[0].hub.exports(ListenerId::default()).is_empty());
    hubs.worlds[0].hub.serve(client.number, "greeter").unwrap();
}

#[test]
fn a_call_has_not_run_if_its_server_has_gone_or_takes_no_more() {
    let mut hubs = Hubs::new(2);
    let (mut client, server) = hubs.pair(ApplicationLimits::default());
    hubs.worlds[0].call(&mut client, "ann");
    hubs.worlds[0].hub.turn(NOW);
    hubs.carry(0);
    hubs.worlds[1].hub.remove(server.number, NOW);
    hubs.run(&mut [(0, &mut client)]);
    let ends = client.ends();
    assert_eq!((ends.len(), ends[0].1, ends[0].2), (1, Code::Unavailable as u8, true));
    hubs.assert_idle();
}

#[test]
fn a_server_that_goes_ends_its_calls_and_a_caller_that_goes_cancels_them() {
    let mut hubs = Hubs::new(2);
    let (mut client, mut server) = hubs.pair(ApplicationLimits::default());
    hubs.worlds[0].call(&mut client, "ann");
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    hubs.worlds[1].hub.remove(server.number, NOW);
    hubs.run(&mut [(0, &mut client)]);
    let ends = client.ends();
    assert_eq!((ends.len(), ends[0].1, ends[0].2), (1, Code::Unavailable as u8, false));
    hubs.assert_idle();

    let mut hubs = Hubs::new(2);
    let (mut client, mut server) = hubs.pair(ApplicationLimits::default());
    hubs.worlds[0].call(&mut client, "ann");
    let given_up = hubs.worlds[0].call(&mut client, "bob");
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    hubs.worlds[0].handle(&client, Descriptor::Cancel { call: given_up }).unwrap();
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    hubs.worlds[0].hub.remove(client.number, NOW);
    hubs.run(&mut [(1, &mut server)]);
    let cancels = server.take(|said| matches!(said, Descriptor::Cancel { .. }).then_some(())).len();
    assert_eq!(cancels, 2);
    hubs.assert_idle();
}

#[test]
fn an_application_that_moves_takes_its_names_along_and_nobody_else_takes_them() {
    let mut hubs = Hubs::new(2);
    let limits = ApplicationLimits::default();
    let app = |hubs: &mut Hubs, index: usize, user| {
        hubs.worlds[index].app_of(("server", Some(user)), SEND_BYTES, limits)
    };
    let old = app(&mut hubs, 0, 7);
    hubs.worlds[0].hub.serve(old.number, "greeter").unwrap();
    let [mut new, other] = [7, 8].map(|user| app(&mut hubs, 1, user));
    let taken = hubs.worlds[1].hub.serve(new.number, "greeter");
    assert!(matches!(taken, Err(HubError::NameTaken(_))), "the old one does not move");
    hubs.worlds[0].hub.give_way(old.number, new.number);
    let taken = hubs.worlds[1].hub.serve(other.number, "greeter");
    assert!(matches!(taken, Err(HubError::NameTaken(_))), "it is another one");
    // Other hosts call the one that was first, and go on with it.
    hubs.worlds[1].hub.serve(other.number, "other").unwrap();
    hubs.worlds[1].hub.serve(new.number, "greeter").unwrap();
    let back = hubs.worlds[0].hub.serve(old.number, "greeter");
    assert!(matches!(back, Err(HubError::NameTaken(_))));
    // The old one's end takes nothing from the new one.
    hubs.worlds[0].hub.remove(old.number, NOW);
    hubs.worlds[0].hub.allow_remote(RemoteLimits::default());
    let request = encoded(&hubs.worlds[0], "greet.Request", "name", "from afar");
    hubs.worlds[0].hub.begin_remote(incoming("Greet", Some(&request)), NOW).unwrap();
    hubs.run(&mut [(1, &mut new)]);
    assert_eq!(hubs.worlds[1].serve(&mut new), ["from afar"]);
    let mut client = hubs.worlds[0].app("client");
    hubs.worlds[0].hub.target(client.number, "greeter").unwrap();
    hubs.worlds[0].call(&mut client, "ann");
    hubs.run(&mut [(0, &mut client), (1, &mut new)]);
    assert_eq!(hubs.worlds[1].serve(&mut new), ["ann"]);
}

/// A stream that the server knows, by the client's number and the server's.
pub fn stream(hubs: &mut Hubs, client: &mut App, server: &mut App) -> [CallNumber; 2] {
    let near = client.next_call();
    let request = client.request(near, CHAT);
    hubs.worlds[0].handle(client, Descriptor::Request(request)).unwrap();
    hubs.run(&mut [(0, client), (1, server)]);
    let far = server.take(|said| match said {
        Descriptor::Request(request) => Some(request.call),
        _ => None,
    });
    [near, far[0]]
}

#[test]
fn streams_go_both_ways_in_order() {
    let mut hubs = Hubs::new(2);
    let (mut client, mut server) = hubs.pair(ApplicationLimits::default());
    let [near, far] = stream(&mut hubs, &mut client, &mut server);
    for text in ["a", "b"] {
        say(&mut hubs.worlds[0], &mut client, near, text);
    }
    hubs.worlds[0].handle(&client, Descriptor::Close { call: near }).unwrap();
    let reply = hubs.worlds[1].message("greet.Response", &[("text", Leaf::Text("x"))]);
    let message = server.write(&reply);
    hubs.worlds[1].handle(&server, Descriptor::Message { call: far, message }).unwrap();
    let (message, metadata) = (Contents::NONE, Contents::NONE);
    let end = Descriptor::End { call: far, status: 0, has_not_run: false, message, metadata };
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    let said = server.take(|said| match said {
        Descriptor::Message { message, .. } => Some(*message),
        Descriptor::Close { .. } => Some(Contents::NONE),
        _ => None,
    });
    assert_eq!((said.len(), said[2]), (3, Contents::NONE));
    let text = |at: usize| hubs.worlds[1].text(&server, "greet.Request", said[at], "name");
    assert_eq!([text(0), text(1)], ["a", "b"]);
    hubs.worlds[1].handle(&server, end).unwrap();
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    let kinds: Vec<String> = client.said.iter().map(|said| format!("{:?}", said.kind())).collect();
    let kinds: Vec<_> = kinds.iter().filter(|kind| *kind != "Release").collect();
    assert_eq!(kinds, ["Message", "End"]);
    hubs.assert_idle();
}

#[test]
fn a_server_that_does_not_read_gets_no_more_and_holds_back_the_caller() {
    let limits = limits_of_three();
    let mut hubs = Hubs::new(2);
    let (mut client, mut server) = hubs.pair(limits);
    let [near, far] = stream(&mut hubs, &mut client, &mut server);
    let mut sent = 0;
    let mut credit = limits.grant_bytes as i64;
    loop {
        hubs.run(&mut [(0, &mut client), (1, &mut server)]);
        credit += client.grants().iter().map(|(_, bytes)| *bytes as i64).sum::<i64>();
        if credit <= 0 {
            break;
        }
        say(&mut hubs.worlds[0], &mut client, near, "x");
        (sent, credit) = (sent + 1, credit - i64::from(COUNTED_BYTES_MIN));
        assert!(sent < 10_000, "nothing holds the caller back");
    }
    // It has as many as it granted, and the rest waits.
    let received = |server: &mut App| {
        server.take(|said| matches!(said, Descriptor::Message { .. }).then_some(())).len()
    };
    let first = received(&mut server);
    assert_eq!(first, 3);
    assert!(sent > first, "some wait at the hubs");
    let held = 64 * 1024 / COUNTED_BYTES_MIN as usize;
    assert!(sent < first + 2 * held + 10, "{sent} were taken");
    let mut all = first;
    while all < sent {
        let bytes = u64::from(COUNTED_BYTES_MIN);
        hubs.worlds[1].handle(&server, Descriptor::Grant { call: far, bytes }).unwrap();
        hubs.run(&mut [(0, &mut client), (1, &mut server)]);
        let more = received(&mut server);
        assert!(more > 0, "{all} of {sent} came");
        all += more;
    }
    assert!(!client.grants().is_empty(), "the caller may go on");
}

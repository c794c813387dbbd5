//! Work of the application in every turn, and what it learns of requests that nobody waits for.

use std::time::Duration;

use petasos_endpoint::{
    CallError, CallId, CallSettings, Context, EndpointConfig, Request, RequestKey, Time,
};
use petasos_netio::memory::{Hub, MemoryConfig};
use petasos_wire::{Kind, Packet};

use crate::joined::*;

fn note(server: &mut Server, _: &mut Context<Server>, key: RequestKey) {
    server.abandoned.push(key);
}

fn held_call(pair: &mut Joined, tag: u64) -> CallId {
    let session = pair.session;
    let cx = pair.client.context();
    cx.enqueue_request(session, HOLD, request_of(b"x"), keep, tag).expect("the session is ready")
}

fn held_keys(pair: &Joined) -> Vec<RequestKey> {
    pair.server.state().held.iter().map(|(handle, _)| handle.key()).collect()
}

#[test]
fn a_cancel_is_told_once() {
    let mut pair = Joined::new();
    pair.server.on_abandoned(note);
    let call = held_call(&mut pair, 1);
    held_call(&mut pair, 2);
    pair.run(3);
    assert_eq!(pair.server.state().abandoned, [], "both are wanted");
    assert!(pair.client.context().cancel(call));
    pair.run(3);
    let held = held_keys(&pair);
    assert_eq!(pair.server.state().abandoned, held[..1]);
    assert_eq!(held[0].session(), held[1].session());
    assert_ne!(held[0], held[1]);
    let (server, cx) = pair.server.split();
    for (handle, bytes) in server.held.drain(..) {
        cx.respond_with(handle, &bytes);
    }
    pair.run(3);
    assert_eq!(*pair.outcome(1), Err(CallError::Cancelled));
    assert!(pair.outcome(2).is_ok());
    assert_eq!(pair.server.state().abandoned.len(), 1, "answers abandon nothing");
}

#[test]
fn a_newer_request_abandons_the_one_whose_cancel_was_lost() {
    let mut pair = Joined::captured(|_| {});
    pair.server.on_abandoned(note);
    pair.server.register(HOLD, |server, cx, request: Request<'_>| {
        server.handled = server.abandoned.len() as u64;
        server.held.push((request.handle, request.payload.to_vec()));
        free(cx, request.payload);
    });
    let call = held_call(&mut pair, 0);
    pair.run_relayed(1, |_, _| {});
    pair.client.context().cancel(call);
    let mut cancels = 0;
    pair.run_relayed(1, |_, bytes| {
        if Packet::parse(bytes).expect("the client sends no nonsense").kind() == Kind::Cancel {
            cancels += 1;
            bytes[0] = !bytes[0];
        }
    });
    assert_eq!(cancels, 1);
    assert_eq!(pair.server.state().abandoned, [], "the server cannot know yet");
    held_call(&mut pair, 1);
    pair.run_relayed(1, |_, _| {});
    let held = held_keys(&pair);
    assert_eq!(held.len(), 2);
    assert_eq!(pair.server.state().abandoned, held[..1], "the slot is used again");
    assert_eq!(pair.server.state().handled, 1, "told before the newer request's handler runs");
}

#[test]
fn a_lost_session_abandons_its_requests() {
    let mut pair = Joined::new();
    pair.server.on_abandoned(note);
    for tag in 0..3 {
        held_call(&mut pair, tag);
    }
    pair.call(ECHO, b"over", 3);
    pair.run(3);
    pair.server.fail_peer(1);
    assert!(pair.server.next_turn_at() <= pair.time.now(), "there is something to tell");
    pair.server.run_once();
    let mut told = pair.server.state().abandoned.clone();
    told.sort_by_key(|key| held_keys(&pair).iter().position(|held| held == key));
    assert_eq!(told, held_keys(&pair));
    assert!(pair.server.next_turn_at() > pair.time.now());
}

#[test]
fn handlers_that_drain_themselves_still_get_requests() {
    let mut pair = Joined::new();
    pair.server.let_handlers_drain();
    pair.server.register(ECHO, |server, cx, request: Request<'_>| {
        server.handled += 1;
        cx.respond_with(request.handle, if cx.is_draining() { b"draining" } else { b"open" });
        free(cx, request.payload);
    });
    held_call(&mut pair, 1);
    pair.call(ECHO, b"x", 2);
    pair.run(3);
    pair.server.drain();
    pair.call(ECHO, b"x", 3);
    pair.call(NOBODY, b"x", 4);
    pair.run(3);
    assert_eq!(pair.outcome(2).as_deref(), Ok(&b"open"[..]));
    assert_eq!(pair.outcome(3).as_deref(), Ok(&b"draining"[..]));
    assert_eq!(*pair.outcome(4), Err(CallError::Draining));
    assert_eq!(pair.server.unfinished().0, 1, "the held request runs on");
    let (server, cx) = pair.server.split();
    let (handle, _) = server.held.pop().expect("it is held");
    cx.respond_with(handle, b"late");
    pair.run(3);
    assert_eq!(pair.outcome(1).as_deref(), Ok(&b"late"[..]));
}

#[test]
fn the_work_of_a_turn_runs_between_receiving_and_sending() {
    let mut pair = Joined::new();
    pair.server.on_turn(|server, cx| {
        for (handle, bytes) in server.held.drain(..) {
            cx.respond_with(handle, &bytes);
        }
        server.turns += 1;
        Time::NEVER
    });
    held_call(&mut pair, 1);
    pair.client.run_once();
    pair.server.run_once();
    pair.client.run_once();
    assert_eq!(pair.outcome(1).as_deref(), Ok(&b"x"[..]), "answered in the turn that received it");
    assert_eq!(pair.server.state().turns, 1);
}

#[test]
fn the_work_of_a_turn_says_when_it_needs_the_next() {
    let config = || EndpointConfig { seed: Some(1), ..EndpointConfig::default() };
    let time = petasos_endpoint::VirtualClock::default();
    let clock = petasos_endpoint::Clock::Virtual(time.clone());
    let port = Hub::direct(MemoryConfig::default()).port();
    let state = Server { turn_at: Some(at_ms(7)), ..Server::default() };
    let mut endpoint = petasos_endpoint::Endpoint::new(config(), port, clock, state);
    endpoint.on_turn(|server, cx| match server.turn_at {
        Some(at) if at <= cx.now() => {
            (server.turns, server.turn_at) = (server.turns + 1, None);
            Time::NEVER
        }
        at => at.unwrap_or(Time::NEVER),
    });
    assert!(!endpoint.run_once());
    assert_eq!(endpoint.next_turn_at(), at_ms(7));
    time.set(at_ms(7));
    endpoint.run_once();
    assert_eq!((endpoint.state().turns, endpoint.next_turn_at()), (1, Time::NEVER));
    endpoint.on_turn(|_, cx| cx.now());
    assert!(endpoint.run_once(), "it wants another turn at once");
    endpoint.on_turn(|_, _| panic!("work that fails on purpose"));
    endpoint.run_once();
    endpoint.on_turn(|_, _| Time::NEVER);
    assert!(!endpoint.run_once(), "the loop goes on");
    assert_eq!(endpoint.stats().event_loop.panics, 1);
}

#[test]
fn what_is_queued_can_be_sent_without_a_turn() {
    let mut pair = Joined::new();
    pair.call(ECHO, b"now", 1);
    pair.call(ECHO, &pattern(600), 2);
    pair.client.send_now();
    pair.server.run_once();
    assert_eq!(pair.server.state().handled, 2);
    assert!(pair.client.state().outcomes.is_empty(), "nothing was received meanwhile");
    pair.client.run_once();
    assert!(pair.outcome(1).is_ok() && pair.outcome(2).is_ok());
}

#[test]
fn slots_of_a_session_are_told() {
    let mut pair = Joined::with(|config| config.session.slots = 32, |_| {});
    let session = pair.session;
    let granted = pair.client.context().session_slots(session);
    assert_eq!(granted, 8, "what the server grants counts");
    pair.client.close_session(session);
    assert_eq!(pair.client.context().session_slots(session), 0);
}

#[test]
fn short_answers_that_are_lost_are_sent_again() {
    let mut pair = Joined::captured(|_| {});
    let settings = CallSettings { timeout: Some(Duration::from_secs(5)), ..Default::default() };
    let sizes = [0, 1, 32, 63, 64, 65, 126, 127, 128, 129, 255];
    for (tag, len) in sizes.into_iter().enumerate() {
        pair.call_with(ECHO, &pattern(len), tag as u64, &settings);
        let mut lost = false;
        pair.run_relayed(60, |_, bytes| {
            let packet = Packet::parse(bytes).expect("nobody sends nonsense");
            if packet.from_server() && !lost {
                (lost, bytes[0]) = (true, !bytes[0]);
            }
        });
        assert!(lost);
        assert_eq!(pair.outcome(tag as u64).as_deref(), Ok(&*pattern(len)), "{len} bytes");
    }
    assert_eq!(pair.server.state().handled, sizes.len() as u64, "each has run once");
}

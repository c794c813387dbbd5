//! Applications that want to harm the service, or those of other hubs, by calls that cross hubs.

use std::time::Duration;

use petasos_abi::{COUNTED_BYTES_MIN, CallNumber, Contents, Descriptor, Request};
use petasos_call::Code;
use petasos_message::Leaf;
use petasos_service::ApplicationLimits;

use crate::crossing::{Hubs, stream};
use crate::remote::say;
use crate::support::*;

#[test]
fn a_method_with_other_streams_is_another_one_also_when_the_way_is_known() {
    let mut hubs = Hubs::new(2);
    let (mut good, mut server) = hubs.pair(ApplicationLimits::default());
    let protos = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protos/streamed");
    let streamed = petasos_schema::compile(["greet.proto"], [protos], &Default::default());
    hubs.worlds[0].schema = streamed.unwrap().schema.encode();
    let mut hostile = hubs.worlds[0].app("hostile");
    hubs.worlds[0].hub.target(hostile.number, "greeter").unwrap();
    // From now on the hub knows the way: nothing changes any more.
    hubs.worlds[0].call(&mut good, "ann");
    hubs.run(&mut [(0, &mut good), (1, &mut server)]);
    assert_eq!(hubs.worlds[1].serve(&mut server), ["ann"]);
    let call = hostile.next_call();
    let request = Request { is_stream: true, ..hostile.request(call, GREET) };
    hubs.worlds[0].handle(&hostile, Descriptor::Request(request)).unwrap();
    hubs.run(&mut [(0, &mut hostile), (0, &mut good), (1, &mut server)]);
    let ends = hostile.ends();
    assert_eq!((ends.len(), ends[0].1, ends[0].2), (1, Code::FailedPrecondition as u8, true));
    assert!(hubs.worlds[1].serve(&mut server).is_empty(), "the server hears nothing of it");
    hubs.worlds[0].call(&mut good, "bob");
    hubs.run(&mut [(0, &mut good), (1, &mut server)]);
    assert_eq!(hubs.worlds[1].serve(&mut server), ["bob"]);
}

#[test]
fn calls_that_are_given_up_count_until_the_other_hub_has_let_them_go() {
    let mut hubs = Hubs::new(2);
    let limits = ApplicationLimits { items_max: 8, ..ApplicationLimits::default() };
    let (mut client, mut server) = hubs.pair(limits);
    let mut refused = 0;
    // The other hub's thread does not run.
    for _ in 0..200 {
        let call = hubs.worlds[0].call(&mut client, "ann");
        hubs.worlds[0].hub.turn(NOW);
        hubs.carry(0);
        hubs.worlds[0].handle(&client, Descriptor::Cancel { call }).unwrap();
        hubs.worlds[0].hub.turn(NOW);
        hubs.carry(0);
        hubs.worlds[0].listen(&mut client);
        refused +=
            client.ends().iter().filter(|end| end.1 == Code::ResourceExhausted as u8).count();
    }
    assert!(hubs.letters[1].len() <= 2 * 8, "{} letters wait", hubs.letters[1].len());
    assert_eq!(refused, 200 - 8);
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    hubs.assert_idle();
    // It may call again.
    server.said.clear();
    hubs.worlds[0].call(&mut client, "bob");
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    assert_eq!(hubs.worlds[1].serve(&mut server), ["bob"]);
}

/// Limits of few bytes that wait beyond an application's hub.
fn few_bytes_beyond() -> ApplicationLimits {
    let grant_bytes = 4 * u64::from(COUNTED_BYTES_MIN);
    let beyond_bytes_max = 20 * COUNTED_BYTES_MIN as usize;
    ApplicationLimits { grant_bytes, beyond_bytes_max, ..ApplicationLimits::default() }
}

/// Lets time pass, with turns of all hubs.
fn pass(hubs: &mut Hubs, apps: &mut [(usize, &mut App)]) {
    for step in 1..4u64 {
        let now = NOW + Duration::from_millis(60) * step as u32;
        for index in 0..hubs.worlds.len() {
            hubs.worlds[index].hub.turn(now);
            hubs.carry(index);
        }
        for (index, app) in apps.iter_mut() {
            hubs.worlds[*index].listen(app);
        }
    }
}

#[test]
fn messages_that_another_hub_has_and_nobody_reads_are_their_senders() {
    let mut hubs = Hubs::new(2);
    let limits = few_bytes_beyond();
    let (mut client, mut server) = hubs.pair(limits);
    let (mut ended, mut sent) = (0, 0);
    for _ in 0..30 {
        let [near, _] = stream(&mut hubs, &mut client, &mut server);
        // What the server grants at first, and what the service holds then.
        for _ in 0..8 {
            if !hubs.worlds[0].hub.application(client.number).unwrap().has_room() {
                pass(&mut hubs, &mut [(0, &mut client), (1, &mut server)]);
            }
            let ends = client.ends();
            ended += ends.len();
            if ends.iter().any(|end| end.0 == near) {
                break;
            }
            say(&mut hubs.worlds[0], &mut client, near, "x");
            sent += 1;
            hubs.run(&mut [(0, &mut client), (1, &mut server)]);
        }
        pass(&mut hubs, &mut [(0, &mut client), (1, &mut server)]);
        ended += client.ends().len();
    }
    let received = server.take(|said| matches!(said, Descriptor::Message { .. }).then_some(()));
    assert!(ended > 10, "{ended} streams were ended for what waits");
    assert!(received.len() < sent, "{} of {sent} were read", received.len());
    // Those that are left are within the limit.
    let load = hubs.worlds[0].hub.application(client.number).unwrap().load();
    assert!(load.calls <= 21, "{}", load.calls);
}

#[test]
fn answers_that_another_hub_has_and_nobody_reads_are_cut_also_when_their_calls_have_ended() {
    let mut hubs = Hubs::new(2);
    let limits = few_bytes_beyond();
    let (mut client, mut server) = hubs.pair(limits);
    let mut calls: Vec<CallNumber> = Vec::new();
    for number in 0..30 {
        let [near, far] = stream(&mut hubs, &mut client, &mut server);
        calls.push(near);
        let response = hubs.worlds[1].message("greet.Response", &[("text", Leaf::Text("x"))]);
        // Of the first ten, two messages each wait at the other hub; of the others, one.
        for _ in 0..if number < 10 { 7 } else { 6 } {
            let message = server.write(&response);
            hubs.worlds[1].handle(&server, Descriptor::Message { call: far, message }).unwrap();
            hubs.run(&mut [(0, &mut client), (1, &mut server)]);
        }
        let (message, metadata) = (Contents::NONE, Contents::NONE);
        let end = Descriptor::End { call: far, status: 0, has_not_run: false, message, metadata };
        hubs.worlds[1].handle(&server, end).unwrap();
        hubs.run(&mut [(0, &mut client), (1, &mut server)]);
        pass(&mut hubs, &mut [(0, &mut client), (1, &mut server)]);
    }
    let mut ends = client.ends();
    for call in &calls {
        let grant = Descriptor::Grant { call: *call, bytes: 1 << 20 };
        hubs.worlds[0].handle(&client, grant).unwrap();
    }
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    ends.extend(client.ends());
    assert_eq!(ends.len(), 30);
    let is_cut = |call: &CallNumber| {
        ends.iter().any(|end| end.0 == *call && end.1 == Code::ResourceExhausted as u8)
    };
    let cut = calls.iter().filter(|call| is_cut(call)).count();
    assert!((8..=20).contains(&cut), "{cut} were cut");
    // The fullest, which had ended: their ends have overtaken what waited.
    assert!(calls[..10].iter().filter(|call| is_cut(call)).count() >= 8, "{ends:?}");
    hubs.assert_idle();
}

#[test]
fn a_call_follows_a_server_that_has_moved_meanwhile() {
    let mut hubs = Hubs::new(3);
    let (mut client, old) = hubs.pair(ApplicationLimits::default());
    let call = hubs.worlds[0].call(&mut client, "ann");
    let unserved = hubs.worlds[0].call(&mut client, "bob");
    hubs.worlds[0].hub.turn(NOW);
    hubs.carry(0);
    assert_eq!(hubs.letters[1].len(), 2, "they are on their way");
    let mut new = hubs.worlds[2].app("server");
    hubs.worlds[1].hub.give_way(old.number, new.number);
    hubs.worlds[2].hub.serve(new.number, "greeter").unwrap();
    hubs.worlds[1].hub.remove(old.number, NOW);
    hubs.run(&mut [(0, &mut client), (2, &mut new)]);
    assert_eq!(hubs.worlds[2].serve(&mut new), ["ann", "bob"]);
    hubs.run(&mut [(0, &mut client), (2, &mut new)]);
    let ends: Vec<_> = client.ends().iter().map(|end| (end.0, end.1)).collect();
    assert_eq!(ends, [(call, 0), (unserved, 0)]);
    hubs.assert_idle();
}

#[test]
fn a_stream_that_fills_its_window_is_cut_all_the_same() {
    let mut hubs = Hubs::new(2);
    let (beyond_bytes_max, grant_bytes) = (128 << 10, 256 << 10);
    let limits =
        ApplicationLimits { beyond_bytes_max, grant_bytes, ..ApplicationLimits::default() };
    let (mut client, mut server) = hubs.pair(limits);
    let [near, far] = stream(&mut hubs, &mut client, &mut server);
    let text = "x".repeat(8 << 10);
    let response = hubs.worlds[1].message("greet.Response", &[("text", Leaf::Text(&text))]);
    // What the client was granted, what waits at its hub, and then more than may wait here.
    let all = 2 * grant_bytes / (8 << 10);
    let mut sent = 0;
    while sent < all && !is_over(&mut hubs, &server) {
        let message = server.write(&response);
        hubs.worlds[1].handle(&server, Descriptor::Message { call: far, message }).unwrap();
        hubs.run(&mut [(0, &mut client), (1, &mut server)]);
        sent += 1;
        if !hubs.worlds[1].hub.application(server.number).unwrap().has_room() {
            pass(&mut hubs, &mut [(0, &mut client), (1, &mut server)]);
        }
    }
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    assert!(is_over(&mut hubs, &server), "it was not cut after {sent} messages");
    // The other hub has let it go, too: only what its application was given waits there.
    assert_eq!(hubs.crossings[0].calls(), 0);
    hubs.worlds[0].handle(&client, Descriptor::Grant { call: near, bytes: 1 << 30 }).unwrap();
    hubs.run(&mut [(0, &mut client), (1, &mut server)]);
    let ends = client.ends();
    assert_eq!((ends.len(), ends[0].1), (1, Code::ResourceExhausted as u8));
    hubs.assert_idle();
}

fn is_over(hubs: &mut Hubs, server: &App) -> bool {
    hubs.worlds[1].hub.application(server.number).unwrap().load().calls == 0
}

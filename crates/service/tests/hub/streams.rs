//! Calls with streams.

use petasos_abi::{CallNumber, Contents, Descriptor, Request};
use petasos_call::Code;
use petasos_message::Leaf;
use petasos_service::ApplicationLimits;

use crate::support::*;

struct Chat {
    world: World,
    client: App,
    server: App,
    /// The call as each side knows it.
    near: CallNumber,
    far: CallNumber,
}

impl Chat {
    fn new() -> Chat {
        Chat::with(ApplicationLimits::default())
    }

    fn with(limits: ApplicationLimits) -> Chat {
        let mut world = World::new();
        let (mut client, mut server) = world.pair_with(limits);
        let near = client.next_call();
        let request = client.request(near, CHAT);
        world.handle(&client, Descriptor::Request(request)).unwrap();
        world.run(&mut [&mut client, &mut server]);
        let far = server.take(|said| match said {
            Descriptor::Request(Request { call, is_stream: true, .. }) => Some(*call),
            _ => None,
        });
        Chat { world, client, server, near, far: far[0] }
    }

    fn run(&mut self) {
        self.world.run(&mut [&mut self.client, &mut self.server]);
    }

    fn say(&mut self, text: &str) {
        let message = self.world.message("greet.Request", &[("name", Leaf::Text(text))]);
        let message = self.client.write(&message);
        let call = self.near;
        self.world.handle(&self.client, Descriptor::Message { call, message }).unwrap();
    }

    fn reply(&mut self, text: &str) {
        let message = self.world.message("greet.Response", &[("text", Leaf::Text(text))]);
        let message = self.server.write(&message);
        let call = self.far;
        self.world.handle(&self.server, Descriptor::Message { call, message }).unwrap();
    }

    /// What a side has received: messages of its type, then the other kinds by name.
    fn heard(&mut self, is_server: bool) -> Vec<String> {
        let (app, message_type, field) = match is_server {
            true => (&mut self.server, "greet.Request", "name"),
            false => (&mut self.client, "greet.Response", "text"),
        };
        let said = std::mem::take(&mut app.said);
        let text = said.into_iter().filter_map(|said| match said {
            Descriptor::Message { message, .. } => {
                Some(self.world.text(app, message_type, message, field))
            }
            Descriptor::Release(_) | Descriptor::Grant { .. } => None,
            Descriptor::End { status, .. } => Some(format!("end {status}")),
            other => Some(format!("{:?}", other.kind())),
        });
        text.collect()
    }
}

#[test]
fn d7_messages_of_both_sides_arrive_in_order_and_the_end_is_last() {
    let mut chat = Chat::new();
    for text in ["a", "b", "c"] {
        chat.say(text);
    }
    let call = chat.far;
    let metadata = Contents::NONE;
    chat.world.handle(&chat.server, Descriptor::Head { call, metadata }).unwrap();
    chat.reply("x");
    chat.run();
    chat.reply("y");
    let call = chat.near;
    chat.world.handle(&chat.client, Descriptor::Close { call }).unwrap();
    chat.run();
    let (call, message) = (chat.far, Contents::NONE);
    let end = Descriptor::End { call, status: 0, has_not_run: false, message, metadata };
    chat.world.handle(&chat.server, end).unwrap();
    chat.run();
    assert_eq!(chat.heard(true), ["a", "b", "c", "Close"]);
    assert_eq!(chat.heard(false), ["Head", "x", "y", "end 0"]);
    for number in [chat.client.number, chat.server.number] {
        let counts = chat.world.hub.application(number).unwrap().datapath().counts();
        assert_eq!((counts.queued, counts.held), (0, 0));
    }
}

#[test]
fn d7_a_stream_that_is_given_up_is_cancelled_and_its_answers_go_nowhere() {
    let mut chat = Chat::new();
    let call = chat.near;
    chat.world.handle(&chat.client, Descriptor::Cancel { call }).unwrap();
    chat.say("too late");
    chat.reply("too late, too");
    chat.run();
    assert_eq!(chat.heard(true), ["Cancel"]);
    assert_eq!(chat.heard(false), [""; 0]);
    let (call, message) = (chat.far, Contents::NONE);
    let metadata = Contents::NONE;
    let end = Descriptor::End { call, status: 0, has_not_run: false, message, metadata };
    chat.world.handle(&chat.server, end).unwrap();
    chat.run();
    assert_eq!(chat.heard(false), [""; 0]);
}

#[test]
fn d11_a_message_that_cannot_be_read_ends_the_stream_at_both_ends() {
    let mut chat = Chat::new();
    chat.say("good");
    let message = Contents { offset: SEND_BYTES - 8, bytes: 64 };
    let call = chat.near;
    chat.world.handle(&chat.client, Descriptor::Message { call, message }).unwrap();
    chat.say("after it");
    chat.run();
    // What was not delivered by then is void.
    assert_eq!(chat.heard(true), ["Cancel"]);
    assert_eq!(chat.heard(false), [format!("end {}", Code::Internal as u8)]);
    let mut chat = Chat::new();
    let call = chat.far;
    chat.world.handle(&chat.server, Descriptor::Message { call, message }).unwrap();
    chat.run();
    assert_eq!(chat.heard(true), ["Cancel"]);
    assert_eq!(chat.heard(false), [format!("end {}", Code::Internal as u8)]);
}

#[test]
fn a_server_that_goes_ends_its_streams() {
    let mut chat = Chat::new();
    chat.reply("x");
    chat.run();
    chat.world.hub.remove(chat.server.number, NOW);
    chat.say("nobody hears this");
    chat.run();
    assert_eq!(chat.heard(false), ["x".to_owned(), format!("end {}", Code::Unavailable as u8)]);
}

#[test]
fn d7_what_comes_at_the_wrong_time_ends_the_stream_at_both_ends() {
    let internal = format!("end {}", Code::Internal as u8);
    for is_twice in [true, false] {
        let mut chat = Chat::new();
        let call = chat.near;
        chat.world.handle(&chat.client, Descriptor::Close { call }).unwrap();
        chat.run();
        match is_twice {
            true => chat.world.handle(&chat.client, Descriptor::Close { call }).unwrap(),
            false => chat.say("behind the last"),
        }
        chat.run();
        assert_eq!(chat.heard(true), ["Close", "Cancel"]);
        assert_eq!(chat.heard(false), [&internal[..]]);
    }
    for begins_with_a_message in [true, false] {
        let mut chat = Chat::new();
        let head = Descriptor::Head { call: chat.far, metadata: Contents::NONE };
        match begins_with_a_message {
            true => chat.reply("x"),
            false => chat.world.handle(&chat.server, head).unwrap(),
        }
        chat.run();
        chat.world.handle(&chat.server, head).unwrap();
        chat.run();
        let first = if begins_with_a_message { "x" } else { "Head" };
        assert_eq!(chat.heard(false), [first, &internal]);
        assert_eq!(chat.heard(true), ["Cancel"]);
    }
}

#[test]
fn d7_a_unary_call_cannot_be_closed() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let call = world.call(&mut client, "you");
    world.handle(&client, Descriptor::Close { call }).unwrap();
    world.run(&mut [&mut client, &mut server]);
    assert!(matches!(server.said[..], [Descriptor::Request(_)]), "{:?}", server.said);
}

#[test]
fn d8_a_stream_that_is_not_read_holds_up_no_other_call() {
    let limits = limits_of_three();
    let mut chat = Chat::with(limits);
    ["a", "b", "c"].iter().for_each(|text| chat.say(text));
    chat.run();
    let bytes = (limits.grant_bytes + 1) / 3;
    // As the messages reach the server, the client may send others.
    assert_eq!(chat.client.grants(), [(chat.near, 2 * bytes)]);
    ["d", "e"].iter().for_each(|text| chat.say(text));
    let close = Descriptor::Close { call: chat.near };
    chat.world.handle(&chat.client, close).unwrap();
    chat.run();
    assert_eq!(chat.heard(true), ["a", "b", "c"]);
    assert!(chat.client.grants().is_empty(), "nobody has taken these");
    chat.world.call(&mut chat.client, "you");
    chat.run();
    assert_eq!(chat.world.serve(&mut chat.server), ["you"]);
    let grant = |bytes| Descriptor::Grant { call: chat.far, bytes };
    let (one, two) = (grant(1), grant(2 * bytes));
    chat.world.handle(&chat.server, one).unwrap();
    chat.run();
    assert_eq!(chat.heard(true), [""; 0], "it owes a byte");
    chat.world.handle(&chat.server, one).unwrap();
    chat.run();
    assert_eq!(chat.heard(true), ["d"]);
    assert_eq!(chat.client.grants(), [(chat.near, 2 * bytes)]);
    chat.world.handle(&chat.server, two).unwrap();
    chat.run();
    assert_eq!(chat.heard(true), ["e", "Close"]);
    let datapath = chat.world.hub.application(chat.server.number).unwrap().datapath();
    assert_eq!((datapath.counts().queued, datapath.counts().held), (0, 0));
}

#[test]
fn d8_what_was_not_granted_ends_the_stream() {
    let mut chat = Chat::with(limits_of_three());
    ["a", "b", "c", "one too many"].iter().for_each(|text| chat.say(text));
    chat.run();
    assert_eq!(chat.heard(true).last().map(String::as_str), Some("Cancel"));
    let end = format!("end {}", Code::Internal as u8);
    assert_eq!(chat.heard(false), [end]);
}

#[test]
fn d8_grants_of_what_is_no_stream_do_nothing() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let call = world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server]);
    for call in [call, client.next_call()] {
        world.handle(&client, Descriptor::Grant { call, bytes: u64::MAX }).unwrap();
    }
    let theirs = server.said.iter().find_map(|said| match said {
        Descriptor::Request(Request { call, .. }) => Some(*call),
        _ => None,
    });
    let grant = Descriptor::Grant { call: theirs.unwrap(), bytes: u64::MAX };
    world.handle(&server, grant).unwrap();
    assert_eq!(world.serve(&mut server), ["you"]);
    world.run(&mut [&mut client, &mut server]);
    assert!(matches!(client.ends()[..], [(_, 0, false, _)]));
}

#[test]
fn d8_the_end_comes_behind_what_waits_and_a_cancel_does_not() {
    for is_cancelled in [false, true] {
        let mut chat = Chat::with(limits_of_three());
        ["a", "b", "c"].iter().for_each(|text| chat.reply(text));
        chat.run();
        chat.reply("d");
        let (call, message) = (chat.far, Contents::NONE);
        let metadata = Contents::NONE;
        let end = Descriptor::End { call, status: 0, has_not_run: false, message, metadata };
        chat.world.handle(&chat.server, end).unwrap();
        chat.run();
        assert_eq!(chat.heard(false), ["a", "b", "c"]);
        let call = chat.near;
        let said = match is_cancelled {
            true => Descriptor::Cancel { call },
            false => Descriptor::Grant { call, bytes: u64::MAX },
        };
        chat.world.handle(&chat.client, said).unwrap();
        chat.run();
        let rest: &[&str] = if is_cancelled { &[] } else { &["d", "end 0"] };
        assert_eq!(chat.heard(false), rest);
        let application = chat.world.hub.application(chat.client.number).unwrap();
        assert_eq!(application.datapath().counts().queued, 0);
        chat.run();
        let application = chat.world.hub.application(chat.client.number).unwrap();
        assert!(application.has_nothing_left());
    }
}

#[test]
fn d8_unread_streams_take_half_of_a_quota_and_then_the_fullest_ends() {
    let limits = ApplicationLimits { held_bytes_max: 20_000, ..limits_of_three() };
    let mut chat = Chat::with(limits);
    let mut calls = vec![chat.near];
    for _ in 0..3 {
        let call = chat.client.next_call();
        let request = chat.client.request(call, CHAT);
        chat.world.handle(&chat.client, Descriptor::Request(request)).unwrap();
        calls.push(call);
    }
    chat.run();
    // The first of each is given to the server, the second waits: the third call's is longer.
    let blobs = [3200, 3200, 4000, 3200].map(|bytes| vec![1; bytes]);
    for _ in 0..2 {
        for (call, blob) in calls.iter().zip(&blobs) {
            let message = chat.world.message("greet.Request", &[("blob", Leaf::Bytes(blob))]);
            let message = chat.client.write(&message);
            let said = Descriptor::Message { call: *call, message };
            chat.world.handle(&chat.client, said).unwrap();
            chat.run();
        }
    }
    let ends = chat.client.ends().into_iter().map(|(call, status, ..)| (call, status));
    assert_eq!(ends.collect::<Vec<_>>(), [(calls[2], Code::ResourceExhausted as u8)]);
    chat.world.call(&mut chat.client, "you");
    chat.run();
    let cancels = |said: &Descriptor| matches!(said, Descriptor::Cancel { .. }).then_some(());
    assert_eq!(chat.server.take(cancels).len(), 1);
    chat.server.said.retain(|said| !matches!(said, Descriptor::Message { .. }));
    chat.server.said.retain(|said| !matches!(said, Descriptor::Request(it) if it.is_stream));
    assert_eq!(chat.world.serve(&mut chat.server), ["you"]);
    let datapath = chat.world.hub.application(chat.server.number).unwrap().datapath();
    assert_eq!(datapath.aside_load().items, 3, "what waits of the others");
}

//! Messages from other hosts that arrive as images (R4, M26).

use petasos_base::{Rng, Time};
use petasos_call::{Code, Metadata, Status};
use petasos_message::Leaf;
use petasos_service::{
    ApplicationLimits, Encoded, ListenerId, RemoteCall, RemoteCaller, RemoteItem, RemoteOutcome,
};

use crate::remote::*;
use crate::support::*;

fn image(world: &World, name: &str, field: &str, text: &str) -> Vec<u8> {
    world.message(name, &[(field, Leaf::Text(text))]).image().to_vec()
}

fn come_in(world: &mut World, message: Encoded<'_>) -> Result<RemoteCall, Status> {
    let route =
        world.hub.route_in(ListenerId::default(), ("greet.Greeter", "Greet"), false).unwrap();
    let peer = world.hub.remote_peer("192.0.2.1");
    let caller = RemoteCaller { peer, identity: None, is_sealed: false };
    let parts = (Some(message), Metadata::new(), Time::NEVER);
    world.hub.begin_routed(&route, caller, parts, NOW)
}

fn answered(image: &[u8]) -> RemoteOutcome<'static> {
    RemoteOutcome { result: Ok(Some(native(image))), ..success(&[]) }
}

#[test]
fn policies_see_what_is_in_images() {
    let mut world = world();
    let mut server = server(&mut world);
    let application = world.hub.application(server.number).unwrap();
    application.attach(0, policy("access", NO_EVE)).unwrap();
    let calls = ["eve", "ann"].map(|name| {
        let image = image(&world, "greet.Request", "name", name);
        come_in(&mut world, native(&image)).unwrap()
    });
    world.run(&mut [&mut server]);
    assert_eq!(world.serve(&mut server), ["ann"]);
    world.run(&mut [&mut server]);
    for (call, code) in calls.into_iter().zip([Some(Code::PermissionDenied), None]) {
        let item = world.hub.next_remote_item(call);
        let Some(RemoteItem::End(end)) = item else { panic!("{item:?}") };
        assert_eq!(end.status.map(|status| status.code()), code);
    }
}

#[test]
fn a_response_is_handed_over_as_it_came() {
    let mut world = world();
    let mut client = caller(&mut world);
    world.call(&mut client, "ann");
    world.run(&mut [&mut client]);
    let begun = begun(&mut world).unwrap();
    let response = image(&world, "greet.Response", "text", "from afar");
    world.hub.remote_end(begun.call, answered(&response), NOW);
    world.run(&mut [&mut client]);
    let ends = client.ends();
    assert_eq!((ends.len(), ends[0].1), (1, 0));
    assert_eq!(world.bytes(&client, ends[0].3), response);
}

#[test]
fn what_is_no_image_of_the_type_never_reaches_an_application() {
    let mut world = world();
    let limits = ApplicationLimits { message_bytes_max: 1000, ..ApplicationLimits::default() };
    let mut client = caller_with(&mut world, limits);
    let long = image(&world, "greet.Response", "text", &"x".repeat(1000));
    let short = image(&world, "greet.Response", "text", "short");
    for (bytes, code) in [
        (&[][..], Code::Internal),
        (&short[..short.len() - 8], Code::Internal),
        (&long, Code::ResourceExhausted),
    ] {
        world.call(&mut client, "ann");
        world.run(&mut [&mut client]);
        let begun = begun(&mut world).unwrap();
        world.hub.remote_end(begun.call, answered(bytes), NOW);
        world.run(&mut [&mut client]);
        let ends = client.ends();
        assert_eq!((ends.len(), ends[0].1, ends[0].2), (1, code as u8, false));
    }
}

#[test]
fn images_that_were_changed_anywhere_are_refused_or_of_the_type() {
    let mut world = world();
    let mut server = server(&mut world);
    let whole = image(&world, "greet.Request", "name", "a name that is long enough");
    let mut rng = Rng::new(7);
    let mut refused = 0;
    for _ in 0..2000 {
        let mut image = whole.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(image.len() as u64) as usize;
            image[at] = rng.next_u64() as u8;
        }
        match come_in(&mut world, native(&image)) {
            Err(status) => {
                // The length may be one that no message has.
                let codes = [Code::Internal, Code::ResourceExhausted];
                assert!(codes.contains(&status.code()), "{status}");
                refused += 1;
            }
            // The application reads it, as a message of its type.
            Ok(call) => {
                world.run(&mut [&mut server]);
                assert_eq!(world.serve(&mut server).len(), 1);
                world.run(&mut [&mut server]);
                assert!(world.hub.next_remote_item(call).is_some());
            }
        }
    }
    assert!((500..2000).contains(&refused), "{refused}");
}

#[test]
fn a_request_that_comes_back_begins_again_unless_its_call_is_over() {
    let mut world = world();
    let mut client = caller(&mut world);
    let call = world.call(&mut client, "ann");
    world.run(&mut [&mut client]);
    let begun = begun(&mut world).unwrap();
    let image = begun.message.as_ref().unwrap().image().to_vec();
    let mut metadata = Metadata::new();
    metadata.append("from", "here").unwrap();
    let again = world.hub.remote_returned(begun.call, &image, metadata).unwrap();
    assert_eq!((&again.target, &again.caller), (&begun.target, &begun.caller));
    assert_eq!(
        (again.call, again.method, again.deadline),
        (begun.call, begun.method, begun.deadline)
    );
    assert_eq!(again.metadata.get("from"), Some("here"));
    assert_eq!(name_of(&world, again.message.as_ref().unwrap(), "name"), "ann");
    world.handle(&client, petasos_abi::Descriptor::Cancel { call }).unwrap();
    world.run(&mut [&mut client]);
    assert!(world.hub.remote_returned(begun.call, &image, Metadata::new()).is_none());
}

//! The daemon as a process, with applications that attach to it.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod admin;
#[path = "../../../../crates/endpoint/tests/certificates/mod.rs"]
mod certificates;
mod check;
#[path = "../../../../crates/etcd/tests/cluster/mod.rs"]
mod cluster;
mod configuration;
mod flips;
mod identity;
mod load;
#[path = "../objects/mod.rs"]
mod objects;
mod plugins;
mod process;
mod processor;
mod quotas;
mod remote;
mod remote_unread;
mod schemas;
/// What the etcd of tests waits with.
mod servers {
    pub use crate::until::until;
}
mod support;
mod transports;
mod transports_changed;
#[path = "../../../../crates/petasos/tests/servers/until.rs"]
mod until;
#[cfg(feature = "wasm")]
mod wasm;

use std::time::Duration;

use petasos_abi::Descriptor;
use petasos_attach::ask::Ask;
use petasos_attach::reason::Text;
use petasos_attach::{AskError, LaneError};

use support::*;

#[test]
fn calls_of_one_process_reach_another_through_the_policies() {
    let policies = r#"[
        {"application": "client", "kind": "telemetry"},
        {"application": "server", "kind": "access", "configuration": {
            "default": "allow",
            "rules": [{
                "name": "no eve", "action": "deny", "methods": ["greet.Greeter/Greet"],
                "fields": [{"path": "name", "is": {"equals": "eve"}}]
            }]
        }}
    ]"#;
    let daemon = Daemon::start("policies", Some(policies));
    let server = daemon.serve("server", 3);
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    let said: Vec<_> = ["ann", "eve", "bob"].map(|name| client.greet(target, name)).into();
    assert_eq!(said[0], Ok("hello, ann".to_owned()));
    assert_eq!(said[1], Err(7), "permission denied");
    assert_eq!(said[2], Ok("hello, bob".to_owned()));
    assert_eq!(client.greet(target, "carl"), Ok("hello, carl".to_owned()));
    assert_eq!(server.join().unwrap(), ["ann", "bob", "carl"]);
    // The server has gone, and so has its name.
    assert_eq!(client.greet(target, "dan"), Err(14), "unavailable");
}

#[test]
fn a_daemon_that_sleeps_is_woken_and_messages_that_need_more_memory_get_it() {
    let daemon = Daemon::start("sleeps", None);
    let server = daemon.serve("server", 40);
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    for index in 0..40 {
        if index % 10 == 0 {
            // Both sides are asleep by then.
            std::thread::sleep(Duration::from_millis(20));
        }
        let name = format!("{index}-{}", "x".repeat(index * 20_000));
        assert_eq!(client.greet(target, &name), Ok(format!("hello, {name}")));
    }
    server.join().unwrap();
}

#[test]
fn d13_what_cannot_be_done_is_refused_with_a_reason() {
    let daemon = Daemon::start("refuses", None);
    let mut client = daemon.attach("client");
    let mut other = daemon.attach("other");
    let refused = |ask: &Ask, client: &mut Client| match client.attachment.ask(ask) {
        Err(AskError::Refused(why)) => why.to_string(),
        other => panic!("{other:?}"),
    };
    let bind = |offset, bytes, service| Ask::Bind {
        offset,
        bytes,
        is_served: false,
        service: Text::new(service),
    };
    let (offset, bytes) = client.schema;
    let why = refused(&bind(offset, bytes, "greet.Nothing"), &mut client);
    assert_eq!(why, "the schema has no service `greet.Nothing`");
    let why = refused(&bind(1 << 39, 100, "greet.Greeter"), &mut client);
    assert!(why.contains("do not lie in the heap"), "{why}");
    let why = refused(&bind(offset, 1 << 30, "greet.Greeter"), &mut client);
    assert_eq!(why, "a schema has at most 262144 bytes");
    let why = refused(&bind(offset + 1, bytes - 1, "greet.Other"), &mut client);
    assert!(why.starts_with("the schema is refused"), "{why}");
    assert_eq!(client.attachment.ask(&Ask::Serve(Text::new("mine"))).unwrap(), 0);
    let why = refused(&Ask::Serve(Text::new("mine")), &mut other);
    assert_eq!(why, "`mine` is served by another application");
    for (name, why) in [
        ("petasos://192.0.2.1:1", "not an address of this host"),
        ("petasos://host:1", "no address and port"),
        ("grpc://127.0.0.1:1", "is not served here"),
    ] {
        let said = refused(&Ask::Serve(Text::new(name)), &mut other);
        assert!(said.contains(why), "{said}");
    }
    let own = Ask::Serve(Text::new("petasos://127.0.0.1:0"));
    let port = client.attachment.ask(&own).unwrap();
    let same = Ask::Serve(Text::new(&format!("petasos://127.0.0.1:{port}")));
    assert!(refused(&same, &mut other).contains("in use"));
}

#[test]
fn an_application_that_breaks_a_rule_is_given_up_and_others_go_on() {
    let (daemon, log) = Daemon::start_logged("hostile");
    let server = daemon.serve("server", 2);
    let mut client = daemon.attach("client");
    let mut hostile = daemon.attach("hostile");
    let target = client.target("greeter");
    assert!(client.greet(target, "ann").is_ok());
    // A release of what it never received.
    let mut released = petasos_abi::Released::new();
    released.push(12345).unwrap();
    hostile.say(&Descriptor::Release(released));
    assert_eq!(hostile.ended(), LaneError::Gone);
    assert!(client.greet(target, "bob").is_ok());
    server.join().unwrap();
    let said = || std::fs::read_to_string(&log).unwrap();
    until::until(|| said().contains("petasosd: `hostile` has ended: "));
    assert!(!said().contains("`client` has ended"), "{}", said());
}

#[test]
fn a_daemon_that_is_killed_is_noticed_and_a_new_one_takes_its_place() {
    let mut daemon = Daemon::start("killed", None);
    let mut client = daemon.attach("client");
    daemon.kill();
    assert_eq!(client.ended(), LaneError::Gone);
    daemon.restart();
    let server = daemon.serve("server", 1);
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    assert!(client.greet(target, "ann").is_ok());
    server.join().unwrap();
}

#[test]
fn two_daemons_do_not_share_a_socket_and_wrong_policies_are_told() {
    let daemon = Daemon::start("twice", None);
    let (success, said) = daemon.second(None);
    assert!(!success && said.starts_with("petasosd: "), "{said}");
    let wrong = r#"[{"application": "*", "kind": "acces"}]"#;
    let (success, said) = daemon.second(Some(wrong));
    assert!(!success && said.contains("policy 1: there is no kind `acces`"), "{said}");
    let mut client = daemon.attach("client");
    let _ = client.target("still there");
}

#[test]
fn an_application_that_does_not_look_at_its_ring_gets_all_of_it_later() {
    let daemon = Daemon::start("late", None);
    let mut client = daemon.attach("client");
    let target = client.target("nobody");
    // More than its ring has room for: each call is answered, and its memory released.
    for _ in 0..1500 {
        client.begin(target, "ann");
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!((0..1500).filter(|_| client.next_status() == 14).count(), 1500);
}

#[test]
fn a_server_that_is_told_of_nothing_keeps_nothing() {
    let daemon = Daemon::start("nothing", None);
    let mut client = daemon.attach("client");
    let target = client.target("nobody");
    for _ in 0..2000 {
        assert_eq!(client.greet(target, "ann"), Err(14));
    }
    assert_eq!(client.used_bytes(), 0, "what was sent came back");
}

//! Routers that are listed in etcd, as the command line finds them.

use crate::Router;
use crate::cluster::Etcd;
use crate::support::{Petasos, petasos};

const PROTO: [&str; 2] = ["--proto", concat!(env!("CARGO_MANIFEST_DIR"), "/protos/demo.proto")];

#[test]
fn a_server_joins_and_a_caller_calls_by_a_list_in_etcd() {
    let Some(etcd) = Etcd::start("cli") else { return };
    let group = format!("router+{}", etcd.target("groups/echo"));
    let serve = ["serve", "--listen", "127.0.0.1:0", "--typed", "127.0.0.1:0", "--join", &group];
    // It waits for a router, and joins the one that comes.
    let mut worker = Petasos::start(&serve);
    let listed = format!("etcd = \"{group}\"\nservices = [\"petasos.demo.v1.Echo\"]");
    let router = Router::start_with("listed", &listed);
    assert_eq!(worker.hear("petasos: joined the group of router "), router.group);
    let say = ["call", &group, "petasos.demo.v1.Echo/Say", "{\"text\": \"hi\"}"];
    let called = petasos(&[&say[..], &PROTO, &["--connect-timeout", "30s"]].concat());
    assert_eq!(called.success(), "{\"text\":\"hi\"}\n");
    // Load reaches the group by the same target. What it finds on a busy machine does not matter.
    let load = ["load", &group, "petasos.demo.v1.Echo/Say", "{\"text\": \"hi\"}"];
    let bounded = ["--rate", "50", "--duration", "1s", "--warm-up", "0", "--anyway", "--json"];
    let loaded = petasos(&[&load[..], &PROTO, &bounded, &["--connect-timeout", "30s"]].concat());
    assert!(loaded.success().contains("\"router\""), "{loaded:?}");
}

#[test]
fn wrong_targets_are_told_what_to_give() {
    let wrong = "router+etcd://127.0.0.1:1";
    let called = petasos(&["call", wrong, "petasos.demo.v1.Echo/Say", "{}"]);
    assert!(called.failure().contains("router+etcd://HOST:PORT/PREFIX"), "{called:?}");
    let options = ["--typed", "127.0.0.1:0", "--join", "etcd://127.0.0.1:1/servers"];
    let served = petasos(&[&["serve", "--listen", "127.0.0.1:0"], &options[..]].concat());
    assert!(served.failure().contains("router+etcd://HOST:PORT/PREFIX"), "{served:?}");
}

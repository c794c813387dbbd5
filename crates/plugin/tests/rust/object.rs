//! Plug-ins in Rust as shared objects.

use petasos_engine::{Code, FieldError, PolicyError, PolicyKind};
use petasos_plugin::{Mapping, Plugin};

use crate::support::{Outcome, Rig, make, passed};
use crate::trial::{load, policy};
use crate::{REFUSE, build, longest, probe_decides, refused};

fn probe() -> Plugin {
    load(&build::object(&build::probe(), "probe")).expect("it is right")
}

/// Why a policy of the probe is not made.
fn refusal(plugin: &Plugin, configuration: &str) -> String {
    match make(plugin, configuration, None) {
        Err(PolicyError::Configuration { why, .. }) => why,
        other => panic!("{configuration} was not refused: {:?}", other.err()),
    }
}

#[test]
fn the_template_refuses_by_a_field_and_keeps_its_count_over_an_upgrade() {
    let version = "STATE_VERSION: u32 = 1";
    let newer = build::copied_template("refuse-2", version, "STATE_VERSION: u32 = 2");
    let old = load(&build::object(&build::template(), "refuse")).expect("it is right");
    let new = load(&build::object(&newer, "refuse_2")).expect("it is right");
    let versions = [old.version(), new.version()].map(|version| (version.kind, version.version));
    assert_eq!(versions, [("refuse", 1), ("refuse", 2)]);
    let first = policy(&old, REFUSE, None);
    let mut rig = Rig::new(&first);
    assert_eq!(rig.request("alice", 0), passed());
    assert_eq!(rig.request("mallory", 0), refused(1));
    let second = policy(&new, REFUSE, Some(&first.state()));
    rig.replace(&second).expect("it goes on");
    assert_eq!(rig.request("mallory", 0), refused(2));
    rig.replace(&first).expect_err("the state is of a later version");
    assert_eq!(rig.request("mallory", 0), refused(3));
    let why = refusal(&old, r#"{"field": "name"}"#);
    assert!(why.contains("missing field `text`"), "{why}");
    let state = rig.detach().expect("it has a state");
    assert_eq!((&*state.kind, state.version, &*state.json), ("refuse", 2, r#"{"refused":3}"#));
    let watches = [old.watch(), new.watch()];
    drop((first, second, old, new));
    assert_eq!(watches.map(|watch| watch.mapping()), [Mapping::Unmapped; 2]);
}

#[test]
fn it_can_do_all_that_the_table_offers() {
    let plugin = probe();
    let made = policy(&plugin, r#"{"a": 1}"#, None);
    let mut rig = Rig::new(&made);
    probe_decides(&mut rig, Some("carol"));
    assert_eq!(made.report()["report"]["configuration"]["a"], 1);
    assert_eq!(made.state().json, r#""left""#);
    let next = policy(&plugin, "{}", Some(&made.state()));
    rig.replace(&next).expect("it goes on");
    assert_eq!(rig.detach().expect("it has a state").json, "6");
    let mut strange = made.state();
    strange.json = "1".to_owned();
    let refused = make(&plugin, "{}", Some(&strange)).err();
    let Some(PolicyError::State { why, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(why, "it is none of mine");
    assert_eq!(refusal(&plugin, r#"{"refuse":"long"}"#), longest());
}

#[test]
fn a_panic_does_not_leave_it() {
    let plugin = probe();
    let why = refusal(&plugin, r#"{"panic":"new"}"#);
    assert_eq!(why, r#"it has panicked: of the configuration {"panic":"new"}"#);
    let why = refusal(&plugin, r#"{"panic":"engine"}"#);
    assert!(why.ends_with("it has panicked: of the engine"), "{why}");
    let made = policy(&plugin, r#"{"panic":"report"}"#, None);
    assert!(made.report()["report"].is_null());

    let mut rig = Rig::new(&made);
    let ended = |text: &str| Outcome::Ended(Code::Internal, format!("it has panicked: {text}"));
    assert_eq!(rig.request("alice", 105), ended("about no. 1"));
    assert_eq!(rig.request("alice", 0), passed(), "the engine goes on");
    assert_eq!(rig.request("alice", 105), ended("about no. 3"));
    assert_eq!(rig.request("alice", 106), ended("nothing is said"));
    let last = policy(&plugin, r#"{"panic":"drop"}"#, None);
    rig.replace(&last).expect("it goes on");
    assert_eq!(rig.request("alice", 107), passed());
    assert_eq!(rig.detach(), None, "what panics has no state");
    let watch = plugin.watch();
    drop((plugin, made, last));
    assert_eq!(watch.mapping(), Mapping::Unmapped, "nothing of a panic is left");
}

#[test]
fn an_engine_may_refuse_a_method() {
    let made = policy(&probe(), r#"{"refuse":"method"}"#, None);
    let Err(FieldError::Unknown { path, .. }) = Rig::told(&made) else { panic!("it is content") };
    assert_eq!(path, "it likes no method");
}

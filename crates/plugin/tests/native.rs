//! Shared objects, compiled from C here: what works, what is refused, and what is left of them.

mod support;
#[path = "support/trial.rs"]
mod trial;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use petasos_engine::{Code, Metadata, PolicyError, PolicyKind, State};
use petasos_plugin::{LoadError, Mapping, Plugin, TEXT_BYTES_MAX, Trial, TrialError};
use support::{Outcome, Rig, make, passed};
use trial::{limited, load, policy, trial};

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
const REFUSE: &str = r#"{"field": "name", "text": "mallory"}"#;

/// Compiles a file with definitions. None, and says so, if there is no compiler.
fn compile(source: &str, name: &str, definitions: &[&str]) -> Option<PathBuf> {
    if Command::new("cc").arg("--version").output().is_err() {
        petasos_skips::skip("cc", "there is no C compiler `cc`");
        return None;
    }
    // Tests that compile the same run at the same time.
    let test = std::thread::current().name().expect("tests have names").to_owned();
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{name}.so"));
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-I"])
        .arg(Path::new(FOLDER).join("include"))
        .args(definitions.iter().map(|definition| format!("-D{definition}")))
        .arg(Path::new(FOLDER).join(source))
        .arg("-o")
        .arg(&object)
        .output()
        .expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(object)
}

fn faulty(fault: &str) -> Option<PathBuf> {
    compile("tests/c/faulty.c", fault, &[&format!("FAULT={fault}")])
}

#[test]
fn the_header_has_the_layout_of_the_crate() {
    compile("tests/c/layout.c", "layout", &[]);
}

#[test]
fn it_refuses_by_a_field_and_keeps_its_state_over_an_upgrade() {
    let Some(old) = compile("examples/refuse.c", "refuse_1", &["STATE_VERSION=1u"]) else { return };
    let new = compile("examples/refuse.c", "refuse_2", &[]).expect("there is a compiler");
    let (old, new) = (load(&old).expect("it is right"), load(&new).expect("it is right"));
    assert_eq!((old.version().kind, old.version().version), ("refuse", 1));

    let first = policy(&old, REFUSE, None);
    let mut rig = Rig::new(&first);
    let refused =
        |number| Outcome::Ended(Code::PermissionDenied, format!("no. {number} of `mallory`"));
    assert_eq!(rig.request("alice", 0), passed());
    assert_eq!(rig.request("mallory", 0), refused(1));
    assert_eq!(rig.request("mallory", 0), refused(2));

    let second = policy(&new, REFUSE, Some(&first.state()));
    rig.replace(&second).expect("it goes on");
    assert_eq!(rig.request("mallory", 0), refused(3));
    assert_eq!(rig.request("alice", 0), passed());

    // A downgrade is refused, and undone.
    let why = rig.replace(&first).expect_err("the state is of a later version").to_string();
    assert!(why.contains("it is of version 2, this is version 1"), "{why}");
    assert_eq!(rig.request("mallory", 0), refused(4));
    let state = rig.detach().expect("it has a state");
    assert_eq!((&*state.kind, state.version), ("refuse", 2));
    assert_eq!(state.json, r#"{"seen":6,"refused":4}"#);
}

#[test]
fn configurations_and_states_are_checked_first() {
    let Some(object) = compile("examples/refuse.c", "refuse_3", &[]) else { return };
    let plugin = load(&object).expect("it is right");
    let wrong = make(&plugin, r#"{"field": "name"}"#, None).err();
    let why = "it needs `field` and `text`".to_owned();
    assert_eq!(wrong, Some(PolicyError::Configuration { kind: "refuse".to_owned(), why }));

    let state = State { kind: "other".to_owned(), version: 1, json: "{}".to_owned() };
    let wrong = make(&plugin, REFUSE, Some(&state)).err();
    assert!(matches!(wrong, Some(PolicyError::State { .. })), "{wrong:?}");
    let made = policy(&plugin, REFUSE, None);
    let state = State { kind: "refuse".to_owned(), version: 1, json: "{}".to_owned() };
    let why = "it has no `refused`".to_owned();
    let wrong = made.engine(Some(&state)).err();
    assert_eq!(wrong, Some(PolicyError::State { kind: "refuse".to_owned(), why }));
}

#[test]
fn what_is_no_plug_in_of_this_version_is_refused() {
    let cases = [
        ("OTHER_VERSION", "the object is of version 2 of the interface, this service has 1"),
        ("SHORT_TABLE", "the object's table has 96 bytes instead of at least 104"),
        ("NO_FUNCTION", "the object's table has no `engine_item`"),
        ("NO_TABLE", "the object has no symbol `petasos_plugin`"),
        ("UNDEFINED", "undefined symbol: this_is_nowhere"),
        ("BAD_NAME", "a name has 1 to 64 letters"),
        ("NULL_NAME", "a name has 1 to 64 letters"),
        ("CRASH_ON_LOAD", "it has crashed when it was tried: signal 11"),
        ("EXIT_ON_LOAD", "exit status: 0, without an answer"),
    ];
    for (fault, expected) in cases {
        let Some(object) = faulty(fault) else { return };
        let why = load(&object).expect_err("it is refused").to_string();
        assert!(why.contains(expected), "{fault}: {why}");
    }
}

#[test]
fn what_is_no_object_is_refused() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let text = folder.join("text.so");
    std::fs::write(&text, "text").expect("it is written");
    let why = load(&text).expect_err("it is refused").to_string();
    assert!(why.starts_with("the object cannot be loaded: "), "{why}");
    assert!(matches!(load(&folder.join("nothing.so")), Err(LoadError::Read(_))));
    assert!(matches!(load(folder), Err(LoadError::Read(_))));
    assert!(matches!(load(Path::new("/dev/zero")), Err(LoadError::TooLong)));
    let program = folder.join("no such program");
    let absent = Plugin::load(&text, Trial { program, ..trial() });
    assert!(matches!(absent, Err(LoadError::Trial(TrialError::System(_)))), "{absent:?}");
}

#[test]
fn what_does_not_end_is_cut_off() {
    let Some(object) = faulty("LOOP_ON_LOAD") else { return };
    let limit = Duration::from_millis(300);
    let refused = Plugin::load(&object, limited(limit));
    let Err(LoadError::Trial(TrialError::TooSlow { limit: told })) = refused else {
        panic!("it was not cut off: {refused:?}");
    };
    assert_eq!(told, limit);
}

#[test]
fn what_fails_with_its_first_items_is_refused() {
    let cases = [
        ("CRASH_ON_ITEM", "it has crashed when it was tried: signal 11", 60_000),
        ("FORGETFUL", "a policy does not go on from its own state", 60_000),
        ("LOOP_ON_ITEM", "it has not come to an end within 2000 ms", 2000),
    ];
    for (fault, expected, limit_ms) in cases {
        let Some(object) = faulty(fault) else { return };
        let trial = limited(Duration::from_millis(limit_ms));
        let plugin = Plugin::load(&object, trial).expect("it can be loaded");
        let why = make(&plugin, "{}", None).err().expect("it is refused").to_string();
        assert!(why.contains(expected), "{fault}: {why}");
    }
}

#[test]
fn a_configuration_that_makes_it_crash_is_refused_and_the_service_goes_on() {
    let Some(object) = faulty("CRASH_IF_TOLD") else { return };
    let plugin = load(&object).expect("it can be loaded");
    let made = policy(&plugin, "{}", None);
    let mut rig = Rig::new(&made);
    let why = make(&plugin, r#"{"please": "crash"}"#, None).err().expect("it is refused");
    assert!(why.to_string().contains("it has crashed"), "{why}");
    assert_eq!(rig.request("alice", 0), passed());
}

#[test]
fn what_it_prints_is_no_answer() {
    let Some(object) = faulty("NOISY") else { return };
    let mut rig = Rig::new(&policy(&load(&object).expect("it is right"), "{}", None));
    assert_eq!(rig.request("alice", 0), passed());
}

#[test]
fn it_changes_fields_and_metadata() {
    let Some(object) = faulty("RUDE") else { return };
    let mut rig = Rig::new(&policy(&load(&object).expect("it is right"), "{}", None));
    let mut metadata = Metadata::new();
    metadata.append("old", "value").expect("it is ASCII");
    let metadata_after = vec![("new".to_owned(), "value".to_owned())];
    let written = vec!["Unsigned(42)".to_owned()];
    let expected = Outcome::Passed { metadata: metadata_after, written };
    assert_eq!(rig.request_with("alice", 0, metadata), expected);
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(object) = faulty("RUDE") else { return };
    let mut rig = Rig::new(&policy(&load(&object).expect("it is right"), "{}", None));
    // What it has been answered, and then as much more as it may say.
    let answers = "111221222222222";
    let said = format!("{answers}{}", "~".repeat(TEXT_BYTES_MAX - answers.len()));
    for _ in 0..3 {
        assert_eq!(rig.request("alice", 1), Outcome::Ended(Code::FailedPrecondition, said.clone()));
    }
    let unknown = "the plug-in `faulty` decides 12345".to_owned();
    assert_eq!(rig.request("alice", 2), Outcome::Ended(Code::Internal, unknown));
    assert_eq!(rig.detach(), None, "what is no JSON is no state");
}

#[test]
fn it_is_unloaded_when_nothing_holds_it() {
    let Some(object) = compile("examples/refuse.c", "refuse_4", &[]) else { return };
    for _ in 0..3 {
        let plugin = load(&object).expect("it is right");
        let watch = plugin.watch();
        let made = policy(&plugin, REFUSE, None);
        let rig = Rig::new(&made);
        drop(plugin);
        assert_eq!(watch.mapping(), Mapping::InUse);
        drop(made);
        assert_eq!(watch.mapping(), Mapping::InUse, "the datapath holds it");
        drop(rig);
        assert_eq!(watch.mapping(), Mapping::Unmapped);
    }
}

#[test]
fn an_object_that_stays_mapped_is_reported() {
    let Some(object) = faulty("STAYS_MAPPED") else { return };
    let watch = std::thread::spawn(move || {
        let plugin = load(&object).expect("it is right");
        let watch = plugin.watch();
        drop(plugin);
        // The thread's destructors run at its end.
        (watch.mapping(), watch)
    });
    let (while_it_runs, _) = watch.join().expect("it does not panic");
    assert_eq!(while_it_runs, Mapping::StillMapped);
}

#[test]
fn a_file_that_is_overwritten_changes_nothing() {
    let Some(object) = compile("examples/refuse.c", "refuse_5", &[]) else { return };
    let plugin = load(&object).expect("it is right");
    let mut rig = Rig::new(&policy(&plugin, REFUSE, None));
    let polite = faulty("POLITE").expect("there is a compiler");
    std::fs::copy(polite, &object).expect("it is written");
    assert_eq!(rig.request_with("alice", 0, Metadata::new()), passed());
    let other = load(&object).expect("it is right");
    assert_eq!((plugin.version().kind, other.version().kind), ("refuse", "faulty"));
    rig.replace(&policy(&plugin, REFUSE, None)).expect("it goes on");
}

//! WebAssembly modules: what works, what is refused, and what is cut off.

#![cfg(feature = "wasm")]

mod support;

use std::path::Path;
use std::sync::Arc;

use petasos_engine::{Code, Policy, PolicyError, PolicyKind, State};
use petasos_plugin::{WasmError, WasmKind};
use support::{Outcome, Rig, make, passed};

/// The template, as text, with a change.
fn template(from: &str, to: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/refuse.wat");
    let text = std::fs::read_to_string(path).expect("the template is there");
    assert!(text.contains(from), "the template has no `{from}`");
    text.replacen(from, to, 1)
}

fn kind(text: &str) -> WasmKind {
    WasmKind::new("refuse", text.as_bytes()).expect("the module is right")
}

/// A module whose items are decided by this code, which sees the field `count` as `$count`.
fn deciding(code: &str) -> String {
    format!(
        r#"(module
            (import "petasos" "input"
                (func $input (param i32 i32 i32 i32) (result i32)))
            (import "petasos" "say" (func $say (param i32 i32) (result i32)))
            (import "petasos" "declare_field"
                (func $declare_field (param i32 i32 i32 i32) (result i32)))
            (import "petasos" "field_number" (func $field_number (param i32) (result i64)))
            (import "petasos" "field_bytes"
                (func $field_bytes (param i32 i32 i32 i32) (result i32)))
            (import "petasos" "set_field_number"
                (func $set_field_number (param i32 i64) (result i32)))
            (import "petasos" "set_metadata"
                (func $set_metadata (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "countkeyvalue")
            (func $forever (call $forever))
            (func (export "petasos_abi_version") (result i32) (i32.const 1))
            (func (export "petasos_state_version") (result i32) (i32.const 1))
            (func (export "petasos_interests") (result i32) (i32.const 1))
            (func (export "petasos_create") (result i32) (i32.const 0))
            (func (export "petasos_method") (param i32) (result i32)
                (drop (call $declare_field
                    (i32.const 0) (i32.const 5) (i32.const 2) (i32.const 1)))
                (i32.const 0))
            (func (export "petasos_item") (result i32)
                (local $count i64)
                (local.set $count (call $field_number (i32.const 0)))
                {code}
                (i32.const 0)))"#
    )
}

/// Does something if `count` is 100; sample calls have another.
fn at_100(code: &str) -> String {
    deciding(&format!("(if (i64.eq (local.get $count) (i64.const 100)) (then {code}))"))
}

fn rig(module: &str, configuration: &str) -> (Rig, Arc<dyn Policy>) {
    let policy = make(&kind(module), configuration, None).expect("the policy is made");
    (Rig::new(&policy), policy)
}

#[test]
fn it_refuses_by_a_field_and_keeps_its_state_over_an_upgrade() {
    const MALLORY: &str = r#"{"configuration": "mallory"}"#;
    let version = r#""petasos_state_version") (result i32) (i32.const 1)"#;
    let newer = kind(&template(version, &version.replace("const 1", "const 2")));
    let older = kind(&template(version, version));
    let first = make(&older, MALLORY, None).expect("it is right");
    let mut rig = Rig::new(&first);
    let refused = || Outcome::Ended(Code::PermissionDenied, "refused by name".to_owned());
    assert_eq!(rig.request("alice", 0), passed());
    assert_eq!(rig.request("mallorx", 0), passed());
    for _ in 0..11 {
        assert_eq!(rig.request("mallory", 0), refused());
    }
    let second = make(&newer, MALLORY, Some(&first.state())).expect("it goes on");
    rig.replace(&second).expect("it goes on");
    assert_eq!(rig.request("mallory", 0), refused());
    rig.replace(&first).expect_err("the state is of a later version");
    assert_eq!(rig.request("mallory", 0), refused());
    let state = rig.detach().expect("it has a state");
    assert_eq!((&*state.kind, state.version, &*state.json), ("refuse", 2, "13"));
}

#[test]
fn configurations_and_states_are_checked() {
    let kind = kind(&template("name", "name"));
    let wrong = |configuration: &str, expected: &str| {
        let refused = make(&kind, configuration, None).err();
        let Some(PolicyError::Configuration { why, .. }) = &refused else {
            panic!("{configuration} was not refused: {refused:?}");
        };
        assert!(why.contains(expected), "{configuration}: {why}");
    };
    wrong("{}", "it needs a text of 1 to 200 bytes");
    wrong(r#"{"fuel": 0, "configuration": "x"}"#, "`fuel` must be from 1 to 10000000, and is 0");
    wrong(r#"{"memory_bytes": 67108865}"#, "`memory_bytes` must be from 65536 to 67108864");
    wrong(r#"{"on_failure": "ajar"}"#, "unknown variant");
    wrong(r#"{"other": 1}"#, "unknown field");
    let policy = make(&kind, r#"{"configuration": "x"}"#, None).expect("it is right");
    let json = "123456789012345678901".to_owned();
    let state = State { kind: "refuse".to_owned(), version: 1, json };
    assert!(matches!(policy.engine(Some(&state)), Err(PolicyError::State { .. })));
}

#[test]
fn what_is_no_plug_in_of_this_version_is_refused() {
    let load = |text: &str| WasmKind::new("it", text.as_bytes()).map(|kind| kind.version().kind);
    let version = "\"petasos_abi_version\") (result i32) (i32.const 1)";
    let other = load(&template(version, &version.replace("const 1", "const 2")));
    assert!(matches!(other, Err(WasmError::Version { found: 2, ours: 1 })), "{other:?}");
    for (from, to) in [
        ("\"petasos_item\"", "\"another\""),
        ("\"petasos_create\"", "\"another\""),
        ("\"petasos\" \"input\"", "\"petasos\" \"output\""),
        ("\"petasos\" \"input\"", "\"wasi\" \"input\""),
        ("(export \"petasos_method\") (param $method i32)", "(export \"petasos_method\")"),
        ("(memory (export \"memory\") 1)", "(memory (export \"memory\") 1025)"),
    ] {
        let refused = load(&template(from, to));
        assert!(matches!(refused, Err(WasmError::Module(_))), "{to}: {refused:?}");
    }
    for text in ["", "text", "\0asm\u{1}\0\0\0\u{9}"] {
        assert!(matches!(load(text), Err(WasmError::Module(_))), "{text:?}");
    }
    assert!(matches!(WasmKind::new("a b", b""), Err(WasmError::Name(_))));
    assert!(matches!(WasmKind::load("it", Path::new("/dev/zero")), Err(WasmError::TooLong)));
    assert!(matches!(WasmKind::load("it", Path::new("/nowhere")), Err(WasmError::Read(_))));
}

#[test]
fn a_loop_or_a_trap_before_the_first_call_is_refused() {
    let start = "(memory (export \"memory\") 1)";
    let looping = format!("{start} (func $start (loop $more (br $more))) (start $start)");
    let refused = WasmKind::new("it", template(start, &looping).as_bytes()).map(drop);
    let why = refused.expect_err("it does not end").to_string();
    assert!(why.contains("fuel"), "{why}");

    let asked = "(func (export \"petasos_create\") (result i32)";
    let create = format!("{asked} (loop $more (br $more)) unreachable) (func (result i32)");
    let refused = make(&kind(&template(asked, &create)), "{}", None).err();
    let why = refused.expect("it does not end").to_string();
    assert!(why.contains("it fails: ") && why.contains("fuel"), "{why}");

    // Sample calls show what fails with every item.
    let refused = make(&kind(&deciding("unreachable")), "{}", None).err();
    let why = refused.expect("it fails").to_string();
    assert!(why.contains("it fails with sample calls"), "{why}");
}

#[test]
fn what_loops_traps_or_points_outside_is_cut_off_and_the_rule_applies() {
    let faults = [
        ("(loop $more (br $more))", "fuel"),
        ("unreachable", "unreachable"),
        ("(call $forever)", "stack"),
        ("(drop (call $say (i32.const -1) (i32.const 1)))", "outside of the module's memory"),
        ("(drop (call $say (i32.const 65535) (i32.const 2)))", "outside of the module's memory"),
        ("(drop (call $say (i32.const 8) (i32.const -1)))", "fuel"),
        (
            "(drop (call $input (i32.const 0) (i32.const 0) (i32.const 65530) (i32.const 7)))",
            "outside of the module's memory",
        ),
        (
            "(drop (call $set_metadata (i32.const 0) (i32.const 3) (i32.const 70000)
                (i32.const 1)))",
            "outside of the module's memory",
        ),
    ];
    for (code, expected) in faults {
        let module = at_100(code);
        let (mut open, policy) = rig(&module, r#"{"on_failure": "open"}"#);
        assert_eq!(open.request("alice", 1), passed());
        assert_eq!(open.request("alice", 100), passed(), "{code}");
        assert_eq!(policy.report()["failures"], 1, "{code}");
        let why = policy.report()["last_failure"].to_string();
        assert!(why.contains(expected), "{code}: {why}");

        let (mut closed, _) = rig(&module, "{}");
        let refused = || Outcome::Ended(Code::Unavailable, "`refuse` has failed".to_owned());
        assert_eq!(closed.request("alice", 1), passed());
        assert_eq!(closed.request("alice", 100), refused(), "{code}");
        assert_eq!(closed.request("alice", 1), refused(), "it is not called again");
        // Until it is replaced.
        let again = make(&kind(&module), "{}", None).expect("it is right");
        closed.replace(&again).expect("it is replaced");
        assert_eq!(closed.request("alice", 1), passed());
    }
}

#[test]
fn what_the_service_does_for_it_uses_fuel() {
    let copies = |room: u32| {
        let one = format!(
            "(drop (call $input (i32.const 0) (i32.const 0) (i32.const 0) (i32.const {room})))"
        );
        at_100(&one.repeat(3))
    };
    for (room, failures) in [(16, 0), (65_536, 1)] {
        let (mut rig, policy) = rig(&copies(room), r#"{"fuel": 20000, "on_failure": "open"}"#);
        assert_eq!(rig.request("alice", 100), passed());
        assert_eq!(policy.report()["failures"], failures, "with room for {room} bytes");
    }
}

#[test]
fn what_is_first_used_late_costs_no_more_than_what_it_does() {
    // A function that is long and does nothing, and that sample calls do not call.
    let rest = "(drop (i32.add (i32.const 1) (i32.const 2)))".repeat(5000);
    let rare = format!("(func $rare (param i32) (if (local.get 0) (then {rest})))");
    let module = at_100("(call $rare (i32.const 0))")
        .replace("(func $forever", &format!("{rare} (func $forever"));
    let (mut rig, policy) = rig(&module, r#"{"fuel": 1000}"#);
    assert_eq!(rig.request("alice", 100), passed(), "{}", policy.report());
}

#[test]
fn its_memory_is_limited() {
    // It ends the call with RESOURCE_EXHAUSTED if it cannot have 15 more pages of 64 KiB.
    let grow = "(if (i32.eq (memory.grow (i32.const 15)) (i32.const -1))
        (then (return (i32.const 8))))";
    let of = |bytes: u32| format!(r#"{{"memory_bytes": {bytes}, "fuel": 10000000}}"#);
    let (mut enough, _) = rig(&at_100(grow), &of(16 << 16));
    assert_eq!(enough.request("alice", 100), passed());
    let (mut little, _) = rig(&at_100(grow), &of(15 << 16));
    let refused = Outcome::Ended(Code::ResourceExhausted, String::new());
    assert_eq!(little.request("alice", 100), refused);
}

#[test]
fn verdicts_fields_and_metadata() {
    let code = "(drop (call $set_field_number (i32.const 0) (i64.const 42)))
        (drop (call $set_metadata (i32.const 5) (i32.const 3) (i32.const 8) (i32.const 5)))";
    let (mut changing, _) = rig(&at_100(code), "{}");
    let metadata = vec![("key".to_owned(), "value".to_owned())];
    let written = vec!["Unsigned(42)".to_owned()];
    assert_eq!(changing.request("alice", 100), Outcome::Passed { metadata, written });

    let (mut odd, policy) = rig(&at_100("(return (i32.const -3))"), "{}");
    let unknown = "the plug-in `refuse` decides 4294967293".to_owned();
    assert_eq!(odd.request("alice", 100), Outcome::Ended(Code::Internal, unknown));
    assert_eq!(policy.report()["failures"], 0);
}

//! Policies as WebAssembly modules, in the daemon.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use petasos::Code;
use petasos_admin::StepMut;
use petasos_base::sync::{AtomicBool, Ordering};

use crate::admin::Operator;
use crate::plugins::{listed, load, unload};
use crate::support::*;

/// Lets as many requests pass as its configuration says, a digit, or all with 0. Its state is how
/// many have passed. With a name of five letters, it does not end.
const COUNT: &str = r#"(module
    (import "petasos" "input" (func $input (param i32 i32 i32 i32) (result i32)))
    (import "petasos" "say" (func $say (param i32 i32) (result i32)))
    (import "petasos" "declare_field" (func $declare_field (param i32 i32 i32 i32) (result i32)))
    (import "petasos" "field_bytes" (func $field_bytes (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "it needs a digit")
    (data (i32.const 16) "name")
    (global $limit (mut i32) (i32.const 0))
    (global $passed (mut i32) (i32.const 0))
    (func (export "petasos_abi_version") (result i32) (i32.const 1))
    (func (export "petasos_state_version") (result i32) (i32.const 1))
    (func (export "petasos_interests") (result i32) (i32.const 1))
    (func (export "petasos_create") (result i32)
        (local $len i32)
        (local.set $len (call $input (i32.const 0) (i32.const 0) (i32.const 256) (i32.const 8)))
        (global.set $limit (i32.sub (i32.load8_u (i32.const 256)) (i32.const 48)))
        (if (i32.or (i32.ne (local.get $len) (i32.const 1))
                    (i32.gt_u (global.get $limit) (i32.const 9)))
            (then
                (drop (call $say (i32.const 0) (i32.const 16)))
                (return (i32.const 1))))
        (local.set $len (call $input (i32.const 1) (i32.const 0) (i32.const 512) (i32.const 8)))
        (if (i32.gt_s (local.get $len) (i32.const 1)) (then (return (i32.const 2))))
        (if (i32.eq (local.get $len) (i32.const 1))
            (then (global.set $passed
                (i32.sub (i32.load8_u (i32.const 512)) (i32.const 48)))))
        (i32.const 0))
    (func (export "petasos_method") (param i32) (result i32)
        (drop (call $declare_field (i32.const 16) (i32.const 4) (i32.const 4) (i32.const 0)))
        (i32.const 0))
    (func $len (param $field i32) (result i32)
        (call $field_bytes (local.get $field) (i32.const 0) (i32.const 768) (i32.const 0)))
    (func (export "petasos_item") (result i32)
        (if (i32.or (i32.eq (call $len (i32.const 0)) (i32.const 5))
                    (i32.eq (call $len (i32.const 1)) (i32.const 5)))
            (then (loop $more (br $more))))
        (if (i32.eqz (global.get $limit)) (then (return (i32.const 0))))
        (if (i32.ge_u (global.get $passed) (global.get $limit)) (then (return (i32.const 8))))
        (global.set $passed (i32.add (global.get $passed) (i32.const 1)))
        (i32.const 0))
    (func (export "petasos_decompose")
        (i32.store8 (i32.const 768) (i32.add (global.get $passed) (i32.const 48)))
        (drop (call $say (i32.const 768) (i32.const 1)))))"#;

/// A module's file.
struct Module(PathBuf);

impl Module {
    fn new(name: &str, text: &str) -> Module {
        let name = format!("{name}-{}.wat", std::process::id());
        let module = Module(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        std::fs::write(&module.0, text).unwrap();
        module
    }

    /// One that counts, with a change.
    fn changed(name: &str, from: &str, to: &str) -> Module {
        assert!(COUNT.contains(from));
        Module::new(name, &COUNT.replace(from, to))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The text from which states have another version.
const VERSION: &str = r#""petasos_state_version") (result i32) (i32.const 1)"#;

fn newer(name: &str) -> Module {
    Module::changed(name, VERSION, &VERSION.replace("const 1", "const 2"))
}

fn add(application: &'static str, configuration: &'static str) -> impl Fn(StepMut<'_>) {
    move |mut step| {
        let mut add = step.add_policy_mut();
        add.set_application(application).set_kind("mine").set_configuration(configuration);
    }
}

fn configure(id: u64, configuration: &'static str) -> impl Fn(StepMut<'_>) {
    move |mut step| {
        step.configure_policy_mut().set_id(id).set_configuration(configuration);
    }
}

/// Calls until it is told to end. All are answered.
fn busy(mut client: Client, target: u32, ends: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let ends = ends.clone();
    std::thread::spawn(move || {
        let mut calls = 0;
        while !ends.load(Ordering::SeqCst) {
            assert_eq!(client.greet(target, "bob"), Ok("hello, bob".to_owned()));
            client.poll();
            calls += 1;
        }
        calls
    })
}

#[test]
fn a_module_is_configured_replaced_with_its_state_and_unloaded_while_calls_run() {
    let (first, second) = (Module::new("wasm-first", COUNT), newer("wasm-second"));
    let daemon = Daemon::start("wasm-live", None);
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let (mut client, mut other) = (daemon.attach("client"), daemon.attach("busy"));
    let (target, of_other) = (client.target("greeter"), other.target("greeter"));
    let ends = Arc::new(AtomicBool::new(false));
    let busy = busy(other, of_other, &ends);
    operator.change(&[
        &load("mine", first.path()),
        &add("client", r#"{"configuration": 3}"#),
        &add("busy", r#"{"configuration": 0}"#),
    ]);
    assert_eq!(listed(&operator), (vec![("mine".to_owned(), 2, 2)], vec![]));
    assert!((0..2).all(|_| client.greet(target, "ann").is_ok()));
    // The newer one knows of two.
    operator.change(&[&load("mine", second.path())]);
    assert!(client.greet(target, "ann").is_ok());
    assert_eq!(client.greet(target, "ann"), Err(8), "resource exhausted");
    operator.change(&[&configure(1, r#"{"configuration": 5}"#)]);
    assert!((0..2).all(|_| client.greet(target, "ann").is_ok()));
    assert_eq!(client.greet(target, "ann"), Err(8), "its state has stayed");
    let (code, why) = operator.fails(&[&configure(1, r#"{"configuration": "x"}"#)]);
    assert!(code == Code::InvalidArgument && why.contains("it needs a digit"), "{why}");
    let (_, why) = operator.fails(&[&load("mine", first.path())]);
    assert!(why.contains("state"), "the older one does not know later states: {why}");
    assert_eq!(client.greet(target, "ann"), Err(8));

    let (_, why) = operator.fails(&[&unload]);
    assert_eq!(why, "plug-in `mine` is in use by 2 policies and 2 engines: remove them first");
    let remove = |id| {
        move |mut step: StepMut<'_>| {
            step.remove_policy_mut().set_id(id);
        }
    };
    operator.change(&[&remove(1), &remove(2), &unload]);
    assert_eq!(listed(&operator), (vec![], vec![]));
    assert!(client.greet(target, "ann").is_ok(), "nothing counts any more");
    ends.store(true, Ordering::SeqCst);
    let calls = busy.join().unwrap();
    assert!(client.greet(target, "stop").is_ok());
    let reached = server.join().unwrap();
    let of_busy = reached.iter().filter(|name| *name == "bob").count() as u64;
    assert_eq!((of_busy, reached.len() as u64), (calls, calls + 7), "none is lost or repeated");
}

#[test]
fn a_module_that_does_not_end_is_cut_off_and_its_rule_applies() {
    let module = Module::new("wasm-loops", COUNT);
    let daemon = Daemon::start_more("wasm-loops", None, &crate::plugins::with(module.path()));
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    operator.change(&[
        &add("open", r#"{"on_failure": "open", "configuration": 9}"#),
        &add("closed", r#"{"on_failure": "closed", "configuration": 9}"#),
    ]);
    let mut clients = ["open", "closed", "other"].map(|name| daemon.attach(name));
    let targets = clients.each_mut().map(|client| client.target("greeter"));
    let mut greet = |at: usize, name: &str| clients[at].greet(targets[at], name).map(drop);
    assert_eq!([0, 1, 2].map(|at| greet(at, "ann")), [Ok(()); 3]);
    assert_eq!([0, 1, 2].map(|at| greet(at, "spins")), [Ok(()), Err(14), Ok(())]);
    for _ in 0..3 {
        assert_eq!([0, 1, 2].map(|at| greet(at, "ann")), [Ok(()), Err(14), Ok(())]);
    }
    // Until it is replaced.
    operator.change(&[&load("mine", module.path())]);
    assert_eq!([0, 1, 2].map(|at| greet(at, "ann")), [Ok(()); 3]);
    // One that does not end before the first call is not taken at all.
    let create = r#"(export "petasos_create") (result i32)"#;
    let begins = Module::changed(
        "wasm-begins",
        create,
        &format!(
            "{create} (local $len i32)
        (loop $more (br $more)) unreachable) (func (result i32)"
        ),
    );
    let before = (operator.everything(), listed(&operator));
    let (_, why) = operator.fails(&[&load("mine", begins.path())]);
    assert!(why.contains("fuel"), "{why}");
    assert_eq!((operator.everything(), listed(&operator)), before);
    assert_eq!(greet(2, "stop"), Ok(()));
    server.join().unwrap();
}

#[test]
fn what_is_no_module_is_refused_and_what_runs_goes_on() {
    const ABI: &str = r#""petasos_abi_version") (result i32) (i32.const 1)"#;
    let module = Module::new("wasm-right", COUNT);
    let daemon = Daemon::start_more("wasm-wrong", None, &crate::plugins::with(module.path()));
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    operator.change(&[&add("client", r#"{"configuration": 0}"#)]);
    let before = (operator.everything(), listed(&operator));
    for (name, wrong, said) in [
        ("text", Module::new("wasm-text", "(module"), "the module cannot be used: "),
        ("empty", Module::new("wasm-empty", ""), "the module cannot be used: "),
        // A stack that has nothing for the addition.
        (
            "invalid",
            Module::changed("wasm-invalid", "(i32.eqz (global.get $limit))", "(i32.add)"),
            "the module cannot be used: ",
        ),
        (
            "version",
            Module::changed("wasm-version", ABI, &ABI.replace("const 1", "const 9")),
            "version 9",
        ),
        ("missing", Module::changed("wasm-missing", "\"petasos_item\"", "\"x\""), "petasos_item"),
    ] {
        let (code, why) = operator.fails(&[&load("mine", wrong.path())]);
        assert!(
            why.starts_with("plug-in `mine`, ") && why.contains(said),
            "{name}: {code:?} {why}"
        );
        assert_eq!((operator.everything(), listed(&operator)), before, "{name}");
        assert!(client.greet(target, "ann").is_ok(), "{name}");
        let (success, said) = daemon.second_with(None, &crate::plugins::with(wrong.path()));
        assert!(!success && said.contains("plug-in `mine`, "), "{name}: {said}");
    }
    assert!(client.greet(target, "stop").is_ok());
    server.join().unwrap();
}

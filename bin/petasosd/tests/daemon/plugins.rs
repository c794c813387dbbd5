//! Policies from outside, in the daemon.

use std::path::Path;

use petasos::Code;
use petasos_admin::{ListPluginsRequest, StepMut};

use crate::admin::Operator;
use crate::objects::compile as compile_with;
use crate::support::*;

/// Compiles a source of the plug-in crate, with a definition. None, and says so, if there is no
/// compiler.
fn compile(source: &str, definition: &str) -> Option<String> {
    compile_with(source, &[definition])
}

pub fn with(plugin: &str) -> [String; 2] {
    ["--plugin".to_owned(), format!("mine={plugin}")]
}

#[test]
fn a_shared_object_refuses_calls_by_a_field() {
    let Some(object) = compile("examples/refuse.c", "STATE_VERSION=1u") else { return };
    let policies = r#"[{"application": "client", "kind": "mine",
                        "configuration": {"field": "name", "text": "eve"}}]"#;
    let daemon = Daemon::start_more("plugin", Some(policies), &with(&object));
    let server = daemon.serve("server", 2);
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    assert_eq!(client.greet(target, "ann"), Ok("hello, ann".to_owned()));
    assert_eq!(client.greet(target, "eve"), Err(7), "permission denied");
    assert_eq!(client.greet(target, "bob"), Ok("hello, bob".to_owned()));
    assert_eq!(server.join().unwrap(), ["ann", "bob"]);
}

#[test]
fn plugins_and_configurations_that_crash_are_told_and_not_loaded() {
    let daemon = Daemon::start("no-plugin", None);
    let Some(object) = compile("tests/c/faulty.c", "FAULT=CRASH_ON_LOAD") else { return };
    let (success, said) = daemon.second_with(None, &with(&object));
    assert!(!success && said.contains("it has crashed when it was tried: signal 11"), "{said}");

    let object = compile("tests/c/faulty.c", "FAULT=CRASH_IF_TOLD").expect("there is a compiler");
    let policies =
        r#"[{"application": "*", "kind": "mine", "configuration": {"please": "crash"}}]"#;
    let (success, said) = daemon.second_with(Some(policies), &with(&object));
    assert!(!success && said.contains("policy 1: the configuration of `faulty`"), "{said}");
    assert!(said.contains("it has crashed when it was tried: signal 11"), "{said}");
}

pub fn load(name: &'static str, path: &str) -> impl Fn(StepMut<'_>) + use<> {
    let path = path.to_owned();
    move |mut step| {
        step.load_plugin_mut().set_name(name).set_path(&*path);
    }
}

pub fn unload(mut step: StepMut<'_>) {
    step.unload_plugin_mut().set_name("mine");
}

fn add(mut step: StepMut<'_>) {
    step.add_policy_mut().set_application("client").set_kind("mine");
}

/// Names, policies and engines of the plug-ins, and names of those that were left and whether they
/// are used.
pub type Listed = (Vec<(String, u32, u32)>, Vec<(String, bool)>);

pub fn listed(operator: &Operator) -> Listed {
    let request = ListPluginsRequest::new();
    let answer = operator.ask(request, |client, request| client.list_plugins(request)).unwrap();
    let plugins = answer.plugins().iter();
    let plugins = plugins.map(|one| (one.name().to_owned(), one.policies(), one.engines()));
    let left = answer.left().iter().map(|one| (one.name().to_owned(), one.is_used()));
    (plugins.collect(), left.collect())
}

#[test]
fn a_plugin_is_loaded_replaced_with_its_state_and_unloaded_while_calls_run() {
    let Some(first) = compile("tests/c/count.c", "LIMIT=3") else { return };
    let second = compile_with("tests/c/count.c", &["LIMIT=5", "STATE_VERSION=2u"]);
    let second = second.expect("there is a compiler");
    let daemon = Daemon::start("plugin-live", None);
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    // In one plan: a kind that the plan itself brings.
    operator.change(&[&load("mine", &first), &add]);
    assert_eq!(listed(&operator), (vec![("mine".to_owned(), 1, 1)], vec![]));
    assert!((0..2).all(|_| client.greet(target, "ann").is_ok()));
    let (code, why) = operator.fails(&[&unload]);
    assert_eq!(code, Code::FailedPrecondition, "{why}");
    assert_eq!(why, "plug-in `mine` is in use by 1 policies and 1 engines: remove them first");
    // The second lets three more pass, since it knows of two.
    operator.change(&[&load("mine", &second)]);
    assert!((0..3).all(|_| client.greet(target, "ann").is_ok()));
    assert_eq!(client.greet(target, "ann"), Err(8), "resource exhausted");
    // A plan that fails later leaves what there was.
    let third = compile_with("tests/c/count.c", &["LIMIT=9", "STATE_VERSION=3u"]).unwrap();
    let (code, _) = operator.fails(&[&load("mine", &third), &|mut step| {
        step.remove_policy_mut().set_id(77);
    }]);
    assert_eq!(code, Code::NotFound);
    assert_eq!(client.greet(target, "ann"), Err(8));
    operator.change(&[
        &|mut step| {
            step.remove_policy_mut().set_id(1);
        },
        &unload,
    ]);
    assert_eq!(listed(&operator), (vec![], vec![]), "all of it is unmapped");
    let (code, why) = operator.fails(&[&add]);
    assert_eq!(code, Code::InvalidArgument);
    assert!(why.starts_with("there is no kind `mine`; there are access, "), "{why}");
    assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
    assert_eq!(server.join().unwrap().len(), 6);
}

#[test]
fn those_that_were_left_are_listed_while_something_of_them_is_in_memory() {
    let Some(first) = compile("tests/c/count.c", "LIMIT=3") else { return };
    let second = compile_with("tests/c/count.c", &["LIMIT=5", "STATE_VERSION=2u"]).unwrap();
    let stays = compile("tests/c/faulty.c", "FAULT=STAYS_MAPPED").expect("there is a compiler");
    let daemon = Daemon::start("plugin-left", None);
    let operator = Operator::of(&daemon);
    let _application = daemon.attach("client");
    let left = |name: &str, is_used| (name.to_owned(), is_used);
    operator.change(&[&load("mine", &first), &add]);
    let before = listed(&operator);
    let chain = operator.keep((0, 0), &[&load("mine", &second)]);
    assert_eq!(listed(&operator).1, [left("mine", true)], "what undoes the change holds it");
    assert_eq!(operator.undo(chain), Ok(0));
    assert_eq!(listed(&operator), before, "the first is there again, the second has gone");
    operator.keep((0, 0), &[&load("mine", &second)]);
    operator.change(&[&|mut step| {
        step.set_quota_mut().quota_mut().set_application("late").set_items_max(7);
    }]);
    assert_eq!(listed(&operator).1, [], "nothing undoes it any more");
    // What undoing puts out, and what a change that fails had put in, is told if it stays mapped.
    let chain = operator.keep((0, 0), &[&load("other", &stays)]);
    assert_eq!(operator.undo(chain), Ok(0));
    assert_eq!(listed(&operator).1, [left("other", false)]);
    operator.fails(&[&load("third", &stays), &|mut step| {
        step.remove_policy_mut().set_id(77);
    }]);
    assert_eq!(listed(&operator).1, [left("other", false), left("third", false)]);
}

#[test]
fn engines_of_a_plugin_are_attached_configured_and_upgraded_by_operators() {
    let Some(object) = compile("examples/refuse.c", "STATE_VERSION=1u") else { return };
    let daemon = Daemon::start("plugin-engine", None);
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    operator.change(&[&load("mine", &object)]);
    let refuse = |name: &str| format!(r#"{{"field": "name", "text": "{name}"}}"#);
    operator.change(&[&|mut step| {
        let mut attach = step.attach_engine_mut();
        attach.set_application("client").set_kind("mine").set_configuration(refuse("eve"));
    }]);
    assert_eq!(client.greet(target, "eve"), Err(7));
    let configure = |name: &'static str| {
        move |mut step: StepMut<'_>| {
            let mut change = step.configure_engine_mut();
            change.set_configuration(refuse(name));
            change.engine_mut().set_application("client").set_kind("mine");
        }
    };
    operator.change(&[&configure("bob")]);
    assert_eq!(client.greet(target, "bob"), Err(7));
    assert!(client.greet(target, "eve").is_ok());
    // A configuration that it refuses changes nothing.
    let (code, why) = operator.fails(&[&configure("")]);
    assert_eq!(code, Code::InvalidArgument);
    assert!(why.contains("it needs `field` and `text`"), "{why}");
    operator.change(&[&|mut step| {
        step.upgrade_engine_mut().engine_mut().set_application("client").set_kind("mine");
    }]);
    assert_eq!(client.greet(target, "bob"), Err(7));
    // What an earlier step of the plan has made cannot have been prepared.
    let (code, why) = operator.fails(&[&configure("ann"), &configure("carl")]);
    assert_eq!(code, Code::FailedPrecondition, "{why}");
    assert!(why.starts_with("step 2 of 2: ") && why.contains("in a change of its own"), "{why}");
    assert_eq!(client.greet(target, "bob"), Err(7), "the first step was undone");
    assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
    server.join().unwrap();
}

#[test]
fn what_cannot_be_loaded_leaves_all_as_it_is() {
    let Some(crash) = compile("tests/c/faulty.c", "FAULT=CRASH_ON_LOAD") else { return };
    let count = compile("tests/c/count.c", "LIMIT=1000").expect("there is a compiler");
    let newer = compile_with("tests/c/count.c", &["LIMIT=1000", "STATE_VERSION=9u"]);
    let stays = compile("tests/c/faulty.c", "FAULT=STAYS_MAPPED").expect("likewise");
    let daemon = Daemon::start("plugin-wrong", None);
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    operator.change(&[&load("mine", &newer.expect("likewise")), &add]);
    let before = (operator.everything(), listed(&operator));
    for (name, path, said) in [
        ("mine", &*crash, "it has crashed when it was tried: signal 11"),
        ("mine", "/nowhere/x.so", "the file cannot be read"),
        ("mine", "x.so", "give an absolute path"),
        ("access", &*count, "there is a kind of that name"),
        ("a b", &*count, "a name has 1 to 64"),
        // It does not know the states of a later version.
        ("mine", &*count, "state"),
    ] {
        let (code, why) = operator.fails(&[&load(name, path)]);
        assert!(why.contains(said), "{name}, {path}: {code:?} {why}");
        assert_eq!((operator.everything(), listed(&operator)), before, "{name}, {path}");
        assert!(client.greet(target, "ann").is_ok());
    }
    assert_eq!(
        operator
            .fails(&[&|mut step: StepMut<'_>| {
                step.unload_plugin_mut().set_name("other");
            }])
            .0,
        Code::NotFound
    );
    // One that the system keeps is told.
    operator.change(&[&load("other", &stays)]);
    operator.change(&[&|mut step| {
        step.unload_plugin_mut().set_name("other");
    }]);
    assert_eq!(listed(&operator).1, [("other".to_owned(), false)]);
    assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
    server.join().unwrap();
}

#[test]
fn a_configuration_loads_replaces_and_unloads_plugins_everywhere() {
    let Some(first) = compile("tests/c/count.c", "LIMIT=3") else { return };
    let second = compile_with("tests/c/count.c", &["LIMIT=5", "STATE_VERSION=2u"]);
    let second = second.expect("there is a compiler");
    let config = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("plugin-config-{}.toml", std::process::id()));
    let write = |plugin: &str| std::fs::write(&config, plugin).unwrap();
    let of = |path: &str| format!("plugin.mine = '{path}'\n");
    write(&of(&first));
    let options = ["--config".as_ref(), config.as_os_str()];
    let daemon = Daemon::start_more("plugin-config", None, &options);
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    // One of the operator's own goes on with the other version, too.
    operator.change(&[&|mut step| {
        step.attach_engine_mut().set_application("client").set_kind("mine");
    }]);
    assert!((0..2).all(|_| client.greet(target, "ann").is_ok()));
    let reload = |mut step: StepMut<'_>| {
        step.reload_mut();
    };
    write(&of(&second));
    operator.change(&[&reload]);
    assert_eq!(listed(&operator), (vec![("mine".to_owned(), 0, 1)], vec![]));
    assert!((0..3).all(|_| client.greet(target, "ann").is_ok()));
    assert_eq!(client.greet(target, "ann"), Err(8));
    // It stays while it is in use, and a version that cannot go on changes nothing.
    write(&of(&first));
    assert!(operator.fails(&[&reload]).1.contains("state"));
    write("");
    operator.change(&[&reload]);
    assert_eq!(listed(&operator).0, [("mine".to_owned(), 0, 1)]);
    operator.change(&[&|mut step| {
        step.detach_engine_mut().engine_mut().set_application("client").set_kind("mine");
    }]);
    operator.change(&[&reload]);
    assert_eq!(listed(&operator), (vec![], vec![]));
    assert!(client.greet(target, "stop").is_ok());
    server.join().unwrap();
    std::fs::remove_file(&config).unwrap();
}

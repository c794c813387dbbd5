//! What `petasos ctl` shows of runtimes, plug-ins, transports and upgrades, and its JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Daemon, NULL, Successor, objects, program};

/// What a change has done, and nothing else.
fn done(daemon: &Daemon, args: &[&str], line: &str) {
    assert_eq!(daemon.json(args), json!({ "done": [line] }));
}

fn runtimes(daemon: &Daemon) -> Vec<Value> {
    let list = daemon.json(&["runtime", "list"]);
    list.as_array().expect("a list").clone()
}

#[test]
fn runtimes_are_shown_added_pinned_and_removed() {
    let daemon = Daemon::start("runtimes", NULL);
    let table = daemon.ctl(&["runtime", "list"]);
    assert!(table.success().starts_with("RUNTIME  FOR    CPU  APPS  CALLS"), "{table:?}");
    let added = "added runtime 1 for `shop` on processor 0";
    done(&daemon, &["runtime", "add", "--for", "shop", "--cpu", "0"], added);
    let [first, second] = &runtimes(&daemon)[..] else { panic!("there are two") };
    let said = |runtime: &Value, name: &str| runtime[name].clone();
    let of =
        |runtime| ["id", "for", "cpu", "applications", "is_leaving"].map(|it| said(runtime, it));
    assert_eq!(of(first), [json!(0), Value::Null, Value::Null, json!(0), json!(false)]);
    assert_eq!(of(second), [json!(1), json!("shop"), json!(0), json!(0), json!(false)]);
    assert!(first["calls"].is_u64() && first["processor_ns"].is_u64(), "{first}");
    done(&daemon, &["runtime", "pin", "1"], "runtime 1 runs on any processor");
    assert_eq!(runtimes(&daemon)[1]["cpu"], Value::Null);
    let removed = "runtime 1 is removed when its applications have left it";
    done(&daemon, &["runtime", "remove", "1"], removed);
    let is_gone = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        runtimes(&daemon).len() == 1
    });
    assert!(is_gone, "{:?}", runtimes(&daemon));
    let nobody = daemon.ctl(&["runtime", "move", "shop", "0", "--json"]);
    assert_eq!(nobody.code, Some(64 + 5), "{nobody:?}");
    let said: Value = serde_json::from_str(nobody.stderr.trim()).expect("failures are JSON, too");
    assert!(said.to_string().contains("`shop`"), "{said}");
}

#[test]
fn plugins_are_loaded_shown_and_unloaded() {
    let Some(object) = objects::compile("tests/c/count.c", &["LIMIT=3"]) else { return };
    let daemon = Daemon::start("plugins", NULL);
    assert_eq!(daemon.json(&["plugin", "list"]), json!({ "plugins": [], "left": [] }));
    let loaded = format!("loaded plug-in `mine` from {object}");
    done(&daemon, &["plugin", "load", "mine", &object], &loaded);
    daemon.ctl(&["policy", "add", "shop", "mine"]).success();
    let listed = json!({
        "plugins": [{"name": "mine", "file": object, "version": 1, "policies": 1, "engines": 0}],
        "left": [],
    });
    assert_eq!(daemon.json(&["plugin", "list"]), listed);
    let table = daemon.ctl(&["plugin", "list"]);
    let expected = format!(
        "NAME  STATE   VERSION  POLICIES  ENGINES  FILE\n\
         mine  loaded  1        1         0        {object}\n"
    );
    assert_eq!(table.success(), expected);
    let used = daemon.ctl(&["plugin", "unload", "mine"]);
    assert!(used.stderr.contains("is in use by 1 policies"), "{used:?}");
    daemon.ctl(&["policy", "remove", "2"]).success();
    done(&daemon, &["plugin", "unload", "mine"], "unloaded plug-in `mine`");
    let nowhere = daemon.ctl(&["plugin", "load", "mine", "/nowhere/mine.so"]);
    assert!(nowhere.code != Some(0) && nowhere.stderr.contains("/nowhere/mine.so"), "{nowhere:?}");
    assert_eq!(daemon.json(&["plugin", "list"]), json!({ "plugins": [], "left": [] }));
}

#[test]
fn the_transport_is_shown_and_changed_if_there_is_one() {
    let alone = Daemon::start("alone", NULL);
    let none = json!({ "carrier": null, "gathered": null, "fused": null });
    assert_eq!(alone.json(&["transport"]), none);
    let text = alone.ctl(&["transport"]);
    assert_eq!(text.success(), "none: the service reaches no other host\n");
    let refused = alone.ctl(&["transport", "--gathered", "false"]);
    assert!(refused.code != Some(0) && refused.stderr.contains("TCP"), "{refused:?}");
    let over_tcp = ["--listen", "127.0.0.1:0", "--transport", "tcp"];
    let daemon = Daemon::start_more("over-tcp", NULL, &over_tcp);
    let shown = |gathered: bool| json!({ "carrier": "tcp", "gathered": gathered, "fused": null });
    assert_eq!(daemon.json(&["transport"]), shown(true));
    let configured = "configured the transport: each piece by itself";
    done(&daemon, &["transport", "--gathered", "false"], configured);
    assert_eq!(daemon.json(&["transport"]), shown(false));
    assert_eq!(daemon.ctl(&["transport"]).success(), "tcp, gathered false\n");
}

#[test]
fn an_upgrade_tells_how_far_it_is() {
    let daemon = Daemon::start("upgrade-json", NULL);
    let path = |name: &str| daemon.folder.join(name).display().to_string();
    let (program, socket, log) = (program().display().to_string(), path("socket"), path("log"));
    let args = ["upgrade", &program, "--json", "--log", &log, "--wait", "--"];
    let done = daemon.ctl(&[&args[..], &["--socket", &socket]].concat());
    let lines: Vec<Value> =
        done.success().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let pid = lines[0]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let _successor = Successor(pid.and_then(rustix::process::Pid::from_raw).expect("a process"));
    let states = ["serving", "ended"].map(|state| json!({ "state": state, "pid": pid }));
    assert_eq!(lines, states);
    let refused = daemon.ctl(&["upgrade", "/nowhere/petasosd", "--json"]);
    let said: Value = serde_json::from_str(refused.stderr.trim()).expect("failures are JSON, too");
    assert!(said.to_string().contains("/nowhere/petasosd"), "{said}");
}

//! A router with a worker: what operators change of it, and calls and load that reach it.

use serde_json::{Value, json};

use crate::Router;
use crate::support::{Finished, Petasos, petasos};

const SAY: [&str; 2] = ["petasos.demo.v1.Echo/Say", "{\"text\": \"hi\"}"];

/// A router with one worker, which is a process as well.
struct Worked {
    // Ends before its router does.
    _worker: Petasos,
    router: Router,
}

impl Worked {
    fn start(name: &str) -> Worked {
        let router = Router::start_with(name, "services = [\"petasos.demo.v1.Echo\"]");
        let group = target(&router);
        let listen = ["serve", "--listen", "127.0.0.1:0", "--typed", "127.0.0.1:0"];
        let mut worker = Petasos::start(&[&listen[..], &["--join", &group]].concat());
        assert_eq!(worker.hear("petasos: joined the group of router "), router.group);
        Worked { _worker: worker, router }
    }

    fn call(&self) -> Finished {
        petasos(&[&["call", &target(&self.router)], &SAY[..]].concat())
    }

    /// What the command line shows of the only worker.
    fn shown(&self) -> Value {
        let workers = self.router.json(&["workers"]);
        assert_eq!(workers.as_array().map(Vec::len), Some(1), "{workers}");
        workers[0].clone()
    }
}

fn target(router: &Router) -> String {
    format!("router://{}", router.group)
}

#[test]
fn a_worker_is_drained_and_gets_requests_again() {
    let at = Worked::start("drained");
    assert_eq!(at.call().success(), "{\"text\":\"hi\"}\n");
    let shown = at.shown();
    assert_eq!(shown["is_draining"], false);
    let number = shown["worker"].to_string();
    let drained = at.router.ctl(&["drain", &number]);
    let wanted = format!("worker {number} of group {} gets nothing more", at.router.group);
    assert!(drained.success().starts_with(&wanted), "{drained:?}");
    let shown = at.shown();
    assert_eq!((&shown["is_draining"], &shown["limit"]), (&json!(true), &json!(0)), "{shown}");
    let text = at.router.ctl(&["workers"]);
    assert!(text.success().contains(" drain"), "{text:?}");
    let refused = at.call();
    assert_eq!(refused.code, Some(64 + 14), "nobody may take it: {refused:?}");
    let undrained = at.router.ctl(&["undrain", &number]);
    assert!(undrained.success().contains("gets requests again"), "{undrained:?}");
    at.call().success();
    assert_eq!(at.shown()["is_draining"], false);
}

#[test]
fn a_worker_gets_another_weight() {
    let at = Worked::start("weighed");
    assert_eq!(at.shown()["weight"], 100);
    let number = at.shown()["worker"].to_string();
    let set = at.router.json(&["weight", &number, "30"]);
    let line = set["done"][0].as_str().expect("it is a text");
    assert!(line.ends_with("has the weight 30"), "{line}");
    let audit = at.router.json(&["audit", "--last", "1"]);
    assert_eq!((&audit[0]["method"], &audit[0]["status"]), (&json!("WeighWorker"), &json!("OK")));
    assert_eq!(at.shown()["weight"], 30);
    at.call().success();
}

#[test]
fn load_is_sent_to_a_group_by_its_router() {
    let at = Worked::start("load");
    let group = target(&at.router);
    let rate = ["--rate", "50", "--duration", "1s", "--warm-up", "0"];
    // Whatever the machine does meanwhile.
    let calm = ["--anyway", "--lag-max", "60s", "--timeout", "60s"];
    let finished = petasos(&[&["load", &group], &SAY[..], &rate, &calm, &["--json"]].concat());
    let load: Value = serde_json::from_str(finished.success()).expect("it is JSON");
    let contender = &load["contenders"]["router"];
    assert_eq!((&contender["answered"], &contender["failed"]), (&json!(50), &json!(0)), "{load}");
    assert!(contender["p50_us"].is_number() && contender["p99_us"].is_number(), "{load}");
    let given = at.shown()["given"].as_u64().expect("it is a count");
    assert!(given >= 50, "all went by way of the router: {given}");
    // The services of the group only.
    let unknown = ["load", &group, "petasos.demo.v1.KeyValue/Get", "{}", "--rate", "50"];
    let refused = petasos(&[&unknown[..], &calm].concat());
    assert!(refused.failure().contains("the first request failed"), "{refused:?}");
}

//! `petasos ctl` against a real `petasosd`.

#[path = "../../petasosd/tests/objects/mod.rs"]
mod objects;
mod support;
#[path = "ctl/tables.rs"]
mod tables;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use petasos_attach::Attachment;
use petasos_attach::hello::Hello;
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Finished, Petasos};

/// A daemon, without applications.
struct Daemon {
    folder: PathBuf,
    child: Child,
}

/// The daemon's program. `cargo test --workspace` has built it beside this one; if only this
/// package is tested, it may have to be built.
fn program() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_petasos")).with_file_name("petasosd");
    if !beside.exists() {
        let folder = beside.parent().and_then(Path::parent).expect("a profile's folder");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "petasosd", "--target-dir"]).arg(folder);
        assert!(cargo.status().expect("cargo runs this test").success());
    }
    beside
}

impl Daemon {
    fn start(name: &str, policies: &str) -> Daemon {
        Daemon::start_more(name, policies, &[])
    }

    fn start_more(name: &str, policies: &str, more: &[&str]) -> Daemon {
        let folder =
            std::env::temp_dir().join(format!("petasos-ctl-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        std::fs::write(folder.join("policies.json"), policies).expect("a file can be written");
        let mut command = Command::new(program());
        command.arg("--socket").arg(folder.join("socket"));
        command.arg("--policies").arg(folder.join("policies.json")).stderr(Stdio::null());
        command.args(more);
        let child = command.spawn().expect("the program was just built");
        let mut daemon = Daemon { folder, child };
        for _ in 0..3000 {
            if daemon.folder.join("socket").exists() {
                return daemon;
            }
            assert_eq!(daemon.child.try_wait().expect("it is a child"), None, "it has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the daemon does not listen");
    }

    fn socket(&self) -> String {
        self.folder.join("admin.sock").display().to_string()
    }

    fn ctl(&self, args: &[&str]) -> Finished {
        Petasos::start(&[&["ctl", "--socket", &self.socket()], args].concat()).finish()
    }

    fn json(&self, args: &[&str]) -> Value {
        let finished = self.ctl(&[args, &["--json"]].concat());
        serde_json::from_str(finished.success()).expect("it is JSON")
    }

    fn plan(&self, plan: &str) -> Finished {
        let path = self.folder.join("plan.json");
        std::fs::write(&path, plan).expect("a file can be written");
        self.ctl(&["apply", &path.display().to_string()])
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const NULL: &str = r#"[{"application": "*", "kind": "null"}]"#;

#[test]
fn policies_and_quotas_are_shown_and_changed() {
    let daemon = Daemon::start("policies", NULL);
    let table = daemon.ctl(&["policy", "list"]);
    let expected = "ID  APPLICATION  KIND  DATAPATHS  CONFIGURATION\n\
                    1   *            null  0          {}\n";
    assert_eq!(table.success(), expected);
    let added = daemon.ctl(&["policy", "add", "shop", "rate_limit", r#"{"rate_per_s": 5}"#]);
    assert_eq!(added.success(), "added policy 2, rate_limit for `shop`\n");
    daemon.ctl(&["policy", "configure", "2", r#"{"rate_per_s": 6}"#]).success();
    let list = daemon.json(&["policy", "list"]);
    assert_eq!(list["policies"][1]["configuration"], json!({"rate_per_s": 6}));
    assert!(list["file"].as_str().is_some_and(|file| file.ends_with("policies.json")));
    daemon.ctl(&["reload"]).success();
    assert_eq!(daemon.json(&["policy", "list"])["policies"].as_array().map(Vec::len), Some(1));
    daemon.ctl(&["quota", "set", "shop", "--items", "9"]).success();
    daemon.ctl(&["quota", "set", "--message-bytes", "4096"]).success();
    let quotas = &daemon.json(&["quota", "show"])["quotas"];
    assert_eq!((&quotas[0]["message_bytes"], &quotas[1]["items"]), (&json!(4096), &json!(9)));
    daemon.ctl(&["quota", "remove", "shop"]).success();
    let audit = daemon.json(&["audit", "--last", "3"]);
    let last = &audit[2];
    assert_eq!((&last["method"], &last["role"]), (&json!("Change"), &json!("operator")));
    assert_eq!(last["steps"], json!(["remove quota of shop"]));
    let text = daemon.ctl(&["audit"]);
    assert!(text.success().contains("operator  Change"), "{text:?}");
}

#[test]
fn an_applications_engines_are_shown_and_changed() {
    let daemon = Daemon::start("engines", NULL);
    let hello = Hello::new("shop", 1).expect("a name");
    let path = daemon.folder.join("socket");
    let attachment = Attachment::connect(&path, &hello, support::WATCHDOG).expect("it listens");
    let apps = daemon.json(&["apps"]);
    assert_eq!((&apps[0]["name"], &apps[0]["number"]), (&json!("shop"), &json!(0)));
    assert_eq!(apps[0]["pid"], std::process::id());
    let limit = r#"{"rate_per_s": 500, "burst": 10}"#;
    let attached = daemon.ctl(&["engine", "attach", "shop", "rate_limit", limit, "--at", "0"]);
    assert_eq!(attached.success(), "attached rate_limit to `shop` (0) at place 0\n");
    daemon.ctl(&["engine", "attach", "0", "telemetry"]).success();
    let file = daemon.folder.join("limit.json");
    std::fs::write(&file, r#"{"rate_per_s": 900}"#).expect("a file can be written");
    let file = format!("@{}", file.display());
    let configured = daemon.ctl(&["engine", "configure", "shop", "0:rate_limit", &file]);
    assert_eq!(configured.success(), "configured rate_limit of `shop` (0) at place 0\n");
    let table = daemon.ctl(&["datapath", "shop"]);
    let expected = "\
NUMBER  NAME  PLACE  KIND        VERSION  POLICY  CONFIGURATION
0       shop  0      rate_limit  1        -       {\"rate_per_s\":900}
0       shop  1      null        1        1       {}
0       shop  2      telemetry   1        -       {}
";
    assert_eq!(table.success(), expected);
    daemon.ctl(&["engine", "move", "shop", "telemetry", "0"]).success();
    daemon.ctl(&["engine", "upgrade", "shop", "1"]).success();
    let wrong = daemon.ctl(&["engine", "detach", "shop", "0:rate_limit"]);
    assert_eq!(wrong.code, Some(64 + 5), "another is at this place now: {wrong:?}");
    daemon.ctl(&["engine", "detach", "shop", "rate_limit"]).success();
    let engines = &daemon.json(&["datapath", "shop", "--reports"])[0]["engines"];
    let kinds: Vec<&Value> =
        engines.as_array().expect("a list").iter().map(|engine| &engine["kind"]).collect();
    assert_eq!(kinds, ["telemetry", "null"]);
    assert!(engines[0]["report"].is_object(), "{engines}");
    drop(attachment);
}

#[test]
fn every_table_has_its_json() {
    let daemon = Daemon::start("tables", NULL);
    for (args, head) in [
        (&["apps"][..], "NUMBER"),
        (&["datapath", "--reports"], "NUMBER"),
        (&["kinds"], "KIND"),
        (&["policy", "list"], "ID"),
        (&["schema"], "SCHEMA"),
        (&["quota", "show"], "WHAT"),
        (&["audit"], "NO"),
        (&["stats"], "NUMBER"),
    ] {
        let text = daemon.ctl(args);
        assert!(text.success().starts_with(head), "{text:?}");
        daemon.json(args);
    }
    let kinds = daemon.json(&["kinds"]);
    assert!(kinds.as_array().expect("a list").contains(&json!({"kind": "qos", "version": 1})));
    assert_eq!(daemon.json(&["schema"])["bytes"], 0);
}

#[test]
fn schemas_are_loaded_shown_saved_and_evicted() {
    let daemon = Daemon::start("schemas", NULL);
    let proto =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/service/tests/protos/greet.proto");
    let loaded = daemon.ctl(&["schema", "load", proto]);
    assert!(loaded.success().starts_with("loaded schema "), "{loaded:?}");
    let known = daemon.json(&["schema", "list"]);
    let one = &known["schemas"][0];
    assert_eq!((&one["kept"], &one["messages"]), (&json!("loaded"), &json!(2)));
    let digest = one["digest"].as_str().expect("a text").to_owned();
    let shown = daemon.ctl(&["schema", "show", &digest[..8]]);
    assert!(shown.success().contains("rpc Greet"), "{shown:?}");
    let shown = daemon.json(&["schema", "show", &digest]);
    assert_eq!(shown["services"][0]["name"], "greet.Greeter");
    // What was saved is the same schema.
    let saved = daemon.folder.join("greet.schema").display().to_string();
    daemon.ctl(&["schema", "show", &digest, "--output", &saved]).success();
    daemon.ctl(&["schema", "evict", &digest[..8]]).success();
    assert_eq!(daemon.json(&["schema"])["schemas"], json!([]));
    daemon.ctl(&["schema", "load", &saved]).success();
    assert_eq!(daemon.json(&["schema"])["schemas"][0]["digest"], digest.as_str());
    for wrong in [&["schema", "evict", "0000"][..], &["schema", "show", "0000"]] {
        assert_eq!(daemon.ctl(wrong).code, Some(69), "NOT_FOUND");
    }
    assert_eq!(daemon.ctl(&["schema", "load", proto, &saved]).code, Some(1));
}

#[test]
fn a_plan_is_done_whole_or_not_at_all() {
    let daemon = Daemon::start("plan", NULL);
    let done = daemon.plan(
        r#"[{"add_policy": {"application": "shop", "kind": "telemetry"}},
            {"set_quota": {"application": "shop", "items": 7}}]"#,
    );
    assert_eq!(done.success(), "added policy 2, telemetry for `shop`\nset the quota of `shop`\n");
    let failed = daemon.plan(
        r#"[{"remove_policy": {"id": 2}}, {"remove_quota": {"application": "shop"}},
            {"attach": {"application": "shop", "kind": "null"}}]"#,
    );
    assert_eq!(failed.code, Some(64 + 5), "{failed:?}");
    let expected = "petasos: NOT_FOUND: step 3 of 3: no application `shop` is attached";
    assert!(failed.stderr.starts_with(expected), "{failed:?}");
    assert!(failed.stderr.contains("the steps before it were undone"), "{failed:?}");
    assert_eq!(daemon.json(&["policy", "list"])["policies"].as_array().map(Vec::len), Some(2));
    assert_eq!(daemon.json(&["quota", "show"])["quotas"][1]["items"], 7);
    let wrong = daemon.plan(r#"[{"remove": 2}]"#);
    assert!(wrong.failure().contains("is no plan: unknown variant `remove`"), "{wrong:?}");
}

#[test]
fn a_plan_loads_and_evicts_schemas_or_leaves_them_as_they_are() {
    let daemon = Daemon::start("plan-schemas", NULL);
    let proto =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/service/tests/protos/greet.proto");
    let load = json!({ "load_schema": { "files": [proto] } });
    let fail = json!({ "attach": { "application": "shop", "kind": "null" } });
    let known = || daemon.json(&["schema"])["schemas"].clone();
    let plan = |steps: &[&Value]| daemon.plan(&json!(steps).to_string());
    // What a failed plan has loaded is spare, as if an application had used it before.
    let failed = plan(&[&load, &fail]);
    assert!(failed.stderr.contains("the steps before it were undone"), "{failed:?}");
    assert_eq!(known()[0]["kept"], "spare");
    let policy = json!({ "add_policy": { "application": "shop", "kind": "telemetry" } });
    let done = plan(&[&load, &policy]);
    assert!(done.success().starts_with("loaded schema "), "{done:?}");
    let digest = known()[0]["digest"].as_str().expect("a text").to_owned();
    // What it has evicted is known again, and loaded as it was.
    let evict = json!({ "evict_schema": { "digest": &digest[..8] } });
    let failed = plan(&[&evict, &fail]);
    assert!(failed.stderr.contains("step 2 of 2"), "{failed:?}");
    assert_eq!((&known()[0]["digest"], &known()[0]["kept"]), (&json!(digest), &json!("loaded")));
    let evicted = plan(&[&evict]);
    assert_eq!(evicted.success(), format!("evicted schema {digest}\n"));
    assert_eq!(known(), json!([]));
    // Files that are no schema, and digests of none, end it before anything is done.
    for (wrong, why) in [
        (json!({ "load_schema": { "files": ["/nowhere/a.proto"] } }), "/nowhere/a.proto"),
        (json!({ "load_schema": { "files": [] } }), "no file is named"),
        (json!({ "evict_schema": { "digest": "0000" } }), "begins with `0000`"),
    ] {
        let failed = plan(&[&policy, &wrong]);
        assert!(failed.stderr.contains(why), "{failed:?}");
    }
    assert_eq!(daemon.json(&["policy", "list"])["policies"].as_array().map(Vec::len), Some(2));
}

#[test]
fn failures_say_what_to_do() {
    let daemon = Daemon::start("failures", NULL);
    let unknown = daemon.ctl(&["engine", "attach", "shop", "null"]);
    assert_eq!(unknown.code, Some(64 + 5));
    assert!(unknown.stderr.contains("there are none; `petasos ctl apps`"), "{unknown:?}");
    let kind = daemon.ctl(&["policy", "add", "*", "nul"]);
    assert_eq!(kind.code, Some(64 + 3));
    assert!(kind.stderr.contains("there is no kind `nul`; there are access, "), "{kind:?}");
    let wrong = daemon.ctl(&["policy", "add", "*", "rate_limit", "{}", "--json"]);
    let error: Value = serde_json::from_str(&wrong.stderr).expect("it is JSON");
    assert_eq!(error["error"]["status"], "INVALID_ARGUMENT");
    let socket = daemon.socket();
    drop(daemon);
    let missing = Petasos::start(&["ctl", "--socket", &socket, "apps"]).finish();
    assert_eq!(missing.code, Some(64 + 14));
    let expected = format!("petasos: UNAVAILABLE: no service listens for operators at {socket}; ");
    assert!(missing.stderr.starts_with(&expected), "{missing:?}");
}

#[test]
fn an_upgrade_is_waited_for_and_one_that_fails_changes_nothing() {
    let daemon = Daemon::start("upgrade", NULL);
    let path = |name: &str| daemon.folder.join(name).display().to_string();
    let (program, socket, log) = (program().display().to_string(), path("socket"), path("log"));
    let nowhere = daemon.ctl(&["upgrade", "/nowhere/petasosd"]);
    assert!(nowhere.stderr.contains("cannot start /nowhere/petasosd"), "{nowhere:?}");
    let args = ["upgrade", &program, "--log", &log, "--wait", "--", "--socket", &socket];
    let wrong = daemon.ctl(&[&args[..], &["--audit", "/nowhere/audit"]].concat());
    assert!(wrong.stderr.contains("has ended"), "{wrong:?}");
    let said = std::fs::read_to_string(&log).expect("it has said why");
    assert!(said.contains("audit log"), "{said}");
    daemon.ctl(&["policy", "add", "shop", "null"]).success();
    let done = daemon.ctl(&args);
    let pid = done.success().split_whitespace().nth(1).and_then(|pid| pid.parse().ok());
    let successor = Successor(pid.and_then(rustix::process::Pid::from_raw).expect("a process"));
    assert!(done.stdout.contains("the process before it has ended"), "{done:?}");
    // It serves operators, with what was in force.
    let list = daemon.json(&["policy", "list"]);
    assert_eq!(list["policies"].as_array().map(Vec::len), Some(2), "{list}");
    drop(successor);
}

/// A process that this test has let be started.
struct Successor(rustix::process::Pid);

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::KILL);
    }
}

/// A rollout of these stages at two services, which limit calls differently.
fn rollout(daemons: &[&Daemon; 2], stages: &Value) -> Finished {
    let [a, b] = daemons.map(Daemon::socket);
    let path = daemons[0].folder.join("rollout.json");
    let text = json!({ "hosts": { "a": a, "b": b }, "stages": stages }).to_string();
    std::fs::write(&path, text).expect("a file can be written");
    daemons[0].ctl(&["rollout", &path.display().to_string()])
}

/// Passes connections on to a service. Of one of them, the answers are lost: it breaks when the
/// first comes.
fn losing(daemon: &Daemon, lost: usize) -> String {
    let (path, to) = (daemon.folder.join("losing.sock"), daemon.folder.join("admin.sock"));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("the path is free");
    std::thread::spawn(move || {
        for (number, near) in listener.incoming().flatten().enumerate() {
            let far = UnixStream::connect(&to).expect("the service listens");
            let (near_too, far_too) = (near.try_clone(), far.try_clone());
            let (near_too, far_too) = (near_too.expect("a copy"), far_too.expect("a copy"));
            std::thread::spawn(move || pass(near, far, usize::MAX));
            // Settings and their acknowledgement come first; headers and messages are longer.
            let answers_max = if number + 1 == lost { 100 } else { usize::MAX };
            std::thread::spawn(move || pass(far_too, near_too, answers_max));
        }
    });
    path.display().to_string()
}

/// Copies so many bytes, and then ends both.
fn pass(mut from: UnixStream, mut to: UnixStream, bytes_max: usize) {
    let (mut buffer, mut passed) = ([0; 4096], 0);
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        passed += bytes;
        if passed > bytes_max || to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn a_change_whose_answer_is_lost_is_undone_with_the_others() {
    let (a, b) = (Daemon::start("lost-a", NULL), Daemon::start("lost-b", NULL));
    let count = |daemon: &Daemon| {
        let list = daemon.json(&["policy", "list"]);
        list["policies"].as_array().map(Vec::len)
    };
    let step = json!([{ "add_policy": { "application": "*", "kind": "telemetry" } }]);
    let stage = |host| json!({ "hosts": [host], "steps": step });
    // Connections to b: the look at the beginning, then a change each.
    for (lost, stages, undone) in [
        (2, json!([stage("a"), stage("b")]), "(2 changes)"),
        (3, json!([stage("b"), stage("a"), stage("b")]), "(3 changes)"),
    ] {
        let text = json!({ "hosts": { "a": a.socket(), "b": losing(&b, lost) }, "stages": stages });
        let path = a.folder.join("rollout.json");
        std::fs::write(&path, text.to_string()).expect("a file can be written");
        let failed = a.ctl(&["rollout", &path.display().to_string()]);
        assert!(failed.stderr.contains(": b: "), "{failed:?}");
        assert!(failed.stderr.contains(undone), "{failed:?}");
        assert_eq!([count(&a), count(&b)], [Some(1); 2], "{failed:?}");
    }
}

#[test]
fn a_rollout_that_is_interrupted_undoes_all() {
    let daemons = [&Daemon::start("watched-a", NULL), &Daemon::start("watched-b", NULL)];
    let count = || {
        daemons.map(|daemon| {
            let list = daemon.json(&["policy", "list"]);
            list["policies"].as_array().map(Vec::len)
        })
    };
    let [a, b] = daemons.map(Daemon::socket);
    let stage = json!({ "hosts": ["b", "a"],
        "steps": [{ "add_policy": { "application": "*", "kind": "telemetry" } }],
        "watch": { "seconds": 60, "failures_percent_max": 0.0, "application": "shop" } });
    let write = |hosts: Value| {
        let path = daemons[0].folder.join("rollout.json");
        let text = json!({ "hosts": hosts, "stages": [stage] }).to_string();
        std::fs::write(&path, text).expect("a file can be written");
        path.display().to_string()
    };
    let path = write(json!({ "a": a, "b": b }));
    let args = ["ctl", "--socket", &a, "rollout", &path];
    for signal in [Signal::INT, Signal::HUP] {
        let running = Petasos::start(&args);
        while count() != [Some(2); 2] {
            std::thread::sleep(Duration::from_millis(50));
        }
        running.send(signal);
        let failed = running.finish();
        assert_eq!(failed.code, Some(64 + 1), "{failed:?}");
        assert!(failed.stderr.contains("interrupted; what was done before (2 changes) was undone"));
        assert_eq!(count(), [Some(1); 2]);
    }
    let twice = daemons[0].ctl(&["rollout", &write(json!({ "a": a, "b": a }))]);
    assert!(twice.stderr.contains("`b` is another host's socket"), "{twice:?}");
}

#[test]
fn several_services_are_changed_in_order_or_not_at_all() {
    let daemons = [&Daemon::start("rollout-a", NULL), &Daemon::start("rollout-b", NULL)];
    let kinds = || {
        daemons.map(|daemon| {
            let list = daemon.json(&["policy", "list"]);
            let kinds = list["policies"].as_array().into_iter().flatten();
            kinds.map(|one| one["kind"].as_str().unwrap_or("?").to_owned()).collect::<Vec<_>>()
        })
    };
    let add = |kind: &str| json!({ "add_policy": { "application": "*", "kind": kind } });
    let before = kinds();
    // The last stage fails: its second host has no such application.
    let detach = json!({ "detach": { "application": "nobody", "kind": "null" } });
    let stages = json!([
        { "hosts": ["b"], "steps": [add("telemetry")] },
        { "hosts": ["a", "b"], "steps": [add("access_log")] },
    ]);
    let failed = rollout(&daemons, &stages);
    assert_eq!(failed.code, Some(64 + 3), "{failed:?}");
    let why = &failed.stderr;
    assert!(why.contains("stage 2: a: ") && why.contains("(1 changes) was undone"), "{why}");
    assert_eq!(kinds(), before);
    let stages = json!([
        { "hosts": ["b"], "steps": [add("telemetry")] },
        { "hosts": ["a"], "steps": [add("telemetry"), add("null")] },
        { "hosts": ["b"], "steps": [add("null")],
          "watch": { "seconds": 1, "failures_percent_max": 0.0 } },
        { "hosts": ["b", "a"], "steps": [detach] },
    ]);
    let failed = rollout(&daemons, &stages);
    assert_eq!(failed.code, Some(64 + 5), "{failed:?}");
    assert!(failed.stderr.contains("stage 4: b: no application `nobody`"), "{failed:?}");
    assert!(failed.stderr.contains("(3 changes) was undone"), "{failed:?}");
    assert_eq!(kinds(), before);

    let mut right = stages;
    right.as_array_mut().map(Vec::pop);
    let done = rollout(&daemons, &right);
    assert_eq!(
        done.success(),
        // Numbers of policies that were undone are not given again.
        "stage 1, b: added policy 5, telemetry for `*`\n\
         stage 2, a: added policy 4, telemetry for `*`\n\
         stage 2, a: added policy 5, null for `*`\n\
         stage 3, b: added policy 6, null for `*`\n\
         stage 3, b: 0 of 0 calls failed (0.00 %)\n"
    );
    assert_eq!(kinds(), [["null", "telemetry", "null"]; 2]);
    // One that is not there is found before any is changed.
    std::fs::remove_file(daemons[1].folder.join("admin.sock")).expect("it is there");
    let failed = rollout(&daemons, &json!([{ "hosts": ["a"], "steps": [add("null")] }]));
    assert!(failed.stderr.contains("b: no service listens"), "{failed:?}");
    let list = daemons[0].json(&["policy", "list"]);
    assert_eq!(list["policies"].as_array().map(Vec::len), Some(3));
}

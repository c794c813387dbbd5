//! `petasos ctl router` against a real `petasos-router`.

#[path = "../../../crates/etcd/tests/cluster/mod.rs"]
mod cluster;
#[path = "ctl_router/listed.rs"]
mod listed;
/// What the etcd of tests waits with.
mod servers {
    pub use crate::until::until;
}
mod support;
#[path = "../../../crates/petasos/tests/servers/until.rs"]
mod until;
#[path = "ctl_router/worked.rs"]
mod worked;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use support::{Finished, Petasos};

/// The router's program. `cargo test --workspace` has built it beside this one; if only this
/// package is tested, it may have to be built.
fn program() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_petasos")).with_file_name("petasos-router");
    if !beside.exists() {
        let folder = beside.parent().and_then(Path::parent).expect("a profile's folder");
        let mut cargo = Command::new(env!("CARGO"));
        let package = "petasos-router-program";
        cargo.args(["build", "--quiet", "--package", package, "--target-dir"]).arg(folder);
        assert!(cargo.status().expect("cargo runs this test").success());
    }
    beside
}

struct Router {
    folder: PathBuf,
    child: Child,
    group: String,
}

impl Router {
    fn start(name: &str) -> Router {
        Router::start_with(name, "")
    }

    /// With more keys of its group.
    fn start_with(name: &str, group: &str) -> Router {
        let folder =
            std::env::temp_dir().join(format!("petasos-ctl-router-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        write(&folder, group);
        let mut command = Command::new(program());
        command.arg("--config").arg(folder.join("router.toml")).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program was just built");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let ready = lines.find_map(|line| {
            let line = line.expect("it is text");
            line.split("join at ").nth(1).map(str::to_owned)
        });
        let ready = ready.expect("it says where");
        let group = ready.split(',').next().expect("it says where").to_owned();
        Router { folder, child, group }
    }

    fn socket(&self) -> String {
        self.folder.join("s").display().to_string()
    }

    fn ctl(&self, args: &[&str]) -> Finished {
        Petasos::start(&[&["ctl", "--socket", &self.socket(), "router"], args].concat()).finish()
    }

    fn json(&self, args: &[&str]) -> Value {
        let finished = self.ctl(&[args, &["--json"]].concat());
        serde_json::from_str(finished.success()).expect("it is JSON")
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn write(folder: &Path, group: &str) {
    let socket = folder.join("s");
    let text = format!(
        "[admin]\nsocket = \"{}\"\n[[group]]\nlisten = \"127.0.0.1:0\"\n{group}\n",
        socket.display()
    );
    std::fs::write(folder.join("router.toml"), text).expect("there is room");
}

#[test]
fn groups_and_their_settings_are_shown_and_set() {
    let router = Router::start("shown");
    let status = router.json(&["status"]);
    let group = &status[0];
    assert_eq!((&group["group"], &group["workers"]), (&json!(router.group), &json!(0)));
    assert_eq!(group["settings"]["policy"], "jbsq3");
    assert_eq!(group["rejected"]["queue_full"], 0);
    let shown = router.ctl(&["status"]);
    let text = shown.success();
    for wanted in [&router.group, "jbsq3", "0 workers, 0 clients", "rejected      none"] {
        assert!(text.contains(wanted), "{text}");
    }
    assert_eq!(router.json(&["workers"]), json!([]));
    assert!(router.ctl(&["workers"]).success().starts_with("WORKER  ADDRESS"));
    assert_eq!(router.json(&["clients"]), json!({ "clients": [], "has_more": false }));
    let set = router.json(&["policy", "rr", "--limit", "2", "--waiting-age-ms", "50"]);
    let lines = set["done"].as_array().expect("it is a list");
    assert!(lines.len() == 2 && lines[0].as_str().is_some_and(|it| it.contains("rr")), "{set}");
    let policy = router.json(&["policy"]);
    assert_eq!(
        policy,
        json!([{ "group": router.group, "policy": "rr", "limit": 2, "waiting_max": 16384,
            "waiting_age_us": 50_000 }])
    );
    let text = router.ctl(&["policy", "--group", &router.group]);
    assert!(text.success().contains("rr      2      16384"), "{}", text.success());
    write(&router.folder, "policy = \"jsq\"");
    let done = router.ctl(&["reload"]);
    assert!(done.success().contains("policy jsq, was rr with at most 2"), "{}", done.success());
    let audit = router.json(&["audit", "--last", "1"]);
    assert_eq!((&audit[0]["method"], &audit[0]["status"]), (&json!("Reload"), &json!("OK")));
    let last = router.ctl(&["audit"]);
    assert!(last.success().contains("SetPolicy"), "{}", last.success());
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let router = Router::start("wrong");
    for (args, code, wanted) in [
        (&["drain", "7"][..], 69, "no worker 7"),
        (&["undrain", "7"], 69, "`petasos ctl router status` and `workers`"),
        (&["weight", "7", "0"], 67, "1 to 100"),
        (&["policy", "best"], 67, "`best` is no policy"),
        (&["policy", "--waiting-max", "0"], 67, "waiting_max"),
        (&["status", "--group", "nowhere"], 69, "there is no group `nowhere`"),
        (&["drain", "seven"], 2, "seven"),
    ] {
        let finished = router.ctl(args);
        assert_eq!(finished.code, Some(code), "{args:?}: {}", finished.stderr);
        assert!(finished.stderr.contains(wanted), "{args:?}: {}", finished.stderr);
    }
    write(&router.folder, "police = \"jsq\"");
    let finished = router.ctl(&["reload"]);
    assert!(finished.stderr.contains("line 5") && finished.stderr.contains("all stays"));
    let nowhere = ["ctl", "--socket", "/nowhere/at/all", "router", "status"];
    let finished = Petasos::start(&nowhere).finish();
    assert!(finished.stderr.contains("start `petasos-router`"), "{}", finished.stderr);
    // A router is no managed service.
    let finished = Petasos::start(&["ctl", "--socket", &router.socket(), "apps"]).finish();
    assert!(finished.stderr.contains("is this the socket of a `petasosd`?"), "{}", finished.stderr);
}

#[test]
fn what_a_router_does_is_shown_again_and_again() {
    let router = Router::start("top");
    let socket = router.socket();
    let top = |more: &[&str]| {
        let args = ["top", "--socket", &socket, "--router", "--interval", "0.1"];
        Petasos::start(&[&args, more].concat()).finish()
    };
    let shown = top(&["--once"]);
    let text = shown.success();
    assert!(text.starts_with("1 group, ") && text.contains("0 waiting"), "{text}");
    assert!(text.contains(&router.group) && text.contains("WORKER  ADDRESS"), "{text}");
    let frames = top(&["--batch", "2", "--json", "--group", &router.group]);
    let frames: Vec<Value> =
        frames.success().lines().map(|it| serde_json::from_str(it).expect("it is JSON")).collect();
    assert_eq!(frames.len(), 2);
    assert!(frames[1]["seconds"].as_f64().is_some_and(|it| it > 0.0));
    assert_eq!(frames[1]["groups"][0]["policy"], "jbsq3");
    assert_eq!(
        (&frames[1]["groups"][0]["waiting"], &frames[1]["workers"]),
        (&json!(0), &json!([]))
    );
    let finished = top(&["--once", "--group", "nowhere"]);
    assert!(finished.stderr.contains("there is no group `nowhere`"), "{}", finished.stderr);
}

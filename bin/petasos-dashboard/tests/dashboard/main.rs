//! `petasos dashboard` before a real `petasosd` with real calls: what it tells, to whom, and the
//! page in a real browser.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod browser;
mod fixture;
mod page;
#[path = "../../../petasosd/tests/process/mod.rs"]
mod process;
mod routed;
mod router;
#[path = "../../../petasos/tests/shelf/mod.rs"]
mod shelf;
#[path = "../../../petasos/tests/support/mod.rs"]
mod support;

use serde_json::{Value, json};

use fixture::{Answer, Dashboard, HOSTILE, Scene, answered, ask};
use process::Process;
use support::{Folder, Petasos, petasos};

/// The rows of calls of a frame of `way`, as the application's number, the method and the rate.
fn rows(frame: &Value, way: &str) -> Vec<(u64, String, f64)> {
    let rows = frame["calls"].as_array().expect("a list").iter().filter(|row| row[2] == way);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    rows.map(|row| (row[0].as_u64().unwrap(), text(&row[1]), row[3].as_f64().unwrap())).collect()
}

fn numbered(list: &Value, name: &str) -> u64 {
    let mut all = list.as_array().expect("a list").iter();
    let found = all.find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {list}"));
    found["number"].as_u64().expect("a number")
}

#[test]
fn what_the_service_does_is_told() {
    let Some(scene) = Scene::new("told") else { return };
    scene.add_policy("*", "telemetry", "{}");
    scene.add_policy("front", "rate_limit", r#"{"rate_per_s": 100000}"#);
    scene.attach("shelf", "null").expect("it is attached");
    let dashboard = Dashboard::of(&scene);
    let is_told = |state: &Value| {
        let frames = state["frames"].as_array().expect("a list");
        let has = |way| frames.iter().any(|frame| !rows(frame, way).is_empty());
        has("to-local") && has("from-local") && !state["overview"]["calls"].is_null()
    };
    let state = dashboard.await_state(is_told);
    let overview = &state["overview"];
    let (front, shelf) = (
        numbered(&overview["applications"], "front"),
        numbered(&overview["applications"], "shelf"),
    );
    let frames = state["frames"].as_array().expect("a list");
    let frame = frames.iter().find(|frame| !rows(frame, "to-local").is_empty()).expect("is told");
    let made = rows(frame, "to-local");
    assert!(
        made.iter().any(
            |(of, method, rate)| (*of, &**method) == (front, "shelf.Shelf/Find") && *rate > 0.0
        )
    );
    assert!(frame["all"][0].as_f64() > Some(0.0), "{frame}");
    let sides = frame["applications"].as_array().expect("a list");
    assert!(sides.iter().any(|row| row[0] == front && row[1] == "makes"), "{frame}");
    let mut calls = overview["calls"].as_array().expect("a list").iter();
    let served = calls.find(|row| row["number"] == shelf && row["way"] == "from-local");
    let served = served.expect("it serves");
    assert_eq!(served["method"], "shelf.Shelf/Find");
    assert!(served["ended"]["OK"].as_u64() > Some(0), "{served}");
    let mut paths = overview["datapaths"].as_array().expect("a list").iter();
    let path = paths.find(|path| path["number"] == shelf).expect("it is attached");
    let engines = path["engines"].as_array().expect("a list");
    let places: Vec<_> =
        engines.iter().map(|engine| (engine["kind"].as_str(), engine["policy"].as_u64())).collect();
    assert_eq!(places, [(Some("telemetry"), Some(1)), (Some("null"), None)]);
    let policies = &overview["policies"];
    assert_eq!((&policies[0]["kind"], &policies[0]["datapaths"]), (&json!("telemetry"), &json!(2)));
    assert_eq!(policies[1]["configuration"]["rate_per_s"], 100_000);
    assert!(overview["quotas_attached"].as_array().is_some_and(|all| all.len() == 2));
    // However long it watches, the audit log has it once, since nothing else is asked.
    let audit = overview["audit"].as_array().expect("a list");
    let methods: Vec<_> = audit.iter().map(|entry| entry["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["Change", "Change", "Change", "WatchOverview"]);
    // What is known already is not told again, and rates move.
    let sequence = state["sequence"].as_u64().expect("a number");
    let later = dashboard.await_state_since(sequence, |state| state["frames"][0].is_object());
    assert_eq!(later["frames"][0]["sequence"], sequence + 1);
    assert_eq!(later["run"], state["run"]);
}

#[test]
fn the_state_is_for_those_who_show_the_token() {
    let Some(daemon) = Process::start("dashboard-token") else { return };
    let dashboard = Dashboard::start(&daemon, &[]);
    let get = |target: &str, headers: &str| dashboard.ask("GET", target, headers);
    assert_eq!(get("/api/state", "").status, 401);
    assert_eq!(get("/api/state", "Authorization: Bearer wrong\r\n").status, 401);
    let bearer = dashboard.bearer();
    let told = get("/api/state?since=0", &bearer);
    assert_eq!((told.status, told.json()["frames"].is_array()), (200, true));
    assert_eq!(get("/api/state?since=-1", &bearer).status, 400);
    // A session: both halves are needed.
    assert_eq!(dashboard.ask("POST", "/session", "").status, 401);
    let begun = dashboard.ask("POST", "/session", &bearer);
    assert_eq!(begun.status, 200);
    let key = format!("X-Petasos-Key: {}\r\n", begun.json()["key"].as_str().expect("a key"));
    let set = begun.header("set-cookie").expect("a cookie");
    assert!(set.contains("; HttpOnly; SameSite=Strict"), "{set}");
    let cookie = format!("Cookie: {}\r\n", set.split(';').next().unwrap());
    assert_eq!(get("/api/state", &format!("{cookie}{key}")).status, 200);
    assert_eq!(get("/api/state", &cookie).status, 401);
    assert_eq!(get("/api/state", &key).status, 401);
    assert_eq!(dashboard.ask("DELETE", "/session", &format!("{cookie}{key}")).status, 200);
    assert_eq!(get("/api/state", &format!("{cookie}{key}")).status, 401);
}

#[test]
fn other_sites_and_other_names_are_refused_and_nothing_can_be_changed() {
    let Some(daemon) = Process::start("dashboard-others") else { return };
    let dashboard = Dashboard::start(&daemon, &["--host", "dash.example"]);
    let bearer = dashboard.bearer();
    let hosted = |host: &str| {
        let request = format!("GET /api/state HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n");
        ask(&dashboard.address, &request).status
    };
    assert_eq!(hosted("evil.example"), 421, "its name may lead here now");
    assert_eq!((hosted("dash.example:8080"), hosted("localhost")), (200, 200));
    let cross = format!("{bearer}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n");
    assert_eq!(dashboard.ask("GET", "/api/state", &cross).status, 403);
    let origin = format!("{bearer}Origin: http://localhost:1\r\n");
    assert_eq!(dashboard.ask("POST", "/session", &origin).status, 403, "another port's page");
    for (method, target, status) in [
        ("POST", "/api/state", 405),
        ("PUT", "/session", 405),
        ("POST", "/", 405),
        ("GET", "/nothing", 404),
        ("GET", "/../../etc/passwd", 404),
        ("OPTIONS", "/api/state", 405),
    ] {
        let answer = dashboard.ask(method, target, &bearer);
        assert_eq!(answer.status, status, "{method} {target}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    for target in ["/", "/app.js", "/style.css", "/api/state", "/nothing"] {
        let answer = dashboard.ask("GET", target, "");
        let policy = answer.header("content-security-policy").expect("each answer has it");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    let long = format!("Cookie: {}\r\n", "x".repeat(32 << 10));
    assert_eq!(dashboard.ask("GET", "/", &long).status, 431);
    assert_eq!(dashboard.ask("POST", "/session", "Content-Length: 3\r\n").status, 413);
}

#[test]
fn a_service_that_goes_away_and_comes_back_is_noticed() {
    let Some(daemon) = Process::start("dashboard-away") else { return };
    let dashboard = Dashboard::start(&daemon, &[]);
    let is_live = |state: &Value| state["away"].is_null() && state["overview"].is_object();
    let live = dashboard.await_state(is_live);
    drop(daemon);
    let away = dashboard.await_state(|state| !state["away"].is_null());
    let why = away["away"].as_str().expect("a text");
    assert!(why.contains("no service listens for operators at"), "{why}");
    assert!(away["overview"].is_object(), "what was known last is still told");
    let _again = Process::start("dashboard-away").expect("it was there");
    let back = dashboard.await_state(is_live);
    assert_eq!(back["run"], live["run"]);
    dashboard.await_state(|state| state["sequence"].as_u64() > live["sequence"].as_u64());
}

#[test]
fn beyond_this_host_it_takes_tls_or_consent_and_a_token_that_is_secret() {
    let failed = |more: &[&str]| {
        let finished = petasos(&[&["--socket", "/nowhere"], more].concat());
        finished.failure().to_owned()
    };
    for beyond in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let why = failed(&["--listen", beyond]);
        assert!(why.contains("--tls-cert and --tls-key") && why.contains("--plaintext"), "{why}");
    }
    let folder = Folder::new("dashboard-token");
    let file = folder.file("token", b"0123456789abcdef0123456789abcdef\n");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&file, everybody).expect("it is ours");
    assert!(failed(&["--token-file", &file]).contains("chmod o-r"));
    let (cert, key) = (folder.path("none.pem"), folder.path("none.key"));
    assert!(failed(&["--tls-cert", &cert, "--tls-key", &key]).contains("--tls-cert"));
    assert_eq!(petasos(&["--tls-cert", &cert]).code, Some(2));
    // The token of a file is not printed, and opens the dashboard although no service is there.
    let ours = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, ours).expect("it is ours");
    let arguments = ["--socket", "/nowhere", "--listen", "127.0.0.1:0", "--json"];
    let mut running = Petasos::start(&[&arguments[..], &["--token-file", &file]].concat());
    let line: Value = serde_json::from_str(&running.line()).expect("it is JSON");
    let url = line["url"].as_str().expect("a text");
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
    let address = address.expect("there is no token in it");
    let request = "GET /api/state HTTP/1.1\r\nHost: localhost\r\n\
                   Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n";
    let state = answered(|| ask(address, request).json(), |state| state["away"].is_string());
    assert!(state["overview"].is_null());
}

#[test]
fn names_of_others_are_told_as_they_are() {
    let Some(scene) = Scene::new("names") else { return };
    scene.add_policy(HOSTILE, "null", "{}");
    let dashboard = Dashboard::of(&scene);
    let state = dashboard.await_state(|state| state["overview"]["policies"][0].is_object());
    assert_eq!(state["overview"]["policies"][0]["application"], HOSTILE);
    let Answer { head, .. } = dashboard.ask("GET", "/api/state", &dashboard.bearer());
    assert!(head.contains("Content-Type: application/json"), "{head}");
}

//! The page of a router: what is told of it, and how it looks.
//!
//! `PETASOS_PICTURES=FOLDER` stores pictures of it there.

use std::time::Duration;

use petasos::block_on;
use petasos_base::sync::{AtomicBool, Ordering};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::fixture::Dashboard;
use crate::page::{IS_LIVE, text};
use crate::process::Process;
use crate::router::{Router, find};

/// A dashboard of a router on a host without the managed service.
fn dashboard(router: &Router) -> Dashboard {
    Dashboard::at("/nowhere", &["--router", &router.socket()])
}

#[test]
fn groups_workers_and_queues_are_told() {
    let Some(router) = Router::start("told") else { return };
    let (_one, _other) = (router.worker(1), router.worker(1));
    let client = router.client();
    // Both workers have all that they take, and one waits.
    let held: Vec<_> = (0..3).map(|_| find(&client, "slow")).collect();
    let dashboard = dashboard(&router);
    let is_told = |state: &Value| {
        let group = &state["overview"]["groups"][0];
        group["outstanding"].as_u64() >= Some(2) && state["frames"][0].is_object()
    };
    let state = dashboard.await_of("/api/router", is_told);
    let overview = &state["overview"];
    let group = &overview["groups"][0];
    assert_eq!((&group["group"], &group["workers"]), (&json!(router.group()), &json!(2)));
    assert_eq!(group["settings"]["policy"], "jbsq3");
    assert_eq!((&group["services"], &group["clients"]), (&json!(["shelf.Shelf"]), &json!(1)));
    let workers = overview["workers"].as_array().expect("a list");
    for worker in workers {
        let told = (&worker["group"], &worker["state"], &worker["bound"]);
        assert_eq!(told, (&json!(router.group()), &json!("there"), &json!(1)));
    }
    assert_eq!((workers.len(), &overview["workers_left_out"]), (2, &json!(0)));
    // What waits for longer than a second is rejected, and seen in a frame.
    drop(held);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                block_on(find(&client, "Emma")).expect("a worker answers");
            }
        });
        let given = |frame: &Value| frame["groups"][0][1].as_f64() > Some(0.0);
        let frames = |state: &Value| state["frames"].as_array().expect("a list").clone();
        let state = dashboard.await_of("/api/router", |state| frames(state).iter().any(given));
        is_over.store(true, Ordering::Relaxed);
        let frame = frames(&state).into_iter().find(given).expect("it was there");
        assert_eq!(frame["groups"][0][0], json!(router.group()));
        let workers = frame["workers"].as_array().expect("a list");
        assert!(workers.iter().any(|row| row[3].as_f64() > Some(0.0)), "{frame}");
    });
    // The service's own state says that there is none.
    dashboard.await_state(|state| state["away"].is_string());
}

#[test]
fn without_a_router_there_is_no_page_of_one() {
    let Some(daemon) = Process::start("dashboard-unrouted") else { return };
    let dashboard = Dashboard::start(&daemon, &[]);
    let bearer = dashboard.bearer();
    let answer = dashboard.ask("GET", "/api/router", &bearer);
    assert!(answer.status == 404 && answer.body.contains("--router PATH"), "{answer:?}");
    assert_eq!(dashboard.ask("GET", "/api/router", "").status, 401);
    let link = r#"<a href="/router">"#;
    assert!(!dashboard.ask("GET", "/", "").body.contains(link), "it would lead nowhere");
}

#[test]
fn a_router_that_goes_away_and_comes_back_is_noticed() {
    let Some(mut router) = Router::start("away") else { return };
    let dashboard = dashboard(&router);
    let is_live = |state: &Value| state["away"].is_null() && state["overview"].is_object();
    dashboard.await_of("/api/router", is_live);
    router.end();
    let away = dashboard.await_of("/api/router", |state| !state["away"].is_null());
    let why = away["away"].as_str().expect("a text");
    assert!(why.contains("petasos-router"), "{why}");
    router.begin_again();
    dashboard.await_of("/api/router", |state| {
        is_live(state) && state["overview"]["groups"][0]["group"] == json!(router.group())
    });
}

#[test]
fn the_page_shows_workers_queues_and_rejections() {
    let Some(mut browser) = Browser::start("browser-router") else { return };
    let Some(router) = Router::start("page") else { return };
    let (one, _other) = (router.worker(1), router.worker(1));
    let client = router.client();
    let dashboard = dashboard(&router);
    browser.open(&dashboard.router_url());
    browser.wait_for(IS_LIVE);
    assert_eq!(browser.value("location.hash"), "", "the token is not left there");
    let tile =
        |name: &str| format!("document.querySelector('[data-tile={name}] .value').textContent");
    browser.wait_for(&format!(
        "{} === '2'",
        "document.querySelector('[data-tile=\"workers there\"] .value').textContent"
    ));
    // Both workers have all that they take, and more wait until they are rejected.
    let held: Vec<_> = (0..8).map(|_| find(&client, "slow")).collect();
    browser.wait_for(&format!("parseInt({}) >= 2", tile("outstanding")));
    let rejections = "document.querySelector('#rejections-table tbody').innerText";
    browser.wait_for(&format!("/[a-z-]+ [1-9]/.test({rejections})"));
    drop(held);
    let workers = text(&mut browser, "#workers-table");
    assert!(workers.contains(router.group()) && workers.contains("there"), "{workers}");
    assert!(text(&mut browser, "#groups-table").contains("jbsq3"));
    // Calls move the lines, and a worker that has gone is said to have.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                block_on(find(&client, "Emma")).expect("a worker answers");
            }
        });
        browser.wait_for(&format!("parseFloat({}) > 0", tile("given")));
        block_on(one.drain(Duration::from_secs(5)));
        browser.wait_for("document.querySelectorAll('#workers-table tbody tr').length === 1");
        is_over.store(true, Ordering::Relaxed);
    });
    // The service is one link away, and says that it is away.
    browser.value("document.querySelector('#sections a[href=\"/\"]').click()");
    browser.wait_for("document.body?.dataset.state === 'away'");
    browser.wait_for("!document.querySelector('#sections a[href=\"/router\"]').hidden");
    browser.open(&dashboard.router_url());
    browser.wait_for(IS_LIVE);
    pictures(&mut browser, &router);
}

/// Stores pictures of a minute with two workers, one of which is slow, if somebody wants them.
fn pictures(browser: &mut Browser, router: &Router) {
    let Some(folder) = std::env::var_os("PETASOS_PICTURES") else { return };
    let _workers = [(); 3].map(|()| router.worker(4));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for pause_ms in [0, 1, 1, 2, 3, 5] {
            let (client, is_over) = (router.client(), &is_over);
            scope.spawn(move || {
                for call in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    // Some are given up, and some fail.
                    let slow = (call % 40 == 0).then(|| find(&client, "slow"));
                    let _ = block_on(find(&client, "Emma"));
                    std::thread::sleep(Duration::from_millis(pause_ms + call % 7));
                    drop(slow);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(60));
        for (width, name) in [(1280, "router-desktop"), (390, "router-phone")] {
            for scheme in ["light", "dark"] {
                let file = std::path::Path::new(&folder).join(format!("{name}-{scheme}.png"));
                browser.picture(&file, (width, 900), scheme);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

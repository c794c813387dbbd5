//! The page in a real browser.
//!
//! `PETASOS_PICTURES=FOLDER` stores pictures of it there.

use std::time::Duration;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::fixture::{Dashboard, HOSTILE, Scene};
use crate::process::Process;

pub const IS_LIVE: &str = "document.body?.dataset.state === 'live'";

/// The text of an element.
pub fn text(browser: &mut Browser, selector: &str) -> String {
    let expression = format!("document.querySelector({}).innerText", json!(selector));
    browser.value(&expression).as_str().expect("a text").to_owned()
}

#[test]
fn the_page_shows_applications_methods_and_rates_that_move() {
    let Some(mut browser) = Browser::start("browser-live") else { return };
    let Some(scene) = Scene::new("page") else { return };
    scene.add_policy("*", "telemetry", "{}");
    let dashboard = Dashboard::of(&scene);
    browser.open(&dashboard.url);
    browser.wait_for(IS_LIVE);
    // The token is not left where others may read it.
    assert_eq!(browser.value("location.hash"), "");
    let calls = "document.querySelector('[data-tile=calls] .value').textContent";
    browser.wait_for(&format!("parseFloat({calls}) > 0"));
    let first = browser.value("document.querySelector('#methods-table tbody').innerText");
    let first = first.as_str().expect("a text");
    for shown in ["front", "shelf", "shelf.Shelf/Find", "to-local", "from-local"] {
        assert!(first.contains(shown), "{shown}: {first}");
    }
    let topology = text(&mut browser, "#topology-drawing");
    // Texts of drawings are no inner text: their elements are read.
    let drawn = browser.value("document.querySelector('#topology-drawing svg').textContent");
    assert!(drawn.as_str().is_some_and(|text| text.contains("shelf.Shelf")), "{topology}: {drawn}");
    // The rate moves: the line has more points, and the table other numbers.
    let points = "document.querySelector('#charts-drawing path.line').getAttribute('d').length";
    let before = browser.value(points).as_u64().expect("a length");
    browser.wait_for(&format!("{points} > {before}"));
    let rows = "document.querySelector('#methods-table tbody').innerText";
    browser.wait_for(&format!("{rows} !== {}", json!(first)));
    let path = text(&mut browser, "#datapaths-list");
    assert!(path.contains("telemetry") && path.contains("policy 1"), "{path}");
    assert!(text(&mut browser, "#audit-table").contains("WatchOverview"));
    // Choosing a method shows its lines.
    browser.value("document.querySelector('#methods-table .row-button').click()");
    browser.wait_for("document.querySelector('#focus-method').value === 'shelf.Shelf/Find'");
    let legend = text(&mut browser, "#charts-drawing .chart ul");
    assert!(legend.contains("shelf.Shelf/Find"), "{legend}");
    // Nothing was refused by the page's own policy, and nothing came from elsewhere.
    let loaded = browser.value("performance.getEntriesByType('resource').map((it) => it.name)");
    let is_ours = |it: &Value| it.as_str().is_some_and(|it| it.contains(&dashboard.address));
    assert!(loaded.as_array().is_some_and(|all| all.len() > 5 && all.iter().all(is_ours)));
    pictures(&mut browser, scene);
}

/// Stores pictures of a minute with more applications, if somebody wants them.
fn pictures(browser: &mut Browser, mut scene: Scene) {
    let Some(folder) = std::env::var_os("PETASOS_PICTURES") else { return };
    scene.add_policy("front", "rate_limit", r#"{"rate_per_s": 5000}"#);
    scene.add_policy("shelf", "access", r#"{"default": "allow"}"#);
    for (name, each_ms) in [("shop/web", 5), ("shop/mobile", 9), ("batch/report", 300)] {
        scene.call_as(name, Duration::from_millis(each_ms));
    }
    std::thread::sleep(Duration::from_secs(60));
    let all = "document.querySelectorAll('#charts select').forEach((select) => { \
               select.value = ''; select.dispatchEvent(new Event('change')); }), \
               scrollTo({ top: 0, behavior: 'instant' })";
    browser.value(all);
    for (width, name) in [(1280, "desktop"), (390, "phone")] {
        for scheme in ["light", "dark"] {
            let file = std::path::Path::new(&folder).join(format!("{name}-{scheme}.png"));
            browser.picture(&file, (width, 900), scheme);
        }
    }
}

#[test]
fn names_are_text_whatever_is_in_them() {
    let Some(mut browser) = Browser::start("browser-names") else { return };
    let Some(scene) = Scene::new("page-names") else { return };
    scene.add_policy(HOSTILE, "rate_limit", r#"{"rate_per_s": 5}"#);
    // What is refused is in the audit log, with the name that somebody has given.
    let refused = scene.attach(HOSTILE, "null").expect_err("nobody has this name");
    assert_eq!(refused.code(), petasos::Code::NotFound, "{refused:?}");
    let dashboard = Dashboard::of(&scene);
    browser.open(&dashboard.url);
    browser.wait_for(IS_LIVE);
    for table in ["#policies-table", "#audit-table"] {
        let shown = text(&mut browser, table);
        assert!(shown.contains(HOSTILE), "{table}: {shown}");
    }
    let elements = "document.querySelectorAll('main script, main img, main [onerror]').length";
    assert_eq!(browser.value(elements), 0);
    assert_eq!(browser.value("typeof window.pwned"), "undefined");
    // Markup would be refused, were there any: by the page's policy.
    let markup = "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'taken'; } \
                  catch (error) { return error.name; } })()";
    assert_eq!(browser.value(markup), "TypeError");
}

#[test]
fn the_page_asks_for_the_token_and_says_when_the_service_is_away() {
    let Some(mut browser) = Browser::start("browser-token") else { return };
    let Some(daemon) = Process::start("dashboard-page-token") else { return };
    let dashboard = Dashboard::start(&daemon, &[]);
    let address = format!("http://{}/", dashboard.address);
    browser.open(&address);
    browser.wait_for("document.body?.dataset.state === 'login'");
    let say = |token: &str| {
        format!(
            "(document.querySelector('#token').value = {}, \
             document.querySelector('#login').requestSubmit())",
            json!(token)
        )
    };
    browser.value(&say("wrong"));
    browser.wait_for("!document.querySelector('#login-failed').hidden");
    assert!(text(&mut browser, "#login-failed").contains("not the token"));
    let (_, token) = dashboard.url.split_once("#token=").expect("it has one");
    browser.value(&say(token));
    browser.wait_for(IS_LIVE);
    // No script can read the cookie, and the page comes back without the token.
    assert_eq!(browser.value("document.cookie"), "");
    browser.open(&address);
    browser.wait_for(IS_LIVE);
    assert!(text(&mut browser, "#applications-table").contains("No application is attached"));
    drop(daemon);
    browser.wait_for("document.body?.dataset.state === 'away'");
    assert!(text(&mut browser, "#banner").contains("no service listens for operators"));
    let _again = Process::start("dashboard-page-token").expect("it was there");
    browser.wait_for(IS_LIVE);
    assert_eq!(browser.value("document.querySelector('#banner').hidden"), true);
    browser.value("document.querySelector('#leave').click()");
    browser.wait_for("document.body?.dataset.state === 'login'");
    browser.open(&address);
    browser.wait_for("document.body?.dataset.state === 'login'");
}

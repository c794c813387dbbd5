//! The whole application as processes, on real stores: answers are the same whatever carries calls,
//! and services come and go.

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::{Play, get, load, missing};

/// Requests of each kind that the mix has rarely, and wrong ones.
const RARE: [&str; 8] = [
    "/user?username=Cornell_3&password=3333333333",
    "/user?username=Cornell_3&password=wrong",
    "/reservation?inDate=2015-04-10&outDate=2015-04-12&hotelId=2&customerName=Cornell_1\
     &username=Cornell_1&password=1111111111&number=1",
    "/reservation?inDate=2015-04-10&outDate=2015-04-12&hotelId=2&customerName=Cornell_1\
     &username=Cornell_1&password=1111111111&number=201",
    "/reservation?inDate=2015-04-10&outDate=2015-04-09&hotelId=2&customerName=Cornell_1\
     &username=Cornell_1&password=1111111111&number=1",
    "/hotels?inDate=2015-04-09&outDate=2015-04-10&lat=99&lon=-122",
    "/recommendations?require=age&lat=38&lon=-122",
    "/nowhere",
];

/// One search that finds hotels, so that all services of it are called.
const SEARCH: &str = "/hotels?inDate=2015-04-09&outDate=2015-04-10&lat=37.7936&lon=-122.393";

#[test]
fn all_ways_answer_alike_and_services_come_back() {
    if let Some((what, why)) = missing() {
        return petasos_skips::skip(what, why);
    }
    let ways = ["direct", "managed", "managed-null", "tonic"];
    let mut play = Play::start(&ways);
    answers_are_the_same(&play.frontends);
    times_are_told(&play.frontends["managed"]);
    rooms_are_given_once(&play);
    for way in ways {
        for service in ["geo", "search"] {
            a_service_comes_back(&mut play, way, service);
        }
    }
}

fn answers_are_the_same(frontends: &BTreeMap<String, String>) {
    let mut of_first: Option<(String, String)> = None;
    for (way, frontend) in frontends {
        let mut answers = load(frontend);
        for url in RARE {
            let (status, body) = get(frontend, url);
            answers += &format!("{url}\n{status} {body}\n");
        }
        assert!(answers.contains("Reserve successfully!"), "{way}");
        assert!(answers.contains("Login successfully!"), "{way}");
        assert!(!answers.contains("\n50"), "{way}: {answers}");
        match &of_first {
            None => of_first = Some((way.clone(), answers)),
            Some((first, expected)) => assert!(*expected == answers, "{first} and {way} differ"),
        }
    }
}

/// Two of many get a hundred of 250 rooms each, however they come.
fn rooms_are_given_once(play: &Play) {
    let reserve = |frontend: &str| {
        let stay = "inDate=2015-04-10&outDate=2015-04-13&hotelId=80&number=100";
        let guest = "customerName=a&username=Cornell_1&password=1111111111";
        get(frontend, &format!("/reservation?{stay}&{guest}"))
    };
    let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
        let guests = play.frontends.values().chain(play.frontends.values());
        let guests: Vec<_> = guests.map(|frontend| scope.spawn(|| reserve(frontend))).collect();
        guests.into_iter().map(|guest| guest.join().expect("it answers")).collect()
    });
    let made = answers.iter().filter(|(_, body)| body.contains("Reserve successfully!")).count();
    // On a busy machine an answer may be late, but no room is given twice.
    assert!(made <= 2, "{answers:?}");
    play.until(|| {
        let (status, body) = reserve(&play.frontends["direct"]);
        (status == 200 && body.contains("Already reserved.")).then_some(())
    });
}

/// The frontend tells where the time went, for each service that was called.
fn times_are_told(frontend: &str) {
    let timing = support::timing(frontend, SEARCH);
    let names: Vec<&str> = timing.split(", ").filter_map(|one| one.split(';').next()).collect();
    assert_eq!(names, ["app", "search", "geo", "rate", "reservation", "profile"]);
}

/// While a service is away its callers get errors at once, and answers when it is back.
fn a_service_comes_back(play: &mut Play, way: &str, service: &str) {
    let frontend = play.frontends[way].clone();
    assert_eq!(get(&frontend, SEARCH).0, 200, "{way}");
    play.act(&format!("stop {way} {service}"));
    // A call that was sent before its caller learned of it is late.
    let (status, body) = play.until(|| {
        let (status, body) = get(&frontend, SEARCH);
        assert!(status != 200 && status < 505, "{way}: {status} {body}");
        (status == 503).then_some((status, body))
    });
    let message: Value = serde_json::from_str(&body).expect("errors are JSON, too");
    let message = message["message"].as_str().unwrap_or_default();
    assert!(message.contains(service), "{way}: {status} {body}");
    // Nobody else is affected.
    let other = get(&frontend, "/recommendations?require=price&lat=38&lon=-122");
    assert_eq!(other.0, 200, "{way}: {other:?}");
    play.act(&format!("start {way} {service}"));
    play.until(|| (get(&frontend, SEARCH).0 == 200).then_some(()));
}

#[test]
fn stores_that_are_away_are_named() {
    let hotel = |arguments: &[&str]| {
        let output = support::hotel(arguments).output().expect("it was just built");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let serve = ["serve", "geo", "--listen", "127.0.0.1:0"];
    let nowhere = ["--store", "host=/nonexistent user=hotel dbname=postgres"];
    let said = hotel(&[&serve[..], &nowhere].concat());
    assert!(said.contains("PostgreSQL"), "{said}");
    assert!(hotel(&serve).contains("--store is missing"));
    let said = hotel(&[&serve[..], &["--store", "dbname"]].concat());
    assert!(said.contains("--store"), "{said}");
    let search = ["serve", "search", "--listen", "127.0.0.1:0", "--peer", "geo=127.0.0.1:1"];
    assert!(hotel(&search).contains("--peer rate=ADDRESS:PORT is missing"));
    let said = hotel(&["load", "127.0.0.1:1", "--rate", "10", "--seconds", "0.2"]);
    assert!(said.contains("127.0.0.1:1"), "{said}");
}

//! The frontend over the services' logic, with stores and caches in memory.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::cache::memory::Memory as CacheMemory;
use crate::logic::{GeoIndex, Profiles, Rates, Recommendations, Reservations, Searches, Users};
use crate::store::memory::Memory;

type Stay = Reservations<Memory, CacheMemory>;
type Found = Searches<GeoIndex, Rates<Memory, CacheMemory>>;
type Whole = Frontend<Found, Profiles<Memory, CacheMemory>, Recommendations, Stay, Users>;

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
    runtime.block_on(future)
}

fn whole() -> (Whole, Arc<Memory>) {
    let (store, cache): (Arc<Memory>, Arc<CacheMemory>) = Default::default();
    let frontend = block_on(async {
        let geo = GeoIndex::load(&*store).await.expect("it is there");
        let rate = Rates { store: store.clone(), cache: cache.clone() };
        Frontend {
            search: Searches { geo, rate },
            profile: Profiles { store: store.clone(), cache: cache.clone() },
            recommendation: Recommendations::load(&*store).await.expect("it is there"),
            reservation: Reservations { store: store.clone(), cache },
            user: Users::load(&*store).await.expect("it is there"),
        }
    });
    (frontend, store)
}

fn get(frontend: &Whole, url: &str) -> (u16, Value) {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let answer = block_on(frontend.answer(path, query, &mut Watch::start()));
    (answer.status, serde_json::from_str(&answer.body).expect("it is JSON"))
}

fn ids(answer: &Value) -> Vec<&str> {
    let features = answer["features"].as_array().expect("there are features");
    features.iter().map(|feature| feature["id"].as_str().expect("it has a name")).collect()
}

#[test]
fn hotels_are_found_and_drawn() {
    let (frontend, _) = whole();
    let url = "/hotels?inDate=2015-04-09&outDate=2015-04-10&lat=37.7936&lon=-122.393";
    let (status, answer) = get(&frontend, url);
    assert_eq!((status, ids(&answer)), (200, vec!["2", "3", "1"]));
    let first = &answer["features"][0];
    assert_eq!(first["properties"]["name"], "W San Francisco");
    // What a 32-bit number is, not its 64-bit neighbour.
    assert_eq!(first["geometry"]["coordinates"], json!([-122.4005, 37.7854]));
    assert_eq!(answer["type"], "FeatureCollection");
    let (status, answer) = get(&frontend, &url.replace("37.7936", "10"));
    assert_eq!((status, ids(&answer).len()), (200, 0));
}

#[test]
fn hotels_are_recommended() {
    let (frontend, _) = whole();
    let (status, answer) = get(&frontend, "/recommendations?require=price&lat=38&lon=-122");
    assert_eq!((status, ids(&answer)), (200, vec!["2"]));
    let (status, answer) = get(&frontend, "/recommendations?require=rate&lat=38&lon=-122");
    assert_eq!((status, ids(&answer).len()), (200, 5));
}

#[test]
fn guests_log_in_and_reserve() {
    let (frontend, _) = whole();
    let message = |url: &str| get(&frontend, url).1["message"].to_string();
    let right = "username=Cornell_7&password=7777777777";
    assert!(message(&format!("/user?{right}")).contains("Login successfully"));
    assert!(message("/user?username=Cornell_7&password=x").contains("check your username"));
    let stay = "hotelId=5&customerName=Cornell_7&inDate=2015-04-10&outDate=2015-04-12&number=200";
    // A wrong password takes no rooms: they are there afterwards.
    let wrong = format!("/reservation?{stay}&username=Cornell_7&password=x");
    assert!(message(&wrong).contains("check your username"));
    let reserve = format!("/reservation?{stay}&{right}");
    assert!(message(&reserve).contains("Reserve successfully"));
    assert!(message(&reserve).contains("Already reserved"));
}

#[test]
fn what_is_wrong_is_told() {
    let (frontend, store) = whole();
    let all = [
        ("/", 404),
        ("/hotel", 404),
        ("/hotels", 400),
        ("/hotels?inDate=2015-04-09&outDate=2015-04-10&lat=x&lon=1", 400),
        ("/hotels?inDate=2015-04-09&outDate=2015-04-10&lat=99&lon=1", 400),
        ("/hotels?inDate=2015-04-10&outDate=2015-04-09&lat=37.79&lon=-122.39", 400),
        ("/recommendations?require=x&lat=1&lon=1", 400),
        ("/user?username=a", 400),
        ("/reservation?hotelId=1", 400),
    ];
    for (url, status) in all {
        assert_eq!(get(&frontend, url).0, status, "{url}");
    }
    store.set_away(true);
    let (status, answer) = get(&frontend, "/recommendations?require=price&lat=38&lon=-122");
    assert_eq!((status, &answer["message"]), (503, &json!("the store is away")));
}

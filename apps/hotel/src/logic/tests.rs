//! The services over stores and caches in memory.

use std::sync::Arc;

use super::*;
use crate::cache::memory::Memory as CacheMemory;
use crate::calls::{Geo, Profile, Rate, Recommendation, Reservation, Search, User};
use crate::error::{Error, Kind};
use crate::messages::geo::NearbyRequest;
use crate::messages::profile::ProfilesRequest;
use crate::messages::rate::RatesRequest;
use crate::messages::recommendation::RecommendationsRequest;
use crate::messages::reservation::StayRequest;
use crate::messages::search::SearchRequest;
use crate::messages::user::CheckRequest;
use crate::store::memory::Memory;
use crate::timing::Watch;

/// Runs a future that never waits.
fn now<F: Future>(future: F) -> F::Output {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("nothing in memory waits"),
    }
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn memories() -> (Arc<Memory>, Arc<CacheMemory>) {
    Default::default()
}

fn geo() -> GeoIndex {
    now(GeoIndex::load(&Memory::default())).expect("it is there")
}

fn nearby(lat: f32, lon: f32) -> Result<Vec<String>, Error> {
    let reply = now(geo().nearby(NearbyRequest { lat, lon }, &mut Watch::start()));
    reply.map(|reply| reply.hotel_ids)
}

#[test]
fn the_nearest_five_hotels_are_found_in_order() {
    // At hotel 4, whose neighbours are known.
    assert_eq!(nearby(37.7936, -122.393), Ok(ids(&["4", "6", "2", "3", "1"])));
    // Nothing is that far north.
    assert_eq!(nearby(60.0, -122.0), Ok(vec![]));
    // The row of hotels ends here.
    let end = nearby(38.2635, -121.77).expect("it is a place");
    assert_eq!(end, ids(&["80", "79", "78", "77", "76"]));
    for (lat, lon) in [(f32::NAN, 0.0), (91.0, 0.0), (0.0, 181.0)] {
        assert_eq!(nearby(lat, lon).map_err(|error| error.kind), Err(Kind::Invalid));
    }
}

#[test]
fn rates_are_sorted_and_remembered() {
    let (store, cache) = memories();
    let rates = Rates { store: store.clone(), cache: cache.clone() };
    let get = || {
        let hotel_ids = ids(&["1", "2", "4", "3", "9", "77"]);
        let request = RatesRequest { hotel_ids, ..RatesRequest::default() };
        let reply = now(rates.get_rates(request, &mut Watch::start()))?;
        Ok::<_, Error>(reply.rate_plans.into_iter().map(|plan| plan.hotel_id).collect::<Vec<_>>())
    };
    let expected = Ok(ids(&["9", "2", "1", "3"]));
    assert_eq!(get(), expected);
    assert_eq!(store.asked(), 1);
    // Those without a plan are remembered, too.
    assert_eq!(cache.keys().len(), 6);
    assert_eq!(get(), expected);
    assert_eq!(store.asked(), 1);
    // Each alone is enough.
    store.set_away(true);
    assert_eq!(get(), expected);
    cache.set_away(true);
    assert_eq!(get().map_err(|error| error.kind), Err(Kind::Away));
    store.set_away(false);
    assert_eq!(get(), expected);
}

#[test]
fn profiles_come_in_the_order_of_the_request() {
    let (store, cache) = memories();
    let profiles = Profiles { store: store.clone(), cache };
    let get = |wanted: &[&str]| {
        let request = ProfilesRequest { hotel_ids: ids(wanted), locale: "en".to_owned() };
        let reply = now(profiles.get_profiles(request, &mut Watch::start()))?;
        Ok::<_, Error>(reply.hotels.into_iter().map(|hotel| hotel.id).collect::<Vec<_>>())
    };
    assert_eq!(get(&["80", "1"]), Ok(ids(&["80", "1"])));
    assert_eq!(get(&["1", "2", "80", "nowhere"]), Ok(ids(&["1", "2", "80"])));
    assert_eq!(store.asked(), 2);
    assert_eq!(get(&[]), Ok(vec![]));
    let refused = |wanted: &[&str]| get(wanted).map_err(|error| error.kind);
    assert_eq!(refused(&["1 2"]), Err(Kind::Invalid));
    assert_eq!(refused(&["1\r\nflush_all"]), Err(Kind::Invalid));
    assert_eq!(refused(&[""]), Err(Kind::Invalid));
    assert_eq!(refused(&["1"; hotels::HOTELS_MAX + 1]), Err(Kind::Invalid));
    assert!(refused(&["1"; hotels::HOTELS_MAX]).is_ok());
}

#[test]
fn the_best_hotels_are_recommended() {
    let all = now(Recommendations::load(&Memory::default())).expect("it is there");
    let get = |require: &str, lat, lon| {
        let request = RecommendationsRequest { require: require.to_owned(), lat, lon };
        let reply = now(all.get_recommendations(request, &mut Watch::start()));
        reply.map(|reply| reply.hotel_ids).map_err(|error| error.kind)
    };
    assert_eq!(get("dis", 37.7867, -122.4112), Ok(ids(&["1"])));
    assert_eq!(get("price", 0.0, 0.0), Ok(ids(&["2"])));
    // All that cost 232: multiples of 3 whose last digit is 4 or 9.
    assert_eq!(get("rate", 0.0, 0.0), Ok(ids(&["24", "39", "54", "69", "9"])));
    assert_eq!(get("age", 0.0, 0.0), Err(Kind::Invalid));
    assert_eq!(get("dis", f64::NAN, 0.0), Err(Kind::Invalid));
}

#[test]
fn a_password_is_the_user_s_or_not() {
    let users = now(Users::load(&Memory::default())).expect("it is there");
    let check = |username: &str, password: &str| {
        let (username, password) = (username.to_owned(), password.to_owned());
        let reply = now(users.check_user(CheckRequest { username, password }, &mut Watch::start()));
        reply.expect("it answers").correct
    };
    assert!(check("Cornell_0", "0000000000"));
    assert!(check("Cornell_500", &"500".repeat(10)));
    assert!(!check("Cornell_501", &"501".repeat(10)));
    assert!(!check("Cornell_1", "2222222222") && !check("", ""));
}

fn stay(hotels: &[&str], nights: [&str; 2], rooms: i32) -> StayRequest {
    StayRequest {
        customer_name: "Cornell_1".to_owned(),
        hotel_ids: ids(hotels),
        in_date: nights[0].to_owned(),
        out_date: nights[1].to_owned(),
        rooms,
    }
}

#[test]
fn rooms_are_taken_once() {
    let (store, cache) = memories();
    let service = Reservations { store: store.clone(), cache: cache.clone() };
    let check = |request| {
        let reply = now(service.check_availability(request, &mut Watch::start()));
        reply.map(|reply| reply.hotel_ids).map_err(|error| error.kind)
    };
    let book = |request| {
        let reply = now(service.make_reservation(request, &mut Watch::start()));
        reply.map(|reply| reply.hotel_ids).map_err(|error| error.kind)
    };
    let (nights, hotels) = (["2015-04-09", "2015-04-11"], ["7", "4", "nowhere", "1"]);
    // Alice has a room in hotel 4.
    assert_eq!(check(stay(&hotels, nights, 200)), Ok(ids(&["7", "1"])));
    assert_eq!(check(stay(&hotels, nights, 199)), Ok(ids(&["7", "4", "1"])));
    assert_eq!(book(stay(&["1"], ["2015-04-10", "2015-04-12"], 150)), Ok(ids(&["1"])));
    // The note in the cache is gone; what is left is known, and no more can be had.
    assert_eq!(check(stay(&["1"], nights, 51)), Ok(vec![]));
    assert_eq!(check(stay(&["1"], nights, 50)), Ok(ids(&["1"])));
    assert_eq!(check(stay(&["1"], ["2015-04-09", "2015-04-10"], 200)), Ok(ids(&["1"])));
    assert_eq!(book(stay(&["1"], nights, 51)), Ok(vec![]));
    assert_eq!(book(stay(&["1"], nights, 50)), Ok(ids(&["1"])));
    assert_eq!(book(stay(&["1"], nights, 1)), Ok(vec![]));
    // A refused booking takes no night of several.
    assert_eq!(check(stay(&["1"], ["2015-04-09", "2015-04-10"], 150)), Ok(ids(&["1"])));
    let asked = store.asked();
    assert_eq!(check(stay(&["1"], ["2015-04-09", "2015-04-10"], 150)), Ok(ids(&["1"])));
    assert_eq!(store.asked(), asked);
    // Without a cache the store is asked.
    cache.set_away(true);
    assert_eq!(check(stay(&["1"], nights, 1)), Ok(vec![]));
    assert!(store.asked() > asked);
}

#[test]
fn what_is_no_stay_is_refused() {
    let (store, cache) = memories();
    let service = Reservations { store: store.clone(), cache };
    let nights = ["2015-04-09", "2015-04-10"];
    let long = StayRequest { customer_name: "x".repeat(257), ..stay(&["1"], nights, 1) };
    let wrong = [
        stay(&["1"], nights, 0),
        stay(&["1"], nights, -1),
        stay(&["1"], ["2015-04-10", "2015-04-09"], 1),
        stay(&["1"], ["x", "2015-04-09"], 1),
        stay(&["a b"], nights, 1),
        stay(&[], nights, 1),
        long,
    ];
    for request in wrong {
        let reply = now(service.make_reservation(request.clone(), &mut Watch::start()));
        assert_eq!(reply.map_err(|error| error.kind), Err(Kind::Invalid), "{request:?}");
    }
    assert_eq!(store.asked(), 0);
}

#[test]
fn a_search_asks_where_and_how_much() {
    let (store, cache) = memories();
    let search = Searches { geo: geo(), rate: Rates { store, cache } };
    let request = |lat, lon| {
        let (in_date, out_date) = ("2015-04-09".to_owned(), "2015-04-10".to_owned());
        SearchRequest { lat, lon, in_date, out_date }
    };
    let get = |lat, lon| {
        let reply = now(search.nearby(request(lat, lon), &mut Watch::start()));
        reply.map(|reply| reply.hotel_ids)
    };
    // Of 4, 6, 2, 3 and 1, these have rates.
    assert_eq!(get(37.7936, -122.393), Ok(ids(&["2", "3", "1"])));
    assert_eq!(get(0.0, 0.0), Ok(vec![]));
    assert!(get(100.0, 0.0).is_err());
}

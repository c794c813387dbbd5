//! The data of DeathStarBench's hotel reservation: 80 hotels around San Francisco, 501 users.
//!
//! Numbers and names are the suite's; descriptions are our own, of about the same length.

use sha2::{Digest, Sha256};

use super::{Point, Recommended};
use crate::messages::profile::{Address, Hotel};
use crate::messages::rate::{RatePlan, RoomType};

/// The hotels have the numbers from 1 to this.
pub const HOTELS: u16 = 80;
/// The users have the numbers from 0 to this.
pub const USER_LAST: u16 = 500;

/// A hotel that is described: name, telephone, number and name of the street, postal code, latitude
/// and longitude of its profile, its rate and price as recommended, and its description.
type Base = (&'static str, [&'static str; 4], [f64; 2], [f64; 2], &'static str);

const BASE: [Base; 6] = [
    (
        "Clift Hotel",
        ["(415) 775-4700", "495", "Geary St", "94102"],
        [37.7867, -122.4112],
        [109.0, 150.0],
        "Six minutes on foot from Union Square and four from a stop of the Muni Metro, this hotel \
         is known for its lobby, in which furniture by artists stands, and for the dark wood of \
         its bar, which is as old as the house.",
    ),
    (
        "W San Francisco",
        ["(415) 777-5300", "181", "3rd St", "94103"],
        [37.7854, -122.4005],
        [139.0, 120.0],
        "A modern hotel around the corner from the Yerba Buena Center for the Arts, twelve minutes \
         on foot from Union Square.",
    ),
    (
        "Hotel Zetta",
        ["(415) 543-8555", "55", "5th St", "94103"],
        [37.7834, -122.4071],
        [109.0, 190.0],
        "Three minutes on foot from where the cable cars turn at Powell Street, and nine from \
         Union Square, this hotel has much technology in its rooms, and art by people of the city.",
    ),
    (
        "Hotel Vitale",
        ["(415) 278-3700", "8", "Mission St", "94105"],
        [37.7936, -122.3930],
        [129.0, 160.0],
        "At the water, with a view of the Bay Bridge, three blocks from the banks and four minutes \
         on foot from the Ferry Building.",
    ),
    (
        "Phoenix Hotel",
        ["(415) 776-1380", "601", "Eddy St", "94109"],
        [37.7831, -122.4181],
        [119.0, 140.0],
        "A motel of the fifties around a swimming pool, in the Tenderloin, ten minutes on foot \
         from the trains of BART. Many musicians have stayed here, because the Great American \
         Music Hall is four minutes away.",
    ),
    (
        "St. Regis San Francisco",
        ["(415) 284-4000", "125", "3rd St", "94109"],
        [37.7863, -122.4015],
        [149.0, 200.0],
        LAST,
    ),
];

/// The last description is that of all further hotels, too.
const LAST: &str = "A tower of 42 floors and 484 feet in the district South of Market, between the \
                    museum of modern art and the gardens of Yerba Buena, with rooms on its lower \
                    floors and flats above them, a pool, and a spa.";

const IN_DATE: &str = "2015-04-09";

/// The numbers of the hotels beyond those that are described.
fn further() -> std::ops::RangeInclusive<u16> {
    BASE.len() as u16 + 1..=HOTELS
}

fn place(number: u16) -> (f64, f64) {
    let along = f64::from(number) / 500.0;
    (37.7835 + along * 3.0, -122.41 + along * 4.0)
}

/// Where the hotels are. The third is not where its profile has it, as in the suite.
pub fn points() -> Vec<Point> {
    let base = BASE.iter().zip(1..).map(|((_, _, [lat, lon], ..), number)| {
        let lat = if number == 3 { 37.7854 } else { *lat };
        Point { hotel_id: format!("{number}"), lat, lon: *lon }
    });
    let further = further().map(|number| {
        let (lat, lon) = place(number);
        Point { hotel_id: number.to_string(), lat, lon }
    });
    base.chain(further).collect()
}

/// The rates by which hotels differ: without taxes, and with them.
fn rates(number: u16) -> (f64, f64) {
    match number % 5 {
        1 => (120.0, 140.0),
        2 => (124.0, 144.0),
        3 => (132.0, 158.0),
        4 => (232.0, 258.0),
        _ => (109.0, 123.17),
    }
}

/// What the hotels are recommended by.
pub fn recommended() -> Vec<Recommended> {
    let base = BASE.iter().zip(1..).map(|((_, _, [lat, lon], [rate, price], _), number)| {
        let point = Point { hotel_id: format!("{number}"), lat: *lat, lon: *lon };
        Recommended { point, rate: *rate, price: *price }
    });
    let further = further().map(|number| {
        let (lat, lon) = place(number);
        let (rate, price) = if number % 3 == 0 { rates(number) } else { (135.0, 179.0) };
        Recommended { point: Point { hotel_id: number.to_string(), lat, lon }, rate, price }
    });
    base.chain(further).collect()
}

/// The rate plans: of the first three hotels, and of every third one.
pub fn rate_plans() -> Vec<RatePlan> {
    let king = |rates| (rates, "KNG", "King sized bed");
    let first = [
        (1, "2015-04-10", king((109.0, 123.17))),
        (2, "2015-04-10", ((139.0, 153.09), "QN", "Queen sized bed")),
        (3, "2015-04-10", king((109.0, 123.17))),
    ];
    let further = further().filter(|number| number % 3 == 0).map(|number| {
        let out_date = if number % 2 == 0 { "2015-04-17" } else { "2015-04-24" };
        (number, out_date, king(rates(number)))
    });
    let plan =
        |(number, out_date, ((rate, inclusive), code, bed)): (u16, &str, (_, &str, &str))| {
            RatePlan {
                hotel_id: number.to_string(),
                code: "RACK".to_owned(),
                in_date: IN_DATE.to_owned(),
                out_date: out_date.to_owned(),
                room_type: Some(RoomType {
                    bookable_rate: rate,
                    total_rate: rate,
                    total_rate_inclusive: inclusive,
                    code: code.to_owned(),
                    currency: String::new(),
                    room_description: bed.to_owned(),
                }),
            }
        };
    first.into_iter().chain(further).map(plan).collect()
}

/// The profiles.
pub fn profiles() -> Vec<Hotel> {
    let base =
        BASE.iter().zip(1..).map(|((name, [phone, at, street, code], place, _, text), id)| {
            let [lat, lon] = place.map(|degrees| degrees as f32);
            hotel(id, name, phone, [at, street, code], (lat, lon), text)
        });
    let further = further().map(|number| {
        let along = f32::from(number) / 500.0;
        let place = (37.7835 + along * 3.0, -122.41 + along * 4.0);
        let (name, [_, at, street, code], ..) = BASE[BASE.len() - 1];
        hotel(number, name, &format!("(415) 284-40{number}"), [at, street, code], place, LAST)
    });
    base.chain(further).collect()
}

fn hotel(
    number: u16,
    name: &str,
    phone: &str,
    [at, street, code]: [&str; 3],
    (lat, lon): (f32, f32),
    description: &str,
) -> Hotel {
    let address = Address {
        street_number: at.to_owned(),
        street_name: street.to_owned(),
        city: "San Francisco".to_owned(),
        state: "CA".to_owned(),
        country: "United States".to_owned(),
        postal_code: code.to_owned(),
        lat,
        lon,
    };
    Hotel {
        id: number.to_string(),
        name: name.to_owned(),
        phone_number: phone.to_owned(),
        description: description.to_owned(),
        address: Some(address),
    }
}

/// How many rooms the hotels have.
pub fn capacities() -> Vec<(String, i64)> {
    let rooms = |number: u16| match number % 3 {
        _ if number <= BASE.len() as u16 => 200,
        1 => 300,
        2 => 250,
        _ => 200,
    };
    (1..=HOTELS).map(|number| (number.to_string(), rooms(number))).collect()
}

/// The reservation that there is at the beginning: of hotel 4, by Alice, for one room.
pub const FIRST: (&str, &str, &str, &str) = ("4", "Alice", IN_DATE, "2015-04-10");

/// A user's name and password: the number ten times.
pub fn user(number: u16) -> (String, String) {
    (format!("Cornell_{number}"), number.to_string().repeat(10))
}

/// The users, with their passwords' digests.
pub fn users() -> Vec<(String, String)> {
    let stored = |number| {
        let (name, password) = user(number);
        (name, digest(&password))
    };
    (0..=USER_LAST).map(stored).collect()
}

/// The SHA-256 of a password, in hexadecimal digits.
pub fn digest(password: &str) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_there() {
        let all = usize::from(HOTELS);
        let counts = [points().len(), recommended().len(), profiles().len(), capacities().len()];
        assert_eq!(counts, [all; 4]);
        // The first three, and 9, 12, … 78.
        assert_eq!(rate_plans().len(), 3 + 24);
        assert_eq!(users().len(), 501);
        let rooms: i64 = capacities().iter().map(|(_, rooms)| rooms).sum();
        assert_eq!(rooms, 6 * 200 + 25 * 300 + 25 * 250 + 24 * 200);
    }

    #[test]
    fn numbers_are_the_suite_s() {
        assert_eq!(digest("0000000000").len(), 64);
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest("abc"), known);
        assert_eq!(user(42), ("Cornell_42".to_owned(), "42".repeat(10)));
        let plans = rate_plans();
        let plan = plans.iter().find(|plan| plan.hotel_id == "9").expect("it has one");
        let room = plan.room_type.as_ref().expect("it has a room");
        assert_eq!((room.total_rate, room.total_rate_inclusive), (232.0, 258.0));
        assert_eq!(plan.out_date, "2015-04-24");
        assert_eq!(profiles()[79].phone_number, "(415) 284-4080");
        let last = &points()[79];
        assert!((last.lat - 38.2635).abs() < 1e-9 && (last.lon + 121.77).abs() < 1e-9);
    }
}

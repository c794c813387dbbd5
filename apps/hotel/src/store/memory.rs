//! The store in memory, for tests: the suite's data, and bookings as PostgreSQL would take them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use petasos_base::sync::{AtomicBool, AtomicU64, Ordering};

use super::{Booking, Point, Recommended, Store, Taken, data};
use crate::dates::Night;
use crate::error::Error;
use crate::messages::profile::Hotel;
use crate::messages::rate::RatePlan;

/// Rooms taken, by hotel and night.
type Bookings = BTreeMap<(String, String), i64>;

/// A store that counts how often it is asked, and may be away.
pub struct Memory {
    bookings: Mutex<Bookings>,
    asked: AtomicU64,
    is_away: AtomicBool,
}

impl Default for Memory {
    fn default() -> Memory {
        let (hotel, _, from, _) = data::FIRST;
        let first = ((hotel.to_owned(), from.to_owned()), 1);
        let (asked, is_away) = (AtomicU64::new(0), AtomicBool::new(false));
        Memory { bookings: Mutex::new(BTreeMap::from([first])), asked, is_away }
    }
}

impl Memory {
    /// How often it was asked.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    fn ask<T>(&self, answer: impl FnOnce() -> T) -> Result<T, Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(Error::away("the store is away")),
            false => Ok(answer()),
        }
    }

    fn bookings(&self) -> MutexGuard<'_, Bookings> {
        self.bookings.lock().expect("nothing panics under the lock")
    }
}

fn of<T>(all: Vec<T>, ids: &[String], id: impl Fn(&T) -> &str) -> Vec<T> {
    all.into_iter().filter(|one| ids.iter().any(|wanted| wanted == id(one))).collect()
}

impl Store for Memory {
    async fn points(&self) -> Result<Vec<Point>, Error> {
        self.ask(data::points)
    }

    async fn recommended(&self) -> Result<Vec<Recommended>, Error> {
        self.ask(data::recommended)
    }

    async fn users(&self) -> Result<Vec<(String, String)>, Error> {
        self.ask(data::users)
    }

    async fn rate_plans(&self, hotel_ids: &[String]) -> Result<Vec<RatePlan>, Error> {
        self.ask(|| of(data::rate_plans(), hotel_ids, |plan| &plan.hotel_id))
    }

    async fn profiles(&self, hotel_ids: &[String]) -> Result<Vec<Hotel>, Error> {
        self.ask(|| of(data::profiles(), hotel_ids, |hotel| &hotel.id))
    }

    async fn capacities(&self, hotel_ids: &[String]) -> Result<Vec<(String, i64)>, Error> {
        self.ask(|| of(data::capacities(), hotel_ids, |(id, _)| id))
    }

    async fn taken(&self, hotel_ids: &[String], nights: &[Night]) -> Result<Vec<Taken>, Error> {
        self.ask(|| {
            let bookings = self.bookings();
            let wanted = bookings.iter().filter(|((hotel, from), _)| {
                hotel_ids.contains(hotel) && nights.iter().any(|night| night.from == *from)
            });
            let taken = |((hotel_id, from), rooms): (&(String, String), &i64)| Taken {
                hotel_id: hotel_id.clone(),
                from: from.clone(),
                rooms: *rooms,
            };
            wanted.map(taken).collect()
        })
    }

    async fn book(&self, booking: &Booking) -> Result<bool, Error> {
        self.ask(|| {
            let mut bookings = self.bookings();
            let all = data::capacities();
            let rooms = all.iter().find(|(id, _)| *id == booking.hotel_id);
            let Some((_, capacity)) = rooms else { return false };
            let key = |night: &Night| (booking.hotel_id.clone(), night.from.clone());
            let wanted = i64::from(booking.rooms);
            let is_free =
                |night| bookings.get(&key(night)).copied().unwrap_or(0) + wanted <= *capacity;
            if !booking.nights.iter().all(is_free) {
                return false;
            }
            booking.nights.iter().for_each(|night| {
                *bookings.entry(key(night)).or_default() += wanted;
            });
            true
        })
    }
}

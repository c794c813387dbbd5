//! Which rooms are taken.
//!
//! The store decides who gets rooms: a booking is one transaction. The cache only speeds up the
//! question what is free, and may be late: a booking that comes between another service's look at
//! the store and its note in the cache is missing there until the note expires.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::hotels::{check, known};
use crate::cache::{self, Cache};
use crate::calls::Reservation;
use crate::dates::{Night, nights};
use crate::error::Error;
use crate::messages::reservation::{StayReply, StayRequest};
use crate::store::{Booking, Store};
use crate::timing::Watch;

/// How long the number of rooms taken may be remembered.
const TAKEN_EXPIRY: Duration = Duration::from_secs(60);
/// The longest name of a guest.
const CUSTOMER_BYTES_MAX: usize = 256;

/// Reservations in the store, and the numbers of rooms taken in the cache.
pub struct Reservations<S, C> {
    pub store: Arc<S>,
    pub cache: Arc<C>,
}

fn key(hotel_id: &str, from: &str) -> String {
    format!("taken:{hotel_id}:{from}")
}

fn check_rooms(rooms: i32) -> Result<(), Error> {
    match rooms {
        1.. => Ok(()),
        _ => Err(Error::invalid("a stay takes at least one room")),
    }
}

impl<S: Store, C: Cache> Reservations<S, C> {
    /// The rooms that are taken, by the cache's key.
    async fn taken(
        &self,
        hotel_ids: &[String],
        nights: &[Night],
    ) -> Result<HashMap<String, i64>, Error> {
        let keys = |ids: &[String]| -> Vec<String> {
            ids.iter().flat_map(|id| nights.iter().map(|night| key(id, &night.from))).collect()
        };
        let found = cache::found(&*self.cache, &keys(hotel_ids)).await;
        let mut taken: HashMap<String, i64> = found.into_iter().collect();
        let is_missing =
            |id: &&String| !nights.iter().all(|n| taken.contains_key(&key(id, &n.from)));
        let missing: Vec<String> = hotel_ids.iter().filter(is_missing).cloned().collect();
        if missing.is_empty() {
            return Ok(taken);
        }
        let stored = self.store.taken(&missing, nights).await?.into_iter();
        let stored = stored.map(|taken| (key(&taken.hotel_id, &taken.from), taken.rooms));
        let stored: HashMap<String, i64> = stored.collect();
        for key in keys(&missing) {
            let rooms = stored.get(&key).copied().unwrap_or(0);
            cache::keep(&*self.cache, &key, &rooms, Some(TAKEN_EXPIRY)).await;
            taken.insert(key, rooms);
        }
        Ok(taken)
    }
}

impl<S: Store, C: Cache> Reservation for Reservations<S, C> {
    async fn make_reservation(
        &self,
        request: StayRequest,
        _: &mut Watch,
    ) -> Result<StayReply, Error> {
        check(&request.hotel_ids)?;
        check_rooms(request.rooms)?;
        if request.customer_name.len() > CUSTOMER_BYTES_MAX || request.customer_name.contains('\0')
        {
            return Err(Error::invalid("nobody has such a name"));
        }
        let nights = nights(&request.in_date, &request.out_date)?;
        let hotel_id = request.hotel_ids.into_iter().next();
        let hotel_id = hotel_id.ok_or_else(|| Error::invalid("no hotel is named"))?;
        let (customer, rooms) = (request.customer_name, request.rooms);
        let booking = Booking { hotel_id, customer, nights, rooms };
        if !self.store.book(&booking).await? {
            return Ok(StayReply::default());
        }
        for night in &booking.nights {
            // If the cache is away it has nothing to forget; else the note expires.
            let _ = self.cache.delete(&key(&booking.hotel_id, &night.from)).await;
        }
        Ok(StayReply { hotel_ids: vec![booking.hotel_id] })
    }

    async fn check_availability(
        &self,
        request: StayRequest,
        _: &mut Watch,
    ) -> Result<StayReply, Error> {
        check_rooms(request.rooms)?;
        let nights = nights(&request.in_date, &request.out_date)?;
        let hotel_ids = request.hotel_ids;
        let fetch = async |missing: Vec<String>| self.store.capacities(&missing).await;
        let capacities = known("capacity", &hotel_ids, &*self.cache, fetch).await?;
        if hotel_ids.is_empty() {
            return Ok(StayReply::default());
        }
        let taken = self.taken(&hotel_ids, &nights).await?;
        let is_free = |id: &String| {
            let capacity: i64 = capacities.get(id).copied().unwrap_or(0);
            let taken = |night: &Night| taken.get(&key(id, &night.from)).copied().unwrap_or(0);
            nights.iter().all(|night| taken(night) + i64::from(request.rooms) <= capacity)
        };
        Ok(StayReply { hotel_ids: hotel_ids.into_iter().filter(is_free).collect() })
    }
}

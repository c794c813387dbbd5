//! What the services keep: a trait, PostgreSQL behind it, and for tests the same in memory.

pub mod data;
#[cfg(test)]
pub mod memory;
pub mod postgres;

use std::future::Future;

use crate::dates::Night;
use crate::error::Error;
use crate::messages::profile::Hotel;
use crate::messages::rate::RatePlan;

/// A hotel's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub hotel_id: String,
    pub lat: f64,
    pub lon: f64,
}

/// What hotels are recommended by.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommended {
    pub point: Point,
    pub rate: f64,
    pub price: f64,
}

/// Rooms that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    pub hotel_id: String,
    pub customer: String,
    pub nights: Vec<Night>,
    pub rooms: i32,
}

/// How many rooms of a hotel are taken in a night, by the night's first day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub hotel_id: String,
    pub from: String,
    pub rooms: i64,
}

/// What all services keep. What is not there is left out of the results, whose order is not
/// specified.
pub trait Store: Send + Sync + 'static {
    /// All hotels' places.
    fn points(&self) -> impl Future<Output = Result<Vec<Point>, Error>> + Send;

    /// All hotels, with what they are recommended by.
    fn recommended(&self) -> impl Future<Output = Result<Vec<Recommended>, Error>> + Send;

    /// All users: names, and the SHA-256 of passwords in hexadecimal digits.
    fn users(&self) -> impl Future<Output = Result<Vec<(String, String)>, Error>> + Send;

    /// The rate plans of these hotels.
    fn rate_plans(
        &self,
        hotel_ids: &[String],
    ) -> impl Future<Output = Result<Vec<RatePlan>, Error>> + Send;

    /// The profiles of these hotels.
    fn profiles(
        &self,
        hotel_ids: &[String],
    ) -> impl Future<Output = Result<Vec<Hotel>, Error>> + Send;

    /// How many rooms these hotels have.
    fn capacities(
        &self,
        hotel_ids: &[String],
    ) -> impl Future<Output = Result<Vec<(String, i64)>, Error>> + Send;

    /// How many rooms of these hotels are taken in each of these nights.
    fn taken(
        &self,
        hotel_ids: &[String],
        nights: &[Night],
    ) -> impl Future<Output = Result<Vec<Taken>, Error>> + Send;

    /// Takes rooms for all nights, or none: whether they were free. Of bookings at the same time,
    /// no more get rooms than there are.
    fn book(&self, booking: &Booking) -> impl Future<Output = Result<bool, Error>> + Send;
}

//! Where the hotels are.

use super::distance::{distance_km, is_place};
use crate::calls::Geo;
use crate::error::Error;
use crate::messages::geo::{NearbyReply, NearbyRequest};
use crate::store::{Point, Store};
use crate::timing::Watch;

/// How far away the hotels of an answer are at most.
const RADIUS_KM: f64 = 10.0;
/// The most hotels of an answer.
const RESULTS_MAX: usize = 5;

/// All hotels' places, read when the service starts.
pub struct GeoIndex {
    points: Vec<Point>,
}

impl GeoIndex {
    /// Reads the places.
    ///
    /// # Errors
    /// The store's.
    pub async fn load(store: &impl Store) -> Result<GeoIndex, Error> {
        Ok(GeoIndex { points: store.points().await? })
    }

    /// The nearest hotels. Of hotels at the same distance, those with the smaller names come first.
    fn nearest(&self, lat: f64, lon: f64) -> Vec<&Point> {
        let distance = |point: &Point| distance_km((lat, lon), (point.lat, point.lon));
        let all = self.points.iter().map(|point| (distance(point), point));
        let mut near: Vec<_> = all.filter(|(km, _)| *km <= RADIUS_KM).collect();
        near.sort_by(|(a, one), (b, other)| {
            a.total_cmp(b).then_with(|| one.hotel_id.cmp(&other.hotel_id))
        });
        near.into_iter().map(|(_, point)| point).take(RESULTS_MAX).collect()
    }
}

impl Geo for GeoIndex {
    async fn nearby(&self, request: NearbyRequest, _: &mut Watch) -> Result<NearbyReply, Error> {
        let (lat, lon) = (f64::from(request.lat), f64::from(request.lon));
        if !is_place(lat, lon) {
            return Err(Error::invalid("not a latitude and a longitude"));
        }
        let near = self.nearest(lat, lon).into_iter();
        Ok(NearbyReply { hotel_ids: near.map(|point| point.hotel_id.clone()).collect() })
    }
}

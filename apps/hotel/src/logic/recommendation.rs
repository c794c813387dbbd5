//! The best hotels.

use super::distance::{distance_km, is_place};
use crate::calls::Recommendation;
use crate::error::Error;
use crate::messages::recommendation::{RecommendationsReply, RecommendationsRequest};
use crate::store::{Recommended, Store};
use crate::timing::Watch;

/// What all hotels are recommended by, read when the service starts.
pub struct Recommendations {
    hotels: Vec<Recommended>,
}

impl Recommendations {
    /// Reads the hotels.
    ///
    /// # Errors
    /// The store's.
    pub async fn load(store: &impl Store) -> Result<Recommendations, Error> {
        let mut hotels = store.recommended().await?;
        hotels.sort_by(|a, b| a.point.hotel_id.cmp(&b.point.hotel_id));
        Ok(Recommendations { hotels })
    }

    /// All hotels for which `value` is the least.
    fn least(&self, value: impl Fn(&Recommended) -> f64) -> Vec<String> {
        let least = self.hotels.iter().map(&value).min_by(f64::total_cmp);
        let best = self.hotels.iter().filter(|hotel| Some(value(hotel)) == least);
        best.map(|hotel| hotel.point.hotel_id.clone()).collect()
    }
}

impl Recommendation for Recommendations {
    async fn get_recommendations(
        &self,
        request: RecommendationsRequest,
        _: &mut Watch,
    ) -> Result<RecommendationsReply, Error> {
        let here = (request.lat, request.lon);
        if !is_place(here.0, here.1) {
            return Err(Error::invalid("not a latitude and a longitude"));
        }
        let hotel_ids = match request.require.as_str() {
            "dis" => self.least(|hotel| distance_km(here, (hotel.point.lat, hotel.point.lon))),
            "rate" => self.least(|hotel| -hotel.rate),
            "price" => self.least(|hotel| hotel.price),
            _ => return Err(Error::invalid("recommended are `dis`, `rate` and `price`")),
        };
        Ok(RecommendationsReply { hotel_ids })
    }
}

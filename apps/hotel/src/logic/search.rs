//! Hotels near a place that have rates.

use crate::calls::{Geo, Rate, Search};
use crate::error::Error;
use crate::messages::geo::NearbyRequest;
use crate::messages::rate::RatesRequest;
use crate::messages::search::{SearchReply, SearchRequest};
use crate::timing::Watch;

/// Asks the service `geo` for hotels, and `rate` for their rates.
pub struct Searches<G, R> {
    pub geo: G,
    pub rate: R,
}

impl<G: Geo, R: Rate> Search for Searches<G, R> {
    async fn nearby(
        &self,
        request: SearchRequest,
        watch: &mut Watch,
    ) -> Result<SearchReply, Error> {
        let SearchRequest { lat, lon, in_date, out_date } = request;
        let near = self.geo.nearby(NearbyRequest { lat, lon }, watch).await?;
        let request = RatesRequest { hotel_ids: near.hotel_ids, in_date, out_date };
        let rates = self.rate.get_rates(request, watch).await?;
        let hotel_ids = rates.rate_plans.into_iter().map(|plan| plan.hotel_id).collect();
        Ok(SearchReply { hotel_ids })
    }
}

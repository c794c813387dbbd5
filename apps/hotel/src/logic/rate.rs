//! What rooms cost.

use std::sync::Arc;

use super::hotels::known;
use crate::cache::Cache;
use crate::calls::Rate;
use crate::error::Error;
use crate::messages::rate::{RatePlan, RatesReply, RatesRequest};
use crate::store::Store;
use crate::timing::Watch;

/// Rate plans from the cache and the store. As in the suite, the dates make no difference.
pub struct Rates<S, C> {
    pub store: Arc<S>,
    pub cache: Arc<C>,
}

impl<S: Store, C: Cache> Rate for Rates<S, C> {
    async fn get_rates(&self, request: RatesRequest, _: &mut Watch) -> Result<RatesReply, Error> {
        let fetch = async |missing: Vec<String>| {
            let plans = self.store.rate_plans(&missing).await?;
            // Also what has no plan is worth to be remembered.
            let of = |id: String| {
                let plans = plans.iter().filter(|plan| plan.hotel_id == id).cloned();
                let plans: Vec<RatePlan> = plans.collect();
                (id, plans)
            };
            Ok(missing.into_iter().map(of).collect())
        };
        let mut known = known("rate", &request.hotel_ids, &*self.cache, fetch).await?;
        let plans = request.hotel_ids.iter().filter_map(|id| known.remove(id));
        let mut rate_plans: Vec<RatePlan> = plans.flatten().collect();
        // Plans of the same rate stay in the order of the request.
        rate_plans.sort_by(|a, b| total(b).total_cmp(&total(a)));
        Ok(RatesReply { rate_plans })
    }
}

fn total(plan: &RatePlan) -> f64 {
    plan.room_type.as_ref().map_or(0.0, |room| room.total_rate)
}

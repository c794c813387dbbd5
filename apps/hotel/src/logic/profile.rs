//! What the hotels are.

use std::sync::Arc;

use super::hotels::known;
use crate::cache::Cache;
use crate::calls::Profile;
use crate::error::Error;
use crate::messages::profile::{ProfilesReply, ProfilesRequest};
use crate::store::Store;
use crate::timing::Watch;

/// Profiles from the cache and the store. As in the suite, the locale makes no difference.
pub struct Profiles<S, C> {
    pub store: Arc<S>,
    pub cache: Arc<C>,
}

impl<S: Store, C: Cache> Profile for Profiles<S, C> {
    async fn get_profiles(
        &self,
        request: ProfilesRequest,
        _: &mut Watch,
    ) -> Result<ProfilesReply, Error> {
        let fetch = async |missing: Vec<String>| {
            let hotels = self.store.profiles(&missing).await?;
            Ok(hotels.into_iter().map(|hotel| (hotel.id.clone(), hotel)).collect())
        };
        let mut known = known("profile", &request.hotel_ids, &*self.cache, fetch).await?;
        let hotels = request.hotel_ids.iter().filter_map(|id| known.remove(id)).collect();
        Ok(ProfilesReply { hotels })
    }
}

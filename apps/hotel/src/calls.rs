//! What each service does, as a trait: implemented by its logic, and by clients of every kind. So a
//! service that calls another works the same with its logic in a test, over Petasos and over tonic.
//!
//! Each method gets the watch of the request that it is called for.

use std::future::Future;

use crate::error::Error;
use crate::messages::{geo, profile, rate, recommendation, reservation, search, user};
use crate::timing::Watch;

/// The services, each with its messages' module, what Petasos' and tonic's generators call its
/// client and server, and its methods: for macros that make the same of each.
macro_rules! every_service {
    ($make:ident) => {
        $make! { Geo geo GeoClient GeoServer geo_client geo_server {
            nearby(NearbyRequest) -> NearbyReply;
        } }
        $make! { Profile profile ProfileClient ProfileServer profile_client profile_server {
            get_profiles(ProfilesRequest) -> ProfilesReply;
        } }
        $make! { Rate rate RateClient RateServer rate_client rate_server {
            get_rates(RatesRequest) -> RatesReply;
        } }
        $make! { Recommendation recommendation RecommendationClient RecommendationServer
            recommendation_client recommendation_server {
            get_recommendations(RecommendationsRequest) -> RecommendationsReply;
        } }
        $make! { Reservation reservation ReservationClient ReservationServer
            reservation_client reservation_server {
            make_reservation(StayRequest) -> StayReply;
            check_availability(StayRequest) -> StayReply;
        } }
        $make! { Search search SearchClient SearchServer search_client search_server {
            nearby(SearchRequest) -> SearchReply;
        } }
        $make! { User user UserClient UserServer user_client user_server {
            check_user(CheckRequest) -> CheckReply;
        } }
    };
}
pub(crate) use every_service;

macro_rules! traits {
    ($service:ident $module:ident $client:ident $server:ident $in_client:ident $in_server:ident {
        $($method:ident($request:ident) -> $reply:ident;)+
    }) => {
        /// The service of that name in the `.proto` files.
        pub trait $service: Send + Sync + 'static {
            $(
                /// The method of that name.
                fn $method(
                    &self,
                    request: $module::$request,
                    watch: &mut Watch,
                ) -> impl Future<Output = Result<$module::$reply, Error>> + Send;
            )+
        }
    };
}

every_service!(traits);

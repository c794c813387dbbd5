//! The frontend: what guests ask over HTTP, answered by calls to the services.

mod query;
mod server;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use serde::Serialize;

use crate::calls::{Profile, Recommendation, Reservation, Search, User};
use crate::error::{Error, Kind};
use crate::messages::profile::{Hotel, ProfilesRequest};
use crate::messages::recommendation::RecommendationsRequest;
use crate::messages::reservation::StayRequest;
use crate::messages::search::SearchRequest;
use crate::messages::user::CheckRequest;
use crate::rpc::Rpc;
use crate::service::Service;
use crate::timing::Watch;
use query::Query;
pub use server::{Http, serve};

/// What is answered: HTTP's status, and the body.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// Clients of the services that the frontend calls.
pub struct Frontend<S, P, C, R, U> {
    pub search: S,
    pub profile: P,
    pub recommendation: C,
    pub reservation: R,
    pub user: U,
}

/// The frontend over some kind of calls.
pub type FrontendOver<R> = Frontend<
    <R as Rpc>::Search,
    <R as Rpc>::Profile,
    <R as Rpc>::Recommendation,
    <R as Rpc>::Reservation,
    <R as Rpc>::User,
>;

/// Makes the frontend, which finds each service where `at` has it.
pub fn over<R: Rpc>(rpc: &R, at: impl Fn(Service) -> SocketAddr) -> FrontendOver<R> {
    Frontend {
        search: rpc.search_client(at(Service::Search)),
        profile: rpc.profile_client(at(Service::Profile)),
        recommendation: rpc.recommendation_client(at(Service::Recommendation)),
        reservation: rpc.reservation_client(at(Service::Reservation)),
        user: rpc.user_client(at(Service::User)),
    }
}

/// The language of profiles without a `locale`.
const LOCALE: &str = "en";

impl<S: Search, P: Profile, C: Recommendation, R: Reservation, U: User> Frontend<S, P, C, R, U> {
    /// Answers a request for a path with a query.
    pub async fn answer(&self, path: &str, query: &str, watch: &mut Watch) -> Answer {
        let query = Query::parse(query);
        let outcome = match path {
            "/hotels" => self.hotels(&query, watch).await,
            "/recommendations" => self.recommendations(&query, watch).await,
            "/user" => self.user(&query, watch).await,
            "/reservation" => self.reservation(&query, watch).await,
            _ => return told(404, "nothing is here"),
        };
        match outcome {
            Ok(body) => Answer { status: 200, body },
            Err(error) => refused(&error),
        }
    }

    async fn hotels(&self, query: &Query, watch: &mut Watch) -> Result<String, Error> {
        let (lat, lon) = (query.number("lat")? as f32, query.number("lon")? as f32);
        let (in_date, out_date) = (query.text("inDate")?, query.text("outDate")?);
        let request =
            SearchRequest { lat, lon, in_date: in_date.into(), out_date: out_date.into() };
        let found = self.search.nearby(request, watch).await?;
        let request = StayRequest {
            customer_name: String::new(),
            hotel_ids: found.hotel_ids,
            in_date: in_date.into(),
            out_date: out_date.into(),
            rooms: 1,
        };
        let free = self.reservation.check_availability(request, watch).await?;
        self.profiles(free.hotel_ids, query, watch).await
    }

    async fn recommendations(&self, query: &Query, watch: &mut Watch) -> Result<String, Error> {
        let request = RecommendationsRequest {
            require: query.text("require")?.into(),
            lat: query.number("lat")?,
            lon: query.number("lon")?,
        };
        let best = self.recommendation.get_recommendations(request, watch).await?;
        self.profiles(best.hotel_ids, query, watch).await
    }

    async fn profiles(
        &self,
        hotel_ids: Vec<String>,
        query: &Query,
        watch: &mut Watch,
    ) -> Result<String, Error> {
        let locale = query.text("locale").unwrap_or(LOCALE).to_owned();
        let request = ProfilesRequest { hotel_ids, locale };
        let profiles = self.profile.get_profiles(request, watch).await?;
        Ok(geo_json(&profiles.hotels))
    }

    async fn user(&self, query: &Query, watch: &mut Watch) -> Result<String, Error> {
        Ok(match self.is_user(query, watch).await? {
            true => message("Login successfully!"),
            false => message(WRONG_PASSWORD),
        })
    }

    async fn is_user(&self, query: &Query, watch: &mut Watch) -> Result<bool, Error> {
        let (username, password) = (query.text("username")?, query.text("password")?);
        let request = CheckRequest { username: username.into(), password: password.into() };
        Ok(self.user.check_user(request, watch).await?.correct)
    }

    /// Other than the suite's, this makes no reservation with a wrong password.
    async fn reservation(&self, query: &Query, watch: &mut Watch) -> Result<String, Error> {
        let request = StayRequest {
            customer_name: query.text("customerName")?.into(),
            hotel_ids: vec![query.text("hotelId")?.into()],
            in_date: query.text("inDate")?.into(),
            out_date: query.text("outDate")?.into(),
            rooms: query.count("number")?,
        };
        if !self.is_user(query, watch).await? {
            return Ok(message(WRONG_PASSWORD));
        }
        let made = self.reservation.make_reservation(request, watch).await?;
        Ok(match made.hotel_ids.is_empty() {
            true => message("Failed. Already reserved."),
            false => message("Reserve successfully!"),
        })
    }
}

const WRONG_PASSWORD: &str = "Failed. Please check your username and password.";

fn message(text: &str) -> String {
    json(&Message { message: text })
}

/// An answer that is only told.
fn told(status: u16, text: &str) -> Answer {
    Answer { status, body: message(text) }
}

fn refused(error: &Error) -> Answer {
    let status = match error.kind {
        Kind::Invalid => 400,
        Kind::Away => 503,
        Kind::Late => 504,
        Kind::Internal => 500,
    };
    told(status, &error.what)
}

/// The hotels as GeoJSON, which maps can draw.
fn geo_json(hotels: &[Hotel]) -> String {
    let feature = |hotel| Feature::of(hotel);
    let features = hotels.iter().map(feature).collect();
    json(&Collection { r#type: "FeatureCollection", features })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("no map has a key that is no text")
}

/// GeoJSON's type of that name. These are types because numbers of 32 bits stay that here.
#[derive(Serialize)]
struct Collection<'a> {
    r#type: &'static str,
    features: Vec<Feature<'a>>,
}

#[derive(Serialize)]
struct Feature<'a> {
    r#type: &'static str,
    id: &'a str,
    properties: Properties<'a>,
    geometry: Geometry,
}

#[derive(Serialize)]
struct Properties<'a> {
    name: &'a str,
    phone_number: &'a str,
}

#[derive(Serialize)]
struct Geometry {
    r#type: &'static str,
    coordinates: Option<[f32; 2]>,
}

#[derive(Serialize)]
struct Message<'a> {
    message: &'a str,
}

impl Feature<'_> {
    fn of(hotel: &Hotel) -> Feature<'_> {
        let coordinates = hotel.address.as_ref().map(|at| [at.lon, at.lat]);
        Feature {
            r#type: "Feature",
            id: &hotel.id,
            properties: Properties { name: &hotel.name, phone_number: &hotel.phone_number },
            geometry: Geometry { r#type: "Point", coordinates },
        }
    }
}

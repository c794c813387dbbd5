//! Petasos' messages from plain structs, and back.

use petasos::Msg;
use petasos::message::Message;

use super::generated::{geo, profile, rate, recommendation, reservation, search, user};
use crate::messages;

/// A plain struct that a message of Petasos carries.
pub trait Carried {
    type Message: Message;

    /// The message.
    fn message(&self) -> Msg<Self::Message>;

    /// What a message carries.
    fn of(message: &Self::Message) -> Self;
}

/// Messages whose fields are numbers, texts, and lists of texts: each with what writes it.
macro_rules! carried {
    ($($package:ident::$name:ident {
        $(number $number:ident $set_number:ident,)*
        $(text $text:ident $set_text:ident,)*
        $(list $list:ident $list_mut:ident,)*
    })+) => { $(
        impl Carried for messages::$package::$name {
            type Message = $package::$name;

            fn message(&self) -> Msg<$package::$name> {
                let mut message = $package::$name::new();
                let mut edit = message.edit();
                $(edit.$set_number(self.$number);)*
                $(edit.$set_text(&self.$text);)*
                $(edit.$list_mut().extend(&self.$list);)*
                message
            }

            fn of(message: &$package::$name) -> Self {
                Self {
                    $($number: message.$number(),)*
                    $($text: message.$text().to_owned(),)*
                    $($list: message.$list().iter().map(|text| text.to_string()).collect(),)*
                }
            }
        }
    )+ };
}

carried! {
    geo::NearbyRequest { number lat set_lat, number lon set_lon, }
    geo::NearbyReply { list hotel_ids hotel_ids_mut, }
    profile::ProfilesRequest { text locale set_locale, list hotel_ids hotel_ids_mut, }
    rate::RatesRequest {
        text in_date set_in_date, text out_date set_out_date,
        list hotel_ids hotel_ids_mut,
    }
    recommendation::RecommendationsRequest {
        number lat set_lat, number lon set_lon,
        text require set_require,
    }
    recommendation::RecommendationsReply { list hotel_ids hotel_ids_mut, }
    reservation::StayRequest {
        number rooms set_rooms,
        text customer_name set_customer_name, text in_date set_in_date, text out_date set_out_date,
        list hotel_ids hotel_ids_mut,
    }
    reservation::StayReply { list hotel_ids hotel_ids_mut, }
    search::SearchRequest {
        number lat set_lat, number lon set_lon,
        text in_date set_in_date, text out_date set_out_date,
    }
    search::SearchReply { list hotel_ids hotel_ids_mut, }
    user::CheckRequest { text username set_username, text password set_password, }
    user::CheckReply { number correct set_correct, }
}

impl Carried for messages::rate::RatesReply {
    type Message = rate::RatesReply;

    fn message(&self) -> Msg<rate::RatesReply> {
        let mut message = rate::RatesReply::new();
        let mut plans = message.rate_plans_mut();
        for plan in &self.rate_plans {
            let mut edit = plans.add();
            edit.set_hotel_id(&plan.hotel_id).set_code(&plan.code);
            edit.set_in_date(&plan.in_date).set_out_date(&plan.out_date);
            let Some(room) = &plan.room_type else { continue };
            let mut edit = edit.room_type_mut();
            edit.set_bookable_rate(room.bookable_rate).set_total_rate(room.total_rate);
            edit.set_total_rate_inclusive(room.total_rate_inclusive).set_code(&room.code);
            edit.set_currency(&room.currency).set_room_description(&room.room_description);
        }
        message
    }

    fn of(message: &rate::RatesReply) -> Self {
        let rate_plans = message.rate_plans().iter().map(|plan| messages::rate::RatePlan {
            hotel_id: plan.hotel_id().to_owned(),
            code: plan.code().to_owned(),
            in_date: plan.in_date().to_owned(),
            out_date: plan.out_date().to_owned(),
            room_type: plan.room_type().map(|room| messages::rate::RoomType {
                bookable_rate: room.bookable_rate(),
                total_rate: room.total_rate(),
                total_rate_inclusive: room.total_rate_inclusive(),
                code: room.code().to_owned(),
                currency: room.currency().to_owned(),
                room_description: room.room_description().to_owned(),
            }),
        });
        Self { rate_plans: rate_plans.collect() }
    }
}

impl Carried for messages::profile::ProfilesReply {
    type Message = profile::ProfilesReply;

    fn message(&self) -> Msg<profile::ProfilesReply> {
        let mut message = profile::ProfilesReply::new();
        let mut hotels = message.hotels_mut();
        for hotel in &self.hotels {
            let mut edit = hotels.add();
            edit.set_id(&hotel.id).set_name(&hotel.name).set_phone_number(&hotel.phone_number);
            edit.set_description(&hotel.description);
            let Some(at) = &hotel.address else { continue };
            let mut edit = edit.address_mut();
            edit.set_street_number(&at.street_number).set_street_name(&at.street_name);
            edit.set_city(&at.city).set_state(&at.state).set_country(&at.country);
            edit.set_postal_code(&at.postal_code).set_lat(at.lat).set_lon(at.lon);
        }
        message
    }

    fn of(message: &profile::ProfilesReply) -> Self {
        let hotels = message.hotels().iter().map(|hotel| messages::profile::Hotel {
            id: hotel.id().to_owned(),
            name: hotel.name().to_owned(),
            phone_number: hotel.phone_number().to_owned(),
            description: hotel.description().to_owned(),
            address: hotel.address().map(|at| messages::profile::Address {
                street_number: at.street_number().to_owned(),
                street_name: at.street_name().to_owned(),
                city: at.city().to_owned(),
                state: at.state().to_owned(),
                country: at.country().to_owned(),
                postal_code: at.postal_code().to_owned(),
                lat: at.lat(),
                lon: at.lon(),
            }),
        });
        Self { hotels: hotels.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::data;

    fn there_and_back<T: Carried>(plain: &T) -> T {
        T::of(&plain.message())
    }

    #[test]
    fn messages_carry_all_fields() {
        let reply = messages::profile::ProfilesReply { hotels: data::profiles() };
        assert_eq!(there_and_back(&reply), reply);
        let reply = messages::rate::RatesReply { rate_plans: data::rate_plans() };
        assert_eq!(there_and_back(&reply), reply);
        let request = messages::reservation::StayRequest {
            customer_name: "Alice".into(),
            hotel_ids: vec!["1".into(), "2".into()],
            in_date: "2015-04-09".into(),
            out_date: "2015-04-10".into(),
            rooms: -3,
        };
        assert_eq!(there_and_back(&request), request);
        let request = messages::search::SearchRequest {
            lat: 1.5,
            lon: -2.5,
            in_date: "a".into(),
            out_date: "b".into(),
        };
        assert_eq!(there_and_back(&request), request);
        let request = messages::user::CheckRequest { username: "a".into(), password: "b".into() };
        assert_eq!(there_and_back(&request), request);
        assert!(there_and_back(&messages::user::CheckReply { correct: true }).correct);
    }

    #[test]
    fn what_is_absent_stays_absent() {
        let plan = messages::rate::RatePlan::default();
        let reply = messages::rate::RatesReply { rate_plans: vec![plan] };
        assert_eq!(there_and_back(&reply), reply);
        let hotel = messages::profile::Hotel::default();
        let reply = messages::profile::ProfilesReply { hotels: vec![hotel] };
        assert_eq!(there_and_back(&reply), reply);
    }
}

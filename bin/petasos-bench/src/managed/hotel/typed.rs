//! Reservations behind the managed service.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use petasos::{Code, Msg, Request, Response, Status};

use super::{FROM, Guests, HOTELS, TO};
use crate::error::BenchError;
use crate::managed::messages::policies::{
    Hotel, HotelClient as Stub, HotelServer as Served, Hotels, Reservation,
};
use crate::rpc::ends::Client;
use crate::rpc::looped::{LoopClient, LoopServer};
use crate::rpc::pace::{Count, Meter, Pace};
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::typed::{LOOPBACK, behind};

struct Recommends;

impl Hotel for Recommends {
    async fn reserve(&self, _: Request<Reservation>) -> Result<Response<Hotels>, Status> {
        let mut hotels = Hotels::new();
        hotels.edit().names_mut().extend(HOTELS);
        Ok(Response::new(hotels))
    }
}

/// A server that recommends hotels, behind the service at `unix:PATH`.
///
/// # Errors
/// If that does not let it serve.
pub fn server(path: Option<&str>) -> Result<LoopServer, BenchError> {
    LoopServer::start(behind(path, Some(LOOPBACK))?, Served::new(Recommends))
}

/// Asks for hotels.
pub struct HotelClient {
    ends: LoopClient,
    callers: usize,
}

impl HotelClient {
    /// A client behind the service at `unix:PATH`.
    ///
    /// # Errors
    /// If the path names none.
    pub fn managed(
        server: SocketAddr,
        callers: usize,
        path: Option<&str>,
    ) -> Result<HotelClient, BenchError> {
        Ok(HotelClient { ends: LoopClient::new(behind(path, None)?, server)?, callers })
    }
}

impl Client for HotelClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let callers = if phase == Phase::Window { self.callers } else { 1 };
        let (pace, guests) = (Pace::new(duration, callers), Rc::new(Guests::default()));
        let stub = Stub::new(self.ends.channel.clone());
        let caller = |stub| call(stub, pace.meter(), Rc::clone(&guests));
        let counts = self.ends.run(callers, &stub, caller)?;
        let [refused, forbidden] = guests.counts();
        Ok(Turn { refused, forbidden, ..pace.turn(counts) })
    }
}

async fn call(stub: Stub, mut meter: Meter, guests: Rc<Guests>) -> Result<Count, String> {
    while meter.goes_on() {
        let name = guests.next();
        match stub.reserve(reservation(name)).await {
            Ok(hotels) => meter.ended(hotels.names().len(), HOTELS.len() as u32)?,
            Err(status) if status.code() == Code::PermissionDenied => {
                guests.refused(name)?;
                meter.refused();
            }
            Err(status) => return Err(status.to_string()),
        }
    }
    Ok(meter.count())
}

fn reservation(name: &str) -> Msg<Reservation> {
    let mut reservation = Reservation::new();
    reservation.edit().set_customer_name(name).set_from(FROM).set_to(TO).set_rooms(1);
    reservation
}

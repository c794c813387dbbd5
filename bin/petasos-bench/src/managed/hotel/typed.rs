//! Reservations behind the managed service.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use petasos::{Channel, Code, Loop, Msg, Request, Response, Status};

use super::{FROM, Guests, HOTELS, TO};
use crate::error::BenchError;
use crate::managed::messages::policies::{
    Hotel, HotelClient as Stub, HotelServer as Served, Hotels, Reservation,
};
use crate::rpc::ends::{Client, Server};
use crate::rpc::pace::{Count, Meter, Pace};
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::stop::Stop;
use crate::rpc::typed::{LOOPBACK, behind};

/// Recommends hotels.
pub struct HotelServer {
    event_loop: Loop,
    address: SocketAddr,
}

struct Recommends;

impl Hotel for Recommends {
    async fn reserve(&self, _: Request<Reservation>) -> Result<Response<Hotels>, Status> {
        let mut hotels = Hotels::new();
        hotels.edit().names_mut().extend(HOTELS);
        Ok(Response::new(hotels))
    }
}

impl HotelServer {
    /// A server behind the service at `unix:PATH`.
    ///
    /// # Errors
    /// If that does not let it serve.
    pub fn managed(path: Option<&str>) -> Result<HotelServer, BenchError> {
        let event_loop = Loop::new(behind(path, Some(LOOPBACK))?)?;
        event_loop.serve(Served::new(Recommends))?;
        let address = event_loop.local_address().ok_or("the loop does not listen")?;
        event_loop.block_on(event_loop.served())?;
        Ok(HotelServer { event_loop, address })
    }
}

impl Server for HotelServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn serve(&mut self, _: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        self.event_loop.block_on(stop.raised());
        Ok(Turn::default())
    }
}

/// Asks for hotels.
pub struct HotelClient {
    event_loop: Loop,
    channel: Channel,
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
        let event_loop = Loop::new(behind(path, None)?)?;
        let channel = event_loop.channel(server);
        Ok(HotelClient { event_loop, channel, callers })
    }
}

impl Client for HotelClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let callers = if phase == Phase::Window { self.callers } else { 1 };
        let (pace, guests) = (Pace::new(duration, callers), Rc::new(Guests::default()));
        let stub = Stub::new(self.channel.clone());
        let caller =
            |_| self.event_loop.spawn(call(stub.clone(), pace.meter(), Rc::clone(&guests)));
        let calls: Vec<_> = (0..callers).map(caller).collect();
        let counts = self.event_loop.block_on(async {
            let mut counts = Vec::new();
            for call in calls {
                counts.push(call.await.ok_or("a caller has panicked")??);
            }
            Ok::<_, BenchError>(counts)
        })?;
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

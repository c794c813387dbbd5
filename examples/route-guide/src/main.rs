//! gRPC's route guide: calls of all four kinds, with a server on its own threads and a client on
//! this one.
//!
//! `cargo run -p route-guide` runs both; with `serve ADDRESS` or `call ADDRESS` it is one of them.

use std::collections::HashMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Mutex;

use petasos::{Channel, Msg, Request, Response, Sender, Server, Status, Streaming, block_on};
use petasos_reflection::Reflection;

use routeguide::{
    Feature, OwnedRouteNote, Point, Rectangle, RouteGuide, RouteGuideClient, RouteGuideServer,
    RouteNote, RouteSummary,
};

#[allow(missing_docs, reason = "the .proto file has them")]
mod routeguide {
    petasos::include_proto!("routeguide");
}

/// A position, as a map's key.
type Place = (i32, i32);

struct Guide {
    features: Vec<Msg<Feature>>,
    /// The notes at each place, kept as long as the server lives. They are plain values, since a
    /// received message keeps the whole buffer in which it arrived.
    notes: Mutex<HashMap<Place, Vec<OwnedRouteNote>>>,
}

fn place(point: Option<&Point>) -> Place {
    point.map_or((0, 0), |point| (point.latitude(), point.longitude()))
}

fn is_within((latitude, longitude): Place, area: &Rectangle) -> bool {
    let (lo, hi) = (place(area.lo()), place(area.hi()));
    (lo.0..=hi.0).contains(&latitude) && (lo.1..=hi.1).contains(&longitude)
}

impl Guide {
    fn new() -> Guide {
        let known =
            [("Berkshire Valley Road", 409146138, -746188906), ("Wharton", 415736605, -747847522)];
        let features = known.map(|(name, latitude, longitude)| {
            let mut feature = Feature::new();
            let mut edit = feature.edit();
            edit.set_name(name);
            edit.location_mut().set_latitude(latitude).set_longitude(longitude);
            feature
        });
        Guide { features: features.into(), notes: Mutex::default() }
    }

    fn find(&self, at: Place) -> Option<&Msg<Feature>> {
        self.features.iter().find(|feature| place(feature.location()) == at)
    }

    /// Stores a note, and returns those that were there before.
    fn leave(&self, note: &RouteNote) -> Vec<OwnedRouteNote> {
        let mut notes = self.notes.lock().expect("nothing panics under the lock");
        let there = notes.entry(place(note.location())).or_default();
        let before = there.clone();
        there.push(note.into());
        before
    }
}

impl RouteGuide for Guide {
    async fn get_feature(&self, at: Request<Point>) -> Result<Response<Feature>, Status> {
        let found = self.find(place(Some(&at)));
        let found = found.ok_or_else(|| Status::not_found("nothing is there"))?;
        Ok(Response::new(found.clone()))
    }

    async fn list_features(
        &self,
        area: Request<Rectangle>,
        mut out: Sender<Feature>,
    ) -> Result<(), Status> {
        for feature in &self.features {
            if is_within(place(feature.location()), &area) {
                // Waits while the caller does not read.
                out.send(feature.clone()).await?;
            }
        }
        Ok(())
    }

    async fn record_route(
        &self,
        mut points: Streaming<Point>,
    ) -> Result<Response<RouteSummary>, Status> {
        let (mut count, mut features) = (0, 0);
        while let Some(point) = points.message().await? {
            count += 1;
            features += i32::from(self.find(place(Some(&point))).is_some());
        }
        let mut summary = RouteSummary::new();
        summary.set_point_count(count).set_feature_count(features);
        Ok(Response::new(summary))
    }

    async fn route_chat(
        &self,
        mut notes: Streaming<RouteNote>,
        mut out: Sender<RouteNote>,
    ) -> Result<(), Status> {
        while let Some(note) = notes.message().await? {
            for before in self.leave(&note) {
                out.send(before.to_message()).await?;
            }
        }
        Ok(())
    }
}

fn point((latitude, longitude): Place) -> Msg<Point> {
    let mut point = Point::new();
    point.set_latitude(latitude).set_longitude(longitude);
    point
}

fn note(at: Place, text: &str) -> Msg<RouteNote> {
    let mut note = RouteNote::new();
    let mut edit = note.edit();
    edit.set_message(text);
    edit.location_mut().set_latitude(at.0).set_longitude(at.1);
    note
}

async fn call(address: &str) -> Result<(), Box<dyn Error>> {
    let channel = Channel::connect(&format!("petasos://{address}")).await?;
    let guide = RouteGuideClient::new(channel);
    let feature = guide.get_feature(point((409146138, -746188906))).await?;
    println!("there is {}", feature.name());

    let mut area = Rectangle::new();
    let mut edit = area.edit();
    edit.lo_mut().set_latitude(400000000).set_longitude(-750000000);
    edit.hi_mut().set_latitude(420000000).set_longitude(-730000000);
    let mut features = guide.list_features(area).await?;
    while let Some(feature) = features.message().await? {
        println!("in the area: {}", feature.name());
    }

    let mut route = guide.record_route();
    for at in [(409146138, -746188906), (1, 2), (415736605, -747847522)] {
        route.send(point(at)).await?;
    }
    let summary = route.finish().await?;
    println!("{} points, {} features", summary.point_count(), summary.feature_count());

    let (mut out, mut notes) = guide.route_chat().await?;
    for text in ["first", "second", "third"] {
        out.send(note((0, 1), text)).await?;
    }
    out.close();
    while let Some(note) = notes.message().await? {
        println!("left before: {}", note.message());
    }
    Ok(())
}

fn serve(address: &str) -> Result<Server, Box<dyn Error>> {
    let guide = RouteGuideServer::new(Guide::new());
    let (_, health) = petasos_health::service();
    let mut reflection = Reflection::new();
    reflection.describe(&guide);
    reflection.describe(&health);
    let (v1, v1alpha) = reflection.services();
    let server = Server::builder().add(guide).add(health).add(v1).add(v1alpha);
    Ok(server.listen(address).start()?)
}

fn serve_until_signal(address: &str) -> Result<(), Box<dyn Error>> {
    let server = serve(address)?;
    println!("listening on {}", server.local_address().ok_or("the server listens")?);
    block_on(server.until_signal())?;
    Ok(())
}

fn both() -> Result<(), Box<dyn Error>> {
    let server = serve("127.0.0.1:0")?;
    let address = server.local_address().ok_or("the server listens")?;
    block_on(call(&address.to_string()))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => both(),
        ["serve", address] => serve_until_signal(address),
        ["call", address] => block_on(call(address)),
        _ => {
            eprintln!("usage: route-guide [serve ADDRESS | call ADDRESS]");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("route-guide: {error}");
            ExitCode::FAILURE
        }
    }
}

//! What streams carry against unary calls: both ends in one loop, over its own memory, so that
//! nothing but the software is measured.
//!
//! `cargo run --release -p petasos --example route_guide_rates`

mod generated;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use generated::{
    Feature, Point, Rectangle, RouteGuide, RouteGuideClient, RouteGuideServer, RouteNote,
    RouteSummary,
};
use petasos::{Loop, Msg, Request, Response, Sender, Status, Streaming};
use petasos_base::Clock;
use petasos_endpoint::EndpointConfig;
use petasos_netio::memory::{Hub, MemoryConfig};

const MESSAGES: u32 = 200_000;

struct Guide;

impl RouteGuide for Guide {
    async fn get_feature(&self, _: Request<Point>) -> Result<Response<Feature>, Status> {
        Ok(Response::new(Feature::new()))
    }

    async fn list_features(
        &self,
        _: Request<Rectangle>,
        mut out: Sender<Feature>,
    ) -> Result<(), Status> {
        for _ in 0..MESSAGES {
            out.send(Feature::new()).await?;
        }
        Ok(())
    }

    async fn record_route(
        &self,
        mut points: Streaming<Point>,
    ) -> Result<Response<RouteSummary>, Status> {
        while points.message().await?.is_some() {}
        Ok(Response::new(RouteSummary::new()))
    }

    async fn route_chat(
        &self,
        mut notes: Streaming<RouteNote>,
        mut out: Sender<RouteNote>,
    ) -> Result<(), Status> {
        while let Some(note) = notes.message().await? {
            out.send(note).await?;
        }
        Ok(())
    }
}

fn note() -> Msg<RouteNote> {
    let mut note = RouteNote::new();
    note.edit().set_message("sixteen letters!");
    note
}

async fn unary(guide: &RouteGuideClient) -> Result<(), Status> {
    for _ in 0..MESSAGES {
        guide.get_feature(Point::new()).await?;
    }
    Ok(())
}

async fn ping_pong(guide: &RouteGuideClient) -> Result<(), Status> {
    let (mut out, mut back) = guide.route_chat().await?;
    for _ in 0..MESSAGES {
        out.send(note()).await?;
        back.message().await?;
    }
    Ok(())
}

async fn down(guide: &RouteGuideClient) -> Result<(), Status> {
    let mut features = guide.list_features(Rectangle::new()).await?;
    while features.message().await?.is_some() {}
    Ok(())
}

async fn up(guide: &RouteGuideClient) -> Result<(), Status> {
    let mut route = guide.record_route();
    for _ in 0..MESSAGES {
        route.send(Point::new()).await?;
    }
    route.finish().await?;
    Ok(())
}

fn run() -> Result<(), Box<dyn Error>> {
    let (clock, port) = (Clock::system(), Hub::direct(MemoryConfig::default()).port());
    let event_loop = Loop::over(EndpointConfig::default(), port, clock.clone())?;
    event_loop.serve(RouteGuideServer::new(Guide))?;
    let guide = RouteGuideClient::new(event_loop.channel_to_itself());
    for _ in 0..2 {
        let mut rates = Vec::new();
        macro_rules! measure {
            ($name:ident) => {{
                let guide = guide.clone();
                let since = clock.now();
                let task = event_loop.spawn(async move { $name(&guide).await });
                event_loop.block_on(task).ok_or("it does not panic")??;
                let took: Duration = clock.now() - since;
                rates.push((stringify!($name), f64::from(MESSAGES) / took.as_secs_f64() / 1e6));
            }};
        }
        measure!(unary);
        measure!(ping_pong);
        measure!(down);
        measure!(up);
        for (name, rate) in rates {
            println!("{name}: {rate:.2} M messages/s");
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("route_guide_rates: {error}");
            ExitCode::FAILURE
        }
    }
}

//! A service written for tonic, on a Petasos server's gRPC port next to one of Petasos' own
//! services: `cargo run -p tonic-services` serves it and calls it, with a client of each library.

mod guide;
mod messages;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::process::ExitCode;

use petasos::grpc::GrpcConfig;
use petasos::{Channel, Server, message};
use petasos_tonic::AddTonic as _;

use generated::route_guide_client::RouteGuideClient as TonicClient;
use generated::route_guide_server::RouteGuideServer;

/// The code that tonic's generator makes.
mod generated {
    tonic::include_proto!("routeguide.RouteGuide");
}

/// The code that Petasos' generator makes from the same `.proto`.
mod native {
    petasos::include_proto!("routeguide");
}

fn serve() -> Result<Server, Box<dyn Error>> {
    let (_, health) = petasos_health::service();
    let server = Server::builder()
        .add(health)
        .add_tonic(RouteGuideServer::new(guide::Guide))
        .grpc("127.0.0.1:0", GrpcConfig::default())
        .start()?;
    Ok(server)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tonic-services: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let server = serve()?;
    let address = server.grpc_address().ok_or("the server has a gRPC port")?;

    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"))?;
    let mut client = TonicClient::new(endpoint.connect().await?);
    let feature = client.get_feature(messages::Point { latitude: 51, longitude: 7 }).await?;
    println!("tonic's client: {}", feature.get_ref().name);

    let channel = Channel::connect(&format!("grpc://{address}")).await?;
    let client = native::RouteGuideClient::new(channel);
    let point = message!(native::Point { latitude: 51, longitude: 7 });
    println!("Petasos' client: {}", client.get_feature(point).await?.name());
    Ok(())
}

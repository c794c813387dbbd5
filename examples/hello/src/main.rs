//! The smallest service, as two processes or, without arguments, as one.
//!
//! `cargo run -p hello -- serve`, and elsewhere `cargo run -p hello -- greet world`: over
//! datagrams, or with `--grpc` over HTTP/2 from the same server's second port.

use std::error::Error;
use std::process::ExitCode;

use petasos::grpc::GrpcConfig;
use petasos::{Channel, Request, Response, Server, Status, message};
use petasos_reflection::Reflection;

use hello::{Greeter, GreeterClient, GreeterServer, Greeting, Name};

mod hello {
    petasos::include_proto!("hello");
}

struct Friendly;

impl Greeter for Friendly {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        if request.name().is_empty() {
            return Err(Status::invalid_argument("nobody is named"));
        }
        let text = format!("hello, {}", request.name());
        Ok(Response::new(message!(Greeting { text })))
    }
}

fn serve() -> Result<Server, Box<dyn Error>> {
    let greeter = GreeterServer::new(Friendly);
    let (_, health) = petasos_health::service();
    let mut reflection = Reflection::new(); // tells `petasos list` and the like what there is
    reflection.describe(&greeter);
    reflection.describe(&health);
    let (v1, v1alpha) = reflection.services();
    let server = Server::builder()
        .add(greeter)
        .add(health)
        .add(v1)
        .add(v1alpha)
        .listen("127.0.0.1:7000")
        .grpc("127.0.0.1:7001", GrpcConfig::default()) // for gRPC clients of any make
        .start()?;
    Ok(server)
}

async fn greet(address: &str, name: &str) -> Result<String, Box<dyn Error>> {
    let greeter = GreeterClient::new(Channel::connect(address).await?);
    let greeting = greeter.greet(message!(Name { name })).await?;
    Ok(greeting.text().to_owned())
}

async fn say(address: &str, name: &str) -> Result<(), Box<dyn Error>> {
    println!("{}", greet(address, name).await?);
    Ok(())
}

async fn both() -> Result<(), Box<dyn Error>> {
    let _server = serve()?;
    println!("{} (over datagrams)", greet("petasos://127.0.0.1:7000", "world").await?);
    println!("{} (over gRPC)", greet("grpc://127.0.0.1:7001", "world").await?);
    Ok(())
}

async fn serve_until_signal() -> Result<(), Box<dyn Error>> {
    let server = serve()?;
    println!("listening on 127.0.0.1:7000, and for gRPC on 127.0.0.1:7001");
    server.until_signal().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        [] => both().await,
        ["serve"] => serve_until_signal().await,
        ["greet", name] => say("petasos://127.0.0.1:7000", name).await,
        ["greet", "--grpc", name] => say("grpc://127.0.0.1:7001", name).await,
        _ => {
            eprintln!("usage: hello [serve | greet [--grpc] NAME]");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello: {error}");
            ExitCode::FAILURE
        }
    }
}

//! The smallest service, as two processes or, without arguments, as one.
//!
//! `cargo run -p hello -- serve`, and elsewhere `cargo run -p hello -- greet world`: over
//! datagrams, or with `--grpc` over HTTP/2 from the same server's second port.

use std::error::Error;

use petasos::grpc::GrpcConfig;
use petasos::{Channel, Request, Response, Server, Status, message};

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
    let server = Server::builder()
        .add(GreeterServer::new(Friendly))
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

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => {
            let _server = serve()?;
            println!("{} (over datagrams)", greet("petasos://127.0.0.1:7000", "world").await?);
            println!("{} (over gRPC)", greet("grpc://127.0.0.1:7001", "world").await?);
        }
        ["serve"] => {
            let server = serve()?;
            println!("listening on 127.0.0.1:7000, and for gRPC on 127.0.0.1:7001");
            server.until_signal().await?;
        }
        ["greet", name] => println!("{}", greet("petasos://127.0.0.1:7000", name).await?),
        ["greet", "--grpc", name] => println!("{}", greet("grpc://127.0.0.1:7001", name).await?),
        _ => return Err("usage: hello [serve | greet [--grpc] NAME]".into()),
    }
    Ok(())
}

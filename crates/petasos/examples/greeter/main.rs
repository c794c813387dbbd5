//! A service and its client in one file, in two runtimes: a loop of its own, and a current-thread
//! Tokio runtime.
//!
//! `cargo run -p petasos --example greeter`

#[path = "../../tests/greeter/generated.rs"]
mod generated;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use petasos::{Channel, Loop, LoopConfig, Request, Response, Status};

/// The service: an ordinary type, whose methods are `async fn`s.
struct Friendly;

impl Greeter for Friendly {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        if request.name().is_empty() {
            return Err(Status::invalid_argument("nobody is named"));
        }
        let mut greeting = Greeting::new();
        greeting.edit().set_text(format!("hello, {}", request.name()));
        Ok(Response::new(greeting))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_message()))
    }
}

/// The client, in whatever runtime.
async fn greet(channel: Channel, name: &str) -> Result<String, Status> {
    let greeter = GreeterClient::new(channel);
    let mut request = Name::new();
    request.edit().set_name(name);
    let greeting = greeter.greet(request).await?;
    Ok(greeting.text().to_owned())
}

/// A loop that serves, and a channel to it. Client and server are usually different processes.
fn start() -> Result<(Loop, Channel), Box<dyn Error>> {
    let loopback = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let event_loop = Loop::new(LoopConfig { listen: Some(loopback), ..LoopConfig::default() })?;
    event_loop.serve(GreeterServer::new(Friendly))?;
    let channel = event_loop.channel(event_loop.local_address().ok_or("the loop listens")?);
    Ok((event_loop, channel))
}

fn in_a_loop() -> Result<(), Box<dyn Error>> {
    let (event_loop, channel) = start()?;
    println!("{} (in a loop)", event_loop.block_on(greet(channel, "world"))?);
    Ok(())
}

fn in_tokio() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let (event_loop, channel) = start()?;
        let driver = tokio::task::spawn_local(event_loop.drive());
        println!("{} (in Tokio)", greet(channel, "world").await?);
        driver.abort();
        Ok(())
    })
}

fn run() -> Result<(), Box<dyn Error>> {
    in_a_loop()?;
    in_tokio()
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("greeter: {error}");
            ExitCode::FAILURE
        }
    }
}

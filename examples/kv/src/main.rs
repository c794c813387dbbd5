//! A key-value store over datagrams, shared memory and gRPC: the server and its command line.
//!
//! `cargo run -p kv -- serve 127.0.0.1:7100`, and elsewhere `cargo run -p kv -- put
//! 127.0.0.1:7100 greeting hello`. With a second address, `serve` answers gRPC there, and
//! `grpc://ADDRESS` calls it.

mod store;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use petasos::grpc::GrpcConfig;
use petasos::{Channel, Msg, Server};
use petasos_health::ServingStatus;
use petasos_reflection::Reflection;

use kv::{Change, Entry, Key, Range, StoreClient, StoreServer};
use store::Memory;

#[allow(missing_docs, reason = "the .proto file has them")]
mod kv {
    petasos::include_proto!("kv");
}

const USAGE: &str = "usage: kv serve ADDRESS [GRPC_ADDRESS]
       kv put SERVER KEY VALUE
       kv get SERVER KEY
       kv delete SERVER KEY
       kv scan SERVER [PREFIX]
       kv watch SERVER [PREFIX]";

/// How long the calls of watchers, which never end by themselves, may continue after the server was
/// told to end.
const GRACE: Duration = Duration::from_secs(1);
/// The timeout of each call.
const PATIENCE: Duration = Duration::from_secs(5);

async fn serve(address: &str, grpc: Option<&str>) -> Result<(), Box<dyn Error>> {
    let store = StoreServer::new(Memory::default());
    let (reporter, health) = petasos_health::service();
    let mut reflection = Reflection::new();
    reflection.describe(&store);
    reflection.describe(&health);
    let (v1, v1alpha) = reflection.services();
    let server = Server::builder().add(store).add(health).add(v1).add(v1alpha);
    let server = server.listen(address).grace(GRACE);
    let server = match grpc {
        Some(grpc) => server.grpc(grpc, GrpcConfig::default()).start()?,
        None => server.start()?,
    };
    reporter.set("kv.Store", ServingStatus::SERVING);
    if let Some(address) = server.local_address() {
        println!("listening on {address}");
    }
    if let Some(address) = server.grpc_address() {
        println!("listening on grpc://{address}");
    }
    let ended = server.until_signal().await?;
    println!("ended; {} calls were cut off", ended.calls);
    Ok(())
}

async fn connect(server: &str) -> Result<StoreClient, Box<dyn Error>> {
    Ok(StoreClient::new(Channel::connect(server).await?))
}

fn key(key: &str) -> petasos::Request<Key> {
    let mut message = Key::new();
    message.set_key(key);
    petasos::Request::new(message).with_timeout(PATIENCE)
}

fn range(prefix: Option<&&str>) -> Msg<Range> {
    let mut range = Range::new();
    range.set_prefix(prefix.unwrap_or(&""));
    range
}

async fn put(server: &str, key: &str, value: &str) -> Result<(), Box<dyn Error>> {
    let mut entry = Entry::new();
    entry.set_key(key).set_value(value);
    let request = petasos::Request::new(entry).with_timeout(PATIENCE);
    let stored = connect(server).await?.put(request).await?;
    println!("{}", if stored.replaced() { "replaced" } else { "stored" });
    Ok(())
}

async fn get(server: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let value = connect(server).await?.get(key(name)).await?;
    let mut out = std::io::stdout();
    out.write_all(value.value())?;
    writeln!(out)?;
    Ok(())
}

async fn scan(server: &str, prefix: Option<&&str>) -> Result<(), Box<dyn Error>> {
    let mut entries = connect(server).await?.scan(range(prefix)).await?;
    while let Some(entry) = entries.message().await? {
        println!("{} = {}", entry.key(), String::from_utf8_lossy(entry.value()));
    }
    Ok(())
}

async fn delete(server: &str, name: &str) -> Result<(), Box<dyn Error>> {
    connect(server).await?.delete(key(name)).await?;
    println!("removed");
    Ok(())
}

async fn watch(server: &str, prefix: Option<&&str>) -> Result<(), Box<dyn Error>> {
    let mut changes = connect(server).await?.watch(range(prefix)).await?;
    changes.head().await?;
    println!("watching");
    while let Some(change) = changes.message().await? {
        println!("{}", shown(&change));
    }
    Ok(())
}

fn shown(change: &Change) -> String {
    match change.value() {
        Some(value) => format!("{} = {}", change.key(), String::from_utf8_lossy(value)),
        None => format!("{} is gone", change.key()),
    }
}

/// Runs a command. Returns `None` if there is no such command.
async fn run(arguments: &[&str]) -> Option<Result<(), Box<dyn Error>>> {
    Some(match arguments {
        ["serve", address] => serve(address, None).await,
        ["serve", address, grpc] => serve(address, Some(grpc)).await,
        ["put", server, key, value] => put(server, key, value).await,
        ["get", server, key] => get(server, key).await,
        ["delete", server, name] => delete(server, name).await,
        ["scan", server, prefix @ ..] if prefix.len() < 2 => scan(server, prefix.first()).await,
        ["watch", server, prefix @ ..] if prefix.len() < 2 => watch(server, prefix.first()).await,
        _ => return None,
    })
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments).await {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("kv: {error}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

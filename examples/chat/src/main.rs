//! A chat room: the server, and a member that reads lines from standard input.
//!
//! `cargo run -p chat -- serve 127.0.0.1:7200`, and elsewhere `cargo run -p chat -- join
//! 127.0.0.1:7200 ada`. With `--deaf` a member does not read what others say before its own input
//! has ended. This shows what happens to such members: they are dropped when they are too far
//! behind.

mod room;

use std::error::Error;
use std::io::BufRead;
use std::process::ExitCode;
use std::time::Duration;

use petasos::grpc::GrpcConfig;
use petasos::{Channel, Sender, Server, Streaming};
use petasos_reflection::Reflection;
use tokio::sync::mpsc;

use chat::heard::What;
use chat::{Coming, Heard, RoomClient, RoomServer, Said};
use room::Hall;

#[allow(missing_docs, reason = "the .proto file has them")]
mod chat {
    petasos::include_proto!("chat");
}

const USAGE: &str = "usage: chat serve ADDRESS [GRPC_ADDRESS]
       chat join [--deaf] SERVER NAME";

/// How long the calls of members may continue after the server was told to end.
const GRACE: Duration = Duration::from_secs(1);

async fn serve(address: &str, grpc: Option<&str>) -> Result<(), Box<dyn Error>> {
    let room = RoomServer::new(Hall::default());
    let (_, health) = petasos_health::service();
    let mut reflection = Reflection::new();
    reflection.describe(&room);
    reflection.describe(&health);
    let (v1, v1alpha) = reflection.services();
    let server = Server::builder().add(room).add(health).add(v1).add(v1alpha);
    let server = server.listen(address).grace(GRACE);
    let server = match grpc {
        Some(grpc) => server.grpc(grpc, GrpcConfig::default()).start()?,
        None => server.start()?,
    };
    if let Some(address) = server.local_address() {
        println!("listening on {address}");
    }
    if let Some(address) = server.grpc_address() {
        println!("listening on grpc://{address}");
    }
    server.until_signal().await?;
    Ok(())
}

/// Lines of standard input. They are read by a thread, because reading may block for ever.
fn input() -> mpsc::Receiver<String> {
    let (tell, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if tell.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Sends the typed lines. If the call has ended, sending fails, and the other direction has the
/// reason.
async fn talk(mut out: Sender<Said>) {
    let mut lines = input();
    while let Some(line) = lines.recv().await {
        let mut said = Said::new();
        said.set_text(line);
        if out.send(said).await.is_err() {
            return;
        }
    }
    out.close();
}

async fn listen(mut heard: Streaming<Heard>) -> Result<(), Box<dyn Error>> {
    while let Some(line) = heard.message().await? {
        match line.what() {
            Some(What::Text(text)) => println!("{}: {text}", line.who()),
            Some(What::Coming(Coming::JOINED)) => println!("* {} is here", line.who()),
            Some(What::Coming(Coming::LEFT)) => println!("* {} has left", line.who()),
            Some(What::Coming(Coming::DROPPED)) => println!("* {} was dropped", line.who()),
            // An event from a newer server.
            Some(What::Coming(_)) | None => {}
        }
    }
    Ok(())
}

async fn join(server: &str, name: &str, is_deaf: bool) -> Result<(), Box<dyn Error>> {
    let room = RoomClient::new(Channel::connect(server).await?);
    let (out, mut heard) = room.join().with_metadata("name", name)?.await?;
    let others = heard.head().await?.get("others").unwrap_or("?").to_owned();
    println!("* you are here, with {others} others");
    if is_deaf {
        talk(out).await;
        return listen(heard).await;
    }
    let talking = tokio::spawn(talk(out));
    let ended = listen(heard).await;
    talking.abort();
    ended
}

/// Runs a command. Returns `None` if there is no such command.
async fn run(arguments: &[&str]) -> Option<Result<(), Box<dyn Error>>> {
    Some(match arguments {
        ["serve", address] => serve(address, None).await,
        ["serve", address, grpc] => serve(address, Some(grpc)).await,
        ["join", "--deaf", server, name] => join(server, name, true).await,
        ["join", server, name] => join(server, name, false).await,
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
            eprintln!("chat: {error}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

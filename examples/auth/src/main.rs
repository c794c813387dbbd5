//! `cargo run -p auth`: makes calls with a valid token, with a wrong one and with none, over both
//! transports.

use std::error::Error;
use std::process::ExitCode;

use auth::{Bearer, VaultClient, serve, targets, vault::ReadRequest};
use petasos::Channel;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("auth: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let server = serve()?;
    for target in targets(&server) {
        println!("{target}");
        for token in ["t0ken-of-ada", "a guess"] {
            let channel = Channel::builder(&target).intercept(Bearer::new(token)).connect().await?;
            tell(&VaultClient::new(channel)).await;
        }
        tell(&VaultClient::new(Channel::connect(&target).await?)).await;
    }
    Ok(())
}

async fn tell(client: &VaultClient) {
    match client.read(ReadRequest::new()).await {
        Ok(secret) => println!("  {}'s secret: {}", secret.owner(), secret.text()),
        Err(status) => println!("  {status}"),
    }
}

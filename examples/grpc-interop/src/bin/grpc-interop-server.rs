//! The server: `grpc-interop-server --port N [--tls-cert FILE --tls-key FILE]`.

use std::process::ExitCode;

use grpc_interop::service::TestServiceServer;
use grpc_interop::{Interop, Load, arguments};
use petasos::Server;
use petasos::grpc::{GrpcConfig, PemFiles, ServerTls};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("grpc-interop-server: {error}");
            ExitCode::from(2)
        }
    }
}

async fn serve() -> Result<(), Failure> {
    let known = ["port", "host", "tls-cert", "tls-key"];
    let arguments = arguments::parse(std::env::args().skip(1), &known)?;
    let port: u16 = arguments.get("port").ok_or("--port is missing")?.parse()?;
    let host = arguments.get("host").map_or("127.0.0.1", String::as_str);
    let mut config = GrpcConfig::default();
    config.receive_bytes_max = 1 << 26;
    match (arguments.get("tls-cert"), arguments.get("tls-key")) {
        // Nothing in the tests is secret, and their clients have no option for consent.
        (None, None) => config.plaintext = true,
        (Some(certificate), Some(key)) => {
            let certificate = Some(certificate.into());
            let files = PemFiles { certificate, key: Some(key.into()), ..PemFiles::default() };
            config.tls = Some(ServerTls::from_files(files)?);
        }
        _ => return Err("--tls-cert and --tls-key go together".into()),
    }
    let (load, reports) = Load::new();
    let server = Server::builder().add(TestServiceServer::new(Interop { load })).add(reports);
    let server = server.grpc(format!("{host}:{port}"), config).start()?;
    let address = server.grpc_address().expect("it was asked for");
    println!("listening on {address}");
    server.until_signal().await?;
    Ok(())
}

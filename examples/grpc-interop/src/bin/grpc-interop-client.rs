//! The client: `grpc-interop-client --host H --port N --test-case NAME [--tls-ca FILE]`.
//!
//! The exit status is 0 if the case passed, 1 if it failed, and 2 if it could not be tried.

use std::process::ExitCode;

use grpc_interop::arguments;
use grpc_interop::cases::{self, Case, Target};
use petasos::grpc::{ClientConfig, ClientTls, PemFiles};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    let (case, target) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("grpc-interop-client: {error}");
            return ExitCode::from(2);
        }
    };
    match cases::run(case, &target).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("grpc-interop-client: {}: {error}", case.name);
            ExitCode::FAILURE
        }
    }
}

fn prepare() -> Result<(&'static Case, Target), Failure> {
    let known = ["host", "port", "test-case", "tls-ca", "soak-iterations"];
    let arguments = arguments::parse(std::env::args().skip(1), &known)?;
    let name = arguments.get("test-case").ok_or("--test-case is missing")?;
    let case = cases::find(name)?;
    let host = arguments.get("host").map_or("localhost", String::as_str);
    let port: u16 = arguments.get("port").ok_or("--port is missing")?.parse()?;
    let mut config = ClientConfig::default();
    // Plaintext without `--tls-ca`, as in the tests' other clients.
    config.plaintext = true;
    let mut scheme = "grpc";
    if let Some(authorities) = arguments.get("tls-ca") {
        let authorities = Some(authorities.into());
        let files = PemFiles { authorities, ..PemFiles::default() };
        config.tls = Some(ClientTls::from_files(files)?);
        scheme = "grpcs";
    }
    let iterations = arguments.get("soak-iterations").map(|text| text.parse()).transpose()?;
    let uri = format!("{scheme}://{host}:{port}");
    Ok((case, Target { uri, config, soak_iterations: iterations.unwrap_or(10) }))
}

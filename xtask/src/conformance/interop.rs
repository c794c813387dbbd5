//! `cargo xtask conformance interop`: gRPC's interoperability tests, with grpc-go at the other end.
//!
//! Our client (`examples/grpc-interop`) runs its cases against grpc-go's server, and grpc-go's
//! client runs its own against ours. Go's toolchain fetches and builds both into the target folder,
//! once. Without `go` or the network, the task reports a skip and does nothing.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::{build, need, quietly};
use crate::{TaskResult, skips, target_folder, tools};

/// grpc-go's programs, with their version.
const MODULE: &str = "google.golang.org/grpc/interop";
const VERSION: &str = "v1.76.0";

/// The cases that both clients have.
const CASES: [&str; 17] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "rpc_soak",
    "orca_per_rpc",
    "orca_oob",
];

/// grpc-go's client sees load reports with its own balancer, which must be configured for its
/// cases.
const REPORTS: &str = r#"{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}"#;

/// A server must start within this many pauses.
const PAUSES_MAX: u32 = 300;
const PAUSE: Duration = Duration::from_millis(100);

/// Runs all cases in both directions.
pub fn interop(root: &Path) -> TaskResult {
    let folder = target_folder(root, "conformance").join("grpc-go");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {folder:?}: {error}"))?;
    let (their_server, their_client) = match programs(&folder) {
        Ok(programs) => programs,
        Err(missing) => return skips::skip(root, "suites", &format!("grpc-go's: {missing}")),
    };
    let ours = build(root)?;
    let port = free_port()?;
    let server = Server::start(&their_server, &port)?;
    for case in CASES {
        println!("{case}: our client, grpc-go's server");
        let mut command = Command::new(ours.join("grpc-interop-client"));
        tools::run(command.args(["--port", &port, "--test-case", case]))?;
    }
    drop(server);
    let port = free_port()?;
    let _server = Server::start(&ours.join("grpc-interop-server"), &port)?;
    for case in CASES {
        println!("{case}: grpc-go's client, our server");
        let mut command = Command::new(&their_client);
        if case.starts_with("orca") {
            command.arg(format!("--service_config_json={REPORTS}"));
        }
        let (port, case) = (format!("--server_port={port}"), format!("--test_case={case}"));
        tools::run(command.args([&port, &case]))?;
    }
    Ok(())
}

/// grpc-go's server and client, or what is missing for them.
fn programs(folder: &Path) -> Result<(PathBuf, PathBuf), String> {
    // Go requires an absolute path.
    let folder = folder.canonicalize().map_err(|error| format!("{folder:?}: {error}"))?;
    for name in ["server", "client"] {
        if !folder.join(name).is_file() {
            need(&["go"])?;
            let package = format!("{MODULE}/{name}@{VERSION}");
            quietly(Command::new("go").args(["install", &package]).env("GOBIN", &folder))?;
        }
    }
    Ok((folder.join("server"), folder.join("client")))
}

/// A port that was free a moment ago.
fn free_port() -> Result<String, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map(|address| address.port().to_string()).map_err(|error| error.to_string())
}

/// A server that runs until this is dropped.
struct Server(Child);

impl Server {
    fn start(program: &Path, port: &str) -> Result<Server, String> {
        let mut command = Command::new(program);
        command.arg(format!("--port={port}")).stdout(Stdio::null()).stdin(Stdio::null());
        let process = command.spawn().map_err(|error| format!("{program:?}: {error}"))?;
        let mut server = Server(process);
        for _ in 0..PAUSES_MAX {
            if TcpStream::connect(format!("127.0.0.1:{port}")).is_ok() {
                return Ok(server);
            }
            if let Ok(Some(status)) = server.0.try_wait() {
                return Err(format!("{program:?} ended: {status}"));
            }
            sleep(PAUSE);
        }
        Err(format!("{program:?} does not listen"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended by itself is gone all the same.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

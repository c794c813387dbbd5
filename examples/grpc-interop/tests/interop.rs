//! Runs every case against our own server, with the same programs that are run against others.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use grpc_interop::cases;

struct Server {
    process: Child,
    port: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_grpc-interop-server"));
        command.args(["--port", "0"]).args(arguments).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the server was built");
        let output = process.stdout.take().expect("it was asked for");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("the server says where it is");
        let (_, port) = line.trim_end().rsplit_once(':').expect("the server says its port");
        Server { process, port: port.to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        killed.expect("the server runs until now");
    }
}

fn client(port: &str, case: &str, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_grpc-interop-client"));
    command.args(["--host", "localhost", "--port", port, "--test-case", case]).args(arguments);
    command.output().expect("the client was built")
}

fn run_all(server: &Server, arguments: &[&str]) {
    for case in cases::ALL {
        let output = client(&server.port, case.name, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", case.name);
    }
}

#[test]
fn every_case_in_cleartext() {
    run_all(&Server::start(&[]), &[]);
}

#[test]
fn every_case_over_tls() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (certificate, key) = write_certificate(folder);
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let server = Server::start(&["--tls-cert", certificate, "--tls-key", key]);
    run_all(&server, &["--tls-ca", certificate]);
    // A client without TLS is refused, and a client that trusts other authorities refuses the
    // server.
    assert_eq!(client(&server.port, "empty_unary", &[]).status.code(), Some(1));
    let (other, _) = write_certificate(&folder.join("other"));
    let output = client(&server.port, "empty_unary", &["--tls-ca", other.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("certificate"), "{said}");
}

#[test]
fn what_cannot_be_tried_says_so() {
    let output = client("1", "compute_engine_creds", &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no case `compute_engine_creds`"), "{said}");
    assert_eq!(client("1", "empty_unary", &["--nonsense", "1"]).status.code(), Some(2));
    assert_eq!(client("1", "empty_unary", &[]).status.code(), Some(1), "nobody listens");
}

fn write_certificate(folder: &Path) -> (PathBuf, PathBuf) {
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
    let own = own.expect("keys can be made");
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, own.cert.pem()).expect("the folder can be written");
    std::fs::write(&key, own.signing_key.serialize_pem()).expect("the folder can be written");
    (certificate, key)
}

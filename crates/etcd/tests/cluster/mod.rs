//! An etcd on ports of loopback that were free, with a folder of its own; it ends with the test.
#![allow(dead_code, reason = "each program of tests uses its own part")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use petasos::{Channel, Pem, block_on};
use petasos_etcd::api;

use crate::servers::until;

/// Where etcd is, if it is not in the path.
const PROGRAM: &str = "PETASOS_TEST_ETCD";
/// How often one is started that finds its ports taken.
const STARTS: usize = 5;

pub struct Etcd {
    process: Option<Child>,
    pub address: SocketAddr,
    peers: SocketAddr,
    data: PathBuf,
    /// Its certificates, if it speaks TLS and demands clients' certificates.
    tls: Option<Pem>,
}

pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("it is bound")
}

impl Etcd {
    /// None, with a message, if there is no etcd here.
    pub fn start(test: &str) -> Option<Etcd> {
        Etcd::start_with(test, None)
    }

    /// The same, with TLS.
    pub fn start_with(test: &str, tls: Option<Pem>) -> Option<Etcd> {
        let data = std::env::temp_dir().join(format!("petasos-{}-{test}", std::process::id()));
        for _ in 0..STARTS {
            let (address, peers, tls) = (free_address(), free_address(), tls.clone());
            let mut etcd = Etcd { process: None, address, peers, data: data.clone(), tls };
            if !etcd.spawn() {
                petasos_skips::skip("etcd", "there is no etcd");
                return None;
            }
            if etcd.comes_up() {
                return Some(etcd);
            }
        }
        panic!("etcd does not start");
    }

    /// Starts it again at the same address. False if there is no etcd here.
    pub fn run(&mut self) -> bool {
        let is_here = self.spawn();
        assert!(!is_here || self.comes_up(), "etcd does not start again");
        is_here
    }

    /// Whether it serves; otherwise it has ended: another process was faster at one of its ports.
    fn comes_up(&mut self) -> bool {
        let (process, address) = (self.process.as_mut().expect("it was started"), self.address);
        let mut has_ended = false;
        until(|| {
            let is_reached = TcpStream::connect(address).is_ok();
            has_ended = process.try_wait().is_ok_and(|status| status.is_some());
            has_ended || is_reached
        });
        !has_ended
    }

    fn spawn(&mut self) -> bool {
        let program = std::env::var(PROGRAM).unwrap_or("etcd".to_owned());
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let (clients, peers) =
            (format!("{scheme}://{}", self.address), format!("http://{}", self.peers));
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(&self.data);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("default={peers}")]);
        if let Some(tls) = &self.tls {
            self.secure(&mut command, tls);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.process = child.ok();
        self.process.is_some()
    }

    fn secure(&self, command: &mut Command, tls: &Pem) {
        std::fs::create_dir_all(&self.data).expect("there is a folder for temporary files");
        let parts = [&tls.certificate, &tls.key, &tls.authorities];
        for (option, part) in ["--cert-file", "--key-file", "--trusted-ca-file"].iter().zip(parts) {
            let file = self.data.join(format!("{}.pem", option.trim_start_matches('-')));
            std::fs::write(&file, part.as_ref().expect("it is there")).expect("it can be written");
            command.arg(option).arg(file);
        }
        command.arg("--client-cert-auth");
    }

    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // One that has ended already need not be ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Writes a key as a foreign program would. An etcd that has just started resets connections.
    pub fn put(&self, key: &str, value: &str) {
        let target = format!("grpc://{}", self.address);
        until(|| {
            let Ok(channel) = block_on(Channel::connect(&target)) else { return false };
            let mut put = api::PutRequest::new();
            put.set_key(key.as_bytes()).set_value(value.as_bytes());
            block_on(api::KVClient::new(channel).put(put)).is_ok()
        });
    }

    pub fn target(&self, prefix: &str) -> String {
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://{}/{prefix}", self.address)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

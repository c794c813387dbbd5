//! Calls over Unix sockets, and who makes them.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use common::{Service, message, run, unary};
use petasos_call::{Code, Metadata, Status};
use petasos_grpc::{ClientConfig, Connection, Drain, GrpcConfig, Process, Server};
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};

/// A path that nobody else has.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let file = format!("petasos-grpc-{}-{name}", std::process::id());
        Place(std::env::temp_dir().join(file))
    }

    /// Serves there. `/who` answers with the caller's process.
    fn serve(&self, config: GrpcConfig) {
        let service = Service::new().with("/who", |mut call| async move {
            let who = format!("{:?} {}", call.peer.process, call.peer.address);
            let _ = call.responses.send(message(who.as_bytes())).await;
            call.responses.end(Status::ok(), Metadata::new());
        });
        let listener = UnixListener::bind(&self.0).unwrap();
        tokio::spawn(Server::new(Arc::new(service), config, Drain::new()).serve_unix(listener));
    }

    async fn connect(&self) -> Result<Connection, Status> {
        Connection::connect_unix(&self.0, ClientConfig::default()).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_server_knows_the_process_that_calls() {
    run(async {
        let place = Place::new("who");
        place.serve(GrpcConfig::default());
        let connection = place.connect().await.unwrap();
        let metadata = std::fs::metadata(&place.0).unwrap();
        let (uid, gid) = {
            use std::os::unix::fs::MetadataExt;
            (metadata.uid(), metadata.gid())
        };
        let process = Process { uid, gid, pid: Some(std::process::id() as i32) };
        let said = unary(&connection, "/who", b"").await.unwrap();
        assert_eq!(said, format!("{:?} 127.0.0.1:0", Some(process)).as_bytes());
    });
}

#[test]
fn a_user_has_its_share_of_connections() {
    run(async {
        let place = Place::new("share");
        let mut config = GrpcConfig::default();
        config.connections_per_address_max = 2;
        place.serve(config);
        let first = place.connect().await.unwrap();
        let _second = UnixStream::connect(&place.0).await.unwrap();
        let mut third = UnixStream::connect(&place.0).await.unwrap();
        assert_eq!(third.read(&mut [0; 1]).await.unwrap_or(0), 0, "closed at once");
        assert!(unary(&first, "/who", b"").await.is_ok());
    });
}

#[test]
fn who_listens_nowhere_is_unavailable() {
    run(async {
        let place = Place::new("nowhere");
        let status = place.connect().await.map(drop).unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("No such file"), "{status:?}");
    });
}

//! The book, whose chapters are in `src/`: each block of Rust in them is a documentation test.
//!
//! What is here beside the chapters is what their hidden lines use: generated code of the service
//! `guide.Notebook` in two versions, a server of it, a router, a key-value server and certificates.
//!
//! Boundary rule: the chapters use nothing that a user of the facade could not.

use std::error::Error;
use std::future::Future;

use petasos::grpc::GrpcConfig;
use petasos::{Server, block_on};

pub mod certificates;
mod kv_server;
mod notes;
mod routers;

pub use kv_server::KvServer;
pub use notes::{NewerNotes, Notes};
pub use routers::{Router, until};

/// What `petasos-codegen` makes of `protos/guide.proto`.
pub mod guide {
    petasos::include_proto!("guide");
}

/// What it makes of the service of the example `hello`.
pub mod hello {
    petasos::include_proto!("hello");
}

/// What it makes of a later version of `guide.proto`.
pub mod newer {
    include!(concat!(env!("OUT_DIR"), "/newer/guide.rs"));
}

/// A server of [`Notes`] on ports that the system chooses, and the targets that lead to it, over
/// datagrams and over gRPC.
///
/// # Panics
/// If loopback has no ports.
pub fn serve() -> (Server, String, String) {
    let server = Server::builder().add(guide::NotebookServer::new(Notes::default()));
    let server = server.listen("127.0.0.1:0").grpc("127.0.0.1:0", GrpcConfig::default());
    let server = server.start().expect("loopback has ports");
    let datagrams = server.local_address().expect("the server listens");
    let grpc = server.grpc_address().expect("it does so twice");
    (server, format!("petasos://{datagrams}"), format!("grpc://{grpc}"))
}

/// Runs an example.
///
/// # Panics
/// If it fails.
pub fn run(example: impl Future<Output = Result<(), Box<dyn Error>>>) {
    block_on(example).expect("the example works");
}

/// Declares the chapters. They exist for documentation tests only, so that documentation does not
/// have them twice.
macro_rules! chapters {
    ($($name:ident)*) => { $(
        #[cfg(doctest)]
        #[doc = include_str!(concat!("src/", stringify!($name), ".md"))]
        pub mod $name {}
    )* };
}

chapters! {
    introduction getting_started messages calls streams servers channels retries interceptors
    runtimes grpc security evolution compression tools languages performance
    comparison load router operating_routers simulation redis kv quorum histories
    operations managed operating policies plugins tonic examples
    glossary
}

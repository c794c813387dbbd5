//! A server of the tests' own, over datagrams and gRPC.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::time::Duration;

use petasos::grpc::{GrpcConfig, ServerTls};
use petasos::{
    Credentials, Msg, PemFiles, Request, Response, Security, Sender, Server, ServerBuilder,
    ServiceChoice, Status, Streaming, TlsConfig,
};
use petasos_health::HealthReporter;
use petasos_reflection::Reflection;

/// The service's generated code.
pub mod generated {
    include!(concat!(env!("OUT_DIR"), "/shelf.rs"));
}
use generated::{Book, Count, Key, Shelf, ShelfServer};

/// Finds what it is asked for.
pub struct Books;

impl Shelf for Books {
    async fn find(&self, request: Request<Key>) -> Result<Response<Book>, Status> {
        match request.title() {
            "" => Err(Status::invalid_argument("a title is needed").with_details(details())),
            "slow" => std::future::pending().await,
            "lost" => Err(Status::not_found("it is lost")),
            title => {
                let mut response = Response::new(book(title, 7));
                if let Some(from) = request.metadata().get("from") {
                    response.metadata_mut().append("to", from).expect("a fine key");
                }
                response.trailers_mut().append("end", "fine").expect("a fine key");
                Ok(response)
            }
        }
    }

    async fn walk(&self, request: Request<Book>, mut out: Sender<Book>) -> Result<(), Status> {
        for page in 0..request.pages() {
            out.send(book(request.title(), page)).await?;
        }
        match request.title() {
            "torn" => Err(Status::data_loss("pages are missing")),
            _ => Ok(()),
        }
    }

    async fn put(&self, mut books: Streaming<Book>) -> Result<Response<Count>, Status> {
        let mut count = 0;
        while books.message().await?.is_some() {
            count += 1;
        }
        let mut response = Count::new();
        response.edit().set_books(count);
        Ok(Response::new(response))
    }

    async fn swap(&self, mut books: Streaming<Book>, mut out: Sender<Book>) -> Result<(), Status> {
        while let Some(book) = books.message().await? {
            out.send(book).await?;
        }
        Ok(())
    }
}

fn book(title: &str, pages: i32) -> Msg<Book> {
    let mut book = Book::new();
    book.edit().set_title(title).set_pages(pages);
    book
}

/// A `google.rpc.Status` with a `shelf.Key` of the title "any".
fn details() -> Vec<u8> {
    let key = b"\x0a\x03any";
    let url = b"type.googleapis.com/shelf.Key";
    let any = [&[0x0a, url.len() as u8][..], url, &[0x12, key.len() as u8], key].concat();
    [&[0x08, 3, 0x1a, any.len() as u8][..], &any].concat()
}

/// A running server.
pub struct Running {
    pub reporter: HealthReporter,
    /// `petasos://…`, and `grpc://…` or `grpcs://…`.
    pub addresses: [String; 2],
    _server: Server,
}

impl Running {
    /// Serves books with health, and with reflection unless it is not wanted.
    pub fn start(reflection: bool) -> Running {
        let named = |server: ServerBuilder| {
            server.listen("127.0.0.1:0").grpc("127.0.0.1:0", GrpcConfig::default())
        };
        Running::started(reflection, "grpc", named)
    }

    /// Serves under a name of the managed service, and over gRPC.
    pub fn managed(service: ServiceChoice) -> Running {
        let named = |server: ServerBuilder| {
            let server = server.service(service).listen("127.0.0.1:0");
            server.grpc("127.0.0.1:0", GrpcConfig::default())
        };
        Running::started(true, "grpc", named)
    }

    /// Serves with certificates on both ports, and lets only those in who have one, too.
    pub fn secured(files: PemFiles) -> Running {
        let mut config = GrpcConfig::default();
        config.tls = Some(ServerTls::from_files(files.clone()).expect("the files are right"));
        let tls = TlsConfig { credentials: Credentials::Files(files), allow: None };
        let secured = |server: ServerBuilder| {
            let server = server.security(Security::Tls(tls));
            server.listen("127.0.0.1:0").grpc("127.0.0.1:0", config)
        };
        Running::started(true, "grpcs", secured)
    }

    fn started(
        reflection: bool,
        scheme: &str,
        listen: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Running {
        let (reporter, health) = petasos_health::service();
        let books = ShelfServer::new(Books);
        let mut described = Reflection::new();
        described.describe(&books);
        described.describe(&health);
        let (v1, v1alpha) = described.services();
        let mut server = Server::builder().add(books).add(health);
        if reflection {
            server = server.add(v1).add(v1alpha);
        }
        let server = listen(server).grace(Duration::ZERO).start().expect("loopback is there");
        let datagrams = server.local_address().expect("it listens");
        let grpc = server.grpc_address().expect("it listens");
        let addresses = [format!("petasos://{datagrams}"), format!("{scheme}://{grpc}")];
        Running { reporter, addresses, _server: server }
    }
}

//! Calls and streams to groups over TLS: control connections, binds, first packets and links are
//! all sealed, and nothing is in plaintext (RT27 to RT29, RT37).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use petasos::{
    Channel, Code, ConnectError, Credentials, Join, Request, Response, Security, Server, Status,
    TlsConfig,
};

use crate::certificates::Authority;
use crate::flow::generated::{FlowClient, FlowServer};
use crate::flow::{chat, every_shape, in_time};
use crate::greeter::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use crate::greeter::{blob, name};
use crate::routers::Router;
use crate::servers::until;

fn tls(authority: &Authority, name: &str) -> TlsConfig {
    TlsConfig { credentials: Credentials::Pem(authority.pem(name)), allow: None }
}

/// Notes who calls.
#[derive(Clone, Default)]
struct Nosy(Arc<Mutex<Vec<String>>>);

impl Nosy {
    fn note(&self, peer: Option<petasos::Peer>) {
        let names = peer.map(|peer| peer.names().join(" ")).unwrap_or_default();
        self.0.lock().expect("no test panics under the lock").push(names);
    }
}

impl Greeter for Nosy {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        self.note(request.peer());
        Ok(Response::new(Greeting::new()))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        self.note(request.peer());
        Ok(Response::new(request.into_message()))
    }
}

async fn connect(target: &str, security: Security) -> Result<Channel, ConnectError> {
    let builder = Channel::builder(target).security(security);
    builder.connect_timeout(Duration::from_secs(20)).connect().await
}

#[test]
fn rt29_typed_calls_are_sealed_and_handlers_know_who_calls() {
    in_time(|| async {
        let authority = Authority::new("ours");
        let router = Router::sealed("hello.Greeter", tls(&authority, "router.test"));
        let nosy = Nosy::default();
        let servers = ["one.test", "two.test"].map(|name| {
            let server = Server::builder().add(GreeterServer::new(nosy.clone()));
            let server = server.security(Security::Tls(tls(&authority, name)));
            let server = server.listen("127.0.0.1:0").join(Join::new(router.target()));
            server.start().expect("loopback has ports")
        });
        until(|| servers.iter().flat_map(Server::routers).all(|at| at.is_member));
        let security = Security::Tls(tls(&authority, "caller.test"));
        let channel = connect(&router.target(), security).await.expect("it has a certificate");
        let client = GreeterClient::new(channel);
        for bytes in [0, 1, 64, 1392, 1393, 20_000, 3_000_000] {
            let sent: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            let response = client.echo(blob(&sent)).await.expect("a worker answers");
            assert!(response.bytes() == sent, "{bytes} bytes");
            client.greet(name("Ada")).await.expect("a worker answers");
        }
        let seen = nosy.0.lock().expect("no test panics under the lock");
        let is_known = |names: &String| names.contains("caller.test");
        assert!(seen.len() >= 14 && seen.iter().all(is_known), "{seen:?}");
    });
}

#[test]
fn rt37_streams_go_to_sealed_sessions() {
    in_time(|| async {
        let authority = Authority::new("ours");
        let router = Router::sealed("flow.Flow", tls(&authority, "router.test"));
        let service = crate::flow::Service::default();
        let server = Server::builder().add(FlowServer::new(service));
        let server = server.security(Security::Tls(tls(&authority, "one.test")));
        let server = server.listen("127.0.0.1:0").join(Join::new(router.target()));
        let server = server.start().expect("loopback has ports");
        until(|| server.routers().iter().all(|at| at.is_member));
        let security = Security::Tls(tls(&authority, "caller.test"));
        let channel = connect(&router.target(), security).await.expect("it has a certificate");
        let client = FlowClient::new(channel);
        every_shape(&client).await;
        chat(&client, 10, 100).await;
    });
}

#[test]
fn who_has_no_certificate_of_the_authority_calls_nobody() {
    in_time(|| async {
        let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
        let router = Router::sealed("hello.Greeter", tls(&ours, "router.test"));
        for security in [Security::default(), Security::Tls(tls(&theirs, "caller.test"))] {
            let builder = Channel::builder(&router.target()).security(security);
            let connecting = builder.connect_timeout(Duration::from_millis(500)).connect();
            let Err(refused) = connecting.await else { panic!("it is let in") };
            let ConnectError::Unreachable(status) = refused else { panic!("{refused}") };
            assert!(
                matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded),
                "{status}"
            );
        }
        // Nor is such a worker asked to serve.
        let server = Server::builder().add(GreeterServer::new(Nosy::default()));
        let server = server.listen("127.0.0.1:0").join(Join::new(router.target()));
        let server = server.start().expect("loopback has ports");
        until(|| server.routers().iter().any(|at| at.failure.is_some()));
        assert!(!server.routers()[0].is_member);
    });
}

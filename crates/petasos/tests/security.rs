//! Servers and channels over TLS, and plaintext by consent.

#[path = "../../endpoint/tests/certificates/mod.rs"]
#[allow(dead_code, reason = "the test uses its part")]
mod certificates;
mod greeter;

use std::time::Duration;

use certificates::Authority;
use greeter::generated::{Blob, Greeting, Name};
use greeter::generated::{Greeter, GreeterClient, GreeterServer};
use petasos::{
    Channel, Code, ConnectError, Credentials, Pem, Request, Response, Security, Server, StartError,
    Status, TlsConfig, block_on,
};

struct Friendly;

impl Greeter for Friendly {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        let mut greeting = Greeting::new();
        greeting.edit().set_text(format!("hello, {}", request.name()));
        Ok(Response::new(greeting))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_message()))
    }
}

fn tls(pem: Pem, allow: Option<&[&str]>) -> Security {
    let allow = allow.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    Security::Tls(TlsConfig { credentials: Credentials::Pem(pem), allow })
}

fn server(listen: &str, security: Security) -> Result<(Server, String), StartError> {
    let builder = Server::builder().add(GreeterServer::new(Friendly)).listen(listen);
    let server = builder.security(security).start()?;
    let port = server.local_address().expect("the server listens").port();
    Ok((server, format!("petasos://127.0.0.1:{port}")))
}

async fn greet(target: &str, security: Security) -> Result<String, ConnectError> {
    let builder = Channel::builder(target).security(security);
    let channel = builder.connect_timeout(Duration::from_secs(20)).connect().await?;
    let mut name = Name::new();
    name.edit().set_name("Ada");
    let greeting = GreeterClient::new(channel).greet(name).await;
    Ok(greeting.expect("who is connected may call").text().to_owned())
}

#[test]
fn both_ends_with_certificates_understand_each_other() {
    let authority = Authority::new("ours");
    let (_server, target) =
        server("127.0.0.1:0", tls(authority.pem("server"), Some(&["client"]))).expect("it starts");
    let greeting = block_on(greet(&target, tls(authority.pem("client"), None)));
    assert_eq!(greeting.expect("it is on the list"), "hello, Ada");
}

#[test]
fn strangers_and_plaintext_are_refused() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let (_server, target) =
        server("127.0.0.1:0", tls(ours.pem("server"), Some(&["client"]))).expect("it starts");
    for security in [
        tls(ours.pem("somebody"), None),
        tls(theirs.pem("client"), None),
        Security::default(),
        Security::Plaintext,
    ] {
        let refused = block_on(greet(&target, security)).expect_err("it is not let in");
        let ConnectError::Unreachable(status) = refused else { panic!("{refused}") };
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    }
}

#[test]
fn plaintext_beyond_loopback_needs_consent() {
    let refused = server("0.0.0.0:0", Security::default()).expect_err("nobody has consented");
    assert!(matches!(refused, StartError::Node(_)), "{refused}");
    let (_server, target) = server("0.0.0.0:0", Security::Plaintext).expect("it starts");
    let greeting = block_on(greet(&target, Security::Plaintext));
    assert_eq!(greeting.expect("both consent"), "hello, Ada");
}

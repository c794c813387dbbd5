//! Servers and channels over TLS, and plaintext by consent.

use std::time::Duration;

use crate::certificates::Authority;
use crate::greeter::generated::{Blob, Greeting, Name};
use crate::greeter::generated::{Greeter, GreeterClient, GreeterServer};
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

/// A server whose gRPC port is at an address of this host, in the clear.
#[cfg(feature = "grpc")]
fn grpc_server(
    address: &str,
    security: Security,
    config: petasos::grpc::GrpcConfig,
) -> Result<Server, StartError> {
    let builder = Server::builder().add(GreeterServer::new(Friendly)).security(security);
    builder.grpc(address, config).start()
}

#[test]
#[cfg(feature = "grpc")]
fn a_grpc_port_beyond_loopback_needs_consent() {
    let config = petasos::grpc::GrpcConfig::default;
    let authority = Authority::new("ours");
    for address in ["0.0.0.0:0", "[::]:0"] {
        // Certificates for datagrams do not make the port another one.
        for security in [Security::default(), tls(authority.pem("server"), None)] {
            let refused = grpc_server(address, security, config()).expect_err("nobody consents");
            assert!(matches!(refused, StartError::GrpcPlaintext(_)), "{refused}");
            let text = refused.to_string();
            assert!(text.contains("GrpcConfig::tls") && text.contains("Security::Plaintext"));
        }
        grpc_server(address, Security::Plaintext, config()).expect("the server consents");
        let mut consenting = config();
        consenting.plaintext = true;
        grpc_server(address, Security::default(), consenting).expect("the port consents");
        #[cfg(feature = "tls")]
        {
            let mut secured = config();
            let own = petasos::grpc::ServerTls::from_pem(&authority.pem("server"));
            secured.tls = Some(own.expect("it is a certificate"));
            grpc_server(address, Security::default(), secured).expect("nothing is in the clear");
        }
    }
    for address in ["127.0.0.1:0", "127.1.2.3:0", "[::1]:0"] {
        grpc_server(address, Security::default(), config()).expect("loopback needs no consent");
    }
}

#[test]
#[cfg(feature = "grpc")]
fn a_grpc_channel_beyond_loopback_needs_consent() {
    let config = petasos::grpc::GrpcConfig::default();
    let server = grpc_server("0.0.0.0:0", Security::Plaintext, config).expect("it starts");
    let port = server.grpc_address().expect("it listens").port();
    // Linux takes it for this host; to us it is any address.
    let target = format!("grpc://0.0.0.0:{port}");
    let refused = block_on(greet(&target, Security::default())).expect_err("nobody consents");
    let ConnectError::Unreachable(status) = refused else { panic!("{refused}") };
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().ends_with("takes express consent"), "{status}");
    let greeting = block_on(greet(&target, Security::Plaintext));
    assert_eq!(greeting.expect("the channel consents"), "hello, Ada");
    let mut config = petasos::grpc::ClientConfig::default();
    config.plaintext = true;
    let connected = block_on(Channel::builder(&target).grpc(config).connect());
    connected.expect("the connection consents");
    let loopback = format!("grpc://127.0.0.1:{port}");
    let greeting = block_on(greet(&loopback, Security::default()));
    assert_eq!(greeting.expect("loopback needs no consent"), "hello, Ada");
}

//! An etcd with users, or with TLS: who may read and write there, and what others are told.

mod cluster;
#[path = "../../petasos/tests/greeter/mod.rs"]
mod greeter;
#[path = "../../petasos/tests/servers/mod.rs"]
mod servers;

use std::net::SocketAddr;
use std::time::Duration;

use cluster::{Etcd, free_address};
use greeter::generated::GreeterClient;
use greeter::{Service, name};
use petasos::grpc::ClientTls;
use petasos::{Channel, Code, ConnectError, Pem, Request, Status, block_on};
use petasos_etcd::{EtcdOptions, RegisterError, Registration, api};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use servers::{PATIENCE, start, until};

const LIFE: Duration = Duration::from_secs(3);
const PREFIX: &str = "test/guide";

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("there is randomness");
    CertifiedIssuer::self_signed(params, key).expect("it can be signed")
}

/// A certificate for `name`, by an authority that vouches for the others too.
fn pem(authority: &Authority, name: &str) -> Pem {
    let params = CertificateParams::new(vec![name.to_owned()]).expect("it is a name");
    let key = KeyPair::generate().expect("there is randomness");
    let certificate = params.signed_by(&key, authority).expect("it can be signed");
    Pem {
        certificate: Some(certificate.pem().into_bytes()),
        key: Some(key.serialize_pem().into_bytes()),
        authorities: Some(authority.pem().into_bytes()),
    }
}

fn tls(pem: &Pem) -> EtcdOptions {
    EtcdOptions::new().tls(ClientTls::from_pem(pem).expect("it can be used"))
}

/// Registers, as soon as etcd has a leader.
fn register(etcd: &Etcd, options: &EtcdOptions, address: SocketAddr) -> Registration {
    let mut registration = None;
    until(|| {
        let registered = block_on(options.register(&etcd.target(PREFIX), address, LIFE));
        registration = registered.ok();
        registration.is_some()
    });
    registration.expect("it was just made")
}

/// What somebody who may not register is told.
fn refusal(etcd: &Etcd, options: &EtcdOptions) -> Status {
    match block_on(options.register(&etcd.target(PREFIX), free_address(), LIFE)) {
        Err(RegisterError::Etcd(status)) => status,
        other => panic!("it should be refused: {other:?}"),
    }
}

fn client(etcd: &Etcd, options: &EtcdOptions) -> GreeterClient {
    let channel = options.channel(&etcd.target(PREFIX)).expect("it is a target");
    GreeterClient::new(channel.connect_lazily().expect("the target is one"))
}

fn greet(client: &GreeterClient) -> Result<(), Status> {
    let request = Request::new(name("x")).with_timeout(PATIENCE / 2);
    block_on(client.greet(request)).map(drop)
}

/// Gives etcd the users root and guide, and visitor, who has no permission.
fn add_users(etcd: &Etcd) -> api::AuthClient {
    let channel = block_on(Channel::connect(&format!("grpc://{}", etcd.address)));
    let auth = api::AuthClient::new(channel.expect("etcd is up"));
    let mut role = api::AuthRoleAddRequest::new();
    role.edit().set_name("root");
    until(|| block_on(auth.role_add(role.clone())).is_ok());
    for user in ["root", "guide", "visitor"] {
        let mut add = api::AuthUserAddRequest::new();
        add.edit().set_name(user).set_password("sesame");
        block_on(auth.user_add(add)).expect("etcd takes it");
    }
    for user in ["root", "guide"] {
        let mut grant = api::AuthUserGrantRoleRequest::new();
        grant.edit().set_user(user).set_role("root");
        block_on(auth.user_grant_role(grant)).expect("etcd takes it");
    }
    block_on(auth.auth_enable(api::AuthEnableRequest::new())).expect("etcd has its root");
    auth
}

/// Gives guide the same password again, which ends all tokens of guide.
fn end_tokens(auth: &api::AuthClient) {
    let mut ask = api::AuthenticateRequest::new();
    ask.edit().set_name("root").set_password("sesame");
    let token = block_on(auth.authenticate(ask)).expect("it is root's").token().to_owned();
    let mut change = api::AuthUserChangePasswordRequest::new();
    change.edit().set_name("guide").set_password("sesame");
    let mut change = Request::new(change);
    change.metadata_mut().append("token", &token).expect("a token is metadata");
    block_on(auth.user_change_password(change)).expect("root may");
}

#[test]
fn users_need_their_passwords() {
    let Some(etcd) = Etcd::start("users") else { return };
    add_users(&etcd);
    let guide = EtcdOptions::new().user("guide", "sesame");
    let service = Service::default();
    let server = start(&service);
    let _registered = register(&etcd, &guide, server.local_address().expect("it listens"));
    greet(&client(&etcd, &guide)).expect("guide may read");

    let wrong = EtcdOptions::new().user("guide", "open-up");
    let nobody = EtcdOptions::new();
    for (options, part) in [(&wrong, "password is wrong"), (&nobody, "wants a user")] {
        let status = refusal(&etcd, options);
        assert_eq!(status.code(), Code::Unauthenticated, "{status}");
        assert!(status.message().contains(part), "{status}");
        assert!(!status.message().contains("open-up"), "{status}");
        let status = greet(&client(&etcd, options)).expect_err("the list cannot be read");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(status.message().contains(part), "{status}");
    }
    let visitor = refusal(&etcd, &EtcdOptions::new().user("visitor", "sesame"));
    assert_eq!(visitor.code(), Code::PermissionDenied, "{visitor}");
    assert!(visitor.message().contains("`visitor`"), "{visitor}");
}

#[test]
fn tokens_that_have_ended_are_renewed() {
    let Some(etcd) = Etcd::start("tokens") else { return };
    let auth = add_users(&etcd);
    let guide = EtcdOptions::new().user("guide", "sesame");
    let services = [Service::default(), Service::default()];
    let servers = services.each_ref().map(start);
    let addresses = servers.each_ref().map(|server| server.local_address().expect("it listens"));
    let first = register(&etcd, &guide, addresses[0]);
    let client = client(&etcd, &guide);
    greet(&client).expect("it is listed");
    end_tokens(&auth);
    // The follower reads the change with a token that has ended, and the first registration takes
    // its address out.
    let _second = register(&etcd, &guide, addresses[1]);
    block_on(first.end());
    until(|| {
        let before = services[0].seen().begun;
        let _may_find_none = greet(&client);
        services[0].seen().begun == before && services[1].seen().begun > 0
    });
}

#[test]
fn an_etcd_without_users_is_asked_as_nobody() {
    let Some(etcd) = Etcd::start("nobody") else { return };
    let guide = EtcdOptions::new().user("guide", "sesame");
    let service = Service::default();
    let server = start(&service);
    let _registered = register(&etcd, &guide, server.local_address().expect("it listens"));
    greet(&client(&etcd, &guide)).expect("it is listed");
}

#[test]
fn tls_needs_the_authority_and_a_certificate() {
    let authority = authority("ours");
    let Some(etcd) = Etcd::start_with("tls", Some(pem(&authority, "127.0.0.1"))) else { return };
    let own = pem(&authority, "guide");
    let service = Service::default();
    let server = start(&service);
    let _registered = register(&etcd, &tls(&own), server.local_address().expect("it listens"));
    greet(&client(&etcd, &tls(&own))).expect("it is listed");

    let foreign =
        Pem { authorities: Some(self::authority("theirs").pem().into_bytes()), ..own.clone() };
    let status = refusal(&etcd, &tls(&foreign));
    assert!(status.message().contains("UnknownIssuer"), "{status}");
    let status = greet(&client(&etcd, &tls(&foreign))).expect_err("etcd is not trusted");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let without = Pem { certificate: None, key: None, ..own };
    assert_eq!(refusal(&etcd, &tls(&without)).code(), Code::Unavailable);
}

#[test]
fn plaintext_beyond_this_host_takes_consent() {
    // An address for documentation: nothing is sent there without consent.
    let target = "etcd://192.0.2.1:2379/x";
    let refused = block_on(Registration::new(target, free_address(), LIFE));
    let Err(RegisterError::Etcd(status)) = refused else { panic!("{refused:?}") };
    assert!(status.message().contains("consent"), "{status}");
    let unasked = petasos_etcd::channel("etcds://127.0.0.1:2379/x").expect_err("there is no TLS");
    assert!(matches!(unasked, ConnectError::NoTls), "{unasked}");
}

//! Servers that join, and what they are told.

use std::net::SocketAddr;

use super::*;

/// What starting a server says that joins like this.
fn refused(options: &petasos_server_options) -> String {
    let (service, mut server) = (service(), null_mut());
    // SAFETY: all that is passed lives until the call returns; the service is freed once.
    unsafe {
        let services = [service.cast_const()];
        let code = petasos_server_start(services.as_ptr(), 1, options, &mut server);
        petasos_service_free(service);
        assert_eq!((code, server), (PETASOS_INVALID_ARGUMENT, null_mut()));
    }
    message()
}

#[test]
fn what_joining_lacks_is_told() {
    let of = |target: *const _| petasos_join_options { target, ..join_options() };
    let cases = [
        (of(null()), "the group must not be null"),
        (of(c"petasos://127.0.0.1:7000".as_ptr()), "petasos://127.0.0.1:7000"),
        (petasos_join_options { struct_bytes: 1, ..of(null()) }, "struct_bytes"),
    ];
    for (options, expected) in &cases {
        let joins = [&raw const *options];
        let options =
            petasos_server_options { joins: joins.as_ptr(), join_count: 1, ..server_options(0) };
        let told = refused(&options);
        assert!(told.contains(expected), "{told}");
    }
    let nothing = petasos_server_options { join_count: 1, ..server_options(0) };
    assert_eq!(refused(&nothing), "the groups must not be null");
    let options = of(c"router://127.0.0.1:7000".as_ptr());
    let joins = [&raw const options];
    let (joins, listen) = (joins.as_ptr(), c"127.0.0.1:0".as_ptr());
    let over_grpc = petasos_server_options {
        listen: null(),
        grpc_listen: listen,
        joins,
        join_count: 1,
        ..server_options(0)
    };
    let told = refused(&over_grpc);
    assert!(told.contains("listens itself"), "{told}");
}

#[test]
fn a_server_knows_where_it_is_a_member() {
    let (router, other, service) = (Router::start("t.Echo"), Router::start("t.Other"), service());
    let address = |router: &Router| -> SocketAddr {
        router.target().replace("router://", "").parse().expect("it is an address")
    };
    let target = |router: &Router| CString::new(router.target()).expect("no zeros");
    let targets = [target(&router), target(&other)];
    let options =
        targets.each_ref().map(|it| petasos_join_options { target: it.as_ptr(), ..join_options() });
    let joins = options.each_ref().map(|it| &raw const *it);
    let with = petasos_server_options { joins: joins.as_ptr(), join_count: 2, ..server_options(0) };
    let server = start(service, &with);
    // SAFETY: the server is valid.
    let joined = |index| unsafe { petasos_server_joined(server, index) };
    // Routers are in the order of their addresses.
    let (fine, wrong) = if address(&router) < address(&other) { (0, 1) } else { (1, 0) };
    until(|| joined(fine) == PETASOS_OK);
    until(|| joined(wrong) == PETASOS_UNAVAILABLE);
    let told = message();
    assert!(told.contains(&address(&other).to_string()) && told.contains("t.Other"), "{told}");
    assert_eq!(joined(2), PETASOS_END);
    // SAFETY: each is freed once.
    unsafe {
        petasos_server_free(server);
        petasos_service_free(service);
        assert_eq!(petasos_server_joined(null(), 0), PETASOS_INVALID_ARGUMENT);
    }
}

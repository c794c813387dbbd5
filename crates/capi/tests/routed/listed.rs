//! Groups whose routers are listed in etcd.

use std::time::Duration;

use petasos::block_on;
use petasos_etcd::Registration;

use super::*;
use crate::cluster::Etcd;

#[test]
fn a_server_joins_and_a_client_calls_by_a_list_in_etcd() {
    let Some(etcd) = Etcd::start("capi") else { return };
    let (router, service) = (Router::start("t.Echo"), service());
    let target = format!("router+{}", etcd.target("groups/echo"));
    let address = router.target().replace("router://", "").parse().expect("it is an address");
    let listed = Registration::new(&target, address, Duration::from_secs(60));
    let listed = block_on(listed).expect("etcd is there");
    let server = join(service, &target, 0, &join_options());
    let client = connect(&target, service);
    let call = call(client, &routing(PETASOS_ROUTE_ANY));
    let mut accepted = null_mut();
    // SAFETY: handles are valid, and freed once.
    unsafe {
        assert_eq!(petasos_server_accept(server, LONG_US, &mut accepted), PETASOS_OK);
        let sent = petasos_call_send(accepted, HELLO.as_ptr(), HELLO.len(), LONG_US);
        assert_eq!(sent, PETASOS_OK, "{}", message());
        assert_eq!(finish(accepted, PETASOS_OK), PETASOS_OK);
        assert_eq!(receive(call).as_deref(), Ok(HELLO));
        petasos_call_free(call);
        petasos_client_free(client);
        petasos_server_free(server);
        petasos_service_free(service);
    }
    block_on(listed.end());
}

#[test]
fn lists_that_cannot_be_meant_are_refused() {
    let mut channel = null_mut();
    for (target, expected) in [
        (c"router+etcd://127.0.0.1:1", "router+etcd://127.0.0.1:1: "),
        (c"etcds://127.0.0.1:1/servers", "ETCDCTL_CACERT"),
    ] {
        // SAFETY: all that is passed lives until the call returns.
        let code = unsafe { petasos_channel_open(target.as_ptr(), null(), &mut channel) };
        assert_eq!((code, channel), (PETASOS_INVALID_ARGUMENT, null_mut()));
        assert!(message().contains(expected), "{}", message());
    }
    let servers =
        petasos_join_options { target: c"etcd://127.0.0.1:1/servers".as_ptr(), ..join_options() };
    let (joins, service, mut server) = ([&raw const servers], service(), null_mut());
    let options =
        petasos_server_options { joins: joins.as_ptr(), join_count: 1, ..server_options(0) };
    // SAFETY: as above; the service is freed once.
    unsafe {
        let code = petasos_server_start(&service.cast_const(), 1, &options, &mut server);
        assert_eq!((code, server), (PETASOS_INVALID_ARGUMENT, null_mut()));
        petasos_service_free(service);
    }
    assert!(message().contains("etcd://127.0.0.1:1/servers"), "{}", message());
}

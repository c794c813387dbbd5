//! What C programs rely on, by way of a router: the calls of `abi`, routes, and joining.

#[path = "../abi/calls.rs"]
mod calls;
#[path = "../../../etcd/tests/cluster/mod.rs"]
mod cluster;
#[path = "../../../petasos/tests/servers/until.rs"]
mod patience;
#[path = "../../../../docs/book/routers.rs"]
mod routers;
#[path = "../abi/world.rs"]
mod world;

mod joining;
mod listed;
mod routes;

/// What the etcd of tests waits with.
mod servers {
    pub use crate::patience::until;
}

use std::ffi::CString;
use std::ptr::{null, null_mut};

use petasos_capi::*;
use routers::{Router, until};
use world::*;

/// A router is between client and server.
fn new_world(calls_max: usize) -> World {
    of_group(Router::start("t.Echo"), calls_max)
}

fn of_group(router: Router, calls_max: usize) -> World {
    let (service, target) = (service(), router.target());
    let server = join(service, &target, calls_max, &join_options());
    let client = connect(&target, service);
    // SAFETY: it is freed once.
    unsafe { petasos_service_free(service) };
    World { server, client, between: Some(Box::new(router)) }
}

/// Without a target yet.
fn join_options() -> petasos_join_options {
    let struct_bytes = size_of::<petasos_join_options>();
    petasos_join_options { struct_bytes, target: null(), bound: 0, weight: 0, is_primary: false }
}

/// A server that is a member of the group when this returns.
fn join(
    service: *const petasos_service,
    target: &str,
    calls_max: usize,
    options: &petasos_join_options,
) -> *mut petasos_server {
    let target = CString::new(target).expect("no zeros");
    let options = petasos_join_options { target: target.as_ptr(), ..*options };
    let joins = [&raw const options];
    let options = petasos_server_options {
        joins: joins.as_ptr(),
        join_count: 1,
        ..server_options(calls_max)
    };
    let server = start(service, &options);
    // SAFETY: the server is valid.
    until(|| unsafe { petasos_server_joined(server, 0) } == PETASOS_OK);
    server
}

/// Starts a call of `One`, routed.
fn call(client: *const petasos_client, routing: &petasos_routing) -> *mut petasos_call {
    let mut call = null_mut();
    let (method, data, length) = (c"One".as_ptr(), HELLO.as_ptr(), HELLO.len());
    // SAFETY: all that is passed lives until the call returns.
    let code = unsafe {
        petasos_call_start_routed(client, method, data, length, 0, null(), routing, &mut call)
    };
    assert_eq!(code, PETASOS_OK, "{}", message());
    call
}

fn routing(policy: u32) -> petasos_routing {
    petasos_routing {
        struct_bytes: size_of::<petasos_routing>(),
        policy,
        priority: 0,
        is_idempotent: false,
        key: null(),
        key_length: 0,
    }
}

//! How calls are routed, and what the router refuses.

use petasos_router_control::GroupSettings;

use super::*;

/// Accepts a call at any of these servers, and answers it. The server's index.
fn answer(servers: &[*mut petasos_server]) -> usize {
    let mut call = null_mut();
    loop {
        for (index, server) in servers.iter().enumerate() {
            // SAFETY: the server and the call are valid.
            unsafe {
                if petasos_server_accept(*server, 1000, &mut call) == PETASOS_OK {
                    let sent = petasos_call_send(call, HELLO.as_ptr(), HELLO.len(), LONG_US);
                    assert_eq!(sent, PETASOS_OK, "{}", message());
                    assert_eq!(finish(call, PETASOS_OK), PETASOS_OK);
                    return index;
                }
            }
        }
    }
}

/// The servers that answer such calls, one after the other.
fn answering(
    client: *const petasos_client,
    servers: &[*mut petasos_server],
    routing: &petasos_routing,
    calls: usize,
) -> Vec<usize> {
    let one = |_| {
        let call = call(client, routing);
        let index = answer(servers);
        assert_eq!(receive(call).as_deref(), Ok(HELLO));
        assert_eq!(receive(call), Err(PETASOS_END));
        // SAFETY: it is freed once.
        unsafe { petasos_call_free(call) };
        index
    };
    (0..calls).map(one).collect()
}

#[test]
fn rt5_a_call_goes_to_the_primary_by_a_key_or_to_anybody() {
    let (router, service) = (Router::start("t.Echo"), service());
    let plain = join_options();
    let primary = petasos_join_options { is_primary: true, bound: 8, weight: 100, ..plain };
    let target = router.target();
    let servers = [&plain, &primary, &plain].map(|options| join(service, &target, 0, options));
    let client = connect(&target, service);
    let ask = |routing: &petasos_routing, calls| answering(client, &servers, routing, calls);
    assert_eq!(ask(&routing(PETASOS_ROUTE_PRIMARY), 10), [1; 10]);
    let by_key = |key: u8| {
        let (key, key_length, policy) = (&raw const key, 1, PETASOS_ROUTE_KEY);
        ask(&petasos_routing { key, key_length, ..routing(policy) }, 1)[0]
    };
    let first: Vec<_> = (0..60).map(by_key).collect();
    let again: Vec<_> = (0..60).map(by_key).collect();
    // While a worker's feedback is late, its keys may go to others.
    let stay = first.iter().zip(&again).filter(|(first, again)| first == again).count();
    assert!(stay >= 40, "{stay} of 60 keys have the same worker: {first:?} {again:?}");
    assert!((0..3).all(|who| first.contains(&who)), "keys are spread: {first:?}");
    let anybody = petasos_routing { is_idempotent: true, priority: 15, ..routing(0) };
    let mut seen = [false; 3];
    while seen != [true; 3] {
        ask(&anybody, 1).into_iter().for_each(|who| seen[who] = true);
    }
    // SAFETY: each is freed once.
    unsafe {
        petasos_client_free(client);
        servers.into_iter().for_each(|server| petasos_server_free(server));
        petasos_service_free(service);
    }
}

#[test]
fn a_router_whose_queue_is_full_says_so() {
    let mut settings = GroupSettings { services: vec!["t.Echo".into()], ..Default::default() };
    settings.plane.core.policy = "jbsq1".parse().expect("it is a policy");
    settings.plane.core.waiting_max = 2;
    settings.plane.core.waiting_age_max = None;
    let world = of_group(Router::with(settings), 0);
    let first = world.call(0);
    let there = world.accept();
    // The worker has all that it takes; one may wait, and the other place is for other clients.
    let others = [(); 4].map(|()| world.call(0));
    let waits = |call: &*mut petasos_call| {
        // SAFETY: the call is valid, and gives no message.
        let code = unsafe { petasos_call_receive(*call, 1000, &mut nothing()) };
        if code != PETASOS_TIMED_OUT {
            let expected = "the queue of the group's router is full".to_owned();
            assert_eq!((code, message()), (PETASOS_RESOURCE_EXHAUSTED, expected));
        }
        code == PETASOS_TIMED_OUT
    };
    let mut waiting = others.to_vec();
    while waiting.len() > 1 {
        waiting.retain(waits);
    }
    assert_eq!(finish(there, PETASOS_ABORTED), PETASOS_OK);
    assert_eq!(receive(first), Err(PETASOS_ABORTED));
    // SAFETY: each is freed once.
    unsafe {
        petasos_call_free(first);
        others.into_iter().for_each(|call| petasos_call_free(call));
    }
}

#[test]
fn routes_that_do_not_exist_are_refused() {
    let world = new_world(0);
    let start = |routing: &petasos_routing| {
        let (method, mut call) = (c"One".as_ptr(), null_mut());
        // SAFETY: all that is passed lives until the call returns.
        let code = unsafe {
            petasos_call_start_routed(
                world.client,
                method,
                null(),
                0,
                0,
                null(),
                routing,
                &mut call,
            )
        };
        assert!(call.is_null());
        (code, message())
    };
    let any = routing(PETASOS_ROUTE_ANY);
    let cases = [
        (petasos_routing { policy: 3, ..any }, "3 is no route policy"),
        (petasos_routing { priority: 16, ..any }, "the priority is above 15"),
        (petasos_routing { key: b"k".as_ptr(), key_length: 1, ..any }, "a key is for"),
        (petasos_routing { key_length: 1, ..routing(PETASOS_ROUTE_KEY) }, "must not be null"),
        (petasos_routing { struct_bytes: 8, ..any }, "struct_bytes"),
    ];
    for (routing, expected) in cases {
        let (code, told) = start(&routing);
        assert!(code == PETASOS_INVALID_ARGUMENT && told.contains(expected), "{code}: {told}");
    }
}

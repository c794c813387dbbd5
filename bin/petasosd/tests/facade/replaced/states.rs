//! What policies have counted goes on at the successor.

use petasos::{Code, Request, Status, block_on};
use petasos_admin::ChangeRequest;

use super::chain::Chain;
use super::hostile::{HELLO, SERVING, connect, hear_packet, operator, say};
use crate::objects::compile;
use crate::support::managed::WorkClient;
use crate::support::*;

/// A bucket that takes longer to fill than any test.
const BURST: u32 = 1000;
const SLOW: &str = r#"{"rate_per_s": 1, "burst": 1000, "waiting_max": 0, "by": "application"}"#;

fn is_up(client: &WorkClient) -> bool {
    block_on(client.echo(item("up", 1))).is_ok()
}

/// A call that fails at the server, or before.
fn fail(client: &WorkClient) -> Status {
    let unavailable = i64::from(Code::Unavailable.number());
    block_on(client.fail(item("the server is down", unavailable))).unwrap_err()
}

/// How many calls pass until one is refused.
fn passed(client: &WorkClient) -> u32 {
    let refused = (0..2 * BURST).find_map(|count| {
        let status = block_on(client.echo(item("x", 1))).err()?;
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        Some(count)
    });
    refused.expect("there is a limit")
}

/// Replaces the process twice: what goes on once goes on again.
fn replace_twice(chain: &mut Chain) {
    for _ in 0..2 {
        chain.replace(&[]);
        chain.await_former();
    }
}

#[test]
fn an_open_breaker_stays_open_and_no_other_opens() {
    let policies = r#"[{"application": "elsewhere", "kind": "circuit_breaker", "configuration":
        {"by": "everything", "consecutive_failures": 1, "open_ms": 3600000}}]"#;
    let mut chain = Chain::start_with_policies("open", policies, &[]);
    // One that has gone has had the first numbers.
    let gone = chain.daemon.server("gone");
    assert!(is_up(&block_on(client_elsewhere(&chain.daemon, &gone))));
    drop(gone);
    let [failing, other] = ["failing", "other"].map(|name| chain.daemon.server(name));
    let to_failing = block_on(client_elsewhere(&chain.daemon, &failing));
    let to_other = block_on(client_elsewhere(&chain.daemon, &other));
    assert_eq!(fail(&to_failing).message(), "the server is down");
    assert_eq!(fail(&to_failing).message(), "the circuit breaker is open");
    replace_twice(&mut chain);
    assert_eq!(fail(&to_failing).message(), "the circuit breaker is open");
    assert!(is_up(&to_failing), "another method");
    assert_eq!(fail(&to_other).message(), "the server is down", "another peer");
}

#[test]
fn a_bucket_that_was_emptied_stays_empty() {
    let policies = format!(
        r#"[{{"application": "elsewhere", "kind": "rate_limit", "configuration": {SLOW}}}]"#
    );
    let mut chain = Chain::start_with_policies("bucket", &policies, &[]);
    // One that has gone has had the first number.
    drop(chain.daemon.server("gone"));
    let server = chain.daemon.server("server");
    let client = block_on(client_elsewhere(&chain.daemon, &server));
    assert!(passed(&client) >= BURST / 2);
    replace_twice(&mut chain);
    assert!(passed(&client) < BURST / 2, "it has been filled");
}

#[test]
fn an_engine_that_an_operator_has_attached_stays_and_goes_on() {
    let mut chain = Chain::start("attached", &[]);
    drop(chain.daemon.server("gone"));
    let server = chain.daemon.server("server");
    let client = block_on(client_elsewhere(&chain.daemon, &server));
    assert!(is_up(&client));
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    let mut steps = edit.steps_mut();
    let mut step = steps.add();
    let mut attach = step.attach_engine_mut();
    attach.set_application("elsewhere").set_kind("rate_limit").set_configuration(SLOW);
    block_on(operator(&chain).change(Request::new(request))).unwrap();
    assert!(passed(&client) >= BURST / 2);
    replace_twice(&mut chain);
    assert!(passed(&client) < BURST / 2, "it has gone, or has been filled");
}

#[test]
fn an_engine_of_a_plugin_goes_on_from_what_it_has_of_its_own() {
    let Some(object) = compile("tests/c/count.c", &["LIMIT=3"]) else { return };
    let policies = r#"[{"application": "elsewhere", "kind": "mine"}]"#;
    let plugin = format!("mine={object}");
    let mut chain = Chain::start_with_policies("counting", policies, &["--plugin", &plugin]);
    let server = chain.daemon.server("server");
    let client = block_on(client_elsewhere(&chain.daemon, &server));
    assert_eq!(passed(&client), 3);
    replace_twice(&mut chain);
    assert_eq!(passed(&client), 0);
}

#[test]
fn a_successor_of_an_earlier_version_is_told_no_states() {
    const OFFERED: u8 = 5;
    const GIVEN: u8 = 9;
    const STATES: u8 = 12;
    let mut with_states = HELLO;
    with_states[5] = 2;
    let policies = r#"[{"application": "*", "kind": "rate_limit",
                        "configuration": {"rate_per_s": 1}}]"#;
    for (hello, are_told) in [(HELLO, false), (with_states, true)] {
        let chain = Chain::start_with_policies("earlier", policies, &[]);
        let socket = connect(&chain);
        let until = |last: u8| -> Vec<u8> {
            let kinds = std::iter::from_fn(|| {
                Some(*hear_packet(&socket).first().expect("it is not the end"))
            });
            kinds.take_while(|kind| *kind != last).collect()
        };
        say(&socket, &hello);
        assert!(!until(OFFERED).contains(&STATES), "they are as late as can be");
        say(&socket, &[SERVING]);
        assert_eq!(until(GIVEN).contains(&STATES), are_told);
    }
}

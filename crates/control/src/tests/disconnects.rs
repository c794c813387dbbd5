//! Giving sessions up.

use super::pair::Pair;
use super::{grant, params};
use crate::*;

#[test]
fn c10_a_disconnect_is_reported_and_confirmed() {
    let mut pair = Pair::open().seeded(4, 3);
    let session = grant(5).server_ref();
    pair.dialler.connection.disconnect(session).unwrap();
    pair.dialler.connection.disconnect(session).unwrap();
    pair.transfer();
    assert_eq!(pair.acceptor.take_events(), [Event::Disconnected { session }]);
    assert_eq!(pair.dialler.take_events(), [Event::DisconnectAnswered { session }]);
}

#[test]
fn c10_both_ends_may_disconnect_at_once() {
    let mut pair = Pair::open();
    let (server, client) = (grant(5).server_ref(), params(3).client_ref());
    pair.dialler.connection.disconnect(server).unwrap();
    pair.acceptor.connection.disconnect(client).unwrap();
    pair.transfer();
    let told = |session, confirmed| {
        [Event::Disconnected { session }, Event::DisconnectAnswered { session: confirmed }]
    };
    assert_eq!(pair.dialler.take_events(), told(client, server));
    assert_eq!(pair.acceptor.take_events(), told(server, client));
}

#[test]
fn c10_a_name_that_no_packet_could_carry_is_refused() {
    let mut pair = Pair::open();
    let session = SessionRef { session: 1 << 20, ..grant(5).server_ref() };
    let refused = pair.dialler.connection.disconnect(session);
    assert_eq!(refused, Err(DisconnectError::InvalidField("session")));
    let session = SessionRef { tag: 1 << 28, ..grant(5).server_ref() };
    let refused = pair.dialler.connection.disconnect(session);
    assert_eq!(refused, Err(DisconnectError::InvalidField("tag")));
}

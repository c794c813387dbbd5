//! The bytes of each message, written down so that the format cannot drift.

use super::{decoded, encoded, grant, hello, params};
use crate::*;

pub(super) fn assert_golden(message: Message, hex: &str) {
    let written: String = encoded(&message).iter().map(|byte| format!("{byte:02x}")).collect();
    let golden: String = hex.split_whitespace().collect();
    assert_eq!(written, golden);
    assert_eq!(decoded(&encoded(&message)), Ok(message));
}

#[test]
fn c4_hello() {
    assert_golden(
        Message::Hello(hello(0x1122_3344_5566_7788)),
        "3500 01 00  50545343 0001 0401 8877665544332211 0400 03000000 06 746573746572
         00000000000000000000000000000000 0000000000000000",
    );
    let boot = *b"0123456789abcdef";
    let place = Some(Place { boot, namespace: 0xf000_0001 });
    assert_golden(
        Message::Hello(Hello { place, ..hello(0x1122_3344_5566_7788) }),
        "3500 01 00  50545343 0001 0401 8877665544332211 0400 03000000 06 746573746572
         30313233343536373839616263646566 010000f000000000",
    );
}

#[test]
fn c7_connect() {
    assert_golden(
        Message::Connect { connect_id: 7, params: params(0x000a_bcde) },
        "2500 02 00  0700000000000000 0200 0100 debc0a00 f1debc0a 00008000 00004000
         2000 a805 08 00 3412 00",
    );
    let ip = Some("10.1.2.3".parse().unwrap());
    let flagged = ConnectParams {
        target: Target::Any,
        address: DataAddress::udp(0x1234, ip),
        recovery: Recovery::GoBackN,
        checksum: true,
        ..params(0x000a_bcde)
    };
    assert_golden(
        Message::Connect { connect_id: 7, params: flagged },
        "2900 02 00  0700000000000000 ffff 0100 debc0a00 f1debc0a 00008000 00004000
         2000 a805 08 03 3412 04 0a010203",
    );
}

#[test]
fn c7_connect_over_tcp_and_over_a_fabric() {
    let asks = |carrier, ip| {
        let address = DataAddress { carrier, ..DataAddress::udp(0x1234, ip) };
        ConnectParams { address, ..params(0x000a_bcde) }
    };
    let start = "0700000000000000 0200 0100 debc0a00 f1debc0a 00008000 00004000 2000 a805 08 00";
    let ip = "2001:db8::1";
    for (carrier, ip, header, end) in [
        (Carrier::Tcp, None, "2500 02 00", "3412 10"),
        (Carrier::Tcp, Some("10.1.2.3"), "2900 02 00", "3412 14 0a010203"),
        (Carrier::Tcp, Some(ip), "3500 02 00", "3412 16 20010db8000000000000000000000001"),
        (Carrier::Fabric, None, "2500 02 00", "3412 20"),
        (Carrier::Fabric, Some("10.1.2.3"), "2900 02 00", "3412 24 0a010203"),
        (Carrier::Fabric, Some(ip), "3500 02 00", "3412 26 20010db8000000000000000000000001"),
    ] {
        let params = asks(carrier, ip.map(|ip| ip.parse().unwrap()));
        let hex = format!("{header} {start} {end}");
        assert_golden(Message::Connect { connect_id: 7, params }, &hex);
    }
}

#[test]
fn c9_connect_reply() {
    let ip = Some("2001:db8::7".parse().unwrap());
    let accepted = AcceptParams { address: DataAddress::udp(0x4321, ip), ..grant(5) };
    assert_golden(
        Message::ConnectReply { connect_id: 7, result: Ok(accepted) },
        "3300 03 00  0700000000000000 00 0200 05000000 67452301 00001000 00002000
         1000 0004 04 2143 06 20010db8000000000000000000000007",
    );
    let codes = [
        RefuseCode::NoSuchEndpoint,
        RefuseCode::SessionsFull,
        RefuseCode::Draining,
        RefuseCode::IncompatibleParameters,
        RefuseCode::NotAuthorised,
        RefuseCode::Internal,
        RefuseCode::QuotaUsedUp,
        RefuseCode::Unknown(8),
    ];
    for (code, bits) in codes.into_iter().zip(1..) {
        assert_golden(
            Message::ConnectReply { connect_id: 7, result: Err(code) },
            &format!("0900 03 00  0700000000000000 {bits:02x}"),
        );
    }
}

#[test]
fn c17_local_parts_of_a_connect_and_its_reply() {
    let name = "127.0.0.1:4660".parse().unwrap();
    let local = Some(LocalOffer { name, credits: 64, payload_bytes_max: 0x3ee0 });
    assert_golden(
        Message::Connect { connect_id: 7, params: ConnectParams { local, ..params(0x000a_bcde) } },
        "3000 02 00  0700000000000000 0200 0100 debc0a00 f1debc0a 00008000 00004000
         2000 a805 08 04 3412 00 4000 e03e 3412 04 7f000001",
    );
    let accepted = AcceptParams { local: Some(name), ..grant(5) };
    assert_golden(
        Message::ConnectReply { connect_id: 7, result: Ok(accepted) },
        "2a00 03 00  0700000000000000 ff 0200 05000000 67452301 00001000 00002000
         1000 0004 04 2143 00 3412 04 7f000001",
    );
}

#[test]
fn c10_disconnect_and_its_reply() {
    let server = grant(5).server_ref();
    assert_golden(Message::Disconnect(server), "0b00 04 00  01 0200 05000000 67452301");
    let client = params(6).client_ref();
    assert_golden(Message::DisconnectReply(client), "0b00 05 00  00 0100 06000000 f1debc0a");
}

#[test]
fn c11_ping_and_pong() {
    assert_golden(Message::Ping { nonce: 258 }, "0800 06 00  0201000000000000");
    assert_golden(Message::Pong { nonce: 258 }, "0800 07 00  0201000000000000");
}

#[test]
fn c13_drain_and_bye() {
    assert_golden(Message::Drain, "0000 08 00");
    assert_golden(Message::Bye { reason: ByeReason::Shutdown }, "0100 09 00  01");
    assert_golden(Message::Bye { reason: ByeReason::Idle }, "0100 09 00  02");
    assert_golden(Message::Bye { reason: ByeReason::Superseded }, "0100 09 00  03");
}

#[test]
fn c14_error() {
    let codes = [
        ErrorCode::VersionMismatch,
        ErrorCode::Malformed,
        ErrorCode::Unexpected,
        ErrorCode::LimitExceeded,
        ErrorCode::Unknown(5),
    ];
    for (code, bits) in codes.into_iter().zip(1..) {
        assert_golden(
            Message::Error { code, detail: Text::new("no") },
            &format!("0500 0a 00  {bits:02x}00 02 6e6f"),
        );
    }
}

#[test]
fn c21_ticket_resume_and_its_answer() {
    let ticket = Ticket::new(*b"0123456789abcdef");
    let bytes = "30313233343536373839616263646566";
    assert_golden(Message::Ticket(ticket), &format!("1000 0b 01 {bytes}"));
    assert_golden(Message::Resume(ticket), &format!("1000 0c 01 {bytes}"));
    assert_golden(Message::Resumed { accepted: true }, "0100 0d 01 00");
    assert_golden(Message::Resumed { accepted: false }, "0100 0d 01 01");
}

#[test]
fn c22_successor() {
    assert_golden(Message::Successor, "0000 0e 01");
}

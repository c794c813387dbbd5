use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use petasos_base::Clock;

use super::*;

fn link() -> Link {
    Link::bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1 << 20).expect("loopback has free ports")
}

fn joined(state: SocketState) -> (Link, Link) {
    let (mut client, mut server) = (link(), link());
    client.join(server.local_address(), state).expect("loopback is reachable");
    server.join(client.local_address(), state).expect("loopback is reachable");
    (client, server)
}

/// Repeats short turns until one has the wanted result; in any single one, a thread may not have
/// run.
fn repeat(
    mut run: impl FnMut(&Clock, &mut dyn FnMut() -> bool) -> Result<Turn, FloorError>,
    wanted: impl Fn(&Turn) -> bool,
) -> Turn {
    let clock = Clock::system();
    let mut watchdog = deadline(&clock, Duration::from_secs(30));
    loop {
        let mut stop = deadline(&clock, Duration::from_millis(20));
        let turn = run(&clock, &mut stop).expect("the turn takes place");
        if wanted(&turn) {
            return turn;
        }
        assert!(!watchdog(), "no turn was as wanted; the last was {turn:?}");
    }
}

/// Runs `server` in a thread until `client` returns, and returns both outcomes.
fn beside<T>(
    server: impl FnOnce(&Clock, &mut dyn FnMut() -> bool) -> Result<Turn, FloorError> + Send,
    client: impl FnOnce() -> T,
) -> (T, Turn) {
    let (running, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Hanging up is the signal, so that a client that panics gives it, too.
        let mut stop = move || ended.try_recv() == Err(mpsc::TryRecvError::Disconnected);
        let server = scope.spawn(move || server(&Clock::system(), &mut stop));
        let outcome = {
            let _running = running;
            client()
        };
        let served = server.join().expect("the server does not panic");
        (outcome, served.expect("the server's turn takes place"))
    })
}

#[test]
fn a_ping_pong_times_every_round_trip() {
    for state in [SocketState::Connected, SocketState::Unconnected] {
        let (mut client, mut server) = joined(state);
        let (turn, served) = beside(
            |clock, stop| echo(&mut server, Path::Singles, clock, stop),
            || repeat(|clock, stop| ping(&mut client, 32, clock, stop), |turn| turn.datagrams > 0),
        );
        assert_eq!(turn.latency.count(), turn.datagrams);
        assert_eq!(turn.bytes, turn.datagrams * 32);
        assert!(turn.latency.quantile_us(0.5).is_some_and(|us| us > 0.0));
        assert!(served.datagrams >= turn.datagrams);
        assert!(turn.elapsed_s > 0.0 && turn.cpu_s > 0.0);
    }
}

#[test]
fn a_flood_completes_in_batches_and_one_by_one() {
    for (batch, datagram_bytes) in [(1, 32), (16, 1), (32, 32), (64, 1472), (64, 60_000)] {
        let (mut client, mut server) = joined(SocketState::Connected);
        let shape = Flood { datagram_bytes, window: 64, batch };
        let (turn, served) = beside(
            |clock, stop| echo(&mut server, shape.path(), clock, stop),
            || {
                let run = |clock: &Clock, stop: &mut dyn FnMut() -> bool| {
                    flood(&mut client, shape, clock, stop)
                };
                repeat(run, |turn| turn.datagrams > 0)
            },
        );
        assert_eq!(turn.bytes, turn.datagrams * datagram_bytes as u64, "batch {batch}");
        assert!(served.bytes >= turn.bytes, "batch {batch}");
        assert_eq!(turn.latency.count(), 0);
    }
}

#[test]
fn an_unjoined_server_answers_whoever_sends() {
    let (mut client, mut server) = (link(), link());
    client.join(server.local_address(), SocketState::Unconnected).expect("reachable");
    let shape = Flood { datagram_bytes: 32, window: 8, batch: 8 };
    let (turn, _) = beside(
        |clock, stop| echo(&mut server, shape.path(), clock, stop),
        || repeat(|clock, stop| flood(&mut client, shape, clock, stop), |turn| turn.datagrams > 0),
    );
    assert_eq!(turn.bytes, turn.datagrams * 32);
}

#[test]
fn silence_is_counted_as_loss_and_ends_no_turn() {
    let (mut client, _silent) = joined(SocketState::Connected);
    let turn = repeat(|clock, stop| ping(&mut client, 32, clock, stop), |turn| turn.lost > 0);
    assert_eq!((turn.datagrams, turn.latency.count()), (0, 0));
    let shape = Flood { datagram_bytes: 32, window: 64, batch: 16 };
    let turn = repeat(|clock, stop| flood(&mut client, shape, clock, stop), |turn| turn.lost > 0);
    assert_eq!((turn.datagrams, turn.lost % 64), (0, 0));
}

#[test]
fn echoes_of_an_earlier_turn_are_not_counted() {
    let (mut client, server) = joined(SocketState::Connected);
    let clock = Clock::system();
    let shape = Flood { datagram_bytes: 32, window: 64, batch: 32 };
    repeat(|clock, stop| flood(&mut client, shape, clock, stop), |turn| turn.lost > 0);
    // Only now the server reads its queue. All that it finds was given up long ago.
    let mut stale = [0; 1 << 16];
    let first = server.receive(&mut stale).expect("the socket works").expect("it was sent");
    server.send_back(&stale[..first.len], &first).expect("the client's socket is open");
    let turn = ping(&mut client, 32, &clock, deadline(&clock, Duration::from_millis(20)));
    assert_eq!(turn.expect("the turn takes place").datagrams, 0);
}

#[test]
fn a_transfer_is_counted_at_the_receiver() {
    for (state, datagram_bytes) in
        [(SocketState::Connected, 1472), (SocketState::Unconnected, 60_000)]
    {
        let (mut sender, mut receiver) = joined(state);
        let mut memory = vec![0; 200_000];
        let content: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let (received, sent) = beside(
            |clock, stop| blast(&mut sender, datagram_bytes, &content, clock, stop),
            || {
                let run = |clock: &Clock, stop: &mut dyn FnMut() -> bool| {
                    drain(&mut receiver, datagram_bytes, &mut memory, clock, stop)
                };
                repeat(run, |turn| turn.bytes > 0)
            },
        );
        assert!(received.bytes <= sent.bytes && received.datagrams > 0);
        assert!(received.bytes.div_ceil(datagram_bytes as u64) <= received.datagrams);
        assert!(memory.iter().any(|byte| *byte != 0), "the bytes arrived in the memory");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let (mut client, _server) = joined(SocketState::Connected);
    let clock = Clock::system();
    for bytes in [0, DATAGRAM_BYTES_MAX + 1] {
        let refused = ping(&mut client, bytes, &clock, || true);
        assert!(matches!(refused, Err(FloorError::DatagramBytes { asked }) if asked == bytes));
        let refused = blast(&mut client, bytes, &[0; 8], &clock, || true);
        assert!(matches!(refused, Err(FloorError::DatagramBytes { .. })));
        let refused = drain(&mut client, bytes, &mut [0; 1 << 16], &clock, || true);
        assert!(matches!(refused, Err(FloorError::DatagramBytes { .. })));
        let path = Path::Trains { datagram_bytes: bytes };
        let refused = echo(&mut client, path, &clock, || true);
        assert!(matches!(refused, Err(FloorError::DatagramBytes { .. })));
    }
    for (window, batch) in [(64, 0), (0, 1), (16, 32)] {
        let refused =
            flood(&mut client, Flood { datagram_bytes: 32, window, batch }, &clock, || true);
        assert!(matches!(refused, Err(FloorError::Batch { .. })));
    }
    let refused = blast(&mut client, 32, &[], &clock, || true);
    assert!(matches!(refused, Err(FloorError::Memory { bytes: 0 })));
    let refused = drain(&mut client, 32, &mut [0; 1000], &clock, || true);
    assert!(matches!(refused, Err(FloorError::Memory { bytes: 1000 })));
}

#[test]
fn a_turn_survives_the_way_to_another_process() {
    let mut turn = Turn { elapsed_s: 2.0, datagrams: 10, bytes: 500_000_000, ..Turn::default() };
    turn.latency.record_ns(5000);
    assert_eq!((turn.ops_per_s(), turn.gbit_per_s()), (5.0, 2.0));
    assert_eq!(Turn::default().ops_per_s(), 0.0);
    let text = serde_json::to_string(&turn).expect("numbers serialise");
    let received: Turn = serde_json::from_str(&text).expect("it was just written");
    assert_eq!((received.bytes, received.latency.count()), (turn.bytes, 1));
}

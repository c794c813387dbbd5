use std::collections::VecDeque;

use petasos_netio::Route;

use super::*;

/// Takes down what is sent; fails as the script says, then succeeds.
#[derive(Default)]
struct Script {
    /// One entry per call: how many messages to take at most, or an error number.
    results: VecDeque<Result<usize, i32>>,
    sent: Vec<Sent>,
    path_bytes_max: usize,
    /// Whether datagrams are cut now, and how many were sent while they were.
    cuts: bool,
    cut: usize,
}

/// One message: port of the destination, segment size, bytes.
type Sent = (u16, Option<u16>, Vec<u8>);

impl Sink for Script {
    fn send(&mut self, messages: &[Message<'_>]) -> io::Result<usize> {
        let result = self.results.pop_front().unwrap_or(Ok(messages.len()));
        let count = result.map_err(io::Error::from_raw_os_error)?.min(messages.len());
        self.cut += if self.cuts { count } else { 0 };
        for message in &messages[..count] {
            let destination = message.destination.and_then(|address| address.decode());
            let bytes = message.pieces.iter().flat_map(|piece| piece.to_vec()).collect();
            let port = destination.expect("every message has a destination").port();
            self.sent.push((port, message.segment_bytes, bytes));
        }
        Ok(count)
    }

    fn path_bytes_max(&self, _peer: SocketAddr) -> io::Result<usize> {
        Ok(self.path_bytes_max)
    }

    fn cut(&mut self, on: bool) -> bool {
        self.cuts = on;
        on
    }
}

struct Bench {
    transmitter: Transmitter,
    routes: RouteTable,
    script: Script,
    stats: IoStats,
}

impl Bench {
    /// Routes 0, 1 and 2 lead to ports 1, 2 and 3.
    fn new(results: impl IntoIterator<Item = Result<usize, i32>>) -> Bench {
        let mut routes = RouteTable::new(3);
        for port in 1..=3u16 {
            routes.insert(SocketAddr::from(([127, 0, 0, 1], port)), 1472).expect("there is room");
        }
        let results = results.into_iter().collect();
        let script = Script { results, path_bytes_max: 1472, ..Script::default() };
        Bench { transmitter: Transmitter::new(true), routes, script, stats: IoStats::default() }
    }

    /// Sends packets given as (route, length); packet `n` consists of bytes `n`.
    fn transmit(&mut self, shape: &[(u32, usize)]) -> usize {
        let bytes: Vec<Vec<u8>> =
            shape.iter().enumerate().map(|(at, (_, len))| vec![at as u8; *len]).collect();
        let packet = |(bytes, (route, len)): (&'_ Vec<u8>, &(u32, usize))| {
            let (head, body) = bytes.split_at(len / 3);
            (Route(*route), head.to_vec(), body.to_vec())
        };
        let parts: Vec<_> = bytes.iter().zip(shape).map(packet).collect();
        let packets: Vec<TxPacket<'_>> = parts
            .iter()
            .map(|(route, head, body)| TxPacket { route: *route, head, body })
            .collect();
        let Bench { transmitter, routes, script, stats } = self;
        transmitter.transmit(script, routes, &packets, stats)
    }

    /// The datagrams sent: destination port, number of the packet, length.
    fn datagrams(&self) -> Vec<(u16, u8, usize)> {
        let cut = |(port, segment, bytes): &Sent| -> Vec<(u16, u8, usize)> {
            let size = segment.map_or(bytes.len(), usize::from);
            bytes.chunks(size).map(|datagram| (*port, datagram[0], datagram.len())).collect()
        };
        self.script.sent.iter().flat_map(cut).collect()
    }
}

#[test]
fn a_run_is_one_message_and_a_batch_one_call() {
    let mut bench = Bench::new([]);
    let shape = [(0, 56), (0, 56), (1, 1400), (0, 56), (1, 1400), (2, 9), (1, 77)];
    assert_eq!(bench.transmit(&shape), shape.len());
    let shapes: Vec<_> =
        bench.script.sent.iter().map(|(port, size, bytes)| (*port, *size, bytes.len())).collect();
    assert_eq!(shapes, [(1, Some(56), 168), (2, Some(1400), 2877), (3, None, 9)]);
    let order: Vec<u8> = bench.datagrams().iter().map(|(_, packet, _)| *packet).collect();
    assert_eq!(order, [0, 1, 3, 2, 4, 6, 5]);
    let stats = bench.stats;
    assert_eq!((stats.tx_syscalls, stats.tx_frames, stats.tx_bytes), (1, 7, 168 + 2877 + 9));
}

#[test]
fn the_rest_follows_when_the_kernel_stops_in_between() {
    let mut bench = Bench::new([Ok(1), Ok(1)]);
    assert_eq!(bench.transmit(&[(0, 10), (1, 600), (2, 30)]), 3);
    assert_eq!(bench.datagrams(), [(1, 0, 10), (2, 1, 600), (3, 2, 30)]);
    assert_eq!((bench.stats.tx_syscalls, bench.stats.tx_frames), (3, 3));
}

#[test]
fn batches_beyond_the_limit_are_sent_in_several_calls() {
    let mut bench = Bench::new([]);
    assert_eq!(bench.transmit(&[(0, 10); 150]), 150);
    assert_eq!((bench.stats.tx_syscalls, bench.stats.tx_frames), (3, 150));
}

#[test]
fn a_full_queue_ends_the_prefix_at_the_first_packet_not_sent() {
    for error in [libc::EAGAIN, libc::ENOBUFS] {
        let mut bench = Bench::new([Ok(1), Err(error)]);
        // Packet 2 went out with packet 0, before packet 1 could.
        assert_eq!(bench.transmit(&[(0, 10), (1, 10), (0, 10), (2, 0)]), 1);
        assert_eq!(bench.datagrams(), [(1, 0, 10), (1, 2, 10)]);
        let stats = bench.stats;
        assert_eq!((stats.tx_full, stats.tx_frames, stats.tx_errors), (1, 2, 0));
    }
}

#[test]
fn a_full_queue_in_a_later_chunk_keeps_the_earlier_ones() {
    let mut bench = Bench::new([Ok(1), Err(libc::EAGAIN)]);
    assert_eq!(bench.transmit(&[(0, 10); 100]), 64);
    assert_eq!((bench.stats.tx_full, bench.stats.tx_frames), (1, 64));
}

#[test]
fn a_refused_train_goes_as_singles_and_trains_stay_off() {
    for error in [libc::EIO, libc::EINVAL, libc::EOPNOTSUPP] {
        let mut bench = Bench::new([Err(error)]);
        assert_eq!(bench.transmit(&[(0, 10), (0, 10), (0, 4)]), 3);
        assert_eq!(bench.datagrams(), [(1, 0, 10), (1, 1, 10), (1, 2, 4)]);
        assert!(bench.script.sent.iter().all(|(_, segment, _)| segment.is_none()));
        assert!(!bench.transmitter.gso());
        assert_eq!((bench.stats.tx_syscalls, bench.stats.tx_frames), (4, 3));
        bench.transmit(&[(0, 10), (0, 10)]);
        assert_eq!(bench.script.sent.len(), 5);
        assert_eq!((bench.stats.tx_syscalls, bench.stats.tx_errors), (5, 0));
    }
}

#[test]
fn a_peer_that_refuses_singles_as_well_does_not_turn_trains_off() {
    let mut bench = Bench::new([Err(libc::EINVAL); 3]);
    assert_eq!(bench.transmit(&[(0, 10), (0, 10)]), 2);
    assert!(bench.transmitter.gso());
    assert_eq!((bench.stats.tx_errors, bench.stats.tx_frames), (2, 0));
}

#[test]
fn a_full_queue_among_the_singles_ends_the_prefix_there() {
    let mut bench = Bench::new([Err(libc::EIO), Ok(1), Err(libc::EAGAIN)]);
    assert_eq!(bench.transmit(&[(0, 10), (0, 10), (0, 10)]), 1);
    assert_eq!((bench.stats.tx_full, bench.stats.tx_frames), (1, 1));
    let mut bench = Bench::new([Err(libc::EIO), Ok(1), Err(libc::EAGAIN)]);
    assert_eq!(bench.transmit(&[(0, 10), (1, 10), (0, 10)]), 1);
}

#[test]
fn what_an_interface_that_became_narrow_refuses_as_a_train_goes_as_singles() {
    // Older kernels say EINVAL.
    for error in [libc::EMSGSIZE, libc::EINVAL] {
        let mut bench = Bench::new([Err(error), Ok(1), Ok(1), Ok(1)]);
        bench.script.path_bytes_max = 1272;
        assert_eq!(bench.transmit(&[(0, 1400), (0, 1400), (1, 1400)]), 3);
        assert_eq!(bench.datagrams(), [(1, 0, 1400), (1, 1, 1400), (2, 2, 1400)]);
        assert!(bench.transmitter.gso(), "trains are tried again");
        assert_eq!((bench.stats.tx_errors, bench.stats.tx_frames), (0, 3));
        // The interface is wide again.
        assert_eq!(bench.transmit(&[(0, 1400), (0, 1400)]), 2);
        assert_eq!(bench.script.sent.last().map(|sent| sent.1), Some(Some(1400)));
    }
}

#[test]
fn long_packets_of_a_path_in_doubt_are_cut_and_others_are_not() {
    let mut bench = Bench::new([Ok(3)]);
    let v6 = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 4));
    bench.routes = RouteTable::new(4);
    for peer in [v6, SocketAddr::from(([127, 0, 0, 1], 1))] {
        bench.routes.insert(peer, 1452).expect("there is room");
    }
    assert!(bench.routes.doubt(Route(0)));
    assert_eq!(bench.transmit(&[(0, 1400), (0, 1232), (1, 1452), (0, 1453), (0, 1452), (1, 9)]), 6);
    let sent = [(4, 1, 1232), (1, 2, 1452), (1, 5, 9), (4, 0, 1400), (4, 4, 1452)];
    assert_eq!(bench.datagrams(), sent);
    assert_eq!((bench.script.cut, bench.script.cuts), (2, false));
    assert_eq!((bench.stats.tx_frames, bench.stats.tx_errors), (5, 1));
    bench.routes.trust();
    assert_eq!(bench.transmit(&[(0, 1452), (0, 1452)]), 2);
    assert_eq!(bench.script.cut, 2, "packets go whole again");
}

#[test]
fn a_refused_length_lowers_no_limit() {
    let mut bench = Bench::new([Err(libc::EMSGSIZE)]);
    bench.script.path_bytes_max = 1000;
    assert_eq!(bench.transmit(&[(0, 1400), (1, 1400)]), 2);
    assert_eq!(bench.datagrams(), [(2, 1, 1400)]);
    assert_eq!(bench.stats.tx_errors, 1);
    assert_eq!(bench.transmit(&[(0, 1400)]), 1);
    assert_eq!((bench.stats.tx_errors, bench.stats.tx_frames), (1, 2));
}

#[test]
fn other_errors_drop_one_run_and_go_on() {
    let mut bench = Bench::new([Err(libc::EPERM)]);
    assert_eq!(bench.transmit(&[(0, 10), (1, 20)]), 2);
    assert_eq!(bench.datagrams(), [(2, 1, 20)]);
    assert_eq!((bench.stats.tx_errors, bench.stats.tx_frames), (1, 1));
}

#[test]
fn rejected_packets_count_once_however_often_the_rest_is_tried() {
    let mut bench = Bench::new([Ok(1), Err(libc::EAGAIN)]);
    let shape = [(0, 10), (1, 0), (1, 600), (1, 1473), (0, 0)];
    assert_eq!(bench.transmit(&shape), 2);
    assert_eq!(bench.stats.tx_errors, 1);
    assert_eq!(bench.transmit(&shape[2..]), 3);
    assert_eq!((bench.stats.tx_errors, bench.stats.tx_frames), (3, 2));
}

#[test]
fn heads_and_bodies_of_any_length_arrive_in_order() {
    for len in [1, 2, 3, 511, 512, 513, 1472] {
        let mut bench = Bench::new([]);
        bench.transmit(&[(0, len), (0, len), (0, len)]);
        let expected: Vec<u8> = (0..3).flat_map(|packet| vec![packet; len]).collect();
        assert_eq!(bench.script.sent, [(1, Some(len as u16), expected)], "length {len}");
    }
}

impl Bench {
    /// Sends a train of `len` bytes in datagrams of 10.
    fn transmit_train(&mut self, route: u32, len: usize) -> Option<usize> {
        let bytes = vec![7; len];
        let Bench { transmitter, routes, script, stats } = self;
        transmitter.transmit_train(script, routes, (Route(route), &bytes, 10), stats)
    }
}

#[test]
fn a_train_goes_as_it_lies_there() {
    let mut bench = Bench::new([]);
    assert_eq!(bench.transmit_train(0, 35), Some(4));
    assert_eq!(bench.transmit_train(1, 10), Some(1));
    assert_eq!(bench.transmit_train(2, 3), Some(1));
    let train = |port, segment, len: usize| (port, segment, vec![7; len]);
    assert_eq!(bench.script.sent, [train(1, Some(10), 35), train(2, None, 10), train(3, None, 3)]);
    assert_eq!((bench.stats.tx_syscalls, bench.stats.tx_frames, bench.stats.tx_bytes), (3, 6, 48));
}

#[test]
fn a_train_that_cannot_go_whole_is_left_to_the_packets() {
    let mut bench = Bench::new([Err(libc::EAGAIN)]);
    // The queue is full; no bytes; too many datagrams; no such route.
    assert_eq!(bench.transmit_train(0, 20), None);
    assert_eq!(bench.transmit_train(0, 0), None);
    assert_eq!(bench.transmit_train(0, 10 * RUN_PACKETS_MAX + 1), None);
    assert_eq!(bench.transmit_train(3, 20), None);
    bench.transmitter.gso = false;
    assert_eq!(bench.transmit_train(0, 20), None);
    assert_eq!((bench.stats.tx_syscalls, bench.stats.tx_frames, bench.stats.tx_errors), (1, 0, 0));
    assert!(bench.script.sent.is_empty());
}

//! Random batches against the simplest oracle: each peer gets what was sent to it, in order.

use petasos_netio::TxPacket;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::BackendFactory;
use crate::harness::{IN_FLIGHT_MAX, expect, expect_nothing, payload, send_all, trio};

/// One packet: which peer, how long, and where head and body meet.
type Shape = (usize, usize, prop::sample::Index);

fn batches() -> impl Strategy<Value = Vec<Vec<Shape>>> {
    // Few different lengths, so that successive packets often have the same one.
    let len = prop_oneof![Just(56usize), Just(600), Just(1024), 1usize..=1024];
    let shape = (0usize..2, len, any::<prop::sample::Index>());
    let batch = prop::collection::vec(shape, 0..=IN_FLIGHT_MAX);
    prop::collection::vec(batch, 1..4)
}

/// Whatever a batch consists of, each peer gets its packets in order and nothing else.
pub fn delivers_random_batches<F: BackendFactory>(factory: &F) {
    let config = Config { source_file: Some(file!()), ..petasos_cases::kept_with(100) };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&batches(), |batches| {
        let (mut from, mut to, routes) = trio(factory);
        for batch in batches {
            let payloads: Vec<_> = batch
                .iter()
                .enumerate()
                .map(|(number, (_, len, _))| payload(number, *len))
                .collect();
            let packet = |(bytes, (peer, len, split)): (&'_ Vec<u8>, &Shape)| {
                let split = split.index(len + 1);
                (routes[*peer], bytes[..split].to_vec(), bytes[split..].to_vec())
            };
            let parts: Vec<_> = payloads.iter().zip(&batch).map(packet).collect();
            let packets: Vec<_> = parts
                .iter()
                .map(|(route, head, body)| TxPacket { route: *route, head, body })
                .collect();
            send_all(&mut from, &packets);
            for (peer, io) in to.iter_mut().enumerate() {
                let own = payloads.iter().zip(&batch).filter(|(_, shape)| shape.0 == peer);
                expect(io, &own.map(|(bytes, _)| bytes.clone()).collect::<Vec<_>>());
            }
        }
        to.iter_mut().for_each(expect_nothing);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

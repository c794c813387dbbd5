//! Counters of methods, found without a lock.
//!
//! Services form a linked list that only grows, at its end. A thread that adds a service sets the
//! last element's successor, or continues from the successor that another thread has set. A program
//! has few services, so the walk is short.

use core::time::Duration;
use std::sync::OnceLock;

use petasos_base::sync::{AtomicU64, Ordering};
use petasos_call::Code;

use super::{BUCKETS, CallInfo, LATENCY_BOUNDS, MethodMetrics, Side};
use crate::descriptors::ServiceRef;

/// Counters by service, side and method.
#[derive(Default)]
pub(super) struct Table {
    first: Link,
}

type Link = OnceLock<Box<Node>>;

struct Node {
    service: ServiceRef,
    side: Side,
    /// Indexed by the method.
    methods: Box<[Counters]>,
    next: Link,
}

impl Table {
    /// The counters of a call's method.
    pub(super) fn of(&self, call: &CallInfo) -> &Counters {
        let (service, side) = (call.service_info(), call.side());
        let mut link = &self.first;
        loop {
            let node = link.get_or_init(|| Box::new(Node::new(service, side)));
            if node.service.is_same(service) && node.side == side {
                return &node.methods[usize::from(call.method().index)];
            }
            link = &node.next;
        }
    }

    /// The counts of all methods that were called.
    pub(super) fn methods(&self) -> impl Iterator<Item = MethodMetrics> {
        let nodes = core::iter::successors(self.first.get(), |node| node.next.get());
        let methods = nodes.flat_map(|node| {
            let counted = node.methods.iter().zip(node.service.methods());
            counted.map(|(counters, of)| counters.read(node, of.name))
        });
        methods.filter(|of| of.started > 0)
    }
}

impl Node {
    fn new(service: &ServiceRef, side: Side) -> Node {
        let methods = service.methods().map(|_| Counters::default()).collect();
        Node { service: service.clone(), side, methods, next: Link::new() }
    }
}

/// A method's counters. All orderings are relaxed, since the counters guard nothing.
#[derive(Default)]
pub(super) struct Counters {
    started: AtomicU64,
    handled: [AtomicU64; Code::ALL.len()],
    /// Messages received, and messages sent.
    messages: [AtomicU64; 2],
    bytes: [AtomicU64; 2],
    latency: [AtomicU64; BUCKETS],
    latency_sum_ns: AtomicU64,
}

impl Counters {
    pub(super) fn started(&self) {
        add(&self.started, 1);
    }

    pub(super) fn message(&self, is_sent: bool, bytes: u64) {
        let at = usize::from(is_sent);
        add(&self.messages[at], 1);
        if bytes > 0 {
            add(&self.bytes[at], bytes);
        }
    }

    pub(super) fn ended(&self, code: Code, took: Duration) {
        add(&self.handled[usize::from(code.number())], 1);
        let bucket = LATENCY_BOUNDS.partition_point(|bound| *bound < took);
        add(&self.latency[bucket], 1);
        add(&self.latency_sum_ns, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    fn read(&self, of: &Node, method: &str) -> MethodMetrics {
        let [received, sent] = self.messages.each_ref().map(get);
        let [received_bytes, sent_bytes] = self.bytes.each_ref().map(get);
        MethodMetrics {
            side: of.side,
            service: of.service.name().to_owned(),
            method: method.to_owned(),
            // Read first, so that not more calls are over than have begun, except if some begin
            // meanwhile.
            handled: self.handled.each_ref().map(get),
            started: get(&self.started),
            received,
            sent,
            received_bytes,
            sent_bytes,
            latency: self.latency.each_ref().map(get),
            latency_sum: Duration::from_nanos(get(&self.latency_sum_ns)),
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

//! Records of the rings between applications and the managed service, and places in heaps (D2 to
//! D10).

use petasos_abi::{
    CallNumber, Contents, DESCRIPTOR_BYTES, Descriptor, EXTENT_BYTES_MIN, Extent, Extents,
    Released, Request, Side, Untrusted,
};

use crate::Seed;

const HEAP_BYTES: u64 = 1 << 24;

/// Records of both sides, one after the other. What they say of places is asked of a heap, and what
/// they say of tokens and calls adds to it.
pub fn run(bytes: &[u8]) {
    let mut extents = Extents::new(HEAP_BYTES);
    for record in bytes.chunks(DESCRIPTOR_BYTES) {
        for from in [Side::Application, Side::Service] {
            let Ok(descriptor) = Untrusted::new(record).check(from) else { continue };
            assert_eq!(descriptor.to_bytes(), record, "no two records mean the same");
            note(&descriptor, from, &mut extents);
        }
    }
    let parts: Vec<Extent> = extents.iter().collect();
    assert!(parts.is_sorted_by(|a, b| a.offset + a.bytes <= b.offset));
    assert!(parts.iter().all(|part| extents.covers(part.offset, part.bytes)));
    assert!(extents.bytes() <= HEAP_BYTES);
}

fn note(descriptor: &Descriptor, from: Side, extents: &mut Extents) {
    match descriptor {
        Descriptor::Request(Request { call, message, .. }) => {
            assert_eq!(call.begun_by(), from);
            let _ = extents.covers(message.offset, message.bytes.into());
        }
        Descriptor::Message { message, .. } => {
            let bytes = u64::from(message.bytes);
            let has_memory = extents.covers(message.offset, bytes);
            let added = extents.add(Extent { offset: message.offset, bytes });
            assert!(!(has_memory && added.is_ok()), "no byte has memory twice");
        }
        Descriptor::End { status, .. } => assert!(*status <= 16),
        Descriptor::Release(released) => {
            assert!((1..=6).contains(&released.tokens().len()));
            for offset in released.tokens() {
                extents.remove(*offset);
            }
        }
        _ => {}
    }
}

/// One of each kind, and extents beside each other.
pub fn seeds() -> Vec<Seed> {
    let call = CallNumber::new(Side::Application, 7);
    let unit = EXTENT_BYTES_MIN;
    let message = Contents { offset: 3 * unit, bytes: unit as u32 };
    let request = Request {
        call,
        binding: 1,
        method: 2,
        partner: 3,
        is_stream: false,
        is_idempotent: true,
        waits_for_ready: false,
        time_left_us: 1_000_000,
        message,
        metadata: Contents { offset: 64, bytes: 20 },
    };
    let next = Contents { offset: 4 * unit, bytes: 2 * unit as u32 };
    let metadata = Contents::NONE;
    let mut released = Released::new();
    released.push(3 * unit).expect("six fit");
    let end = Descriptor::End { call, status: 5, has_not_run: true, message: metadata, metadata };
    let stream = Request { is_stream: true, message: Contents::NONE, ..request };
    let series = |descriptors: &[Descriptor]| {
        descriptors.iter().flat_map(Descriptor::to_bytes).collect::<Vec<u8>>()
    };
    vec![
        ("request", series(&[Descriptor::Request(request)])),
        ("end", series(&[end])),
        (
            "stream",
            series(&[
                Descriptor::Request(stream),
                Descriptor::Message { call, message },
                Descriptor::Message { call, message: next },
                Descriptor::Head { call, metadata },
                Descriptor::Grant { call, bytes: 1 << 17 },
                Descriptor::Release(released),
                Descriptor::Close { call },
                Descriptor::Cancel { call },
            ]),
        ),
    ]
}

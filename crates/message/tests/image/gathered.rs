//! Messages whose long leaves stay where their sender has them.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use petasos_base::Rng;
use petasos_buf::SharedMemory;
use petasos_message::{
    DecodeLimits, FieldPath, GATHER_BYTES_MIN, Input, Leaf, NativeMsg, Outside, ROOM_BYTES,
    Segment, Source, Types, Value, validate,
};
use petasos_schema::MessageId;

use crate::common;
use crate::source::{BASE, Region, Restless};

const DECLARATIONS: &str = "message M {
    string name = 1; bytes data = 2; repeated fixed64 numbers = 3; M inner = 4; bytes more = 5;
}";

/// A leaf that its sender changes.
#[derive(Debug)]
struct Leaves(Arc<Mutex<Vec<u8>>>, usize, usize);

impl SharedMemory for Leaves {
    fn bytes(&self) -> usize {
        self.2
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        let memory = self.0.lock().unwrap();
        to.copy_from_slice(&memory[self.1..self.1 + self.2][at..at + to.len()]);
    }
}

/// A heap that others write, with an image at [`BASE`].
struct Heap(Arc<Mutex<Vec<u8>>>);

impl Source for Heap {
    fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), Outside> {
        Region(&self.0.lock().unwrap()).copy(at, to)
    }

    fn segment(&self, at: u64, bytes: u32) -> Result<Option<Segment>, Outside> {
        let start = (at - BASE) as usize;
        if start + bytes as usize > self.0.lock().unwrap().len() {
            return Err(Outside);
        }
        Ok(Some(Segment::Shared(Arc::new(Leaves(self.0.clone(), start, bytes as usize)))))
    }
}

fn types() -> (Arc<Types>, MessageId) {
    let schema = common::schema(DECLARATIONS);
    let id = common::id(&schema, "M");
    (Types::new(schema).unwrap(), id)
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let (mut field, mut left) = (vec![number << 3 | 2], bytes.len());
    while left >= 0x80 {
        field.push(left as u8 | 0x80);
        left >>= 7;
    }
    field.push(left as u8);
    field.extend_from_slice(bytes);
    field
}

/// A message with leaves of `bytes`, in the service and in an application's heap.
fn message(types: &Arc<Types>, id: MessageId, bytes: usize) -> (NativeMsg, Heap) {
    let inner = [field(1, b"inner"), field(5, &vec![3; bytes + 5])].concat();
    let encoded = [
        field(1, b"a name"),
        field(2, &vec![1; bytes]),
        field(3, &vec![2; bytes.next_multiple_of(8)]),
        field(4, &inner),
    ];
    let (encoded, limits) = (encoded.concat(), DecodeLimits::for_input(1 << 24));
    let input = Input::Borrowed(&encoded);
    let whole = NativeMsg::from_protobuf(types, id, input, &limits, usize::MAX).unwrap();
    let heap = Heap(Arc::new(Mutex::new(whole.image().to_vec())));
    (whole, heap)
}

fn gathered(types: &Arc<Types>, id: MessageId, heap: &Heap) -> NativeMsg {
    NativeMsg::gathered(types, id, heap, BASE + 8, 1 << 24).unwrap()
}

fn path(types: &Arc<Types>, id: MessageId, names: &str) -> FieldPath {
    FieldPath::new(types, id, names).unwrap()
}

fn text(value: Option<Value<'_>>) -> &str {
    match value {
        Some(Value::String(text)) => text,
        _ => panic!("it is a string"),
    }
}

fn bytes(value: Option<Value<'_>>) -> &[u8] {
    match value {
        Some(Value::Bytes(bytes)) => bytes,
        _ => panic!("they are bytes"),
    }
}

#[test]
fn m24_long_leaves_stay_where_they_lie_and_the_rest_is_a_copy() {
    let (types, id) = types();
    let (whole, heap) = message(&types, id, GATHER_BYTES_MIN);
    let message = gathered(&types, id, &heap);
    assert!(message.is_gathered() && message.image().len() < 1000, "{message:?}");
    assert_eq!(message.image_bytes(), whole.image_bytes());
    let name = path(&types, id, "inner.name");
    assert_eq!(text(message.get(&name)), "inner");
    assert!(!message.is_readable(&path(&types, id, "inner.more")));
    // What its sender writes now is nowhere but in the leaves.
    heap.0.lock().unwrap().fill(b'!');
    let mut copy = message;
    copy.make_whole();
    assert!(!copy.is_gathered());
    validate(types.plan(id), copy.image()).unwrap();
    assert_eq!(text(copy.get(&name)), "inner");
    let data = path(&types, id, "data");
    assert_eq!(bytes(copy.get(&data)), vec![b'!'; GATHER_BYTES_MIN]);
}

#[test]
fn m24_a_gathered_message_is_sent_and_encoded_as_the_whole_one() {
    let (types, id) = types();
    let (whole, heap) = message(&types, id, GATHER_BYTES_MIN + 3);
    let message = gathered(&types, id, &heap);
    let protobuf = |message: &NativeMsg| message.to_protobuf(0).unwrap().into_buf().to_vec();
    assert_eq!(protobuf(&message), protobuf(&whole));
    let buf = message.into_buf();
    assert!(buf.is_shared());
    let mut sent = vec![0; buf.len() - ROOM_BYTES];
    buf.copy_range(ROOM_BYTES, &mut sent);
    let received = NativeMsg::received(&types, id, &sent).unwrap();
    assert_eq!(protobuf(&received), protobuf(&whole));
}

#[test]
fn m24_setting_a_field_makes_a_gathered_message_whole() {
    let (types, id) = types();
    let (_, heap) = message(&types, id, GATHER_BYTES_MIN);
    let mut message = gathered(&types, id, &heap);
    let (name, data) = (path(&types, id, "name"), path(&types, id, "data"));
    message.set(&name, Leaf::Text("a name that is longer")).unwrap();
    assert!(!message.is_gathered());
    validate(types.plan(id), message.image()).unwrap();
    assert_eq!(text(message.get(&name)), "a name that is longer");
    assert_eq!(bytes(message.get(&data)), vec![1; GATHER_BYTES_MIN]);
}

#[test]
fn m24_short_leaves_are_copied() {
    let (types, id) = types();
    let (whole, heap) = message(&types, id, GATHER_BYTES_MIN / 4);
    let message = gathered(&types, id, &heap);
    assert!(!message.is_gathered());
    assert_eq!(message.image_bytes(), whole.image_bytes());
}

#[test]
#[should_panic(expected = "a leaf of it is read")]
fn a_leaf_that_is_attached_is_not_read() {
    let (types, id) = types();
    let (_, heap) = message(&types, id, GATHER_BYTES_MIN);
    gathered(&types, id, &heap).get(&path(&types, id, "data"));
}

#[test]
fn m23_whatever_is_written_meanwhile_what_is_gathered_is_well_formed() {
    let (types, id) = types();
    let (whole, _) = message(&types, id, GATHER_BYTES_MIN / 2);
    let mut accepted = 0;
    for seed in 0..500 {
        let rng = RefCell::new(Rng::new(seed));
        let source = Restless { region: Region(whole.image()), rng };
        let Ok(mut message) = NativeMsg::gathered(&types, id, &source, BASE + 8, 1 << 22) else {
            continue;
        };
        accepted += 1;
        message.make_whole();
        validate(types.plan(id), message.image()).expect("it was checked while it was copied");
    }
    assert!(accepted > 10, "{accepted} of 500");
}

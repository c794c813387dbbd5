//! Random images, written by the specification and not by the code that is tested.

use petasos_base::Rng;
use petasos_schema::{
    Cardinality, Field, FieldLayout, Kind, Layouts, MessageId, MessageLayout, Schema,
};

/// The image of a random message.
pub fn image(schema: &Schema, id: MessageId, rng: &mut Rng) -> Vec<u8> {
    let layouts = Layouts::of(schema);
    let mut writer = Writer { schema, layouts: &layouts, rng, image: vec![0; 8], left: 60 };
    let root = writer.object(layouts.message(id).bytes as usize);
    assert_eq!(root, 8);
    writer.message(id, root, 4);
    let bytes = writer.image.len() as u32;
    writer.set(0, &bytes.to_le_bytes());
    writer.set(4, &[1]);
    writer.image
}

struct Writer<'a> {
    schema: &'a Schema,
    layouts: &'a Layouts,
    rng: &'a mut Rng,
    image: Vec<u8>,
    /// Values that may still be written.
    left: u32,
}

impl Writer<'_> {
    fn object(&mut self, bytes: usize) -> usize {
        let at = self.image.len();
        self.image.resize(at + bytes.next_multiple_of(8), 0);
        at
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.image[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn point(&mut self, at: usize, to: usize) {
        self.set(at, &(to as i64 - at as i64).to_le_bytes());
    }

    /// Makes the part at `at` point to an array of `len` elements, behind a gap now and then.
    fn array(&mut self, at: usize, len: usize, element_bytes: u32) -> usize {
        if self.rng.below(8) == 0 {
            let gap = self.object(8);
            self.set(gap, &[0xa5; 8]);
        }
        let to = self.object(len * element_bytes as usize);
        self.point(at, to);
        self.set(at + 8, &(len as u32).to_le_bytes());
        let room = self.rng.next_u64() as u32;
        self.set(at + 12, &room.to_le_bytes());
        to
    }

    fn is_wanted(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0 && self.rng.below(3) > 0
    }

    fn message(&mut self, id: MessageId, at: usize, depth: u32) {
        let message = self.schema.message(id);
        let layout = self.layouts.message(id);
        if self.rng.below(6) == 0 {
            let blob = self.object(16);
            self.point(at, blob);
            self.leaf(blob, b"\x08\x01 unknown");
        }
        for (field, place) in message.fields().iter().zip(&layout.fields) {
            if self.is_wanted() {
                self.field(field, place, layout, at, depth);
            }
        }
    }

    fn field(
        &mut self,
        field: &Field,
        place: &FieldLayout,
        layout: &MessageLayout,
        at: usize,
        depth: u32,
    ) {
        let here = at + place.offset as usize;
        match field.cardinality() {
            Cardinality::Implicit => self.value(field.kind(), here, depth),
            Cardinality::Optional => {
                if let Some(bit) = place.presence_bit {
                    let word = layout.presence.unwrap().offset as usize + at + bit as usize / 8;
                    self.image[word] |= 1 << (bit % 8);
                }
                self.single(field.kind(), here, depth);
            }
            Cardinality::Oneof(index) => {
                let case = at + layout.oneofs[index.index()] as usize;
                // A case that is a message has one (M26).
                let fits = depth > 0 || !matches!(field.kind(), Kind::Message(_));
                if fits && self.image[case..case + 4] == [0; 4] {
                    self.set(case, &field.number().to_le_bytes());
                    self.single(field.kind(), here, depth);
                }
            }
            Cardinality::Repeated { .. } => {
                let bytes = self.layouts.element(field.kind()).0;
                let len = self.count(field.kind(), depth);
                let array = self.array(here, len, bytes);
                for index in 0..len {
                    self.value(field.kind(), array + index * bytes as usize, depth);
                }
            }
            Cardinality::Map { key } => self.map(key, field.kind(), here, depth),
        }
    }

    /// How many elements to write: now and then more than are copied.
    fn count(&mut self, kind: Kind, depth: u32) -> usize {
        match kind {
            Kind::Message(_) if depth == 0 => 0,
            Kind::Bool | Kind::Double | Kind::Fixed32 if self.rng.below(8) == 0 => 5000,
            _ => self.rng.below(4) as usize,
        }
    }

    fn map(&mut self, key: Kind, value: Kind, at: usize, depth: u32) {
        let entry = self.layouts.entry(key, value);
        let mut keys: Vec<KeyValue> = (0..self.rng.below(5)).map(|_| self.key(key)).collect();
        keys.sort();
        keys.dedup();
        if depth == 0 {
            keys.clear();
        }
        let array = self.array(at, keys.len(), entry.bytes);
        for (index, key) in keys.iter().enumerate() {
            let at = array + index * entry.bytes as usize;
            match key {
                KeyValue::Number { bytes, value } => {
                    self.set(at, &value.to_le_bytes()[..*bytes]);
                }
                KeyValue::Text(text) => self.leaf(at, text.as_bytes()),
            }
            self.value(value, at + entry.value_offset as usize, depth);
        }
    }

    fn key(&mut self, kind: Kind) -> KeyValue {
        let bits = self.rng.next_u64() >> self.rng.below(64);
        let number = |bytes, value| KeyValue::Number { bytes, value };
        match kind {
            Kind::String => KeyValue::Text(
                ["", "a", "ab", "b", "ä", "\u{10ffff}"][self.rng.below(6) as usize].into(),
            ),
            Kind::Bool => number(1, (bits & 1).into()),
            Kind::Uint32 | Kind::Fixed32 => number(4, (bits as u32).into()),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => number(4, (bits as i32).into()),
            Kind::Uint64 | Kind::Fixed64 => number(8, bits.into()),
            _ => number(8, (bits as i64).into()),
        }
    }

    /// A value where a single field has it: a message behind a link.
    fn single(&mut self, kind: Kind, at: usize, depth: u32) {
        match kind {
            Kind::Message(_) if depth == 0 => {}
            Kind::Message(id) => {
                let to = self.object(self.layouts.message(id).bytes as usize);
                self.point(at, to);
                self.message(id, to, depth - 1);
            }
            _ => self.value(kind, at, depth),
        }
    }

    /// A value where a list or a map has it: a message as it is.
    fn value(&mut self, kind: Kind, at: usize, depth: u32) {
        match kind {
            Kind::Message(id) => self.message(id, at, depth.saturating_sub(1)),
            Kind::String => {
                let texts = ["", "a", "grüße", "six words of text, or eight"];
                let text = texts[self.rng.below(4) as usize];
                self.leaf(at, text.as_bytes());
            }
            Kind::Bytes => {
                let bytes = vec![self.rng.next_u64() as u8; self.leaf_bytes()];
                self.leaf(at, &bytes);
            }
            Kind::Bool => {
                let value = self.rng.below(2) as u8;
                self.set(at, &[value]);
            }
            _ => {
                let value = self.rng.next_u64().to_le_bytes();
                self.set(at, &value[..self.layouts.element(kind).0 as usize]);
            }
        }
    }

    fn leaf_bytes(&mut self) -> usize {
        match self.rng.below(10) {
            0 => 4096 + self.rng.below(20) as usize,
            _ => self.rng.below(20) as usize,
        }
    }

    fn leaf(&mut self, at: usize, bytes: &[u8]) {
        let to = self.array(at, bytes.len(), 1);
        self.set(to, bytes);
    }
}

/// A key, ordered as M8 says.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum KeyValue {
    Number { bytes: usize, value: i128 },
    Text(String),
}

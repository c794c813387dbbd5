//! Reads a message as accessors do: with no look at what could be wrong, but of a slice, so that a
//! read outside of the image panics.

use petasos_schema::{Cardinality, Field, FieldLayout, Kind, Layouts, MessageId, Schema};

/// All values of the message in an image, each with what leads to it. Equal for equal messages.
pub fn read(schema: &Schema, id: MessageId, image: &[u8]) -> Vec<u8> {
    let layouts = Layouts::of(schema);
    let mut reader = Reader { schema, layouts: &layouts, image, out: Vec::new() };
    reader.message(id, 8);
    reader.out
}

struct Reader<'a> {
    schema: &'a Schema,
    layouts: &'a Layouts,
    image: &'a [u8],
    out: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(*self.image[at..].first_chunk().unwrap())
    }

    fn short(&self, at: usize) -> u32 {
        u32::from_le_bytes(*self.image[at..].first_chunk().unwrap())
    }

    fn target(&self, at: usize) -> Option<usize> {
        let distance = self.word(at);
        (distance != 0).then(|| at.wrapping_add(distance as usize))
    }

    fn slice(&self, at: usize) -> &'a [u8] {
        match self.short(at + 8) as usize {
            0 => &[],
            len => {
                let start = self.target(at).unwrap();
                &self.image[start..start + len]
            }
        }
    }

    fn note(&mut self, what: u8, number: u32) {
        self.out.push(what);
        self.out.extend(number.to_le_bytes());
    }

    fn message(&mut self, id: MessageId, at: usize) {
        self.note(b'{', id.index() as u32);
        if let Some(blob) = self.target(at) {
            let unknown = self.slice(blob);
            self.note(b'u', unknown.len() as u32);
            self.out.extend(unknown);
        }
        let layout = self.layouts.message(id);
        for (field, place) in self.schema.message(id).fields().iter().zip(&layout.fields) {
            let oneof = field.oneof().map(|index| at + layout.oneofs[index.index()] as usize);
            let word = place.presence_bit.map(|bit| {
                let at = at + layout.presence.unwrap().offset as usize + bit as usize / 8;
                self.image[at] >> (bit % 8) & 1
            });
            if oneof.is_none_or(|case| self.short(case) == field.number()) {
                self.note(b'f', field.number());
                self.out.extend(word);
                self.field(field, place, at);
            }
        }
        self.note(b'}', 0);
    }

    fn field(&mut self, field: &Field, place: &FieldLayout, at: usize) {
        let here = at + place.offset as usize;
        match (field.cardinality(), field.kind()) {
            (Cardinality::Repeated { .. }, kind) => {
                self.array(here, self.layouts.element(kind).0, |this, at| this.value(kind, at));
            }
            (Cardinality::Map { key }, kind) => {
                let entry = self.layouts.entry(key, kind);
                self.array(here, entry.bytes, |this, at| {
                    this.value(key, at);
                    this.value(kind, at + entry.value_offset as usize);
                });
            }
            (_, Kind::Message(id)) => match self.target(here) {
                Some(to) => self.message(id, to),
                None => self.note(b'-', 0),
            },
            (_, kind) => self.value(kind, here),
        }
    }

    fn array(&mut self, at: usize, element_bytes: u32, one: impl Fn(&mut Self, usize)) {
        let len = self.short(at + 8);
        self.note(b'[', len);
        if len > 0 {
            let start = self.target(at).unwrap();
            (0..len as usize).for_each(|index| one(self, start + index * element_bytes as usize));
        }
    }

    fn value(&mut self, kind: Kind, at: usize) {
        match kind {
            Kind::Message(id) => self.message(id, at),
            Kind::String => {
                let text = str::from_utf8(self.slice(at)).expect("strings are UTF-8");
                self.note(b's', text.len() as u32);
                self.out.extend(text.as_bytes());
            }
            Kind::Bytes => {
                let bytes = self.slice(at);
                self.note(b'b', bytes.len() as u32);
                self.out.extend(bytes);
            }
            Kind::Bool => {
                assert!(self.image[at] < 2, "bools are 0 or 1");
                self.out.push(self.image[at]);
            }
            _ => {
                let bytes = self.layouts.element(kind).0 as usize;
                self.out.extend(&self.image[at..at + bytes]);
            }
        }
    }
}

//! What someone would write by hand for the `Feature` of `shapes.proto`: both directions, the same
//! struct in the same kind of memory, and nothing that another message would need. The measure for
//! what is done by plan.

use std::cell::Cell;
use std::mem::offset_of;

/// As `petasos_schema::layout` has it.
#[repr(C)]
struct Point {
    unknown: i64,
    latitude: i32,
    longitude: i32,
}

/// Pointer, length, capacity.
type Span = [u64; 2];

#[repr(C)]
struct Feature {
    unknown: i64,
    name: Span,
    location: i64,
    image: Span,
    tags: Span,
    path: Span,
    id: i64,
    level: i32,
    score: u32,
}

/// The bytes end early, or are no feature.
#[derive(Debug)]
pub struct Malformed;

const CHUNK_WORDS: usize = 2048;
type Chunk = Box<[u64; CHUNK_WORDS]>;

thread_local! {
    static POOL: Cell<Option<Chunk>> = const { Cell::new(None) };
}

/// A decoded feature, and the memory that it is in. Shapes are chosen such that one chunk suffices.
pub struct Decoded {
    chunk: Option<Chunk>,
    base: *mut u8,
    used: usize,
}

impl Drop for Decoded {
    fn drop(&mut self) {
        POOL.set(self.chunk.take());
    }
}

/// Writes `value` at `to + offset`.
#[inline(always)]
fn put<T>(to: *mut u8, offset: usize, value: T) {
    // SAFETY: callers write fields of structs that they made, and elements of arrays.
    unsafe { to.add(offset).cast::<T>().write_unaligned(value) }
}

/// Reads a `T` at `from + offset`.
#[inline(always)]
fn get<T: Copy>(from: *const u8, offset: usize) -> T {
    // SAFETY: as for `put`.
    unsafe { from.add(offset).cast::<T>().read_unaligned() }
}

#[inline(always)]
fn place(at: *mut u8, offset: usize) -> *mut u8 {
    at.wrapping_add(offset)
}

impl Decoded {
    fn new() -> Decoded {
        let mut chunk = POOL.take().unwrap_or_else(|| Box::new([0; CHUNK_WORDS]));
        let base = chunk.as_mut_ptr().cast();
        Decoded { chunk: Some(chunk), base, used: 24 }
    }

    /// `bytes` of memory, the last word zeroed.
    #[inline(always)]
    fn bump(&mut self, bytes: usize) -> *mut u8 {
        let rounded = (bytes + 7) & !7;
        assert!(rounded <= CHUNK_WORDS * 8 - self.used, "one chunk suffices");
        let at = place(self.base, self.used);
        if rounded != 0 {
            put(at, rounded - 8, 0u64);
        }
        self.used += rounded;
        at
    }

    #[inline(always)]
    fn zeroed(&mut self, bytes: usize) -> *mut u8 {
        let at = self.bump(bytes);
        if bytes <= 128 {
            (0..bytes / 8).for_each(|word| put(at, word * 8, 0u64));
        } else {
            // SAFETY: `bump` gave as many bytes.
            unsafe { at.write_bytes(0, bytes) };
        }
        at
    }

    #[inline(always)]
    fn leaf(&mut self, span: *mut u8, bytes: &[u8]) {
        let at = self.bump(bytes.len());
        // SAFETY: `bump` gave as many bytes.
        let to = unsafe { std::slice::from_raw_parts_mut(at, bytes.len()) };
        petasos_buf::copy_short(to, bytes);
        point(span, at, bytes.len());
    }
}

#[inline(always)]
fn point(span: *mut u8, at: *mut u8, len: usize) {
    put(span, 0, at.addr().wrapping_sub(span.addr()));
    put(span, 8, len as u32);
}

struct In<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> In<'a> {
    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Malformed> {
        match self.bytes[self.at..] {
            [a, ..] if a < 128 => {
                self.at += 1;
                Ok(a.into())
            }
            [a, b, ..] if b < 128 => {
                self.at += 2;
                Ok(u64::from(a & 127) | u64::from(b) << 7)
            }
            _ => self.long_varint(),
        }
    }

    #[inline]
    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for index in 0..10 {
            let byte = *self.bytes.get(self.at).ok_or(Malformed)?;
            self.at += 1;
            value |= u64::from(byte & 127) << (7 * index);
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    #[inline(always)]
    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint()? as usize;
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.get(..len)).ok_or(Malformed)?;
        self.at += len;
        Ok(bytes)
    }

    #[inline(always)]
    fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let bytes = self.bytes()?;
        str::from_utf8(bytes).map_err(|_| Malformed)?;
        Ok(bytes)
    }

    /// The number of records with `tag`, the first tag consumed.
    #[inline(always)]
    fn run(&self, tag: u8) -> Result<usize, Malformed> {
        let mut ahead = In { bytes: self.bytes, at: self.at };
        let mut count = 0;
        loop {
            ahead.bytes()?;
            count += 1;
            if ahead.bytes.get(ahead.at) != Some(&tag) {
                return Ok(count);
            }
            ahead.at += 1;
        }
    }
}

fn decode_point(bytes: &[u8], point: *mut u8) -> Result<(), Malformed> {
    let mut input = In { bytes, at: 0 };
    while input.at < bytes.len() {
        match input.varint()? {
            8 => put(point, offset_of!(Point, latitude), input.varint()? as i32),
            16 => put(point, offset_of!(Point, longitude), input.varint()? as i32),
            _ => return Err(Malformed),
        }
    }
    Ok(())
}

/// Decodes a feature.
#[inline(never)]
pub fn decode(bytes: &[u8]) -> Result<Decoded, Malformed> {
    let mut decoded = Decoded::new();
    let feature = decoded.zeroed(size_of::<Feature>());
    let mut input = In { bytes, at: 0 };
    while input.at < bytes.len() {
        match input.varint()? {
            10 => decoded.leaf(place(feature, offset_of!(Feature, name)), input.text()?),
            18 => {
                let at = decoded.zeroed(size_of::<Point>());
                let link = place(feature, offset_of!(Feature, location));
                put(link, 0, at.addr().wrapping_sub(link.addr()));
                decode_point(input.bytes()?, at)?;
            }
            26 => decoded.leaf(place(feature, offset_of!(Feature, image)), input.bytes()?),
            34 => {
                let count = input.run(34)?;
                let array = decoded.zeroed(count * 16);
                point(place(feature, offset_of!(Feature, tags)), array, count);
                for index in 0..count {
                    input.at += usize::from(index > 0);
                    decoded.leaf(place(array, index * 16), input.text()?);
                }
            }
            42 => {
                let count = input.run(42)?;
                let array = decoded.zeroed(count * size_of::<Point>());
                point(place(feature, offset_of!(Feature, path)), array, count);
                for index in 0..count {
                    input.at += usize::from(index > 0);
                    decode_point(input.bytes()?, place(array, index * size_of::<Point>()))?;
                }
            }
            48 => put(feature, offset_of!(Feature, id), input.varint()?),
            56 => put(feature, offset_of!(Feature, level), input.varint()? as i32),
            69 => {
                let score = bytes.get(input.at..).and_then(|rest| rest.first_chunk::<4>());
                put(feature, offset_of!(Feature, score), *score.ok_or(Malformed)?);
                input.at += 4;
            }
            _ => return Err(Malformed),
        }
    }
    Ok(decoded)
}

#[inline(always)]
fn varint_len(value: u64) -> usize {
    ((value | 1).ilog2() as usize * 9 + 73) / 64
}

#[inline(always)]
fn number_len(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + varint_len(value) }
}

#[inline(always)]
fn delimited_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

fn point_len(point: *const u8) -> usize {
    number_len(i64::from(get::<i32>(point, offset_of!(Point, latitude))) as u64)
        + number_len(i64::from(get::<i32>(point, offset_of!(Point, longitude))) as u64)
}

/// The target and the length of a span.
#[inline(always)]
fn span(from: *const u8, offset: usize) -> (*const u8, usize) {
    let here = from.wrapping_add(offset);
    (here.wrapping_offset(get::<isize>(here, 0)), get::<u32>(here, 8) as usize)
}

#[inline(always)]
fn slice<'a>(from: *const u8, offset: usize) -> &'a [u8] {
    let (at, len) = span(from, offset);
    // SAFETY: a leaf that `decode` made, or an empty span.
    if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, len) } }
}

struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    #[inline(always)]
    fn varint(&mut self, mut value: u64) {
        while value >= 128 {
            self.0.push(value as u8 | 128);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    #[inline(always)]
    fn number(&mut self, tag: u8, value: u64) {
        if value != 0 {
            self.0.push(tag);
            self.varint(value);
        }
    }

    #[inline(always)]
    fn delimited(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn point(&mut self, tag: u8, point: *const u8) {
        self.0.push(tag);
        self.varint(point_len(point) as u64);
        self.number(8, i64::from(get::<i32>(point, offset_of!(Point, latitude))) as u64);
        self.number(16, i64::from(get::<i32>(point, offset_of!(Point, longitude))) as u64);
    }
}

/// Encodes a feature.
#[inline(never)]
pub fn encode(decoded: &Decoded) -> Vec<u8> {
    let mut out = Vec::new();
    append(decoded, &mut out);
    out
}

/// Appends the encoding of a feature.
#[inline(always)]
pub fn append(decoded: &Decoded, out: &mut Vec<u8>) {
    let feature = place(decoded.base, 24).cast_const();
    let (name, image) =
        (slice(feature, offset_of!(Feature, name)), slice(feature, offset_of!(Feature, image)));
    let location = get::<isize>(feature, offset_of!(Feature, location));
    let location = (location != 0)
        .then(|| feature.wrapping_add(offset_of!(Feature, location)).wrapping_offset(location));
    let (tags, tag_count) = span(feature, offset_of!(Feature, tags));
    let (path, path_count) = span(feature, offset_of!(Feature, path));
    let id = get::<u64>(feature, offset_of!(Feature, id));
    let level = i64::from(get::<i32>(feature, offset_of!(Feature, level))) as u64;
    let score = get::<u32>(feature, offset_of!(Feature, score));
    let points = (0..path_count).map(|index| path.wrapping_add(index * size_of::<Point>()));
    let tags = (0..tag_count).map(|index| slice(tags.wrapping_add(index * 16), 0));
    let leaf_len = |leaf: &[u8]| if leaf.is_empty() { 0 } else { delimited_len(leaf.len()) };
    let len = leaf_len(name)
        + location.map_or(0, |point| delimited_len(point_len(point)))
        + leaf_len(image)
        + tags.clone().map(|tag| delimited_len(tag.len())).sum::<usize>()
        + points.clone().map(|point| delimited_len(point_len(point))).sum::<usize>()
        + number_len(id)
        + number_len(level)
        + if score == 0 { 0 } else { 5 };
    out.reserve(len);
    let mut out = Out(out);
    if !name.is_empty() {
        out.delimited(10, name);
    }
    if let Some(point) = location {
        out.point(18, point);
    }
    if !image.is_empty() {
        out.delimited(26, image);
    }
    tags.for_each(|tag| out.delimited(34, tag));
    points.for_each(|point| out.point(42, point));
    out.number(48, id);
    out.number(56, level);
    if score != 0 {
        out.0.push(69);
        out.0.extend_from_slice(&score.to_le_bytes());
    }
}

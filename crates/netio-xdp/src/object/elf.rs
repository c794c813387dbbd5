//! The part of an ELF file that a BPF object needs: code, maps, and which instruction names which.
//!
//! Every number in the file is checked before it is used as a place in it; what is read is bounded
//! by the file, and by the limits below.

use super::ObjectError;
use crate::sys::bpf::MapDefinition;

const SECTIONS_MAX: usize = 64;
const MAPS_MAX: usize = 16;
/// The most instructions that the kernel takes without further privileges is fewer.
const INSTRUCTIONS_MAX: usize = 1 << 16;

const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const RELOCATION_BYTES: usize = 16;
const MAP_BYTES: usize = 20;
const NAME_BYTES_MAX: usize = 32;

const MACHINE_BPF: u16 = 247;
const TYPE_RELOCATIONS: u32 = 9;
/// A map's descriptor in both halves of a load of 64 bits.
const RELOCATION_64: u32 = 1;
/// The operation of such a load.
const LOAD_64: u64 = 0x18;

/// What was read.
pub(super) struct Read {
    pub(super) instructions: Vec<u64>,
    pub(super) maps: Vec<MapDefinition>,
    /// Instructions that load a map, and which.
    pub(super) uses: Vec<(usize, usize)>,
}

#[derive(Clone, Copy)]
struct Section<'a> {
    name: &'a [u8],
    kind: u32,
    link: usize,
    info: usize,
    bytes: &'a [u8],
}

/// Reads the program in the section `program`, and the section `maps`.
pub(super) fn read(file: &[u8], program: &str) -> Result<Read, ObjectError> {
    let sections = sections(file)?;
    let find = |name: &str| {
        let at = sections.iter().position(|section| section.name == name.as_bytes());
        at.ok_or(ObjectError("a section is missing"))
    };
    let (code, maps) = (find(program)?, find("maps")?);
    let instructions = words(sections[code].bytes)?;
    let relocations = sections
        .iter()
        .filter(|section| section.kind == TYPE_RELOCATIONS && section.info == code)
        .copied();
    let mut read = Read { instructions, maps: Vec::new(), uses: Vec::new() };
    for relocations in relocations {
        let symbols = *sections.get(relocations.link).ok_or(ObjectError("no symbols"))?;
        let names = *sections.get(symbols.link).ok_or(ObjectError("no names"))?;
        for relocation in relocations.bytes.chunks_exact(RELOCATION_BYTES) {
            let symbol = number(relocation, 12, 4)? as usize;
            if number(relocation, 8, 4)? as u32 != RELOCATION_64 {
                return Err(ObjectError("a relocation of another kind"));
            }
            let at = number(relocation, 0, 8)? as usize / 8;
            let is_load = |word: &u64| word & 0xff == LOAD_64;
            if !read.instructions.get(at).is_some_and(is_load) {
                return Err(ObjectError("a relocation of another instruction"));
            }
            let symbol = entry(symbols.bytes, symbol, SYMBOL_BYTES)?;
            if number(symbol, 6, 2)? as usize != maps {
                return Err(ObjectError("a relocation that is no map"));
            }
            let name = name_at(names.bytes, number(symbol, 0, 4)? as usize)?;
            let place = number(symbol, 8, 8)? as usize;
            let map = map_at(&mut read.maps, sections[maps].bytes, place, name)?;
            read.uses.push((at, map));
        }
    }
    Ok(read)
}

/// The place of a map in the list, in which it is put if it is new.
fn map_at(
    maps: &mut Vec<MapDefinition>,
    section: &[u8],
    place: usize,
    name: &[u8],
) -> Result<usize, ObjectError> {
    let name = core::str::from_utf8(name).map_err(|_| ObjectError("a name that is no text"))?;
    if let Some(at) = maps.iter().position(|map| map.name == name) {
        return Ok(at);
    }
    if maps.len() == MAPS_MAX {
        return Err(ObjectError("too many maps"));
    }
    let bytes = slice(section, place, MAP_BYTES)?;
    let field = |at: usize| number(bytes, at * 4, 4).map(|field| field as u32);
    maps.push(MapDefinition {
        name: name.to_owned(),
        kind: field(0)?,
        key_bytes: field(1)?,
        value_bytes: field(2)?,
        entries_max: field(3)?,
        flags: field(4)?,
    });
    Ok(maps.len() - 1)
}

fn sections(file: &[u8]) -> Result<Vec<Section<'_>>, ObjectError> {
    let header = slice(file, 0, HEADER_BYTES)?;
    // 64 bits, little-endian.
    if header[..6] != *b"\x7fELF\x02\x01" || number(header, 18, 2)? != u64::from(MACHINE_BPF) {
        return Err(ObjectError("no little-endian BPF object"));
    }
    let (table, size) = (number(header, 40, 8)? as usize, number(header, 58, 2)? as usize);
    let (count, names) = (number(header, 60, 2)? as usize, number(header, 62, 2)? as usize);
    if size != SECTION_BYTES || count > SECTIONS_MAX {
        return Err(ObjectError("sections of another form, or too many"));
    }
    let table = slice(file, table, count * SECTION_BYTES)?;
    let content = |header: &[u8]| -> Result<&[u8], ObjectError> {
        slice(file, number(header, 24, 8)? as usize, number(header, 32, 8)? as usize)
    };
    let names = content(entry(table, names, SECTION_BYTES)?)?;
    let section = |header| {
        Ok(Section {
            name: name_at(names, number(header, 0, 4)? as usize)?,
            kind: number(header, 4, 4)? as u32,
            link: number(header, 40, 4)? as usize,
            info: number(header, 44, 4)? as usize,
            bytes: content(header)?,
        })
    };
    table.chunks_exact(SECTION_BYTES).map(section).collect()
}

fn words(bytes: &[u8]) -> Result<Vec<u64>, ObjectError> {
    let (words, rest) = bytes.as_chunks::<8>();
    if words.is_empty() || words.len() > INSTRUCTIONS_MAX || !rest.is_empty() {
        return Err(ObjectError("no instructions, or too many"));
    }
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

fn entry(bytes: &[u8], at: usize, size: usize) -> Result<&[u8], ObjectError> {
    slice(bytes, at.saturating_mul(size), size)
}

/// A name that ends with a zero.
fn name_at(bytes: &[u8], at: usize) -> Result<&[u8], ObjectError> {
    let bytes = bytes.get(at..).unwrap_or_default();
    let end = bytes.iter().take(NAME_BYTES_MAX).position(|byte| *byte == 0);
    Ok(&bytes[..end.ok_or(ObjectError("a name without an end"))?])
}

/// An integer of up to 8 bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Result<u64, ObjectError> {
    let mut word = [0; 8];
    word[..size].copy_from_slice(slice(bytes, at, size)?);
    Ok(u64::from_le_bytes(word))
}

fn slice(bytes: &[u8], at: usize, size: usize) -> Result<&[u8], ObjectError> {
    let end = at.checked_add(size).ok_or(ObjectError("cut off"))?;
    bytes.get(at..end).ok_or(ObjectError("cut off"))
}

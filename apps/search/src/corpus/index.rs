//! Indices of dictionaries: lines of a headword, and where its entry is in the text.

use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Range;

use super::error::Fault;

/// What entries about the dictionary itself begin with.
const ABOUT: &str = "00-";
/// A number has at most so many digits of 6 bits, which is more than any text needs.
const DIGITS_MAX: usize = 8;

/// The headwords and places of all entries, in the order of the text. Of several headwords of one
/// entry, it is the first.
///
/// # Errors
/// If it is no index of a text of so many bytes, or two entries share a part of it.
pub fn parse(index: &[u8], text_bytes: usize) -> Result<Vec<(&str, Range<usize>)>, Fault> {
    let mut entries: BTreeMap<usize, (&str, usize)> = BTreeMap::new();
    for (number, line) in (1..).zip(index.split(|byte| *byte == b'\n')) {
        if line.is_empty() {
            continue;
        }
        let (headword, offset, length) = parse_line(line).ok_or(Fault::Line(number))?;
        let end = offset + length;
        if end > text_bytes {
            return Err(Fault::Beyond(number));
        }
        if headword.starts_with(ABOUT) {
            continue;
        }
        match entries.entry(offset) {
            Entry::Vacant(vacant) => drop(vacant.insert((headword, end))),
            Entry::Occupied(other) if other.get().1 == end => {}
            Entry::Occupied(other) => {
                return Err(Fault::Overlap(other.get().0.to_owned(), headword.to_owned()));
            }
        }
    }
    let entries = entries.into_iter().map(|(from, (headword, to))| (headword, from..to));
    let entries: Vec<(&str, Range<usize>)> = entries.collect();
    let overlap = entries.windows(2).find(|pair| pair[0].1.end > pair[1].1.start);
    match overlap {
        Some(pair) => Err(Fault::Overlap(pair[0].0.to_owned(), pair[1].0.to_owned())),
        None if entries.is_empty() => Err(Fault::Empty),
        None => Ok(entries),
    }
}

/// The headword, offset and length of a line. An entry without text is none.
fn parse_line(line: &[u8]) -> Option<(&str, usize, usize)> {
    let line = str::from_utf8(line).ok()?;
    let mut fields = line.split('\t');
    let headword = fields.next().filter(|word| !word.is_empty())?;
    let (offset, length) = (number(fields.next()?)?, number(fields.next()?)?);
    // A fourth is the headword as it is spelt, if it is not sorted by that.
    fields.next();
    (length > 0 && fields.next().is_none()).then_some((headword, offset, length))
}

/// A number in digits of 6 bits, the highest first.
fn number(digits: &str) -> Option<usize> {
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    digits.bytes().try_fold(0, |number, digit| Some(number << 6 | value(digit)?))
}

fn value(digit: u8) -> Option<usize> {
    Some(
        match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }
        .into(),
    )
}

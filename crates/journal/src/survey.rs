//! What a directory has, and whether that is a log (QR19).

use crate::error::{Damage, Doing};
use crate::segment::{self, Scan, scan};
use crate::{Error, Files, Identity};

/// The segments that make the log, by number, and their open files.
pub(crate) struct Survey<F> {
    pub(crate) segments: Vec<(F, Scan)>,
    /// Segments before the one in which the log begins; they were to be removed.
    pub(crate) stale: Vec<u64>,
}

/// The numbers of all segments, sorted.
pub(crate) fn numbers(files: &impl Files) -> Result<Vec<u64>, Error> {
    let names = files.list().doing("listing", ".")?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads all segments of the log.
///
/// # Errors
/// Damage of any of them; and what [`judge`] finds.
pub(crate) fn survey<F: Files>(
    files: &F,
    identity: Identity,
    open: impl Fn(&str) -> Result<F::File, crate::FileError>,
) -> Result<Survey<F::File>, Error> {
    let mut stale = numbers(files)?;
    let mut segments = Vec::new();
    // From the last one on: what lies before the one in which the log begins is not looked at.
    while let Some(number) = stale.pop() {
        let name = segment::name(number);
        let file = open(&name).doing("opening", &name)?;
        let scan = scan(&file, &name, identity)?;
        let begins = scan.header.begins;
        segments.push((file, scan));
        if begins {
            break;
        }
    }
    segments.reverse();
    Ok(Survey { segments, stale })
}

/// Whether these segments are a log without gaps, up to at least segment `last_segment`, and
/// whether snapshots up to place `snapshot` have what is before it.
pub(crate) fn judge<'a>(
    scans: impl Iterator<Item = &'a Scan>,
    last_segment: u64,
    snapshot: u64,
) -> Result<(), Damage> {
    let missing = |number| Damage::new(&segment::name(number), 0, "the file is missing");
    let mut before: Option<&Scan> = None;
    for scan in scans {
        let first = scan.header.first_place;
        match before {
            None if first - 1 > snapshot => {
                let what = format!(
                    "the log begins at place {first}, and no snapshot has what is \
                    before"
                );
                return Err(Damage::new(&scan.name, 0, what));
            }
            None => {}
            Some(before) if before.header.number + 1 != scan.header.number => {
                return Err(missing(before.header.number + 1));
            }
            Some(before) if before.next_place() != first => {
                let what = format!(
                    "it ends before place {}, and the next segment begins with \
                    place {first}",
                    before.next_place()
                );
                return Err(before.damage(what));
            }
            Some(_) => {}
        }
        before = Some(scan);
    }
    match before {
        Some(last) if last.header.number >= last_segment => Ok(()),
        _ => Err(missing(last_segment.max(1))),
    }
}

//! Makes the journal of a new member, which is there as a whole or not at all: its identity is
//! written last.

use std::collections::VecDeque;

use super::{Config, Journal};
use crate::error::Doing;
use crate::identity::{IDENTITY, IDENTITY_NEW, LOCK};
use crate::record::HEADER_BYTES;
use crate::segment::{self, RECORDS_AT};
use crate::spare::is_spare;
use crate::state::{STATE, StateFile};
use crate::{Error, File, FileError, Files, Identity, IdentityError, snapshot};

impl<F: Files> Journal<F> {
    /// Makes a journal in a directory that has none.
    ///
    /// # Errors
    /// [`IdentityError`] if there is one, or the remains of one; [`Error::Full`]; errors of files.
    ///
    /// # Panics
    /// If `config` is not possible: the caller's fault.
    pub fn create(files: F, identity: Identity, config: Config) -> Result<Journal<F>, Error> {
        config.check();
        let lock = lock(&files)?;
        match Identity::read(&files) {
            Ok(Identity { group, member }) => {
                return Err(IdentityError::Taken { group, member }.into());
            }
            Err(Error::Identity(IdentityError::None)) => clear(&files)?,
            Err(error) => return Err(error),
        }
        let state = StateFile::create(&files)?;
        let mut journal = Journal {
            files,
            identity,
            config,
            segments: VecDeque::new(),
            spares: VecDeque::new(),
            spares_begun: 0,
            state,
            failed: None,
            durable: 0,
            buffer: Vec::new(),
            _lock: lock,
        };
        let spare = journal.preparation().run()?;
        journal.spares.push_back(spare);
        journal.begin_segment(1, false)?;
        identity.write(&journal.files)?;
        Ok(journal)
    }
}

/// Takes the directory for this process.
pub(super) fn lock<F: Files>(files: &F) -> Result<F::Lock, Error> {
    match files.lock(LOCK) {
        Err(FileError::Locked) => Err(IdentityError::InUse.into()),
        lock => lock.doing("locking", LOCK),
    }
}

/// Removes what an earlier attempt has left, which has no records. Anything else was a member.
fn clear(files: &impl Files) -> Result<(), Error> {
    for name in files.list().doing("listing", ".")? {
        let is_of_a_member = snapshot::is_snapshot(&name)
            || segment::number_of(&name).is_some_and(|number| number > 1)
            || (segment::number_of(&name).is_some() && has_records(files, &name)?);
        if is_of_a_member {
            let what = format!(
                "it is missing, and `{name}` is there: it was a member's; restore \
                it, or take an empty directory"
            );
            return Err(IdentityError::Unreadable { what }.into());
        }
        let is_ours = [STATE, IDENTITY_NEW].contains(&name.as_str())
            || segment::number_of(&name).is_some()
            || is_spare(&name);
        if is_ours && name != IDENTITY {
            files.remove(&name).doing("removing", &name)?;
        }
    }
    Ok(())
}

fn has_records(files: &impl Files, name: &str) -> Result<bool, Error> {
    let file = files.open_read_only(name).doing("opening", name)?;
    let mut head = [0; HEADER_BYTES];
    file.read_at(&mut head, u64::from(RECORDS_AT)).doing("reading", name)?;
    Ok(head != [0; HEADER_BYTES])
}

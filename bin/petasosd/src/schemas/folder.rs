//! The folder of the cache on disk.
//!
//! A file has one schema in its compact form, and its digest for a name. It is made under another
//! name and renamed, so that nobody reads half of one; since readers compare the digest, a crash of
//! the host can lose a file and not make a wrong one, and nothing waits for the disk (`fsync`).
//! Several processes may share a folder: they make the same bytes under the same name, and each
//! takes away the files that were not used for longest.
//!
//! Invariants: the folder belongs to this process's user, and nobody else may write it. All access
//! is relative to the folder that was checked, no link is followed, and what is read is bounded. No
//! file is trusted: [`Folder::read`] gives bytes that the name is the digest of, or nothing.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use petasos_base::random_seed;
use petasos_service::Digest;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW,
};
use rustix::io::Errno;

/// The most names that are looked at.
const ENTRIES_MAX: usize = 1 << 16;
/// Begins the names of files that are being written.
const PARTIAL: &str = ".partial-";
/// After so many seconds nobody is writing one any more.
const PARTIAL_AGE_S: i64 = 600;

/// How much a folder may have.
#[derive(Clone, Copy, Debug)]
pub struct FolderLimits {
    /// Files.
    pub files_max: usize,
    /// Bytes of all of them.
    pub bytes_max: u64,
    /// Bytes of one.
    pub file_bytes_max: u64,
}

/// A folder whose owner and mode were checked.
#[derive(Debug)]
pub struct Folder {
    folder: OwnedFd,
    path: PathBuf,
    limits: FolderLimits,
}

/// A file that may be a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    /// When it was last used, in s and ns since 1970.
    used: (i64, i64),
    digest: Digest,
    bytes: u64,
}

impl Folder {
    /// Opens a folder, and makes it if it is not there.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(path: &Path, limits: FolderLimits) -> Result<Folder, String> {
        let wrong = |why: &dyn std::fmt::Display| {
            format!("the schema cache {} cannot be used: {why}", path.display())
        };
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(wrong(&error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let folder = folder.map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP => wrong(&"it is no folder"),
            error => wrong(&error),
        })?;
        let stat = rustix::fs::fstat(&folder).map_err(|error| wrong(&error))?;
        if !is_own(&stat) {
            return Err(wrong(&"it belongs to another user, or others may write it"));
        }
        Ok(Folder { folder, path: path.to_owned(), limits })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The schemas that there are, that which was not used for longest first. Removes what cannot
    /// be one.
    pub fn scan(&self) -> Vec<Digest> {
        self.found().into_iter().map(|found| found.digest).collect()
    }

    /// A schema that is there: bytes that its name is the digest of.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(&self, digest: Digest) -> Result<Vec<u8>, String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = digest.to_string();
        let file = rustix::fs::openat(&self.folder, &name, flags, Mode::empty());
        let file = file.map_err(|error| error.to_string())?;
        let stat = rustix::fs::fstat(&file).map_err(|error| error.to_string())?;
        self.check(&stat)?;
        let (mut bytes, most) = (Vec::new(), self.limits.file_bytes_max);
        let read = File::from(file).take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        match bytes.len() as u64 <= most && Digest::of(&bytes) == digest {
            true => Ok(bytes),
            false => Err("its contents are not what its name says".to_owned()),
        }
    }

    /// Notes that a schema was used. Says whether it is there.
    pub fn touch(&self, digest: Digest) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        let (name, flags) = (digest.to_string(), AtFlags::SYMLINK_NOFOLLOW);
        rustix::fs::utimensat(&self.folder, name, &times, flags).is_ok()
    }

    /// Keeps a schema, and lets others go for it.
    ///
    /// # Errors
    /// What the system refuses. All is as before, but for those that were let go.
    pub fn write(&self, digest: Digest, bytes: &[u8]) -> Result<(), String> {
        if !self.make_room(bytes.len() as u64) {
            return Err("it has no room".to_owned());
        }
        // Not the process's number: in containers that share a folder it may be the same.
        let partial = format!("{PARTIAL}{:016x}", random_seed());
        let written = self.write_whole(&partial, digest, bytes);
        written.map_err(|error| {
            self.remove(&partial);
            error.to_string()
        })
    }

    fn write_whole(&self, partial: &str, digest: Digest, bytes: &[u8]) -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(rustix::fs::openat(&self.folder, partial, flags, mode)?);
        file.write_all(bytes)?;
        drop(file);
        let name = digest.to_string();
        Ok(rustix::fs::renameat(&self.folder, partial, &self.folder, name)?)
    }

    /// Lets a schema go.
    pub fn forget(&self, digest: Digest) {
        self.remove(&digest.to_string());
    }

    /// Says what is wrong with a file, and removes it.
    pub fn refuse(&self, name: &str, why: &str) {
        let path = self.path.display();
        eprintln!("petasosd: the schema cache: {path}/{name} is not used, and removed: {why}");
        self.remove(name);
    }

    /// Whether so many bytes more are within the limits, once those have gone that were not used
    /// for longest.
    fn make_room(&self, more: u64) -> bool {
        let FolderLimits { files_max, bytes_max, file_bytes_max } = self.limits;
        if more > file_bytes_max.min(bytes_max) || files_max == 0 {
            return false;
        }
        let found = self.found();
        let (mut count, mut bytes) =
            (found.len(), found.iter().map(|file| file.bytes).sum::<u64>());
        for oldest in found {
            if count < files_max && bytes + more <= bytes_max {
                break;
            }
            self.forget(oldest.digest);
            (count, bytes) = (count - 1, bytes - oldest.bytes);
        }
        true
    }

    /// What there is, that which was not used for longest first.
    fn found(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let entries = Dir::read_from(&self.folder).into_iter().flatten();
        for entry in entries.take(ENTRIES_MAX).filter_map(Result::ok) {
            let Ok(name) = entry.file_name().to_str() else { continue };
            let stat = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
            // Another process may have removed it.
            let Ok(stat) = stat else { continue };
            if name.starts_with(PARTIAL) {
                self.remove_old(name, &stat);
                continue;
            }
            // What has another name is somebody else's.
            let Ok(digest) = name.parse() else { continue };
            match self.check(&stat) {
                Ok(bytes) => found.push(Found { used: used_at(&stat), digest, bytes }),
                Err(why) => self.refuse(name, &why),
            }
        }
        found.sort_unstable();
        found
    }

    /// Whether a file can be a schema. Gives its length.
    fn check(&self, stat: &Stat) -> Result<u64, String> {
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err("it is no file".to_owned());
        }
        if !is_own(stat) {
            return Err("it belongs to another user, or others may write it".to_owned());
        }
        let (bytes, most) = (stat.st_size as u64, self.limits.file_bytes_max);
        match bytes > 0 && bytes <= most {
            true => Ok(bytes),
            false => Err(format!("it has {bytes} bytes, and not 1 to {most}")),
        }
    }

    /// A process that was writing a file may have ended.
    fn remove_old(&self, name: &str, stat: &Stat) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        if now.tv_sec.saturating_sub(used_at(stat).0) > PARTIAL_AGE_S {
            self.remove(name);
        }
    }

    fn remove(&self, name: &str) {
        // Another process may have been faster.
        let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
    }
}

/// Whether something belongs to this process's user, and nobody else may write it.
fn is_own(stat: &Stat) -> bool {
    let others = (Mode::WGRP | Mode::WOTH).as_raw_mode();
    stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & others == 0
}

fn used_at(stat: &Stat) -> (i64, i64) {
    (stat.st_mtime, stat.st_mtime_nsec as i64)
}

#[cfg(test)]
mod tests;

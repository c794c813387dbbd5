//! Shared objects: loading, the check of their table, and unloading.
//!
//! An object is loaded from a sealed copy in memory, not from its file: what a child process has
//! tried is what is loaded, a file that is overwritten does not change code that runs, and a new
//! version at the same path is another object to the system's loader.
//!
//! # Invariants
//!
//! - A table is copied and complete before any function of it is called ([`Object::load`]).
//! - Whoever may call a function of an object holds its `Arc`; the last one unloads it.
//! - The copy's descriptor stays open while the object is mapped. The loader knows objects by the
//!   names that they were opened with, and this name has the descriptor's number in it.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};
use petasos_base::sync::{AtomicU32, Ordering};
use petasos_plugin_abi::{
    ABI_VERSION, Bytes, Create, CreateEngine, Decide, Destroy, Method, NAME_BYTES_MAX, RawTable,
    SYMBOL, Say,
};
use rustix::fs::{MemfdFlags, SealFlags};
use thiserror::Error;

use crate::name::{self, NameError};

/// An object's file has at most so many bytes.
pub const OBJECT_BYTES_MAX: u64 = 64 << 20;

/// Asks the loader for an object that is there, and loads none (`dlfcn.h`).
const RTLD_NOLOAD: i32 = 4;

/// An object that is not a plug-in of this version. The operator's fault; a retry fails again,
/// except after [`ObjectError::System`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The system refuses to make a copy in memory.
    #[error("the object cannot be copied: {0}")]
    System(std::io::Error),
    /// It is no shared object for this machine, or needs what is not there.
    #[error("the object cannot be loaded: {0}")]
    Load(String),
    /// It does not have the table.
    #[error("the object has no symbol `petasos_plugin`")]
    NoTable,
    /// It is of another version of the interface.
    #[error("the object is of version {found} of the interface, this service has {ABI_VERSION}")]
    Version {
        /// The object's.
        found: u32,
    },
    /// Its table is shorter than one of its version.
    #[error("the object's table has {found} bytes instead of at least {}", size_of::<RawTable>())]
    TableSize {
        /// What it says.
        found: u32,
    },
    /// Its table lacks a function.
    #[error("the object's table has no `{0}`")]
    NoFunction(&'static str),
    /// Its name cannot be used.
    #[error("the object's name cannot be used: {0}")]
    Name(#[from] NameError),
}

/// A table that has been checked.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) state_version: u32,
    /// A bit for each kind of items.
    pub(crate) interests: u32,
    pub(crate) policy_create: Create,
    pub(crate) policy_state: Option<Say>,
    pub(crate) policy_report: Option<Say>,
    pub(crate) policy_destroy: Destroy,
    pub(crate) engine_create: CreateEngine,
    pub(crate) engine_method: Option<Method>,
    pub(crate) engine_item: Decide,
    pub(crate) engine_decompose: Option<Say>,
    pub(crate) engine_destroy: Destroy,
}

/// Whether an object is in the process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Something holds it.
    InUse,
    /// Nothing holds it, and the system has unmapped it.
    Unmapped,
    /// Nothing holds it, but the system keeps it: it has destructors of thread-local variables, or
    /// is marked as not to be unloaded.
    StillMapped,
}

/// Tells whether an object is mapped, without keeping it.
#[derive(Clone, Debug)]
pub struct Watch(Arc<AtomicU32>);

/// An object that is loaded.
pub(crate) struct Object {
    pub(crate) table: Table,
    library: ManuallyDrop<Library>,
    copy: ManuallyDrop<OwnedFd>,
    watch: Watch,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("name", &self.table.name).finish_non_exhaustive()
    }
}

impl Watch {
    /// Whether both tell of the same object.
    pub fn is_of_same(&self, other: &Watch) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How it is now.
    pub fn mapping(&self) -> Mapping {
        // Acquire: with the store in `Object::drop`. Who sees that it is gone, sees it gone.
        match self.0.load(Ordering::Acquire) {
            0 => Mapping::InUse,
            1 => Mapping::Unmapped,
            _ => Mapping::StillMapped,
        }
    }
}

impl Object {
    /// Loads an object. Its constructors run.
    ///
    /// # Errors
    /// See [`ObjectError`]. The object is unloaded again then.
    pub(crate) fn load(bytes: &[u8]) -> Result<Object, ObjectError> {
        let copy = copied(bytes).map_err(ObjectError::System)?;
        let name = loader_name(&copy);
        // SAFETY: the object's constructors run, and may do anything: the service loads what the
        // operator has told it to, after a child process has survived the same. No other thread
        // changes what they read, as far as this crate knows.
        let library = unsafe { Library::open(Some(&name), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| ObjectError::Load(reason(&error, &name)))?;
        let table = table(&library)?;
        let watch = Watch(Arc::new(AtomicU32::new(0)));
        let (library, copy) = (ManuallyDrop::new(library), ManuallyDrop::new(copy));
        Ok(Object { table, library, copy, watch })
    }

    /// What was loaded.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, std::io::Error> {
        std::fs::read(loader_name(&self.copy))
    }

    /// Tells whether it is still there.
    pub(crate) fn watch(&self) -> Watch {
        self.watch.clone()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let name = loader_name(&self.copy);
        // SAFETY: neither is used after this.
        let (library, copy) =
            unsafe { (ManuallyDrop::take(&mut self.library), ManuallyDrop::take(&mut self.copy)) };
        let closed = library.close();
        // SAFETY: nothing is loaded, so no constructor runs.
        let found = unsafe { Library::open(Some(&name), RTLD_NOLOAD | RTLD_LAZY) };
        let is_gone = closed.is_ok() && found.is_err();
        if !is_gone {
            // The descriptor's number must not be given to another object.
            std::mem::forget(copy);
        }
        // Release: with the load in `Watch::mapping`.
        self.watch.0.store(if is_gone { 1 } else { 2 }, Ordering::Release);
    }
}

/// A copy in memory that cannot be changed.
fn copied(bytes: &[u8]) -> Result<OwnedFd, std::io::Error> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create("petasos-plugin", flags)?);
    file.write_all(bytes)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

fn loader_name(copy: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", copy.as_raw_fd())
}

/// Why the loader refuses, without the name that only the loader uses.
fn reason(error: &libloading::Error, name: &str) -> String {
    let why = match error {
        libloading::Error::DlOpen { desc } => format!("{desc:?}"),
        other => other.to_string(),
    };
    why.trim_matches('"').replace(name, "it")
}

/// The table of an object, complete.
fn table(library: &Library) -> Result<Table, ObjectError> {
    // SAFETY: the symbol is only taken as an address here; what is there is read below.
    let symbol = unsafe { library.get::<*const RawTable>(SYMBOL.as_bytes()) };
    let symbol = symbol.map_err(|_| ObjectError::NoTable)?;
    let address = symbol.into_raw().cast::<RawTable>().cast_const();
    if address.is_null() {
        return Err(ObjectError::NoTable);
    }
    // SAFETY: the header says that a table is there, of any version, and all begin with these two
    // numbers. (A child process has read them before, and would have crashed.)
    let [version, size] = unsafe { address.cast::<[u32; 2]>().read_unaligned() };
    if version != ABI_VERSION {
        return Err(ObjectError::Version { found: version });
    }
    if (size as usize) < size_of::<RawTable>() {
        return Err(ObjectError::TableSize { found: size });
    }
    // SAFETY: it says that it is as long, or longer. Any bits are a number or a raw pointer; those
    // of functions are null or functions of this type, as the header says.
    checked(&unsafe { address.read_unaligned() })
}

fn checked(raw: &RawTable) -> Result<Table, ObjectError> {
    let Bytes { data, len } = raw.name;
    if data.is_null() || len > NAME_BYTES_MAX as u64 {
        return Err(NameError::Form.into());
    }
    // SAFETY: the header says that so many bytes are there, which are constant.
    let name = unsafe { std::slice::from_raw_parts(data, len as usize) };
    let name = name::lasting(str::from_utf8(name).map_err(|_| NameError::Form)?)?;
    let no = ObjectError::NoFunction;
    Ok(Table {
        name,
        state_version: raw.state_version,
        interests: raw.interests,
        policy_create: raw.policy_create.ok_or(no("policy_create"))?,
        policy_state: raw.policy_state,
        policy_report: raw.policy_report,
        policy_destroy: raw.policy_destroy.ok_or(no("policy_destroy"))?,
        engine_create: raw.engine_create.ok_or(no("engine_create"))?,
        engine_method: raw.engine_method,
        engine_item: raw.engine_item.ok_or(no("engine_item"))?,
        engine_decompose: raw.engine_decompose,
        engine_destroy: raw.engine_destroy.ok_or(no("engine_destroy"))?,
    })
}

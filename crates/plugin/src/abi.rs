//! The table of C functions, as `include/petasos_plugin.h` documents it.
//!
//! Invariant: the layouts here are those of the header; a test compiles the header and compares.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;

/// The version of the interface.
pub const ABI_VERSION: u32 = 1;

/// A pointer and a length.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Bytes {
    pub(crate) data: *const u8,
    pub(crate) len: u64,
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CValue {
    pub(crate) kind: u32,
    pub(crate) reserved: u32,
    /// The union's bits.
    pub(crate) number: u64,
    pub(crate) bytes: Bytes,
}

/// An item, as a plug-in sees it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CItem {
    pub(crate) token: u64,
    pub(crate) call: u64,
    pub(crate) now_ns: u64,
    pub(crate) arrived_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) application: u32,
    pub(crate) peer: u32,
    pub(crate) method: u32,
    pub(crate) bytes: u32,
    pub(crate) status: u32,
    pub(crate) attempt: u32,
    pub(crate) identity: Bytes,
}

/// What the service offers.
#[repr(C)]
pub(crate) struct Host {
    pub(crate) abi_version: u32,
    pub(crate) size: u32,
    pub(crate) say: unsafe extern "C" fn(u64, Bytes) -> i32,
    pub(crate) declare_field: unsafe extern "C" fn(u64, Bytes, u32, u32, *mut u32, *mut u32) -> i32,
    pub(crate) field: unsafe extern "C" fn(u64, u32, *mut CValue) -> i32,
    pub(crate) set_field: unsafe extern "C" fn(u64, u32, *const CValue) -> i32,
    pub(crate) metadata: unsafe extern "C" fn(u64, Bytes, *mut Bytes) -> i32,
    pub(crate) set_metadata: unsafe extern "C" fn(u64, Bytes, Bytes) -> i32,
    pub(crate) random: unsafe extern "C" fn(u64, *mut u64) -> i32,
}

pub(crate) type Create =
    unsafe extern "C" fn(*const Host, u64, Bytes, Bytes, *mut *mut c_void) -> i32;
pub(crate) type CreateEngine =
    unsafe extern "C" fn(*mut c_void, u64, Bytes, *mut *mut c_void) -> i32;
pub(crate) type Say = unsafe extern "C" fn(*mut c_void, u64);
pub(crate) type Destroy = unsafe extern "C" fn(*mut c_void);
pub(crate) type Method = unsafe extern "C" fn(*mut c_void, u64, u32, Bytes) -> i32;
pub(crate) type Decide = unsafe extern "C" fn(*mut c_void, *const CItem) -> u32;

/// What an object exports, as it stands there: any pointer may be null.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RawTable {
    pub(crate) abi_version: u32,
    pub(crate) size: u32,
    pub(crate) name: Bytes,
    pub(crate) state_version: u32,
    pub(crate) interests: u32,
    pub(crate) policy_create: Option<Create>,
    pub(crate) policy_state: Option<Say>,
    pub(crate) policy_report: Option<Say>,
    pub(crate) policy_destroy: Option<Destroy>,
    pub(crate) engine_create: Option<CreateEngine>,
    pub(crate) engine_method: Option<Method>,
    pub(crate) engine_item: Option<Decide>,
    pub(crate) engine_decompose: Option<Say>,
    pub(crate) engine_destroy: Option<Destroy>,
}

// `tests/c/layout.c` asserts the same of the header.
const _: () = {
    assert!(size_of::<Bytes>() == 16);
    assert!(offset_of!(Bytes, len) == 8);
    assert!(size_of::<CValue>() == 32);
    assert!(offset_of!(CValue, number) == 8);
    assert!(offset_of!(CValue, bytes) == 16);
    assert!(size_of::<CItem>() == 88);
    assert!(offset_of!(CItem, kind) == 40);
    assert!(offset_of!(CItem, attempt) == 68);
    assert!(offset_of!(CItem, identity) == 72);
    assert!(size_of::<Host>() == 64);
    assert!(offset_of!(Host, say) == 8);
    assert!(offset_of!(Host, random) == 56);
    assert!(size_of::<RawTable>() == 104);
    assert!(offset_of!(RawTable, state_version) == 24);
    assert!(offset_of!(RawTable, policy_create) == 32);
    assert!(offset_of!(RawTable, engine_destroy) == 96);
};

impl Bytes {
    /// Nothing.
    pub(crate) const NONE: Bytes = Bytes { data: ptr::null(), len: 0 };

    /// These bytes; the pointer is not null, even if there are none.
    pub(crate) fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr(), len: bytes.len() as u64 }
    }
}

/// What functions of the service return if they fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The token is not valid here.
    Gone = -1,
    /// An argument is wrong.
    Invalid = -2,
    /// There is no such thing.
    Absent = -3,
    /// There is no room.
    Full = -4,
}

/// What a function of the service returns.
pub(crate) fn returned(result: Result<(), Failure>) -> i32 {
    result.map_or_else(|failure| failure as i32, |()| 0)
}

/// `policy_create`: the configuration is wrong.
pub(crate) const WRONG_STATE: i32 = 2;
/// The item passes.
pub(crate) const PASS: u32 = 0;

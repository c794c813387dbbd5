//! The table of C functions, as `petasos_plugin.h` documents it.

use std::ffi::c_void;
use std::ptr;

/// The name of the one symbol of an object, a [`RawTable`].
pub const SYMBOL: &str = "petasos_plugin";

/// A kind's name has at most so many bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Whether this can name a kind: letters, digits, `_` and `-`.
pub const fn is_name(name: &str) -> bool {
    let (bytes, mut index) = (name.as_bytes(), 0);
    while index < bytes.len() {
        let byte = bytes[index];
        if !(byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
            return false;
        }
        index += 1;
    }
    !bytes.is_empty() && bytes.len() <= NAME_BYTES_MAX
}

/// A pointer and a length.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Bytes {
    /// May be null if the length is 0.
    pub data: *const u8,
    /// How many bytes are there.
    pub len: u64,
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CValue {
    /// A [`FieldKind`](crate::FieldKind).
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// The union's bits.
    pub number: u64,
    /// A text, or bytes.
    pub bytes: Bytes,
}

/// An item, as a plug-in sees it.
#[derive(Debug)]
#[repr(C)]
pub struct CItem {
    /// Names what the service is doing with the plug-in.
    pub token: u64,
    /// Not given to another call of the datapath while this one goes on.
    pub call: u64,
    /// The time of this batch.
    pub now_ns: u64,
    /// When the item came.
    pub arrived_ns: u64,
    /// `u64::MAX` for none.
    pub deadline_ns: u64,
    /// An [`ItemKind`](crate::ItemKind).
    pub kind: u32,
    /// See [`IS_STREAM`](crate::IS_STREAM) and what follows it.
    pub flags: u32,
    /// The application's number.
    pub application: u32,
    /// The peer's number.
    pub peer: u32,
    /// The method's number.
    pub method: u32,
    /// Of its message.
    pub bytes: u32,
    /// Of an end: a status, by gRPC's numbers.
    pub status: u32,
    /// The attempt's number.
    pub attempt: u32,
    /// Of the other end, if that is proved.
    pub identity: Bytes,
}

/// What the service offers.
#[repr(C)]
pub struct Host {
    /// The version of the interface.
    pub abi_version: u32,
    /// Bytes of this structure.
    pub size: u32,
    /// Appends to what the plug-in says.
    pub say: unsafe extern "C" fn(u64, Bytes) -> i32,
    /// Declares a field of the method that the plug-in is told of.
    pub declare_field: unsafe extern "C" fn(u64, Bytes, u32, u32, *mut u32, *mut u32) -> i32,
    /// A field's value.
    pub field: unsafe extern "C" fn(u64, u32, *mut CValue) -> i32,
    /// Changes a field's value.
    pub set_field: unsafe extern "C" fn(u64, u32, *const CValue) -> i32,
    /// The first value of a key.
    pub metadata: unsafe extern "C" fn(u64, Bytes, *mut Bytes) -> i32,
    /// Replaces or removes the values of a key.
    pub set_metadata: unsafe extern "C" fn(u64, Bytes, Bytes) -> i32,
    /// Random bits.
    pub random: unsafe extern "C" fn(u64, *mut u64) -> i32,
}

/// Makes a policy.
pub type Create = unsafe extern "C" fn(*const Host, u64, Bytes, Bytes, *mut *mut c_void) -> i32;
/// Makes an engine of a policy.
pub type CreateEngine = unsafe extern "C" fn(*mut c_void, u64, Bytes, *mut *mut c_void) -> i32;
/// Has a policy or an engine say something.
pub type Say = unsafe extern "C" fn(*mut c_void, u64);
/// Ends a policy or an engine.
pub type Destroy = unsafe extern "C" fn(*mut c_void);
/// Tells an engine of a method.
pub type Method = unsafe extern "C" fn(*mut c_void, u64, u32, Bytes) -> i32;
/// Has an engine decide about an item.
pub type Decide = unsafe extern "C" fn(*mut c_void, *const CItem) -> u32;

/// What an object exports, as it stands there: any pointer may be null.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawTable {
    /// The version of the interface.
    pub abi_version: u32,
    /// Bytes of this structure.
    pub size: u32,
    /// Of the kind of policy.
    pub name: Bytes,
    /// Of states.
    pub state_version: u32,
    /// A bit for each kind of items that `engine_item` is called for.
    pub interests: u32,
    /// Makes a policy.
    pub policy_create: Option<Create>,
    /// Has a policy say its state. May be null.
    pub policy_state: Option<Say>,
    /// Has a policy say what operators see of it. May be null.
    pub policy_report: Option<Say>,
    /// Ends a policy.
    pub policy_destroy: Option<Destroy>,
    /// Makes an engine.
    pub engine_create: Option<CreateEngine>,
    /// Tells an engine of a method. May be null.
    pub engine_method: Option<Method>,
    /// Has an engine decide about an item.
    pub engine_item: Option<Decide>,
    /// Has an engine say its state. May be null.
    pub engine_decompose: Option<Say>,
    /// Ends an engine.
    pub engine_destroy: Option<Destroy>,
}

// Where pointers have 64 bits: modules have no table. `layout.c`, beside the tests of
// `petasos-plugin`, asserts the same of the header.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
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
    pub const NONE: Bytes = Bytes { data: ptr::null(), len: 0 };

    /// These bytes; the pointer is not null, even if there are none.
    pub const fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr(), len: bytes.len() as u64 }
    }
}

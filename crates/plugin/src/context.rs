//! What a plug-in may do while one of its functions runs, whatever it is written in.
//!
//! Each call of a plug-in's function has a [`Context`], and a *token* that names it. The plug-in
//! gives the token to the functions that the service offers, and these find the context by it
//! ([`with`]).
//!
//! # Invariants
//!
//! - A thread has at most one context at a time that can be found, and finds it only while
//!   [`enter`] runs: a token that a plug-in keeps finds nothing later, nor on another thread.
//! - While [`with`] runs, the context cannot be found again.
//!
//! Whatever a plug-in asks for is checked here: numbers of fields, kinds of values, lengths of
//! texts. Nothing here panics on what it is given.

use std::cell::Cell;
use std::ptr;

use petasos_engine::{
    Code, Declare, Direction, FieldError, FieldId, FieldKind, Item, ItemKind, MethodId, Status,
    Value, Work,
};
use petasos_plugin_abi::{self as abi, Failure};

/// A plug-in's engine may declare so many fields.
pub(crate) const FIELDS_MAX: usize = 1024;
/// A path of a field is no longer.
const PATH_BYTES_MAX: usize = 1024;
/// Metadata that plug-ins add to an item: no more entries than this in all.
const METADATA_MAX: usize = 128;

/// A field that the engine has declared; its place in the engine's list is its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    method: MethodId,
    id: FieldId,
    kind: FieldKind,
    is_written: bool,
}

/// What the plug-in has been called for.
pub(crate) enum Doing<'a, 'b> {
    /// To make, save or report something.
    Other,
    /// To declare a method's fields.
    Declaring {
        method: MethodId,
        declare: &'a mut Declare<'b>,
        fields: &'a mut Vec<Field>,
        /// The last field that could not be declared.
        error: Option<FieldError>,
    },
    /// To decide about an item.
    Deciding { work: &'a mut Work<'b>, item: &'a Item, fields: &'a [Field] },
}

/// A call of a plug-in's function.
pub(crate) struct Context<'a, 'b> {
    doing: Doing<'a, 'b>,
    said: Vec<u8>,
    said_max: usize,
}

thread_local! {
    /// The token and the context of the call that goes on, or null.
    static CURRENT: Cell<(u64, *mut ())> = const { Cell::new((0, ptr::null_mut())) };
    static NEXT_TOKEN: Cell<u64> = const { Cell::new(1) };
}

/// Puts back what was found before, even if what runs panics.
struct Restore((u64, *mut ()));

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Calls a plug-in: while `call` runs, the context is found by the token that it is given.
pub(crate) fn enter<R>(context: &mut Context<'_, '_>, call: impl FnOnce(u64) -> R) -> R {
    let token = NEXT_TOKEN.get();
    NEXT_TOKEN.set(token.wrapping_add(1).max(1));
    let _restore = Restore(CURRENT.get());
    CURRENT.set((token, ptr::from_mut(context).cast()));
    call(token)
}

/// Does something with the context of the call that goes on.
///
/// # Errors
/// [`Failure::Gone`]: the token is not that call's.
pub(crate) fn with<R>(
    token: u64,
    act: impl for<'a, 'b> FnOnce(&mut Context<'a, 'b>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let (current, context) = CURRENT.get();
    if current != token || context.is_null() {
        return Err(Failure::Gone);
    }
    let _restore = Restore((current, context));
    CURRENT.set((current, ptr::null_mut()));
    // SAFETY: `enter` is running on this thread and has stored this pointer, which it made of a
    // `&mut Context` that it borrows until it returns and restores the cell; what it runs cannot
    // use that borrow otherwise. No other reference is made meanwhile, since the cell is null while
    // `act` runs. The context's lifetimes are forgotten, but `act` works for any, and so cannot let
    // anything out, or put anything in, that has them.
    let context = unsafe { &mut *context.cast::<Context<'_, '_>>() };
    act(context)
}

impl<'a, 'b> Context<'a, 'b> {
    /// A call in which the plug-in may say so many bytes.
    pub(crate) fn new(doing: Doing<'a, 'b>, said_max: usize) -> Context<'a, 'b> {
        Context { doing, said: Vec::new(), said_max }
    }

    /// What the plug-in has said. What is not UTF-8 is replaced.
    pub(crate) fn into_said(self) -> (String, Option<FieldError>) {
        let error = match self.doing {
            Doing::Declaring { error, .. } => error,
            Doing::Other | Doing::Deciding { .. } => None,
        };
        (String::from_utf8_lossy(&self.said).into_owned(), error)
    }

    /// The plug-in says something.
    pub(crate) fn say(&mut self, text: &[u8]) -> Result<(), Failure> {
        if text.len() > self.said_max - self.said.len() {
            return Err(Failure::Full);
        }
        self.said.extend_from_slice(text);
        Ok(())
    }

    /// Declares a field; of any kind without one. Gives its number and kind.
    pub(crate) fn declare_field(
        &mut self,
        path: &[u8],
        expected: Option<FieldKind>,
        writes: bool,
    ) -> Result<(u32, FieldKind), Failure> {
        let Doing::Declaring { method, declare, fields, error } = &mut self.doing else {
            return Err(Failure::Gone);
        };
        let path = str::from_utf8(path).ok().filter(|path| path.len() <= PATH_BYTES_MAX);
        let path = path.ok_or(Failure::Invalid)?;
        if fields.len() >= FIELDS_MAX {
            return Err(Failure::Full);
        }
        let declared = match (expected, writes) {
            (None, false) => declare.reads_any(path),
            (Some(kind), false) => declare.reads(path, kind).map(|id| (id, kind)),
            (Some(kind), true) => declare.writes(path, kind).map(|id| (id, kind)),
            (None, true) => declare
                .reads_any(path)
                .and_then(|(_, kind)| declare.writes(path, kind).map(|id| (id, kind))),
        };
        match declared {
            Ok((id, kind)) => {
                let number = fields.len() as u32;
                fields.push(Field { method: *method, id, kind, is_written: writes });
                Ok((number, kind))
            }
            Err(why) => {
                *error = Some(why);
                Err(Failure::Absent)
            }
        }
    }

    /// The kind of a declared field.
    #[cfg(feature = "wasm")]
    pub(crate) fn field_kind(&self, field: u32) -> Result<FieldKind, Failure> {
        let Doing::Deciding { fields, .. } = &self.doing else { return Err(Failure::Gone) };
        fields.get(field as usize).map(|field| field.kind).ok_or(Failure::Invalid)
    }

    /// The value of a declared field.
    pub(crate) fn field(&self, field: u32) -> Result<Value<'_>, Failure> {
        let Doing::Deciding { work, item, fields } = &self.doing else {
            return Err(Failure::Gone);
        };
        let field = fields.get(field as usize).ok_or(Failure::Invalid)?;
        work.field(item, field.id).ok_or(Failure::Absent)
    }

    /// Changes the value of a field that was declared as written.
    pub(crate) fn set_field(&mut self, field: u32, value: Value<'_>) -> Result<(), Failure> {
        let Doing::Deciding { work, item, fields } = &mut self.doing else {
            return Err(Failure::Gone);
        };
        let field = fields.get(field as usize).ok_or(Failure::Invalid)?;
        let call = work.call(item);
        let has_message = matches!(work.kind(item), ItemKind::Request | ItemKind::Message)
            && work.direction(item) == call.requests;
        if !has_message || call.method != field.method {
            return Err(Failure::Absent);
        }
        if !field.is_written || value.kind() != field.kind {
            return Err(Failure::Invalid);
        }
        work.set_field(item, field.id, value);
        Ok(())
    }

    /// The first value of a key.
    pub(crate) fn metadata(&self, key: &[u8]) -> Result<&[u8], Failure> {
        let Doing::Deciding { work, item, .. } = &self.doing else { return Err(Failure::Gone) };
        let key = str::from_utf8(key).map_err(|_| Failure::Invalid)?;
        let mut entries = work.metadata(item).iter();
        entries.find(|(known, _)| *known == key).map(|(_, value)| value).ok_or(Failure::Absent)
    }

    /// Bytes of the item's metadata.
    #[cfg(feature = "wasm")]
    pub(crate) fn metadata_bytes(&self) -> Result<usize, Failure> {
        let Doing::Deciding { work, item, .. } = &self.doing else { return Err(Failure::Gone) };
        let entries = work.metadata(item).iter();
        Ok(entries.map(|(key, value)| key.len() + value.len()).sum())
    }

    /// Replaces the values of a key, or removes them.
    pub(crate) fn set_metadata(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Failure> {
        let Doing::Deciding { work, item, .. } = &mut self.doing else {
            return Err(Failure::Gone);
        };
        let metadata = work.metadata_mut(item);
        let name = str::from_utf8(key).map_err(|_| Failure::Invalid)?;
        let Some(value) = value else {
            metadata.remove(name);
            return Ok(());
        };
        // It is tried on a copy, so that nothing is removed if the value is wrong.
        let mut changed = metadata.clone();
        changed.remove(name);
        if changed.len() >= METADATA_MAX {
            return Err(Failure::Full);
        }
        changed.append_bytes(key, value).map_err(|_| Failure::Invalid)?;
        *metadata = changed;
        Ok(())
    }

    /// Random bits.
    pub(crate) fn random(&mut self) -> Result<u64, Failure> {
        match &mut self.doing {
            Doing::Deciding { work, .. } => Ok(work.rng().next_u64()),
            Doing::Other | Doing::Declaring { .. } => Err(Failure::Gone),
        }
    }
}

/// What there is to know of an item, but for its fields and metadata.
#[derive(Default)]
pub(crate) struct Facts {
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
}

impl Facts {
    pub(crate) fn of(work: &Work<'_>, item: &Item) -> Facts {
        let call = work.call(item);
        let flags = [
            (call.is_stream, abi::IS_STREAM),
            (call.is_idempotent, abi::IS_IDEMPOTENT),
            (call.is_sealed, abi::IS_SEALED),
            (work.direction(item) == call.requests, abi::IS_FROM_CALLER),
            (work.direction(item) == Direction::Inbound, abi::IS_INBOUND),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
        Facts {
            call: work.call_id(item).to_number(),
            now_ns: work.now().as_nanos(),
            arrived_ns: work.arrived(item).as_nanos(),
            deadline_ns: call.deadline.as_nanos(),
            kind: kind_number(work.kind(item)),
            flags,
            application: call.application.0,
            peer: call.peer.0,
            method: call.method.0,
            bytes: work.bytes(item),
            status: work.status(item).map_or(0, |status| u32::from(status.code().number())),
            attempt: u32::from(call.attempt),
        }
    }
}

/// The number of a kind of items.
pub(crate) fn kind_number(kind: ItemKind) -> u32 {
    let kind = match kind {
        ItemKind::Request => abi::ItemKind::Request,
        ItemKind::Message => abi::ItemKind::Message,
        ItemKind::Close => abi::ItemKind::Close,
        ItemKind::Cancel => abi::ItemKind::Cancel,
        ItemKind::Head => abi::ItemKind::Head,
        ItemKind::End => abi::ItemKind::End,
    };
    kind as u32
}

/// The number of a kind of fields.
pub(crate) fn field_kind_number(kind: FieldKind) -> u32 {
    let kind = match kind {
        FieldKind::Bool => abi::FieldKind::Bool,
        FieldKind::Signed => abi::FieldKind::Signed,
        FieldKind::Unsigned => abi::FieldKind::Unsigned,
        FieldKind::Float => abi::FieldKind::Float,
        FieldKind::Text => abi::FieldKind::Text,
        FieldKind::Bytes => abi::FieldKind::Bytes,
    };
    kind as u32
}

/// The kind of fields of a number; none for *any*.
pub(crate) fn field_kind(number: u32) -> Result<Option<FieldKind>, Failure> {
    if number == abi::ANY_KIND {
        return Ok(None);
    }
    let kind = abi::FieldKind::from_number(number).ok_or(Failure::Invalid)?;
    Ok(Some(match kind {
        abi::FieldKind::Bool => FieldKind::Bool,
        abi::FieldKind::Signed => FieldKind::Signed,
        abi::FieldKind::Unsigned => FieldKind::Unsigned,
        abi::FieldKind::Float => FieldKind::Float,
        abi::FieldKind::Text => FieldKind::Text,
        abi::FieldKind::Bytes => FieldKind::Bytes,
    }))
}

/// What a function of the service returns.
pub(crate) fn returned(result: Result<(), Failure>) -> i32 {
    result.map_or_else(|failure| failure as i32, |()| abi::OK)
}

/// The status of a verdict other than *pass*.
pub(crate) fn status(plugin: &str, verdict: u32, said: String) -> Status {
    if abi::Code::from_number(verdict).is_none() {
        return Status::internal(format!("the plug-in `{plugin}` decides {verdict}"));
    }
    Status::new(Code::from_number(verdict), said)
}

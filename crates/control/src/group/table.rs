//! The table of methods of a group, as workers hear it (RT31, RT36).

use petasos_wire::METHODS;

use super::epoch::checked_number;
use super::read_flags;
use crate::Malformed;
use crate::fields::{Reader, Write};
use crate::text::Text;

/// The most bytes of the name of a service or a method.
pub const NAME_MAX: usize = u8::MAX as usize;

const FLAG_LAST: u8 = 1;

/// Methods of one service, with numbers next to each other. Services of many methods, and tables,
/// take several of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The epoch from which the table holds.
    pub epoch: u16,
    /// The number of the first method; the others count on from it.
    pub first: u16,
    /// Whether nothing of the table follows.
    pub is_last: bool,
    /// The full name of the service; not empty.
    pub service: Text<NAME_MAX>,
    /// The names of methods, without the service's; not empty.
    pub methods: Vec<Text<NAME_MAX>>,
}

impl Table {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(self.epoch);
        out.put_u16(self.first);
        out.put_u8(if self.is_last { FLAG_LAST } else { 0 });
        out.put_text(&self.service);
        self.methods.iter().for_each(|name| out.put_text(name));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Table, Malformed> {
        let (epoch, first) = (reader.u16()?, reader.u16()?);
        let is_last = read_flags(reader, FLAG_LAST)? != 0;
        let service = reader.text("service")?;
        let methods = reader.entries(|reader| reader.text("method"))?;
        let table = Table { epoch, first, is_last, service, methods };
        table.validate()?;
        Ok(table)
    }

    pub(super) fn validate(&self) -> Result<(), Malformed> {
        checked_number(self.epoch)?;
        if self.service.as_str().is_empty() {
            return Err(Malformed::Value("service"));
        }
        if self.methods.iter().any(|name| name.as_str().is_empty()) {
            return Err(Malformed::Value("method"));
        }
        if usize::from(self.first) + self.methods.len() > METHODS {
            return Err(Malformed::Value("first"));
        }
        Ok(())
    }
}

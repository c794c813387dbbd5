//! The encoding of both ends' parameters (C7, C9).

use super::{AcceptParams, ConnectParams, LocalOffer, Recovery, TARGET_ANY, Target};
use crate::Malformed;
use crate::address::DataAddress;
use crate::fields::{Reader, Write};

const FLAG_GO_BACK_N: u8 = 1;
const FLAG_CHECKSUM: u8 = 2;
const FLAG_LOCAL: u8 = 4;

impl ConnectParams {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(match self.target {
            Target::Any => TARGET_ANY,
            Target::Index(index) => index,
        });
        out.put_u16(self.endpoint);
        out.put_u32(self.session);
        out.put_u32(self.tag);
        out.put_u32(self.request_bytes_max);
        out.put_u32(self.response_bytes_max);
        out.put_u16(self.credits);
        out.put_u16(self.payload_bytes_max);
        out.put_u8(self.slots);
        let recovery = if self.recovery == Recovery::GoBackN { FLAG_GO_BACK_N } else { 0 };
        let checksum = if self.checksum { FLAG_CHECKSUM } else { 0 };
        out.put_u8(recovery | checksum | if self.local.is_some() { FLAG_LOCAL } else { 0 });
        self.address.write(out);
        if let Some(offer) = self.local {
            out.put_u16(offer.credits);
            out.put_u16(offer.payload_bytes_max);
            DataAddress::of_name(offer.name).write(out);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<ConnectParams, Malformed> {
        let target = match reader.u16()? {
            TARGET_ANY => Target::Any,
            index => Target::Index(index),
        };
        let (endpoint, session, tag) = (reader.u16()?, reader.u32()?, reader.u32()?);
        let (request_bytes_max, response_bytes_max) = (reader.u32()?, reader.u32()?);
        let (credits, payload_bytes_max) = (reader.u16()?, reader.u16()?);
        let (slots, flags) = (reader.u8()?, reader.u8()?);
        if flags & !(FLAG_GO_BACK_N | FLAG_CHECKSUM | FLAG_LOCAL) != 0 {
            return Err(Malformed::Value("flags"));
        }
        let go_back_n = flags & FLAG_GO_BACK_N != 0;
        let address = DataAddress::read(reader)?;
        let local = (flags & FLAG_LOCAL != 0).then(|| LocalOffer::read(reader)).transpose()?;
        let params = ConnectParams {
            target,
            address,
            endpoint,
            session,
            tag,
            slots,
            credits,
            payload_bytes_max,
            request_bytes_max,
            response_bytes_max,
            recovery: if go_back_n { Recovery::GoBackN } else { Recovery::Selective },
            checksum: flags & FLAG_CHECKSUM != 0,
            local,
        };
        params.validate()?;
        Ok(params)
    }
}

impl AcceptParams {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(self.endpoint);
        out.put_u32(self.session);
        out.put_u32(self.tag);
        out.put_u32(self.request_bytes_max);
        out.put_u32(self.response_bytes_max);
        out.put_u16(self.credits);
        out.put_u16(self.payload_bytes);
        out.put_u8(self.slots);
        self.address.write(out);
        if let Some(name) = self.local {
            DataAddress::of_name(name).write(out);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, beside: bool) -> Result<AcceptParams, Malformed> {
        let (endpoint, session, tag) = (reader.u16()?, reader.u32()?, reader.u32()?);
        let (request_bytes_max, response_bytes_max) = (reader.u32()?, reader.u32()?);
        let (credits, payload_bytes, slots) = (reader.u16()?, reader.u16()?, reader.u8()?);
        let address = DataAddress::read(reader)?;
        let local = beside.then(|| DataAddress::read_name(reader, "local")).transpose()?;
        let params = AcceptParams {
            address,
            endpoint,
            session,
            tag,
            slots,
            credits,
            payload_bytes,
            request_bytes_max,
            response_bytes_max,
            local,
        };
        params.validate()?;
        Ok(params)
    }
}

impl LocalOffer {
    fn read(reader: &mut Reader<'_>) -> Result<LocalOffer, Malformed> {
        let (credits, payload_bytes_max) = (reader.u16()?, reader.u16()?);
        let name = DataAddress::read_name(reader, "local")?;
        Ok(LocalOffer { name, credits, payload_bytes_max })
    }
}

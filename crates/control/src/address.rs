//! Addresses for packets.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::Malformed;
use crate::carrier::Carrier;
use crate::fields::{Reader, Write};

/// Where an endpoint receives packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAddress {
    /// The port of UDP or TCP, or the service of a fabric; not 0.
    pub port: u16,
    /// The IP address. `None` means the address at the other end of the TCP connection.
    pub ip: Option<IpAddr>,
    /// What carries packets there.
    pub carrier: Carrier,
}

/// In the byte that names the family of the IP address: packets travel over TCP.
const OVER_TCP: u8 = 16;
/// In the same byte: packets travel over a fabric.
const OVER_FABRIC: u8 = 32;

impl DataAddress {
    /// A local name, or an address of TCP that needs no mark, in the form that it has on the wire.
    pub(crate) fn of_name(name: SocketAddr) -> DataAddress {
        DataAddress::udp(name.port(), Some(name.ip()))
    }

    /// An address for datagrams.
    pub const fn udp(port: u16, ip: Option<IpAddr>) -> DataAddress {
        DataAddress { port, ip, carrier: Carrier::Datagrams }
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        let unusable = |ip: IpAddr| ip.is_unspecified() || ip.is_multicast();
        if self.port == 0 || self.ip.is_some_and(unusable) {
            return Err(Malformed::Value("address"));
        }
        Ok(())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(self.port);
        let over = match self.carrier {
            Carrier::Datagrams => 0,
            Carrier::Tcp => OVER_TCP,
            Carrier::Fabric => OVER_FABRIC,
        };
        match self.ip {
            None => out.put_u8(over),
            Some(IpAddr::V4(ip)) => {
                out.put_u8(4 | over);
                out.extend_from_slice(&ip.octets());
            }
            Some(IpAddr::V6(ip)) => {
                out.put_u8(6 | over);
                out.extend_from_slice(&ip.octets());
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<DataAddress, Malformed> {
        let port = reader.u16()?;
        let family = reader.u8()?;
        let carrier = match family & (OVER_TCP | OVER_FABRIC) {
            0 => Carrier::Datagrams,
            OVER_TCP => Carrier::Tcp,
            OVER_FABRIC => Carrier::Fabric,
            _ => return Err(Malformed::Value("address")),
        };
        let ip = match family & !(OVER_TCP | OVER_FABRIC) {
            0 => None,
            4 => Some(Ipv4Addr::from(reader.array::<4>()?).into()),
            6 => Some(Ipv6Addr::from(reader.array::<16>()?).into()),
            _ => return Err(Malformed::Value("address")),
        };
        Ok(DataAddress { port, ip, carrier })
    }

    /// Reads what [`DataAddress::of_name`] has made: an address with an IP address, in a number
    /// space that the context says.
    pub(crate) fn read_name(
        reader: &mut Reader<'_>,
        field: &'static str,
    ) -> Result<SocketAddr, Malformed> {
        let DataAddress { port, ip, carrier } = DataAddress::read(reader)?;
        let ip = ip.filter(|_| carrier == Carrier::Datagrams).ok_or(Malformed::Value(field))?;
        Ok(SocketAddr::new(ip, port))
    }
}

//! Targets of channels: addresses, or names to be looked up.

use core::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

use super::Resolver;

/// Why a target is invalid. The program's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// It does not have the form `petasos://HOST:PORT[,HOST:PORT…]`.
    #[error("`{0}` is not a target: expected petasos://HOST:PORT or router://HOST:PORT")]
    Form(String),
    /// Its scheme is unknown.
    #[error("`{0}` is an unknown scheme: expected petasos:// or router://")]
    Scheme(String),
}

/// The servers of a channel.
#[derive(Debug)]
pub enum Servers {
    /// Their addresses.
    Addresses(Vec<SocketAddr>),
    /// Hosts and ports to be looked up; some hosts may be addresses.
    Names(Vec<(String, u16)>),
    /// The program's resolver finds them.
    Resolved(Box<dyn Resolver>),
    /// The managed service of the host reaches them.
    Carried(Carried),
    /// A group of workers, reached by its routers, 1 to 8. To the channel it is one server, and the
    /// first router's address stands for it.
    Group(Routers),
}

/// The routers of a group.
#[derive(Debug)]
pub enum Routers {
    /// Their addresses.
    Addresses(Vec<SocketAddr>),
    /// Hosts and ports to be looked up; some hosts may be addresses.
    Names(Vec<(String, u16)>),
    /// The program's resolver finds them.
    Resolved(Box<dyn Resolver>),
}

/// The most routers of a group that can be named.
pub const ROUTERS_MAX: usize = 8;

/// Servers that only the managed service of the host can reach, such as `grpc://HOST:PORT`.
///
/// Channels tell servers from each other by addresses, so each has one that stands for it, and that
/// leads nowhere.
#[derive(Debug)]
pub struct Carried {
    names: Vec<String>,
    stand_ins: Vec<SocketAddr>,
}

impl Carried {
    /// The longest name that the service is told, in bytes.
    const NAME_BYTES_MAX: usize = 255;

    /// Servers by the names that the service has for them; `None` if there are too many, or if one
    /// is too long.
    pub fn new(names: Vec<String>) -> Option<Carried> {
        if names.iter().any(|name| name.len() > Carried::NAME_BYTES_MAX) {
            return None;
        }
        let ports = 1..=u16::try_from(names.len()).ok()?;
        let stand_in = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let stand_ins = ports.map(stand_in).collect();
        Some(Carried { names, stand_ins })
    }

    fn name(&self, stand_in: SocketAddr) -> Option<&str> {
        let at = usize::from(stand_in.port()).checked_sub(1)?;
        self.names.get(at).map(String::as_str)
    }
}

impl Servers {
    /// Parses `target`.
    pub fn parse(target: &str) -> Result<Servers, TargetError> {
        let form = || TargetError::Form(target.to_owned());
        let (scheme, list) = target.split_once("://").unwrap_or(("petasos", target));
        let listed = || listed(list).ok_or_else(form);
        match scheme {
            "petasos" => Ok(match listed()? {
                Routers::Addresses(addresses) => Servers::Addresses(addresses),
                Routers::Names(names) => Servers::Names(names),
                Routers::Resolved(resolver) => Servers::Resolved(resolver),
            }),
            "router" => match listed()? {
                routers if routers.len() <= ROUTERS_MAX => Ok(Servers::Group(routers)),
                _ => Err(form()),
            },
            _ => Err(TargetError::Scheme(scheme.to_owned())),
        }
    }

    /// Whether they are a group of workers behind routers.
    pub fn is_group(&self) -> bool {
        matches!(self, Servers::Group(_))
    }

    /// The routers' addresses, if they are of a group and known.
    pub fn routers(&self) -> Option<&[SocketAddr]> {
        match self {
            Servers::Group(Routers::Addresses(routers)) => Some(routers),
            _ => None,
        }
    }

    /// The addresses, if they are known.
    pub fn addresses(&self) -> Option<&[SocketAddr]> {
        match self {
            Servers::Addresses(addresses) => Some(addresses),
            Servers::Carried(carried) => Some(&carried.stand_ins),
            Servers::Group(Routers::Addresses(routers)) => Some(&routers[..1]),
            _ => None,
        }
    }

    /// What the managed service calls the server for which an address stands, if it stands for one.
    pub fn carried_name(&self, stand_in: SocketAddr) -> Option<&str> {
        match self {
            Servers::Carried(carried) => carried.name(stand_in),
            _ => None,
        }
    }

    /// Whether some may have IPv6 addresses.
    pub fn is_ipv6(&self) -> bool {
        match self {
            Servers::Addresses(list) | Servers::Group(Routers::Addresses(list)) => {
                list.iter().any(SocketAddr::is_ipv6)
            }
            Servers::Names(_) | Servers::Group(Routers::Names(_)) => true,
            Servers::Resolved(resolver) | Servers::Group(Routers::Resolved(resolver)) => {
                resolver.is_ipv6()
            }
            // The service has the sockets.
            Servers::Carried(_) => false,
        }
    }

    /// Looks the names up, waiting for the network. If a name has IPv4 addresses, its others are
    /// ignored, so that one server does not look like two.
    pub fn look_up(&self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Servers::Addresses(addresses) => Ok(addresses.clone()),
            Servers::Names(names) => look_up(names),
            Servers::Carried(carried) => Ok(carried.stand_ins.clone()),
            Servers::Group(routers) => routers.look_up(),
            Servers::Resolved(_) => unreachable!("resolvers are asked, and tell by themselves"),
        }
    }
}

impl Routers {
    /// Parses `router://HOST:PORT[,HOST:PORT…]`.
    ///
    /// # Errors
    /// See [`TargetError`].
    pub fn parse(target: &str) -> Result<Routers, TargetError> {
        match Servers::parse(target)? {
            Servers::Group(routers) => Ok(routers),
            _ => Err(TargetError::Form(target.to_owned())),
        }
    }

    fn len(&self) -> usize {
        match self {
            Routers::Addresses(list) => list.len(),
            Routers::Names(list) => list.len(),
            Routers::Resolved(_) => 0,
        }
    }

    /// Looks the names up, waiting for the network. At most [`ROUTERS_MAX`] are found. A resolver
    /// is not waited for: it tells by itself.
    ///
    /// # Errors
    /// The system's, if there is no address.
    pub fn look_up(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(Routers::of_group(match self {
            Routers::Addresses(addresses) => addresses.clone(),
            Routers::Names(names) => look_up(names)?,
            Routers::Resolved(_) => Vec::new(),
        }))
    }

    /// Of what was found, each once, and at most [`ROUTERS_MAX`]: the first ones, so that clients
    /// and workers that find the same use the same.
    pub fn of_group(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let mut routers = Vec::with_capacity(found.len().min(ROUTERS_MAX));
        for router in found {
            if routers.len() < ROUTERS_MAX && !routers.contains(&router) {
                routers.push(router);
            }
        }
        routers
    }
}

/// Looks names up. If all fail, returns the last error.
fn look_up(names: &[(String, u16)]) -> io::Result<Vec<SocketAddr>> {
    let mut found = Vec::new();
    let mut failed = None;
    for (name, port) in names {
        match (name.as_str(), *port).to_socket_addrs() {
            Ok(addresses) => found.extend(of_one_family(addresses.collect())),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

/// The processes of a list `HOST:PORT[,HOST:PORT…]`; `None` if it has another form.
fn listed(list: &str) -> Option<Routers> {
    let list: Vec<&str> = list.trim_end_matches('/').split(',').collect();
    let addresses = list.iter().map(|server| server.parse::<SocketAddr>());
    match addresses.collect::<Result<Vec<_>, _>>() {
        Ok(addresses) => {
            let has_ports = addresses.iter().all(|address| address.port() != 0);
            has_ports.then_some(Routers::Addresses(addresses))
        }
        Err(_) => {
            let names: Vec<_> = list.iter().map(|server| name(server)).collect::<Option<_>>()?;
            names.iter().all(|(_, port)| *port != 0).then_some(Routers::Names(names))
        }
    }
}

/// The servers of a list `HOST:PORT[,HOST:PORT…]`, unparsed; `None` if one of them has another
/// form.
#[cfg(feature = "grpc")]
pub fn hosts(list: &str) -> Option<Vec<String>> {
    let servers = list.strip_suffix('/').unwrap_or(list).split(',');
    let checked = servers.map(|server| match name(server) {
        Some((_, 0)) | None => None,
        Some(_) => Some(server.to_owned()),
    });
    checked.collect()
}

/// The IPv4 addresses if there are any, otherwise all addresses.
fn of_one_family(addresses: Vec<SocketAddr>) -> impl Iterator<Item = SocketAddr> {
    let has_ipv4 = addresses.iter().any(SocketAddr::is_ipv4);
    addresses.into_iter().filter(move |address| address.is_ipv4() == has_ipv4)
}

/// Splits a server into host and port. A host in brackets is an IPv6 address.
fn name(server: &str) -> Option<(String, u16)> {
    let (host, port) = server.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if let Some(bare) = bare {
        return bare.parse::<IpAddr>().ok().map(|_| (bare.to_owned(), port));
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_name)).then(|| (host.to_owned(), port))
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Servers::Addresses(list) | Servers::Group(Routers::Addresses(list)) => {
                list.iter().try_for_each(|server| write!(f, "{server} "))
            }
            Servers::Names(list) | Servers::Group(Routers::Names(list)) => {
                list.iter().try_for_each(|(name, port)| write!(f, "{name}:{port} "))
            }
            Servers::Resolved(resolver) | Servers::Group(Routers::Resolved(resolver)) => {
                write!(f, "{resolver:?}")
            }
            Servers::Carried(carried) => {
                carried.names.iter().try_for_each(|name| write!(f, "{name} "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_they_are() {
        let servers = Servers::parse("petasos://127.0.0.1:7000,[::1]:7001");
        let servers = servers.expect("both are addresses");
        let expected = ["127.0.0.1:7000", "[::1]:7001"].map(|text| text.parse().unwrap());
        assert_eq!(servers.addresses(), Some(&expected[..]));
        for text in ["127.0.0.1:7000/", "petasos://127.0.0.1:7000"] {
            let servers = Servers::parse(text).expect("it is an address");
            assert_eq!(servers.addresses(), Some(&expected[..1]));
        }
    }

    #[test]
    fn a_group_is_one_server_to_its_channel() {
        let group = Servers::parse("router://127.0.0.1:7000,[::1]:7001").expect("it is a group");
        assert!(group.is_group() && group.is_ipv6());
        assert_eq!(group.routers().map(<[SocketAddr]>::len), Some(2));
        assert_eq!(group.addresses(), Some(&["127.0.0.1:7000".parse().unwrap()][..]));
        let named = Servers::parse("router://localhost:7000").expect("it is a group");
        assert!(named.is_group() && named.addresses().is_none() && named.routers().is_none());
        let found = named.look_up().expect("hosts know themselves");
        assert!(found.contains(&"127.0.0.1:7000".parse().unwrap()), "{found:?}");
        let of = |ports: &[u16]| -> Vec<SocketAddr> {
            ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port))).collect()
        };
        let found = of(&[9, 9, 8, 7, 9, 6, 5, 4, 3, 2, 1]);
        assert_eq!(Routers::of_group(found), of(&[9, 8, 7, 6, 5, 4, 3, 2]));
        let many = |count| format!("router://{}", vec!["127.0.0.1:7000"; count].join(","));
        assert!(Servers::parse(&many(8)).is_ok() && Servers::parse(&many(9)).is_err());
        assert!(!Servers::parse("petasos://127.0.0.1:7000").unwrap().is_group());
        for text in ["router://", "router://a", "router://a:0"] {
            assert_eq!(Servers::parse(text).err(), Some(TargetError::Form(text.to_owned())));
        }
        assert!(Routers::parse("petasos://127.0.0.1:7000").is_err());
    }

    #[test]
    fn names_are_looked_up() {
        let servers = Servers::parse("petasos://localhost:7000,127.0.0.1:7001").unwrap();
        assert_eq!(servers.addresses(), None);
        let found = servers.look_up().expect("hosts know themselves");
        assert!(found.contains(&"127.0.0.1:7000".parse().unwrap()), "{found:?}");
        assert!(found.contains(&"127.0.0.1:7001".parse().unwrap()), "{found:?}");
    }

    #[test]
    fn names_with_ipv6_only_are_of_ipv6() {
        let servers = Servers::parse("petasos://localhost:7000,[::1]:7001").unwrap();
        let found = servers.look_up().expect("hosts know themselves");
        assert!(found.contains(&"127.0.0.1:7000".parse().unwrap()), "{found:?}");
        assert!(found.contains(&"[::1]:7001".parse().unwrap()), "{found:?}");
        assert!(!found.contains(&"[::1]:7000".parse().unwrap()), "{found:?}");
        assert!(servers.is_ipv6());
        assert!(!Servers::parse("petasos://127.0.0.1:7000").unwrap().is_ipv6());
    }

    #[test]
    fn what_the_service_reaches_has_addresses_that_stand_for_it() {
        let names = ["grpc://a:1", "grpc://b:2"].map(str::to_owned).to_vec();
        let servers = Servers::Carried(Carried::new(names.clone()).expect("they are short"));
        let addresses = servers.addresses().expect("they are known").to_vec();
        assert_eq!(addresses.len(), 2);
        let found =
            addresses.iter().map(|at| servers.carried_name(*at).expect("it stands for one"));
        assert_eq!(found.collect::<Vec<_>>(), names);
        let other = "127.0.0.1:3".parse().expect("it is an address");
        assert_eq!(servers.carried_name(other), None);
        assert_eq!(Servers::Addresses(addresses).carried_name(other), None);
        let long = |bytes| Carried::new(vec!["x".repeat(bytes)]);
        assert!(long(255).is_some() && long(256).is_none());
        assert!(Carried::new(vec![String::new(); 1 << 16]).is_none());
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for text in ["", "host", "host:", "host:0", "127.0.0.1:0", "a b:1", ":1", "[x]:1", "a:1,"] {
            let error = Servers::parse(text).expect_err(text);
            assert_eq!(error, TargetError::Form(text.to_owned()));
        }
        let error = Servers::parse("http://host:1").expect_err("another protocol");
        assert_eq!(error, TargetError::Scheme("http".to_owned()));
    }
}

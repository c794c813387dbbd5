//! Addresses at which applications serve, kept for them alone.
//!
//! An application that serves at an address gets the calls of its host's other applications to it.
//! So the daemon takes the address itself: what belongs to another host, or is in use, is refused.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use petasos_attach::Credentials;
use petasos_engine::Application as Number;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, bind, getsockname, listen, shutdown,
    socket_with, sockopt,
};

/// As many addresses an application has at most.
pub const PORTS_MAX: usize = 8;
/// What the name of an address begins with.
const SCHEME: &str = "petasos://";

/// A process that is attached.
pub type Owner = (u32, Option<i32>);

/// Whose process it is.
pub fn owner(who: Credentials) -> Owner {
    (who.uid, who.pid)
}

/// Addresses that are kept for processes whose applications attach again.
#[derive(Default)]
pub struct KeptPorts(Mutex<Vec<Kept>>);

/// An address that is kept.
pub struct Kept {
    /// For whose applications.
    pub owner: Owner,
    /// Which.
    pub address: SocketAddr,
    /// What keeps it.
    pub file: OwnedFd,
    /// The application that moves and has it; none if the process before this one had it.
    pub mover: Option<Number>,
}

/// An address that an application gets.
pub enum Taken {
    /// It was free.
    New(OwnedFd, SocketAddr),
    /// It was kept for the application.
    Kept(Kept),
}

impl Taken {
    /// Which.
    pub fn address(&self) -> SocketAddr {
        match self {
            Taken::New(_, address) => *address,
            Taken::Kept(kept) => kept.address,
        }
    }

    /// What keeps it.
    pub fn into_file(self) -> OwnedFd {
        match self {
            Taken::New(file, _) => file,
            Taken::Kept(kept) => kept.file,
        }
    }
}

impl KeptPorts {
    /// Keeps an address.
    pub fn keep(&self, kept: Kept) {
        self.all().push(kept);
    }

    /// Keeps nothing more for an application that moved, or for those of the process before this
    /// one.
    pub fn forget(&self, mover: Option<Number>) {
        self.all().retain(|kept| kept.mover != mover);
    }

    /// Takes an address for an application: one that is kept for it, or a free one.
    ///
    /// # Errors
    /// Why not, for the application.
    pub fn take_for(&self, who: Credentials, text: &str) -> Result<Taken, String> {
        if let Some(kept) = self.take(who, text) {
            return Ok(Taken::Kept(kept));
        }
        let (file, address) = take(text)?;
        Ok(Taken::New(file, address))
    }

    /// What keeps an address for an application, if it is kept for its process.
    fn take(&self, who: Credentials, address: &str) -> Option<Kept> {
        // Processes that are unknown here are all alike.
        who.pid?;
        let address: SocketAddr = address.parse().ok()?;
        let mut all = self.all();
        let is_it = |kept: &Kept| kept.owner == owner(who) && kept.address == address;
        let at = all.iter().position(is_it)?;
        Some(all.swap_remove(at))
    }

    fn all(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address that a name is, if it is one.
///
/// # Errors
/// It is one of another kind, for which the service listens nowhere.
pub fn address_of(name: &str) -> Result<Option<&str>, String> {
    match name.strip_prefix(SCHEME) {
        Some(address) => Ok(Some(address)),
        None if name.contains("://") => Err(format!("`{name}` is not served here")),
        None => Ok(None),
    }
}

/// Takes an address. With port 0, the system chooses one. It is free again when the descriptor is
/// closed. Nobody listens there.
///
/// # Errors
/// Why not, for the application.
fn take(text: &str) -> Result<(OwnedFd, SocketAddr), String> {
    let address: SocketAddr =
        text.parse().map_err(|_| format!("`{text}` is no address and port"))?;
    if address.ip().is_unspecified() {
        return Err(format!("{address} is any address: serve at one that callers name"));
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let failed = |error: Errno| match error {
        Errno::ADDRINUSE => format!("{address} is in use"),
        Errno::ADDRNOTAVAIL => format!("{address} is not an address of this host"),
        error => format!("cannot take {address}: {error}"),
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let socket = socket.map_err(failed)?;
    bind_alone(&socket, &address).map_err(failed)?;
    let taken = getsockname(&socket).map_err(failed)?;
    let taken = SocketAddr::try_from(taken).map_err(failed)?;
    Ok((socket, taken))
}

/// Binds a socket to an address that nobody else is bound to. Connections of an earlier server that
/// linger there for a minute (`TIME_WAIT`) do not count: the application may be that server again.
///
/// With `SO_REUSEADDR`, the system lets several sockets have an address, and looks again when one
/// listens. So this one listens for a moment. Without the option from then on, it is in the way of
/// all others.
fn bind_alone(socket: &OwnedFd, address: &SocketAddr) -> Result<(), Errno> {
    if address.port() == 0 {
        // The system chooses one that nobody has; it would not be kept behind a shutdown.
        return bind(socket, address);
    }
    sockopt::set_socket_reuseaddr(socket, true)?;
    bind(socket, address)?;
    listen(socket, 0)?;
    shutdown(socket, Shutdown::Read)?;
    sockopt::set_socket_reuseaddr(socket, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_for_its_process_until_its_move_has_ended() {
        let kept = KeptPorts::default();
        let (file, address) = take("127.0.0.1:0").expect("loopback has ports");
        let text = address.to_string();
        let who = |pid| Credentials { uid: 7, gid: 7, pid };
        let keep =
            |file, mover| kept.keep(Kept { owner: owner(who(Some(1))), address, file, mover });
        keep(file, Some(Number(3)));
        for other in [None, Some(2)] {
            assert!(kept.take_for(who(other), &text).is_err(), "{other:?}");
        }
        let taken = kept.take_for(who(Some(1)), &text).expect("it is its own");
        assert_eq!(taken.address(), address);
        keep(taken.into_file(), Some(Number(3)));
        kept.forget(None);
        kept.forget(Some(Number(4)));
        assert!(kept.take_for(who(Some(2)), &text).is_err(), "it is still kept");
        kept.forget(Some(Number(3)));
        assert!(kept.take_for(who(Some(2)), &text).is_ok(), "it is free");
    }

    #[test]
    fn an_address_is_of_one_application_and_of_this_host() {
        let (socket, address) = take("127.0.0.1:0").expect("loopback has ports");
        assert_ne!(address.port(), 0);
        let again = take(&address.to_string()).expect_err("it is taken");
        assert!(again.contains("in use"), "{again}");
        assert!(std::net::TcpListener::bind(address).is_err(), "also for others");
        assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens");
        assert!(address_of("grpc://127.0.0.1:1").is_err());
        assert_eq!(address_of("greeter"), Ok(None));
        assert_eq!(address_of("petasos://127.0.0.1:1"), Ok(Some("127.0.0.1:1")));
        drop(socket);
        assert!(take(&address.to_string()).is_ok());
        let listener = std::net::TcpListener::bind(address).expect("it is free again");
        assert!(take(&address.to_string()).is_err(), "somebody listens");
        drop(listener);
        for (text, why) in [
            ("192.0.2.1:7000", "not an address of this host"),
            ("0.0.0.0:7000", "any address"),
            ("localhost:7000", "no address"),
            ("127.0.0.1", "no address"),
        ] {
            let error = take(text).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn connections_that_linger_are_not_in_the_way() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let client = std::net::TcpStream::connect(address).expect("somebody listens");
        let (server, _) = listener.accept().expect("somebody connects");
        assert!(take(&address.to_string()).is_err(), "it is in use");
        // Who closes first keeps the address for a while.
        drop((server, listener));
        drop(client);
        let (taken, _) = take(&address.to_string()).expect("nobody has it");
        assert!(take(&address.to_string()).is_err(), "it is taken");
        assert!(std::net::TcpListener::bind(address).is_err(), "also for others");
        assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens");
        drop(taken);
        assert!(std::net::TcpListener::bind(address).is_ok(), "nobody has it any more");
    }
}

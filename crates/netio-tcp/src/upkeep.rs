//! The slow path: events, incoming connections, dialling, and peers that keep this side waiting.

use core::mem::MaybeUninit;
use std::io::ErrorKind;

use petasos_base::Time;
use petasos_netio::Route;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::connection::{Connection, Taken};
use crate::connections::Token;
use crate::events::{self, EVENTS_MAX, HANGS_UP, LISTENER, READABLE};
use crate::io::TcpIo;
use crate::routes::NONE;
use crate::socket::{self, Accepted};

/// The most connections accepted at once, so that those that exist get their turns in between.
const ACCEPTS_MAX: usize = 32;

/// Debts are looked at this many times within the time that they may be owed.
const LOOKS_PER_PATIENCE: u32 = 4;

impl TcpIo {
    /// What a receive does now and then besides receiving.
    #[cold]
    pub(crate) fn keep_up(&mut self) {
        self.has_slept = false;
        // What has arrived counts before anybody is judged.
        self.poll_events();
        let now = self.clock.now();
        if now >= self.judge_at {
            let patience = self.config.patience.min(self.config.dial_patience);
            self.judge_at = now + patience / LOOKS_PER_PATIENCE;
            self.has_callers |= core::mem::take(&mut self.is_out_of_descriptors);
            self.give_up_overdue(now);
        }
    }

    /// Asks which sockets have something to read or can be written to, without waiting.
    #[inline]
    pub(crate) fn poll_events(&mut self) {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.stats.rx_syscalls += 1;
        // After an error this look has seen nothing; the next one will.
        let found = epoll::wait(&self.epoll, &mut events, Some(&at_once));
        let found = found.map_or(&mut [][..], |(found, _)| found);
        self.stats.rx_syscalls_empty += u64::from(found.is_empty());
        for event in found {
            match event.data.u64() {
                LISTENER => self.has_callers = true,
                token => self.on_event(Token(token), event.flags),
            }
        }
        if self.has_callers {
            self.accept();
        }
    }

    #[inline]
    fn on_event(&mut self, token: Token, flags: epoll::EventFlags) {
        let Some(index) = self.connections.find(token) else { return };
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.hung_up |= flags.intersects(HANGS_UP);
        if connection.is_dialling {
            return self.finish_dialling(index);
        }
        if flags.contains(epoll::EventFlags::OUT)
            && connection.flush(&mut self.stats.tx_syscalls).is_err()
        {
            return self.lose(index);
        }
        if flags.intersects(READABLE) {
            self.connections.make_ready(index);
        }
    }

    /// Notes how dialling stands.
    #[cold]
    pub(crate) fn finish_dialling(&mut self, index: u32) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        match connection.is_dialled() {
            Ok(false) => {}
            // It may already have been sent something, and its edge is gone.
            Ok(true) if connection.flush(&mut self.stats.tx_syscalls).is_ok() => {
                self.connections.make_ready(index)
            }
            _ => {
                self.tcp_stats.dials_failed += 1;
                self.close(index);
            }
        }
    }

    /// Receives from connections that have something to read.
    #[inline]
    pub(crate) fn collect(&mut self) {
        self.receiver.clear(&self.stats);
        while self.receiver.has_room(&self.stats) {
            let Some(index) = self.connections.next_ready() else { return };
            let Some(connection) = self.connections.get_mut(index) else { continue };
            match self.receiver.take(connection, &mut self.stats) {
                Taken::All(_) => {}
                Taken::Some(_) => self.connections.make_ready(index),
                Taken::Ended => self.lose(index),
                Taken::Malformed => {
                    self.tcp_stats.malformed += 1;
                    self.stats.rx_errors += 1;
                    self.close(index);
                }
            }
        }
    }

    /// Accepts connections that wait.
    #[cold]
    pub(crate) fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok(accepted) => self.welcome(accepted),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.has_callers = false;
                    return;
                }
                Err(error) if is_out_of_descriptors(&error) => {
                    (self.has_callers, self.is_out_of_descriptors) = (false, true);
                    return;
                }
                // This one was gone before it was accepted.
                Err(_) => {}
            }
        }
    }

    fn welcome(&mut self, accepted: Accepted) {
        let Accepted { socket, peer } = accepted;
        if self.config.loopback_only && !peer.ip().is_loopback() {
            self.tcp_stats.foreign += 1;
            return socket::reset(socket);
        }
        if let Some(before) = self.connections.of_peer(peer) {
            // Whoever has the peer's address now is the peer.
            self.lose(before);
        }
        self.tcp_stats.accepted += 1;
        let now = self.clock.now();
        let connection = Connection::new(socket, peer, false, now);
        let Some(index) = self.add(connection) else { return };
        match self.routes.find(peer) {
            Some(route) => self.adopt(index, route),
            None => self.limit_strangers(),
        }
        if let Some(connection) = self.connections.get_mut(index)
            && connection.flush(&mut self.stats.tx_syscalls).is_err()
        {
            self.lose(index);
        }
    }

    /// Begins to dial the peer of a route without a connection, unless that was tried just now.
    #[cold]
    pub(crate) fn dial(&mut self, route: Route) {
        let now = self.clock.now();
        let Some(entry) = self.routes.get_mut(route).filter(|entry| now >= entry.dial_at) else {
            return;
        };
        entry.dial_at = now + self.config.redial_interval;
        let peer = entry.peer;
        self.tcp_stats.dialled += 1;
        match self.listener.dial(peer) {
            Ok(socket) => {
                let connection = Connection::new(socket, peer, true, now);
                if let Some(index) = self.add(connection) {
                    self.adopt(index, route);
                    self.finish_dialling(index);
                }
            }
            // The peer has dialled: there is a connection between both addresses.
            Err(Errno::ADDRNOTAVAIL) => self.accept(),
            Err(_) => self.tcp_stats.dials_failed += 1,
        }
    }

    /// Adds a connection of a stranger, so far.
    fn add(&mut self, connection: Connection) -> Option<u32> {
        let index = self.connections.insert(connection);
        let token = self.connections.token(index);
        let connection = self.connections.get_mut(index)?;
        if events::watch(&self.epoll, connection, token).is_err() {
            self.close(index);
            return None;
        }
        Some(index)
    }

    /// Gives a connection its route.
    pub(crate) fn adopt(&mut self, index: u32, route: Route) {
        if let (Some(connection), Some(entry)) =
            (self.connections.get_mut(index), self.routes.get_mut(route))
        {
            connection.route = Some(route);
            entry.connection = index;
            self.connections.know(index);
        }
    }

    /// Closes the oldest strangers' connections if there are too many.
    pub(crate) fn limit_strangers(&mut self) {
        while let Some(index) = self.connections.excess_stranger(self.config.strangers_max) {
            self.tcp_stats.strangers_closed += 1;
            self.close(index);
        }
    }

    /// Gives up peers that keep this side waiting.
    fn give_up_overdue(&mut self, now: Time) {
        for index in self.connections.indices() {
            let Some(connection) = self.connections.get_mut(index) else { continue };
            // Whether this one has said something is not known before it is read.
            if !connection.is_ready && connection.is_overdue(now, &self.config) {
                self.tcp_stats.given_up += 1;
                self.close(index);
            }
        }
    }

    /// Closes a connection that has ended or broken.
    #[cold]
    pub(crate) fn lose(&mut self, index: u32) {
        self.tcp_stats.lost += 1;
        self.close(index);
    }

    /// Closes a connection. Its route has none until the peer dials or is dialled.
    #[cold]
    pub(crate) fn close(&mut self, index: u32) {
        let Some(connection) = self.connections.remove(index) else { return };
        if let Some(entry) = connection.route.and_then(|route| self.routes.get_mut(route)) {
            entry.connection = NONE;
        }
        connection.close();
    }
}

fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    let out = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    out.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

//! One application of the daemon: its heaps, its lane, and what it asks for.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use petasos_abi::Descriptor;
use petasos_attach::ask::{Ask, NotDone};
use petasos_attach::reason::{NoExtent, Text};
use petasos_attach::{Attached, ChangeError, Credentials, Event, Lane, LaneError, PushError};
use petasos_base::Time;
use petasos_engine::Application as Number;
use petasos_service::{Application, BindError, Digest, Hub, HubError, Memory};
use petasos_shm::{HeapKind, Outside, OwnedHeap};

use crate::common::Common;
use crate::ports::{self, PORTS_MAX, Taken};
use crate::processor::Allowance;

/// As many descriptors of an application are handled in a turn.
const BATCH: usize = 64;
/// After so many bytes of its messages, it is another one's turn: copying them takes time, and
/// others may have said little.
const BATCH_BYTES: u32 = 128 << 10;
/// As often is an application heard at its socket in a turn: each time, it may ask for something.
const ASKS_MAX: usize = 8;
/// By so much a receive heap grows, unless a message needs more.
pub const GROW_BYTES: u64 = 1 << 20;

/// The heaps of an application, with its socket.
pub struct Heaps(pub Attached);

impl Memory for Heaps {
    fn send(&self) -> &OwnedHeap {
        self.0.heap(HeapKind::Send)
    }

    fn receive(&self) -> &OwnedHeap {
        self.0.heap(HeapKind::Receive)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Outside> {
        self.0.write(offset, bytes)
    }

    fn write_with(
        &mut self,
        offset: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Outside> {
        self.0.write_with(offset, bytes, fill)
    }
}

/// Whether an application has moved to the service's successor (D14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    No,
    /// It has said so, and what it said before may be in its lane.
    Said,
    /// Its lane was empty since.
    All,
}

/// An application, as the daemon polls it.
pub struct Member {
    pub number: Number,
    pub name: String,
    /// Whose process it is.
    pub who: Credentials,
    pub lane: Lane,
    /// Its ring had no room for all that it is to be told.
    pub is_backed_up: bool,
    /// How much the service may work for it, if that is limited.
    allowance: Option<Allowance>,
    /// As of the last look: how long it has worked for it.
    processor_ns: u64,
    /// The addresses at which it serves.
    ports: Vec<(SocketAddr, OwnedFd)>,
    moved: Moved,
    /// It is told nothing at its socket before what was served at this count of changes is
    /// published.
    published_after: u64,
    /// Why it is to be given up, once all that it has said was heard.
    ended: Option<LaneError>,
}

impl Member {
    pub fn new(number: Number, name: String, who: Credentials, lane: Lane) -> Member {
        Member {
            number,
            name,
            who,
            lane,
            is_backed_up: false,
            allowance: None,
            processor_ns: 0,
            ports: Vec::new(),
            moved: Moved::No,
            published_after: 0,
            ended: None,
        }
    }

    /// The same, for which the service may work so much.
    pub fn with(self, allowance: Option<Allowance>) -> Member {
        Member { allowance, ..self }
    }

    /// How much the service may work for it, if that is limited.
    pub fn allowance(&self) -> Option<&Allowance> {
        self.allowance.as_ref()
    }

    /// Whether what the service does for it is to be measured.
    pub fn is_metered(&self) -> bool {
        self.allowance.is_some()
    }

    /// Whether it is not heard now, whatever it says.
    pub fn is_held_up(&self, hub: &mut Hub<Heaps>) -> bool {
        let is_spent = self.allowance.as_ref().is_some_and(Allowance::is_spent);
        if is_spent && self.ended.is_none() && self.moved == Moved::No {
            return true;
        }
        hub.application(self.number).is_some_and(|application| !application.has_room())
    }

    /// The addresses at which it serves, and what keeps them.
    pub fn ports(&self) -> &[(SocketAddr, OwnedFd)] {
        &self.ports
    }

    /// Whether it begins no more calls here, and none is under way.
    pub fn has_nothing_left(&self, hub: &mut Hub<Heaps>) -> bool {
        let is_heard = self.moved == Moved::All;
        let application = hub.application(self.number);
        application.is_none_or(|application| is_heard && application.has_nothing_left())
    }

    /// Is awake again after a sleep.
    pub fn rise(&mut self) {
        if let Err(end) = self.lane.rise() {
            self.ended = Some(end);
        }
    }

    /// Hears what the application says at its socket. Says whether it said anything.
    ///
    /// # Errors
    /// Why it is to be given up.
    pub fn hear_socket(
        &mut self,
        hub: &mut Hub<Heaps>,
        common: &Common,
        now: Time,
    ) -> Result<bool, String> {
        if !common.published.is_published(self.published_after) {
            return Ok(false);
        }
        let mut events = Vec::new();
        let changes = hub.export_changes();
        for turn in 0..ASKS_MAX {
            if hub.export_changes() != changes {
                // Others learn of what it serves now before it is told that it serves.
                self.published_after = hub.export_changes();
                return Ok(true);
            }
            let application = hub.application(self.number).ok_or("it is gone")?;
            let attached = &mut application.memory().0;
            attached.turn(now, |event| events.push(event)).map_err(|error| error.to_string())?;
            if events.is_empty() {
                return Ok(turn > 0);
            }
            // The next turn sends the answers, and hears what was said behind what they answer.
            for event in events.drain(..) {
                self.on_event(hub, common, event);
            }
        }
        if hub.export_changes() != changes {
            self.published_after = hub.export_changes();
        }
        Ok(true)
    }

    /// Hears what the application says in its lane, unless it has used up what it may. Says whether
    /// it said anything.
    ///
    /// # Errors
    /// Why it is to be given up.
    pub fn hear(&mut self, hub: &mut Hub<Heaps>, now: Time) -> Result<bool, String> {
        let Some(allowance) = &mut self.allowance else { return self.hear_lane(hub, now) };
        let used_ns = hub.application(self.number).ok_or("it is gone")?.processor_ns();
        allowance.spend(used_ns - std::mem::replace(&mut self.processor_ns, used_ns));
        // One that is to end, or moves, is heard to its end.
        if !allowance.look(now) && self.ended.is_none() && self.moved == Moved::No {
            return Ok(false);
        }
        self.metered(hub, |member, hub| member.hear_lane(hub, now))
    }

    /// Tells the application what it is to be told, as long as its ring has room. Says whether
    /// there was anything.
    ///
    /// # Errors
    /// Why it is to be given up.
    pub fn tell(&mut self, hub: &mut Hub<Heaps>) -> Result<bool, String> {
        self.metered(hub, Member::tell_lane)
    }

    /// Does something for the application. If it is metered, that is charged if it moves anything.
    fn metered(
        &mut self,
        hub: &mut Hub<Heaps>,
        work: impl FnOnce(&mut Member, &mut Hub<Heaps>) -> Result<bool, String>,
    ) -> Result<bool, String> {
        let Some(begin) = self.allowance.as_ref().map(Allowance::now) else {
            return work(self, hub);
        };
        let has_moved = work(self, hub)?;
        let end = self.allowance.as_ref().map_or(begin, Allowance::now);
        if has_moved && let Some(application) = hub.application(self.number) {
            application.charge_processor(end.nanos_since(begin));
        }
        Ok(has_moved)
    }

    /// Hears what the application says in its lane. Says whether it said anything.
    fn hear_lane(&mut self, hub: &mut Hub<Heaps>, now: Time) -> Result<bool, String> {
        let mut has_said = false;
        let application = hub.application(self.number).ok_or("it is gone")?;
        let mut said = Descriptor::default();
        let mut bytes = 0u32;
        for _ in 0..BATCH {
            if bytes >= BATCH_BYTES || !application.has_room() {
                break;
            }
            if self.lane.pop_into(&mut said).map_err(|error| error.to_string())? {
                bytes = bytes.saturating_add(said.message().bytes);
                application.take(&said, now).map_err(|error| error.to_string())?;
            } else {
                match self.ended {
                    Some(end) => return Err(end.to_string()),
                    // All that it said before it moved was heard.
                    None if self.moved == Moved::Said => self.moved = Moved::All,
                    None => break,
                }
            }
            has_said = true;
        }
        self.lane.release();
        Ok(has_said)
    }

    fn tell_lane(&mut self, hub: &mut Hub<Heaps>) -> Result<bool, String> {
        let Some(application) = hub.application(self.number) else { return Ok(false) };
        let wanted = application.wants_memory();
        let mut has_told = wanted.is_some_and(|bytes| grow(application, bytes));
        self.is_backed_up = false;
        while let Some(next) = application.peek_descriptor() {
            match self.lane.push(next) {
                Ok(()) => has_told = true,
                Err(PushError::Full(_)) => {
                    self.is_backed_up = true;
                    break;
                }
                Err(error) => return Err(error.to_string()),
            }
            application.drop_descriptor();
        }
        self.lane.flush();
        Ok(has_told)
    }

    fn on_event(&mut self, hub: &mut Hub<Heaps>, common: &Common, event: Event) {
        match event {
            Event::Grown(HeapKind::Receive, extent) => {
                if let Some(application) = hub.application(self.number) {
                    application.add_memory(extent.offset, extent.bytes);
                }
            }
            Event::Asked(ask) => {
                let answer = self.done(hub, common, &ask);
                if let Some(application) = hub.application(self.number) {
                    application.memory().0.answer(answer);
                }
            }
            Event::HasMoved => self.moved = Moved::Said,
            _ => {}
        }
    }

    fn done(&mut self, hub: &mut Hub<Heaps>, common: &Common, ask: &Ask) -> Result<u32, NotDone> {
        match ask {
            Ask::Bind { offset, bytes, is_served, service } => {
                let schema = self.schema(hub, *offset, *bytes).map_err(|why| refused(&why))?;
                let bound = hub.bind(self.number, &schema, service.as_str(), *is_served);
                bound.map(u32::from).map_err(|error| refused(&error))
            }
            Ask::Recall { digest, is_served, service } => {
                let digest = Digest::from_bytes(*digest);
                let bound = hub.recall(self.number, digest, service.as_str(), *is_served);
                bound.map(u32::from).map_err(|error| match error {
                    HubError::Bind(BindError::Unknown) => NotDone::Unknown,
                    error => refused(&error),
                })
            }
            Ask::Target(name) => {
                let target = hub.target(self.number, name.as_str());
                target.map(|target| target.0).map_err(|error| refused(&error))
            }
            Ask::Serve(name) => match ports::address_of(name.as_str()) {
                Ok(Some(address)) => self.serve_at(hub, common, address),
                Ok(None) => {
                    let served = hub.serve(self.number, name.as_str());
                    served.map(|()| 0).map_err(|error| error.to_string())
                }
                Err(why) => Err(why),
            }
            .map_err(|why| refused(&why)),
        }
    }

    /// A copy of a schema that lies in the send heap, which is what is checked then.
    fn schema(&self, hub: &mut Hub<Heaps>, offset: u64, bytes: u32) -> Result<Vec<u8>, String> {
        let longest = hub.schemas().limits().schema.bytes_max;
        if bytes as usize > longest {
            return Err(format!("a schema has at most {longest} bytes"));
        }
        let application = hub.application(self.number).ok_or("it is gone")?;
        let mut schema = vec![0; bytes as usize];
        let heap = application.memory().send();
        heap.copy_out(offset, &mut schema).map_err(|error| error.to_string())?;
        Ok(schema)
    }

    /// The application serves at an address. Gives the port.
    fn serve_at(
        &mut self,
        hub: &mut Hub<Heaps>,
        common: &Common,
        address: &str,
    ) -> Result<u32, String> {
        if self.ports.len() >= PORTS_MAX {
            return Err("an application serves at no more addresses".to_owned());
        }
        let taken = common.kept.take_for(self.who, address)?;
        let address = taken.address();
        let name = format!("petasos://{address}");
        if let Err(error) = hub.serve(self.number, &name) {
            if let Taken::Kept(kept) = taken {
                common.kept.keep(kept);
            }
            return Err(error.to_string());
        }
        self.ports.push((address, taken.into_file()));
        Ok(address.port().into())
    }
}

/// Lets an application receive more at a time, if it may. Says whether calls may end since it may
/// not.
fn grow(application: &mut Application<Heaps>, bytes: u64) -> bool {
    let mut make = |bytes| application.memory().0.grow(HeapKind::Receive, bytes);
    let is_refused = |made: &Result<_, ChangeError>| {
        matches!(made, Err(ChangeError::NoExtent(NoExtent::Quota | NoExtent::Room)))
    };
    let mut made = make(bytes.max(GROW_BYTES));
    if is_refused(&made) {
        made = make(bytes);
    }
    let is_refused = is_refused(&made);
    if let Ok(extent) = made {
        application.add_memory(extent.offset, extent.bytes);
    }
    // Otherwise there may be some later.
    is_refused && application.refuse_memory(bytes)
}

/// Why an application does not get what it asks for.
fn refused(why: &dyn std::fmt::Display) -> NotDone {
    NotDone::Refused(Text::new(&why.to_string()))
}

//! Handles descriptors from an application: checks them, copies their messages, and puts them into
//! the application's datapath (D5 to D11).

use std::sync::Arc;

use petasos_abi::{CallNumber, Contents, Descriptor, Request, Side, TIME_NEVER, Untrusted};
use petasos_base::Time;
use petasos_buf::SharedMemory;
use petasos_call::{Code, Metadata, PREVIOUS_ATTEMPTS, Status, TailParts, read_tail};
use petasos_engine::{Call, CallId, Direction, ItemKind, MethodId, Submission};
use petasos_message::{CompactError, GATHER_BYTES_MIN, NativeMsg, Outside, Segment, Source, Types};
use petasos_schema::MessageId;
use petasos_shm::{HeapSlice, Loan, OwnedHeap};

use crate::application::{Application, Detached, Memory};
use crate::known::Known;
use crate::schemas::{Binding, BoundMethod, MethodAt};
use crate::{CALLER_KEY, peers};

/// A send heap as compaction reads it. Addresses are offsets. All is copied.
struct SendHeap<'a>(&'a OwnedHeap);

impl Source for SendHeap<'_> {
    fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), Outside> {
        self.0.copy_out(at, to).map_err(|_| Outside)
    }

    fn segment(&self, _: u64, _: u32) -> Result<Option<Segment>, Outside> {
        Ok(None)
    }
}

/// The same, with a message whose long leaves are read where they lie. Its place comes back when
/// no leaf is left.
struct LentHeap<'a>(&'a OwnedHeap, Arc<Loan>);

impl Source for LentHeap<'_> {
    fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), Outside> {
        self.0.copy_out(at, to).map_err(|_| Outside)
    }

    fn segment(&self, at: u64, bytes: u32) -> Result<Option<Segment>, Outside> {
        let slice = self.0.slice(at, bytes.into()).map_err(|_| Outside)?;
        Ok(Some(Segment::Shared(Arc::new(Leaf { slice, _loan: self.1.clone() }))))
    }
}

/// A leaf that is read where it lies. The application may change it at any time; what is copied of
/// it once is what is sent.
#[derive(Debug)]
struct Leaf {
    slice: HeapSlice,
    _loan: Arc<Loan>,
}

impl SharedMemory for Leaf {
    fn bytes(&self) -> usize {
        self.slice.bytes()
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        self.slice.copy_to(at, to).expect("messages are read within their leaves");
    }
}

impl<M: Memory> Application<M> {
    /// Handles a record that the application has put into its ring, copied out of it. To be called
    /// only while there is [room](Application::has_room).
    ///
    /// # Errors
    /// The application is to be given up: see [`Detached`].
    pub fn handle(&mut self, record: &[u8], now: Time) -> Result<(), Detached> {
        self.take(&Untrusted::new(record).check(Side::Application)?, now)
    }

    /// The same, of a descriptor that was judged already.
    ///
    /// # Errors
    /// As for [`Application::handle`].
    pub fn take(&mut self, said: &Descriptor, now: Time) -> Result<(), Detached> {
        match *said {
            Descriptor::Request(ref request) => self.handle_request(request, now),
            Descriptor::Message { call, message } => {
                self.handle_message(call, message, now);
                Ok(())
            }
            Descriptor::Close { call } => {
                self.handle_close(call, now);
                Ok(())
            }
            Descriptor::Cancel { call } => {
                self.note_cancelled(call);
                self.pass(call, ItemKind::Cancel, now);
                Ok(())
            }
            Descriptor::Head { call, metadata } => {
                self.handle_head(call, metadata, now);
                Ok(())
            }
            Descriptor::End { call, status, has_not_run, message, metadata } => {
                let end = End { code: Code::ALL[usize::from(status)], has_not_run, message };
                self.handle_end(call, end, metadata, now);
                Ok(())
            }
            Descriptor::Grant { call, bytes } => {
                if let Some(id) = self.stream(call) {
                    self.handle_grant(id, bytes);
                }
                Ok(())
            }
            Descriptor::Release(ref released) => {
                for token in released.tokens() {
                    self.blocks.free(*token)?;
                }
                Ok(())
            }
        }
    }

    fn handle_request(&mut self, request: &Request, now: Time) -> Result<(), Detached> {
        let count = &mut self.counts[Side::Application as usize];
        // Numbers count up: those that were used are told without remembering them.
        if request.call.get() < *count {
            return Err(Detached::NumberUsed);
        }
        *count = request.call.get() + 1;
        match self.begin(request, now) {
            Ok(()) => {}
            Err(status) => {
                self.stats.refuse();
                self.refuse(request.call, &status);
            }
        }
        self.release(request.message);
        self.release(request.metadata);
        Ok(())
    }

    /// Begins a call that the application makes.
    fn begin(&mut self, request: &Request, now: Time) -> Result<(), Status> {
        let is_sealed = self.is_sealed(request.partner);
        let binding = self.bindings.get(usize::from(request.binding));
        let binding = binding.ok_or_else(|| Status::internal("there is no such binding"))?;
        let method = binding.methods.get(usize::from(request.method));
        let method = method.ok_or_else(|| Status::internal("there is no such method"))?;
        if method.is_stream != request.is_stream {
            return Err(Status::internal("the method has other streams"));
        }
        let body = match request.is_stream {
            true => None,
            false => Some(self.taken(binding, method, true, request.message)?),
        };
        let metadata = self.tail(request.metadata)?.initial;
        let target = self.targets.get(request.partner as usize);
        let call = Call {
            application: self.policed.number,
            peer: target.map_or(peers::REST, |target| target.peer),
            method: method.id,
            requests: Direction::Outbound,
            is_stream: request.is_stream,
            is_idempotent: request.is_idempotent || method.is_idempotent,
            is_sealed,
            attempt: attempt(&metadata),
            began: now,
            deadline: deadline(request.time_left_us, now),
            // Nobody has proved who serves.
            identity: None,
        };
        let full = || Status::resource_exhausted("the application has as many calls as it may");
        if !self.has_call_left(Side::Application) {
            return Err(full());
        }
        let id = self.datapath.begin(call).map_err(|_| full())?;
        let at = MethodAt { binding: request.binding, method: request.method };
        self.remember(Known::new((id, request.call), (at, request.partner), now));
        let item = Submission {
            metadata,
            ..Submission::new(ItemKind::Request, Direction::Outbound, bytes_of(body.as_ref()))
        };
        self.submit(id, item, body, now).expect("the call has just begun");
        Ok(())
    }

    /// Whether a call of this target leaves the host encrypted.
    fn is_sealed(&mut self, target: u32) -> bool {
        let Some(host) = &self.host else { return false };
        let changes = host.changes();
        let Some(target) = self.targets.get_mut(target as usize) else { return false };
        match target.sealed {
            Some((seen, is_sealed)) if seen == changes => is_sealed,
            _ => {
                let caller = self.is_proved.then_some(&*self.name);
                let is_sealed = host.is_sealed(&target.name, caller);
                target.sealed = Some((changes, is_sealed));
                is_sealed
            }
        }
    }

    /// The application may begin another call instead, also before all policies have seen that this
    /// one was cancelled.
    fn note_cancelled(&mut self, number: CallNumber) {
        let Some(id) = self.by_number.get(number) else { return };
        let known = self.known_mut(id).expect("numbers name calls that are there");
        if known.is_callers() && !std::mem::replace(&mut known.is_cancelled, true) {
            self.open[Side::Application as usize] -= 1;
        }
    }

    fn handle_message(&mut self, number: CallNumber, message: Contents, now: Time) {
        if let Some(id) = self.stream(number) {
            match self.streamed(id, message) {
                Ok(body) => {
                    let bytes = bytes_of(Some(&body));
                    let item = Submission::new(ItemKind::Message, Direction::Outbound, bytes);
                    // A call that is over takes no more.
                    let _ = self.submit(id, item, Some(body), now);
                }
                Err(status) => self.datapath.end(id, status, now),
            }
        }
        self.release(message);
    }

    fn handle_close(&mut self, number: CallNumber, now: Time) {
        let Some(id) = self.stream(number) else { return };
        let known = self.known_mut(id).expect("it is a stream that is there");
        if std::mem::replace(&mut known.has_closed, true) {
            return self.datapath.end(id, Status::internal("a stream was closed twice"), now);
        }
        self.pass(number, ItemKind::Close, now);
    }

    fn handle_head(&mut self, number: CallNumber, metadata: Contents, now: Time) {
        if let Some(id) = self.stream(number) {
            match self.headed(id, metadata) {
                Ok(item) => drop(self.submit(id, item, None, now)),
                Err(status) => self.datapath.end(id, status, now),
            }
        }
        self.release(metadata);
    }

    /// A call with streams.
    fn stream(&self, number: CallNumber) -> Option<CallId> {
        let id = self.by_number.get(number)?;
        self.known(id)?.is_stream().then_some(id)
    }

    /// D7: a message of a stream, if one may come.
    fn streamed(&mut self, id: CallId, message: Contents) -> Result<NativeMsg, Status> {
        let known = self.known_mut(id).expect("it is a stream that is there");
        if known.has_closed {
            return Err(Status::internal("a message came behind the last"));
        }
        known.has_begun = true;
        let flow = known.flow.as_mut().expect("it is a stream");
        if !flow.receive(message.bytes) {
            return Err(Status::internal("a message came that was not granted"));
        }
        let (at, is_callers) = (known.method, known.is_callers());
        self.taken(&self.bindings[usize::from(at.binding)], self.method(at), is_callers, message)
    }

    /// D7: the head of a stream, if one may come.
    fn headed(&mut self, id: CallId, metadata: Contents) -> Result<Submission, Status> {
        let known = self.known_mut(id).expect("it is a stream that is there");
        if std::mem::replace(&mut known.has_begun, true) {
            return Err(Status::internal("a head came behind a head or a message"));
        }
        let metadata = self.tail(metadata)?.initial;
        Ok(Submission { metadata, ..Submission::new(ItemKind::Head, Direction::Outbound, 0) })
    }

    fn handle_end(&mut self, number: CallNumber, end: End, metadata: Contents, now: Time) {
        if let Some(id) = self.by_number.get(number) {
            match self.ended(id, &end, metadata) {
                Ok((item, body)) => drop(self.submit(id, item, body, now)),
                Err(status) => self.datapath.end(id, status, now),
            }
        }
        self.release(end.message);
        self.release(metadata);
    }

    /// The end of a call that the application has served.
    fn ended(
        &self,
        id: CallId,
        end: &End,
        metadata: Contents,
    ) -> Result<(Submission, Option<NativeMsg>), Status> {
        let known = self.known(id).expect("numbers name calls that are there");
        let method = self.method(known.method);
        let has_response = end.code == Code::Ok && !method.is_stream;
        let body = match has_response {
            true => {
                let binding = &self.bindings[usize::from(known.method.binding)];
                Some(self.taken(binding, method, false, end.message)?)
            }
            false => None,
        };
        let mut item = Submission::new(ItemKind::End, Direction::Outbound, bytes_of(body.as_ref()));
        if end.code == Code::Ok && metadata.is_none() {
            return Ok((item, body));
        }
        let (status, initial) = self.tail(metadata)?.into_status(end.code);
        item.has_not_run = end.has_not_run && end.code != Code::Ok;
        // A success has a status only for its trailing metadata.
        let is_plain = end.code == Code::Ok && status.metadata().is_empty();
        (item.metadata, item.status) = (initial, (!is_plain).then_some(status));
        Ok((item, body))
    }

    /// An item without contents.
    fn pass(&mut self, number: CallNumber, kind: ItemKind, now: Time) {
        if let Some(id) = self.by_number.get(number) {
            let _ = self.submit(id, Submission::new(kind, Direction::Outbound, 0), None, now);
        }
    }

    /// A message in the send heap, copied and checked (M23). Long leaves of a long message are not
    /// copied, unless engines may read them.
    #[inline]
    fn taken(
        &self,
        binding: &Binding,
        method: &BoundMethod,
        is_request: bool,
        contents: Contents,
    ) -> Result<NativeMsg, Status> {
        if contents.is_none() {
            return Err(Status::internal("a message is missing"));
        }
        let id = if is_request { method.request } else { method.response };
        if contents.bytes as usize >= GATHER_BYTES_MIN
            && let Some(loan) = self.loan(contents, is_request.then_some(method.id))
        {
            return self.gathered(&binding.types, id, contents, loan);
        }
        let (bytes_max, source) = (self.bytes_max(contents), SendHeap(self.memory.send()));
        NativeMsg::copied(&binding.types, id, &source, contents.offset, bytes_max).map_err(unread)
    }

    /// A message of which long leaves are not copied.
    #[cold]
    #[inline(never)]
    fn gathered(
        &self,
        types: &Arc<Types>,
        id: MessageId,
        contents: Contents,
        loan: Loan,
    ) -> Result<NativeMsg, Status> {
        let bytes_max = self.bytes_max(contents);
        let source = LentHeap(self.memory.send(), Arc::new(loan));
        NativeMsg::gathered(types, id, &source, contents.offset, bytes_max).map_err(unread)
    }

    #[inline]
    fn bytes_max(&self, contents: Contents) -> usize {
        self.limits.message_bytes_max.min(contents.bytes as usize)
    }

    /// For a long message whose leaves are to be read where they lie, unless the application would
    /// have too little memory left, or it is a request of a method of which engines may read them.
    #[cold]
    fn loan(&self, contents: Contents, request_of: Option<MethodId>) -> Option<Loan> {
        let bytes = self.lent.bytes() + u64::from(contents.bytes);
        let is_read = request_of.is_some_and(|method| self.fields.have_bytes(method));
        if is_read || bytes > self.limits.lent_bytes_max as u64 {
            return None;
        }
        self.lent.lend(contents)
    }

    /// A private copy of metadata in the send heap, parsed (R9).
    fn tail(&self, contents: Contents) -> Result<TailParts, Status> {
        if contents.is_none() {
            return Ok(TailParts::default());
        }
        if contents.bytes as usize > self.limits.metadata_bytes_max {
            return Err(Status::resource_exhausted("the metadata exceeds the size limit"));
        }
        let mut bytes = vec![0; contents.bytes as usize];
        let outside = |_| Status::internal("the metadata does not lie in the heap");
        self.memory.send().copy_out(contents.offset, &mut bytes).map_err(outside)?;
        let mut parts = read_tail(&bytes, self.limits.metadata_bytes_max)?;
        if !parts.initial.is_empty() {
            // Who calls is the service's to say.
            parts.initial.remove(CALLER_KEY);
        }
        Ok(parts)
    }

    /// The application has its memory back: everything was copied, unless the place is lent.
    #[inline(always)]
    pub(crate) fn release(&mut self, contents: Contents) {
        if contents.is_none() || self.lent.has(contents.offset) {
            return;
        }
        if self.released.is_full() {
            self.descriptors.push_back(Descriptor::Release(self.released));
            self.released = petasos_abi::Released::new();
        }
        self.released.push(contents.offset).expect("there is room now");
    }
}

/// The status of a call whose message in the send heap is none.
#[cold]
fn unread(error: CompactError) -> Status {
    match error {
        CompactError::TooLarge => Status::resource_exhausted("the message is too large"),
        _ => Status::internal(format!("the message cannot be read: {error}")),
    }
}

/// How often a call was tried before, as its caller says (gRFC A6).
pub(crate) fn attempt(metadata: &Metadata) -> u8 {
    if metadata.is_empty() {
        return 0;
    }
    let previous = metadata.get(PREVIOUS_ATTEMPTS).and_then(|text| text.parse::<u64>().ok());
    previous.unwrap_or(0).min(u64::from(u8::MAX)) as u8
}

/// What an end says.
struct End {
    code: Code,
    has_not_run: bool,
    message: Contents,
}

fn bytes_of(message: Option<&NativeMsg>) -> u32 {
    message.map_or(0, |message| message.image_bytes() as u32)
}

fn deadline(time_left_us: u64, now: Time) -> Time {
    match time_left_us {
        TIME_NEVER => Time::NEVER,
        us => now.plus_nanos(us.saturating_mul(1000)),
    }
}

/// Metadata and a status as a tail (R9).
pub(crate) fn tail_of(metadata: &Metadata, status: Option<&Status>) -> Vec<u8> {
    let mut tail = Vec::new();
    if metadata.is_empty() && status.is_none() {
        return tail;
    }
    let mut writer = petasos_call::TailWriter::new(&mut tail);
    writer.metadata(petasos_call::MetadataKind::Initial, metadata);
    if let Some(status) = status {
        writer.status(status);
    }
    tail
}

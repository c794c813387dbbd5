//! Rounds: commands of one connection that have arrived together, and their replies in order.
//!
//! As with one server, a connection's commands take effect in their order. So a write waits for
//! everything before it, and what follows waits for the write. Reads that follow each other run at
//! once, each on a node of its own; writes that follow each other are one request, which the
//! primary runs in order. A read may be behind the writes before it: replicas follow the primary.

use core::time::Duration;
use std::vec::IntoIter;

use petasos::{Msg, Request, Response, Routing, Status, Unary};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::commands::{Class, Own, class, refusal};
use crate::generated::{Commands, RedisClient, Replies};
use crate::resp::Command;

/// Reads of a connection that run at once.
const READS_AT_ONCE: usize = 64;
/// Writes of one request, and their bytes, of which the last may add a command's.
const WRITES_MAX: usize = 128;
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Replies are written when there are so many bytes.
const FLUSH_BYTES: usize = 64 << 10;

/// How commands are run.
pub(crate) struct Runner {
    pub client: RedisClient,
    /// Of each request.
    pub timeout: Duration,
    /// Reads see all writes that were answered, but only the primary serves them.
    pub reads_on_primary: bool,
}

/// A reply, or what becomes one.
enum Pending {
    Ready(Vec<u8>),
    Read(Unary<Replies>),
}

/// Replies on their way to a client.
pub(crate) struct Out<W> {
    stream: W,
    bytes: Vec<u8>,
    /// Nothing is answered behind this.
    has_quit: bool,
}

/// Commands, each an array of bulk strings, as a request.
pub fn encode<'a>(commands: impl IntoIterator<Item = &'a [u8]>) -> Msg<Commands> {
    let mut message = Commands::new();
    message.edit().command_mut().extend(commands);
    message
}

impl Runner {
    /// Runs the commands and writes their replies.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) async fn run<W: AsyncWrite + Unpin>(
        &self,
        commands: Vec<Command>,
        out: &mut Out<W>,
    ) -> std::io::Result<()> {
        let (mut pending, mut rest) = (Vec::new(), commands.into_iter());
        while let Some(command) = rest.next() {
            match class(&command.words[0]) {
                Some(Class::Read) => {
                    if pending.len() >= READS_AT_ONCE {
                        settle(&mut pending, out).await?;
                    }
                    pending.push(Pending::Read(self.read(&command)));
                }
                Some(Class::Write) => {
                    settle(&mut pending, out).await?;
                    self.write(command, &mut rest, out).await?;
                }
                Some(Class::Own(Own::Quit)) => {
                    pending.push(Pending::Ready(b"+OK\r\n".to_vec()));
                    out.has_quit = true;
                    break;
                }
                Some(Class::Own(own)) => pending.push(Pending::Ready(answer(own, &command.words))),
                None => pending.push(Pending::Ready(error(&refusal(&command.words[0])))),
            }
        }
        settle(&mut pending, out).await?;
        out.flush().await
    }

    fn read(&self, command: &Command) -> Unary<Replies> {
        let request = Request::new(encode([&command.bytes[..]])).with_timeout(self.timeout);
        match self.reads_on_primary {
            false => self.client.read(request),
            true => {
                let routing = Routing { is_idempotent: true, ..Routing::to_primary() };
                self.client.read(request.with_routing(routing))
            }
        }
    }

    /// Runs a write and those that follow it.
    async fn write<W: AsyncWrite + Unpin>(
        &self,
        first: Command,
        rest: &mut IntoIter<Command>,
        out: &mut Out<W>,
    ) -> std::io::Result<()> {
        let (mut bytes, mut writes) = (first.bytes.len(), vec![first]);
        while writes.len() < WRITES_MAX
            && bytes < WRITE_BYTES_MAX
            && let Some(next) = rest.as_slice().first()
            && class(&next.words[0]) == Some(Class::Write)
        {
            let next = rest.next().expect("it was looked at");
            bytes += next.bytes.len();
            writes.push(next);
        }
        let message = encode(writes.iter().map(|write| &write.bytes[..]));
        let request = Request::new(message).with_timeout(self.timeout);
        let answer = self.client.write(request.with_routing(Routing::to_primary())).await;
        match replies(&answer) {
            Ok(replies) => out.bytes.extend_from_slice(replies),
            Err(status) => {
                let text = format!("UNKNOWN the command may have run, or not: {status}");
                writes.iter().for_each(|_| out.bytes.extend_from_slice(&error(&text)));
            }
        }
        out.flush_if_many().await
    }
}

impl<W: AsyncWrite + Unpin> Out<W> {
    pub(crate) fn new(stream: W) -> Out<W> {
        Out { stream, bytes: Vec::new(), has_quit: false }
    }

    /// Whether the client wants no more.
    pub(crate) fn has_quit(&self) -> bool {
        self.has_quit
    }

    /// Writes an error as the last reply, and closes this direction.
    pub(crate) async fn end(&mut self, why: Option<&str>) -> std::io::Result<()> {
        self.bytes.extend(why.into_iter().flat_map(error));
        self.flush().await?;
        self.stream.shutdown().await
    }

    async fn flush_if_many(&mut self) -> std::io::Result<()> {
        if self.bytes.len() < FLUSH_BYTES { Ok(()) } else { self.flush().await }
    }

    async fn flush(&mut self) -> std::io::Result<()> {
        self.stream.write_all(&self.bytes).await?;
        self.bytes.clear();
        self.bytes.shrink_to(FLUSH_BYTES);
        Ok(())
    }
}

/// Waits for all replies.
async fn settle<W: AsyncWrite + Unpin>(
    pending: &mut Vec<Pending>,
    out: &mut Out<W>,
) -> std::io::Result<()> {
    for reply in pending.drain(..) {
        match reply {
            Pending::Ready(bytes) => out.bytes.extend_from_slice(&bytes),
            Pending::Read(call) => match replies(&call.await) {
                Ok(replies) => out.bytes.extend_from_slice(replies),
                Err(status) => {
                    out.bytes.extend(error(&format!("UNAVAILABLE no node has answered: {status}")));
                }
            },
        }
        out.flush_if_many().await?;
    }
    Ok(())
}

fn replies(answer: &Result<Response<Replies>, Status>) -> Result<&[u8], &Status> {
    answer.as_ref().map(|replies| replies.resp())
}

/// Answers a command about the connection.
fn answer(own: Own, words: &[Vec<u8>]) -> Vec<u8> {
    let is = |at: usize, text: &str| {
        words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(text.as_bytes()))
    };
    match (own, words.len()) {
        (Own::Ping, 1) => b"+PONG\r\n".to_vec(),
        (Own::Ping | Own::Echo, 2) => bulk(&words[1]),
        (Own::Select, 2) if is(1, "0") => b"+OK\r\n".to_vec(),
        (Own::Select, 2) => error("ERR a group has database 0 only"),
        (Own::Hello, 1 | 2) if words.len() == 1 || is(1, "2") => {
            b"*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:2\r\n".to_vec()
        }
        (Own::Hello, 2) => error("NOPROTO this adapter speaks RESP 2"),
        (Own::Client, 3) if is(1, "setname") => b"+OK\r\n".to_vec(),
        (Own::Client, 4) if is(1, "setinfo") => b"+OK\r\n".to_vec(),
        (Own::Ping | Own::Echo | Own::Select, _) => error(&format!(
            "ERR wrong number of arguments for '{}' command",
            words[0].to_ascii_lowercase().escape_ascii()
        )),
        _ => error("ERR this is not supported behind a router"),
    }
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    let mut reply = format!("${}\r\n", bytes.len()).into_bytes();
    reply.extend_from_slice(bytes);
    reply.extend_from_slice(b"\r\n");
    reply
}

/// An error, which has no end of a line in it.
fn error(text: &str) -> Vec<u8> {
    format!("-{}\r\n", text.replace(['\r', '\n'], " ")).into_bytes()
}

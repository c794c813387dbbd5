//! HTTP/1.1: a GET again and again, or several in turn, one at a time on each connection (RFC 9110,
//! RFC 9112).
//!
//! Bodies are read to their end and dropped as they come. Heads are parsed by `httparse`.

use crate::tcp::{Protocol, Reply};

/// A response's head, with all its lines, is no longer.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// A body is no longer.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// The line before a chunk, or one after the last.
const LINE_BYTES_MAX: usize = 1024;
/// The lines after the last chunk.
const TRAILERS_MAX: u32 = 64;

/// GET requests for one path, or for several in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// There is at least one.
    requests: Vec<Vec<u8>>,
    next: usize,
}

/// Why something is no request. The caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The path has blanks or control characters, or does not begin with a slash.
    #[error("`{0}` is no path of a URL")]
    Path(String),
    /// The same of a host.
    #[error("`{0}` is no host of a URL")]
    Host(String),
    /// A header's name or value has characters that it may not have.
    #[error("`{0}` is no header")]
    Header(String),
}

impl Http {
    /// GET requests for `path`, with its query, at `host`, with its port if that is not 80.
    ///
    /// # Errors
    /// See [`HttpError`].
    pub fn get(host: &str, path: &str, headers: &[(String, String)]) -> Result<Http, HttpError> {
        Http::get_each(host, &[path], headers)
    }

    /// The same for several paths: for each in turn, and then for the first again.
    ///
    /// # Errors
    /// See [`HttpError`].
    ///
    /// # Panics
    /// If there is no path.
    pub fn get_each(
        host: &str,
        paths: &[&str],
        headers: &[(String, String)],
    ) -> Result<Http, HttpError> {
        assert!(!paths.is_empty(), "there is a path");
        let requests = paths.iter().map(|path| Http::one(host, path, headers));
        Ok(Http { requests: requests.collect::<Result<_, _>>()?, next: 0 })
    }

    /// One request.
    fn one(host: &str, path: &str, headers: &[(String, String)]) -> Result<Vec<u8>, HttpError> {
        let is_visible =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if !is_visible(path) || !path.starts_with('/') {
            return Err(HttpError::Path(path.to_owned()));
        }
        if !is_visible(host) {
            return Err(HttpError::Host(host.to_owned()));
        }
        let mut request =
            format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: petasos-load\r\n");
        for (name, value) in headers {
            let is_name = is_visible(name) && !name.contains(':');
            if !is_name || value.chars().any(char::is_control) {
                return Err(HttpError::Header(name.clone()));
            }
            request += &format!("{name}: {value}\r\n");
        }
        request += "\r\n";
        Ok(request.into_bytes())
    }
}

impl Protocol for Http {
    type Reader = Response;
    /// Servers and proxies answer requests that were not waited for one after another at best.
    const OUTSTANDING_MAX: usize = 1;

    fn request(&mut self) -> &[u8] {
        let request = self.next;
        self.next = (request + 1) % self.requests.len();
        &self.requests[request]
    }

    fn read(reader: &mut Response, input: &[u8]) -> Result<(usize, Option<Reply>), String> {
        reader.read(input)
    }

    fn read_end(reader: &mut Response) -> Option<Reply> {
        (reader.rest == Rest::UntilEnd).then(|| reader.complete())
    }
}

/// A response that is being read.
#[derive(Debug)]
pub struct Response {
    rest: Rest,
    status: u16,
    stays_open: bool,
    body_bytes: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Head,
    /// So many bytes of the body.
    Body(u64),
    /// A chunk's length, in a line.
    ChunkHead,
    /// So many bytes of a chunk, and the end of its line.
    Chunk(u64),
    /// Lines after the last chunk.
    Trailers(u32),
    /// The body ends with the connection.
    UntilEnd,
}

impl Default for Response {
    fn default() -> Response {
        Response { rest: Rest::Head, status: 0, stays_open: true, body_bytes: 0 }
    }
}

impl Response {
    fn read(&mut self, input: &[u8]) -> Result<(usize, Option<Reply>), String> {
        match self.rest {
            Rest::Head => self.read_head(input),
            Rest::Body(left) => {
                let (read, left) = skip(input, left);
                self.rest = Rest::Body(left);
                Ok((read, (left == 0).then(|| self.complete())))
            }
            Rest::Chunk(left) => {
                let (read, left) = skip(input, left);
                self.rest = if left == 0 { Rest::ChunkHead } else { Rest::Chunk(left) };
                Ok((read, None))
            }
            Rest::ChunkHead => self.read_chunk_head(input),
            Rest::Trailers(lines) => self.read_trailer(input, lines),
            Rest::UntilEnd => {
                self.count_body(input.len() as u64)?;
                Ok((input.len(), None))
            }
        }
    }

    fn read_head(&mut self, input: &[u8]) -> Result<(usize, Option<Reply>), String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let parsed = head.parse(&input[..input.len().min(HEAD_BYTES_MAX)]);
        let parsed = parsed.map_err(|error| format!("the response is no HTTP/1.1: {error}"))?;
        let httparse::Status::Complete(read) = parsed else {
            let is_too_long = input.len() >= HEAD_BYTES_MAX;
            let what = || format!("the response's head is longer than {HEAD_BYTES_MAX} bytes");
            return if is_too_long { Err(what()) } else { Ok((0, None)) };
        };
        let status = head.code.unwrap_or_default();
        if status == 101 {
            return Err("the server switches protocols, which it was not asked for".to_owned());
        }
        if (100..200).contains(&status) {
            return Ok((read, None));
        }
        let framing = Framing::of(head.headers)?;
        self.status = status;
        self.stays_open = head.version == Some(1) && !framing.closes;
        self.rest = framing.rest(status);
        match self.rest {
            Rest::Body(0) => Ok((read, Some(self.complete()))),
            Rest::Body(bytes) => self.count_body(bytes).map(|()| (read, None)),
            _ => Ok((read, None)),
        }
    }

    fn read_chunk_head(&mut self, input: &[u8]) -> Result<(usize, Option<Reply>), String> {
        let Some((line, read)) = line(input)? else { return Ok((0, None)) };
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
        let bytes = core::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'));
        let bytes = bytes.and_then(|text| u64::from_str_radix(text, 16).ok());
        let bytes = bytes.ok_or("the length of a chunk is no number")?;
        self.count_body(bytes)?;
        // The end of the chunk's line belongs to it.
        self.rest = if bytes == 0 { Rest::Trailers(0) } else { Rest::Chunk(bytes + 2) };
        Ok((read, None))
    }

    fn read_trailer(&mut self, input: &[u8], lines: u32) -> Result<(usize, Option<Reply>), String> {
        let Some((line, read)) = line(input)? else { return Ok((0, None)) };
        if line.is_empty() {
            return Ok((read, Some(self.complete())));
        }
        if lines == TRAILERS_MAX {
            return Err(format!("the response has more than {TRAILERS_MAX} trailers"));
        }
        self.rest = Rest::Trailers(lines + 1);
        Ok((read, None))
    }

    fn count_body(&mut self, bytes: u64) -> Result<(), String> {
        self.body_bytes = self.body_bytes.saturating_add(bytes);
        if self.body_bytes > BODY_BYTES_MAX {
            return Err(format!("the response is longer than {BODY_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    /// The reply to the request, and a reader for the next.
    fn complete(&mut self) -> Reply {
        let Response { rest, status, stays_open, .. } = core::mem::take(self);
        let result =
            if status < 400 { Ok(()) } else { Err(format!("the response has status {status}")) };
        Reply { result, stays_open: stays_open && rest != Rest::UntilEnd }
    }
}

/// What headers say of the length of the body.
struct Framing {
    length: Option<u64>,
    is_chunked: bool,
    is_coded_otherwise: bool,
    closes: bool,
}

impl Framing {
    fn of(headers: &[httparse::Header<'_>]) -> Result<Framing, String> {
        let mut framing =
            Framing { length: None, is_chunked: false, is_coded_otherwise: false, closes: false };
        for header in headers {
            let value = || String::from_utf8_lossy(header.value).trim().to_ascii_lowercase();
            if header.name.eq_ignore_ascii_case("content-length") {
                let value = value();
                let is_number = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
                let length = value.parse().ok().filter(|_| is_number);
                let length = length.ok_or("the response's content-length is no number")?;
                if framing.length.is_some_and(|other| other != length) {
                    return Err("the response has several lengths".to_owned());
                }
                framing.length = Some(length);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                framing.is_chunked =
                    value().split(',').next_back().map(str::trim) == Some("chunked");
                framing.is_coded_otherwise = !framing.is_chunked;
            } else if header.name.eq_ignore_ascii_case("connection") {
                framing.closes |= value().split(',').any(|option| option.trim() == "close");
            }
        }
        Ok(framing)
    }

    /// RFC 9112, section 6.3.
    fn rest(&self, status: u16) -> Rest {
        match self.length {
            _ if status == 204 || status == 304 => Rest::Body(0),
            _ if self.is_chunked => Rest::ChunkHead,
            Some(length) if !self.is_coded_otherwise => Rest::Body(length),
            _ => Rest::UntilEnd,
        }
    }
}

/// How many of `left` bytes the input has, and how many are left then.
fn skip(input: &[u8], left: u64) -> (usize, u64) {
    let read = left.min(input.len() as u64);
    (read as usize, left - read)
}

/// A line without its end, and its length with it; `None` if the end has not come yet.
fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    let within = &input[..input.len().min(LINE_BYTES_MAX)];
    match within.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = &input[..end];
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1)))
        }
        None if within.len() == LINE_BYTES_MAX => Err("a line between chunks is too long".into()),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;

//! Responses in all their forms, in any pieces.

use petasos_base::Rng;

use super::*;

/// Reads all of `input` in pieces that end at `cuts`, as a connection does. Returns the replies, or
/// the first error.
fn read(input: &[u8], cuts: &[usize]) -> Result<Vec<Reply>, String> {
    let mut reader = Response::default();
    let (mut replies, mut kept) = (Vec::new(), Vec::new());
    let mut begin = 0;
    for end in cuts.iter().copied().chain([input.len()]) {
        kept.extend_from_slice(&input[begin..end]);
        begin = end;
        let mut done = 0;
        while done < kept.len() {
            let (read, reply) = reader.read(&kept[done..])?;
            done += read;
            replies.extend(reply.clone());
            if read == 0 && reply.is_none() {
                break;
            }
        }
        kept.drain(..done);
        assert!(kept.len() <= HEAD_BYTES_MAX, "what is kept is bounded");
    }
    replies.extend(Http::read_end(&mut reader));
    Ok(replies)
}

fn ok(stays_open: bool) -> Reply {
    Reply { result: Ok(()), stays_open }
}

fn failed(what: &str) -> Reply {
    Reply { result: Err(what.to_owned()), stays_open: true }
}

const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\n\r\n\
                       5;x=y\r\nhello\r\n10 \r\n0123456789abcdef\r\n0\r\na: b\r\n\r\n";

#[test]
fn responses_are_read_to_their_ends_wherever_they_are_cut() {
    for (response, reply) in [
        (PLAIN, ok(true)),
        (CHUNKED, ok(true)),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", ok(true)),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", ok(true)),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nContent-Length: 0\r\n\r\n", ok(true)),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length:1\r\n\r\nx", ok(true)),
        ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\ncontent-length:1\r\n\r\nx", ok(false)),
        ("HTTP/1.0 200 OK\r\ncontent-length:1\r\n\r\nx", ok(false)),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", ok(false)),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\nContent-Length: 1\r\n\r\nxyz", ok(false)),
        ("HTTP/1.1 503 Busy\r\ncontent-length:1\r\n\r\nx", failed("the response has status 503")),
        ("HTTP/1.1 404\r\ncontent-length:1\r\n\r\nx", failed("the response has status 404")),
    ] {
        let bytes = response.as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(read(bytes, &[cut]), Ok(vec![reply.clone()]), "{response:?} at {cut}");
        }
    }
    let both = [PLAIN, CHUNKED, PLAIN].concat();
    let every: Vec<usize> = (0..both.len()).collect();
    assert_eq!(read(both.as_bytes(), &every), Ok(vec![ok(true); 3]));
}

#[test]
fn an_end_before_the_response_s_own_is_no_reply() {
    for response in [PLAIN, CHUNKED] {
        for cut in 0..response.len() {
            assert_eq!(read(&response.as_bytes()[..cut], &[]), Ok(vec![]), "{cut}");
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let long_head = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
    let chunked =
        |rest: &str| format!("HTTP/1.1 200 OK\r\ntransfer-encoding:chunked\r\n\r\n{rest}");
    let many = "a: b\r\n".repeat(TRAILERS_MAX as usize + 1);
    for (response, what) in [
        ("SSH-2.0-x\r\n", "no HTTP/1.1"),
        ("HTTP/2.0 200 OK\r\n\r\n", "no HTTP/1.1"),
        (&long_head, "head is longer"),
        ("HTTP/1.1 101 Switching\r\n\r\n", "switches protocols"),
        ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "no number"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n", "no number"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "several lengths"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n", "longer than"),
        (&chunked("x\r\n"), "no number"),
        (&chunked("+5\r\n"), "no number"),
        (&chunked("\r\n"), "no number"),
        (&chunked("ffffffffffffffff\r\n"), "longer than"),
        (&chunked(&"0".repeat(LINE_BYTES_MAX)), "too long"),
        (&chunked(&format!("0\r\n{many}\r\n")), "trailers"),
    ] {
        let error = read(response.as_bytes(), &[]).expect_err(response);
        assert!(error.contains(what), "{response:?}: {error}");
    }
}

#[test]
fn no_bytes_are_too_much() {
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        let mut bytes = [PLAIN, CHUNKED].concat().into_bytes();
        for _ in 0..rng.below(4) {
            let place = rng.below(bytes.len() as u64) as usize;
            bytes[place] = rng.next_u64() as u8;
        }
        let cut = rng.below(bytes.len() as u64) as usize;
        // Whatever it says, it says it in any pieces.
        let whole = read(&bytes, &[]);
        assert_eq!(read(&bytes, &[cut]).is_ok(), whole.is_ok(), "{:?}", bytes.escape_ascii());
    }
}

#[test]
fn requests_are_plain() {
    let headers = [("accept".to_owned(), "a b".to_owned())];
    let mut http = Http::get("localhost:80", "/a?b=c", &headers).expect("it is fine");
    let text = String::from_utf8_lossy(http.request()).into_owned();
    assert_eq!(
        text,
        "GET /a?b=c HTTP/1.1\r\nhost: localhost:80\r\nuser-agent: petasos-load\r\n\
         accept: a b\r\n\r\n"
    );
    for (host, path) in [("", "/"), ("a b", "/"), ("a", ""), ("a", "x"), ("a", "/ HTTP/1.1\r\n")] {
        assert!(Http::get(host, path, &[]).is_err(), "{host:?} {path:?}");
    }
    for (name, value) in [("a b", "c"), ("", "c"), ("a:", "c"), ("a", "b\r\nc: d")] {
        assert!(Http::get("a", "/", &[(name.to_owned(), value.to_owned())]).is_err(), "{name:?}");
    }
}

#[test]
fn paths_are_asked_for_in_turn() {
    let mut http = Http::get_each("a", &["/1", "/2"], &[]).expect("they are fine");
    for path in ["/1", "/2", "/1"] {
        let request = String::from_utf8_lossy(http.request()).into_owned();
        assert!(request.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{request}");
    }
    assert!(Http::get_each("a", &["/1", "x"], &[]).is_err());
}

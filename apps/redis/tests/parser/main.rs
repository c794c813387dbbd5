//! What the module, in C, makes of any bytes is what this crate's reader makes of them, and it
//! reads nothing beyond them: it is compiled with sanitizers.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use petasos_base::Rng;
use petasos_redis::Reader;
use prost::Message;

/// The message of `redis.proto`, by another encoder.
#[derive(Clone, PartialEq, Message)]
struct Commands {
    #[prost(bytes = "vec", repeated, tag = "1")]
    command: Vec<Vec<u8>>,
}

const CASES: usize = 20_000;

/// Commands, some of which are none.
fn commands(rng: &mut Rng) -> Vec<Vec<u8>> {
    let command = |rng: &mut Rng| {
        let count = rng.below(4) + 1;
        let mut bytes = format!("*{count}\r\n").into_bytes();
        for _ in 0..count {
            let length = [0, 1, 3, 130][rng.below(4) as usize];
            bytes.extend(format!("${length}\r\n").into_bytes());
            bytes.extend((0..length).map(|_| rng.below(256) as u8));
            bytes.extend(b"\r\n");
        }
        if rng.below(3) == 0 {
            alter(rng, &mut bytes);
        }
        bytes
    };
    (0..rng.below(4)).map(|_| command(rng)).collect()
}

/// Changes, drops or adds a byte.
fn alter(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.below(bytes.len() as u64) as usize;
    let byte = b"*$\r\n0199-:x\xff"[rng.below(12) as usize];
    match rng.below(4) {
        0 => bytes[at] = byte,
        1 => drop(bytes.remove(at)),
        2 => bytes.insert(at, byte),
        _ => bytes.truncate(at),
    }
}

/// What this crate's reader makes of a command that is whole and alone.
fn expected(bytes: &[u8]) -> Option<String> {
    let mut reader = Reader::default();
    reader.extend(bytes);
    let command = reader.read().ok().flatten().filter(|_| reader.kept_bytes() == 0)?;
    // Lines of words, and empty arrays before a command, are not for nodes.
    if command.bytes != bytes {
        return None;
    }
    let hex = |word: &Vec<u8>| word.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let words: Vec<_> = command.words.iter().map(hex).collect();
    Some(format!("{},{}", words.len(), words.join(",")))
}

#[test]
fn the_module_reads_what_the_adapter_sends_and_nothing_beyond() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redis-parser-driver");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I"])
        .arg(source.join("module"))
        .arg(source.join("tests/parser/driver.c"))
        .arg("-o")
        .arg(&program)
        .output();
    let Ok(compiled) = compiled else {
        return petasos_skips::skip("cc", "there is no C compiler `cc`");
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut rng = Rng::new(0x5245_5350);
    let (mut messages, mut input) = (Vec::new(), Vec::new());
    for _ in 0..CASES {
        let sent = commands(&mut rng);
        let mut bytes = Commands { command: sent.clone() }.encode_to_vec();
        let is_altered = rng.below(3) == 0;
        if is_altered {
            alter(&mut rng, &mut bytes);
        }
        input.extend((bytes.len() as u32).to_le_bytes());
        input.extend(bytes);
        messages.push((sent, is_altered));
    }
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut pipe = child.stdin.take().expect("it was piped");
    let writer = std::thread::spawn(move || pipe.write_all(&input));
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    writer.join().expect("it does not panic").expect("it reads all");
    let said = String::from_utf8(output.stdout).expect("it is text");
    assert_eq!(said.lines().count(), CASES);
    let (mut alike, mut refused) = (0, 0);
    for ((sent, is_altered), line) in messages.iter().zip(said.lines()) {
        if *is_altered {
            continue;
        }
        let heard: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(heard.len(), sent.len(), "{line}");
        for (heard, sent) in heard.into_iter().zip(sent) {
            match expected(sent) {
                Some(words) => {
                    assert_eq!(heard, words);
                    alike += 1;
                }
                // The reader of clients is stricter about zeros before numbers.
                None => refused += u32::from(heard.ends_with(['-', '+'])),
            }
        }
    }
    assert!(alike > 10_000 && refused > 1000, "{alike} {refused}");
}

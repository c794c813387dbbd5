//! The command line of every peer.

/// Which end of the calls a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Serve,
    Call,
}

/// What the command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub role: Role,
    /// The server's address in the peer's own format; empty for the server.
    pub server: String,
    /// Bytes of a request.
    pub size: usize,
    /// Bytes of a response.
    pub response: usize,
    /// Calls outstanding in the phase `window`.
    pub window: usize,
}

const USAGE: &str = "usage: serve --size N --response M --window W
       call --server ADDRESS --size N --response M --window W";

/// More than any measurement uses, so that a typing mistake does not take all of the memory.
const BYTES_MAX: usize = 1 << 30;

impl Options {
    /// Reads the arguments.
    ///
    /// # Errors
    /// With what is wrong, and the usage.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
        let role = match args.next().as_deref() {
            Some("serve") => Role::Serve,
            Some("call") => Role::Call,
            _ => return Err(USAGE.to_owned()),
        };
        let mut options =
            Options { role, server: String::new(), size: 64, response: 64, window: 1 };
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("{name} has no value\n{USAGE}"))?;
            match name.as_str() {
                "--server" => options.server = value,
                "--size" => options.size = number(&name, &value)?,
                "--response" => options.response = number(&name, &value)?,
                "--window" => options.window = number(&name, &value)?.max(1),
                _ => return Err(format!("{name} is not known\n{USAGE}")),
            }
        }
        if role == Role::Call && options.server.is_empty() {
            return Err(format!("a client needs --server\n{USAGE}"));
        }
        Ok(options)
    }
}

fn number(name: &str, value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| *number <= BYTES_MAX);
    number.ok_or_else(|| format!("{name} {value}: not a number up to {BYTES_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_command_line_is_read() {
        let options = parse("call --server a:1 --size 8 --response 9 --window 10").expect("valid");
        let expected =
            Options { role: Role::Call, server: "a:1".into(), size: 8, response: 9, window: 10 };
        assert_eq!(options, expected);
        assert_eq!(parse("serve --window 0").expect("valid").window, 1);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for line in ["", "listen", "call", "serve --size", "serve --size x", "serve --what 1"] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("serve --size 99999999999").is_err(), "too large");
    }
}

//! The server of a typed command, and the settings of each call.

use core::time::Duration;

use clap::Args;
use petasos::grpc::ClientConfig;
use petasos::{Channel, ChannelBuilder, Code, ConnectError, Loop, LoopConfig, block_on};
use petasos_cli::failed::Failed;
use petasos_cli::failure::Failure;
use petasos_cli::listed;
use petasos_cli::security::SecurityArgs;

/// The server, and how to call it.
#[derive(Args)]
pub struct ServerArgs {
    /// The server: HOST:PORT or petasos://HOST:PORT over datagrams; router://HOST:PORT a group of
    /// workers, by its router; grpc://HOST:PORT over HTTP/2, grpcs://HOST:PORT over HTTP/2 with
    /// TLS. Listed in etcd: etcd://HOST:PORT/PREFIX servers, router+etcd://HOST:PORT/PREFIX the
    /// routers of a group.
    #[arg(value_name = "ADDRESS")]
    pub address: String,
    /// Send this with each call; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "KEY:VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// The longest that a call may take, such as 500ms or 2s.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,
    /// The longest to wait for a connection.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub connect_timeout: Duration,
    /// Print tables and failures as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub security: SecurityArgs,
}

impl ServerArgs {
    /// Connects a channel to the server.
    pub fn connect(&self) -> Result<Channel, Failed> {
        let builder = self.builder()?;
        block_on(builder.connect()).map_err(|error| self.unconnected(&error))
    }

    /// Makes a loop of this thread, and connects a channel in it.
    pub fn connect_in_loop(&self) -> Result<(Loop, Channel), Failed> {
        let builder = self.builder()?;
        let security = self.security.of_channel()?;
        let event_loop = Loop::new(LoopConfig { security, ..LoopConfig::default() });
        let event_loop = event_loop.map_err(|error| Failed::new(error.to_string()))?;
        let channel = event_loop.block_on(builder.connect());
        let channel = channel.map_err(|error| self.unconnected(&error))?;
        Ok((event_loop, channel))
    }

    fn builder(&self) -> Result<ChannelBuilder, Failed> {
        let builder = match listed::is_listed(&self.address) {
            true => listed::channel(&self.address, &self.security),
            false => Ok(Channel::builder(&self.address)),
        };
        let builder = builder.map_err(|failure| Failed::new(failure.to_string()))?;
        let mut builder = builder.connect_timeout(self.connect_timeout);
        for (key, value) in &self.headers {
            builder = builder.metadata(key, value);
        }
        if let Some(timeout) = self.timeout {
            builder = builder.timeout(timeout);
        }
        self.secured(builder).map_err(|failure| Failed::new(failure.to_string()))
    }

    fn secured(&self, builder: ChannelBuilder) -> Result<ChannelBuilder, Failure> {
        if self.address.starts_with("grpcs:") {
            let mut config = ClientConfig::default();
            config.tls = Some(self.security.of_grpc()?);
            return Ok(builder.grpc(config));
        }
        Ok(builder.security(self.security.of_channel()?))
    }

    fn unconnected(&self, error: &ConnectError) -> Failed {
        let address = &self.address;
        match error {
            ConnectError::Unreachable(status) => {
                let what = format!("cannot connect to {address}: {}", status.message());
                let advice = match status.message().ends_with("express consent") {
                    true => "give --tls-cert, --tls-key and --tls-ca, or --plaintext",
                    false if address.starts_with("grpc") => {
                        "check the address, and that a gRPC server runs there: ports of Petasos \
                         are called without grpc://"
                    }
                    false => "check the address, and that a server runs there",
                };
                let code =
                    if status.code() == Code::Ok { Code::Unavailable } else { status.code() };
                Failed::new(what).with_advice(advice).with_status(code)
            }
            ConnectError::Target(error) => {
                let advice = "give HOST:PORT, such as 127.0.0.1:7411, or grpc://HOST:PORT";
                Failed::new(error.to_string()).with_advice(advice)
            }
            ConnectError::Metadata(error) => {
                Failed::new(error.to_string()).with_advice("change what -H gives")
            }
            error => Failed::new(format!("cannot connect to {address}: {error}")),
        }
    }
}

/// Parses `KEY:VALUE`, with optional blanks around the value.
fn header(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once(':').ok_or("give it as KEY:VALUE")?;
    Ok((key.trim().to_ascii_lowercase(), value.trim().to_owned()))
}

/// Parses a number with `us`, `ms`, `s` or `m` after it; milliseconds without a unit.
pub fn time(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("µs", 1e-6), ("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)));
    let (number, seconds) = found.unwrap_or((text, 0.001));
    let number: f64 = number.trim().parse().map_err(|_| "give it as 500ms, 2s or 1m")?;
    let seconds = number * seconds;
    match seconds > 0.0 && seconds <= 86_400.0 {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("give more than nothing, and at most a day".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, ms) in [("250", 250), ("1.5s", 1500), ("20ms", 20), ("2m", 120_000)] {
            assert_eq!(time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(time("50us"), Ok(Duration::from_micros(50)));
        for text in ["", "s", "-1s", "0", "1h", "inf", "2d", "90000s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn headers_are_keys_and_values() {
        assert_eq!(header("Key: a:b "), Ok(("key".to_owned(), "a:b".to_owned())));
        assert!(header("key").is_err());
    }
}

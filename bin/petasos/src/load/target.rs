//! What the address and the request say is called.

use petasos_cli::failed::Failed;
use petasos_load::Target;

use super::args::LoadArgs;
use super::{raw, tcp, typed};

/// How the server is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Petasos,
    /// Servers that are listed in etcd.
    Listed,
    /// A group of workers, by its routers.
    Router,
    Grpc,
    Http,
    Redis,
}

/// Connects targets, all alike.
pub struct Connector<'a> {
    args: &'a LoadArgs,
    kind: Kind<'a>,
    /// What the address begins with.
    pub name: &'static str,
}

enum Kind<'a> {
    Raw(raw::Call),
    Typed(typed::Call<'a>),
    Http(tcp::Web),
    Redis(tcp::Redis),
}

impl<'a> Connector<'a> {
    /// For what `args` say. Asks the server for its schema if need be.
    pub fn new(args: &'a LoadArgs) -> Result<Connector<'a>, Failed> {
        let scheme = scheme(&args.server.address)?;
        let (name, kind) = match scheme {
            Scheme::Http => ("http", Kind::Http(tcp::Web::new(args)?)),
            Scheme::Redis => ("redis", Kind::Redis(tcp::Redis::new(args)?)),
            Scheme::Grpc => ("grpc", Kind::Typed(typed::Call::new(args, false)?)),
            Scheme::Listed => ("petasos", Kind::Typed(typed::Call::new(args, true)?)),
            Scheme::Router => ("router", Kind::Typed(typed::Call::new(args, true)?)),
            Scheme::Petasos => (
                "petasos",
                match raw::Call::new(args)? {
                    Some(call) => Kind::Raw(call),
                    None => Kind::Typed(typed::Call::new(args, true)?),
                },
            ),
        };
        Ok(Connector { args, kind, name })
    }

    /// Connects. A target that was connected before must be gone by then.
    pub fn connect(&self) -> Result<Box<dyn Target + '_>, Failed> {
        match &self.kind {
            Kind::Raw(call) => call.connect(self.args),
            Kind::Typed(call) => call.connect(),
            Kind::Http(web) => web.connect(self.args),
            Kind::Redis(redis) => redis.connect(self.args),
        }
    }
}

fn scheme(address: &str) -> Result<Scheme, Failed> {
    match address.split_once("://").map(|(scheme, _)| scheme) {
        None | Some("petasos") => Ok(Scheme::Petasos),
        Some("etcd" | "etcds") => Ok(Scheme::Listed),
        Some("router" | "router+etcd" | "router+etcds") => Ok(Scheme::Router),
        Some("grpc" | "grpcs" | "grpc+unix") => Ok(Scheme::Grpc),
        Some("http") => Ok(Scheme::Http),
        Some("redis") => Ok(Scheme::Redis),
        Some(other) => {
            Err(Failed::new(format!("`{other}://` is nothing that load can be sent to"))
                .with_advice(
                    "give petasos://, router://, grpc://, grpcs://, http:// or redis://, or \
                     etcd:// or router+etcd:// for what is listed in etcd",
                ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_how_servers_are_called() {
        for (address, expected) in [
            ("localhost:7411", Scheme::Petasos),
            ("petasos://a:1,b:2", Scheme::Petasos),
            ("router://a:1,b:2", Scheme::Router),
            ("etcd://a:1/b", Scheme::Listed),
            ("router+etcds://a:1/b", Scheme::Router),
            ("grpcs://a:1", Scheme::Grpc),
            ("http://a/b", Scheme::Http),
            ("redis://a", Scheme::Redis),
        ] {
            assert_eq!(scheme(address).expect(address), expected);
        }
        let error = scheme("https://a").expect_err("it is none").to_string();
        assert!(error.contains("`https://`") && error.contains("http://"), "{error}");
    }
}

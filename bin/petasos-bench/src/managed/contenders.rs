//! The list of contenders. What runs figures knows only what an entry says of itself.
//!
//! To add one: a part for its client and for its server ([`part`](super::part)), each a `Client` or
//! `Server` of [`rpc::ends`](crate::rpc); a function here that starts them, and what stands between
//! them, on their cores; and an entry that names it. A program that knows nothing of this
//! measurement is started by [`Launched`](super::launch::Launched).

use petasos_report::Tone;

use super::contender::{Contender, Role, behind_sidecars, managed, other};
use super::part_args::PartName;
use super::policies;
use super::service::{self, Service};
use super::shape::Shape;
use super::sidecars::Sidecar;
use super::team::{Between, CLIENT_CORE, SERVER_CORE, Team, part, part_behind};
use crate::error::BenchError;

/// The contenders of the figure of one call at a time.
pub const LATENCY: &[&str] = &[
    "relay",
    "direct",
    "direct-proxies",
    "tonic",
    "envoy",
    "nginx",
    "haproxy",
    "nghttpx",
    "managed",
    "managed-local",
    "managed-grpc",
];
/// Those of other figures without policies. HTTP/2 and protobuf between services, the last, have
/// figures of their own.
pub const PLAIN: &[&str] = match LATENCY {
    [plain @ .., _] => plain,
    [] => LATENCY,
};
/// Those of the figures of HTTP/2 and protobuf between services.
pub const OVER_GRPC: &[&str] =
    &["relay", "tonic", "envoy", "nginx", "haproxy", "nghttpx", "managed", "managed-grpc"];

/// All contenders, in the order of tables and turns.
static ALL: [Contender; 17] = [
    Contender {
        role: Role::Floor,
        ..other(
            "relay",
            "the floor: four processes pass the bytes over bare rings and UDP sockets",
            Tone::Muted,
            relay,
        )
    },
    other("direct", "Petasos's endpoints over UDP, without a service", Tone::Primary, direct),
    other(
        "direct-proxies",
        "Petasos's endpoints through two proxies written on them",
        Tone::Tertiary,
        direct_proxies,
    ),
    other("tonic", "gRPC in Rust, without proxies", Tone::Quaternary, tonic),
    behind(
        Sidecar::Envoy,
        |shape| behind_sidecars(Sidecar::Envoy, "", shape),
        || Sidecar::Envoy.shown(""),
    ),
    policies::ENVOY_LIMITED,
    policies::ENVOY_ACCESS,
    behind(
        Sidecar::Nginx,
        |shape| behind_sidecars(Sidecar::Nginx, "", shape),
        || Sidecar::Nginx.shown(""),
    ),
    behind(
        Sidecar::Haproxy,
        |shape| behind_sidecars(Sidecar::Haproxy, "", shape),
        || Sidecar::Haproxy.shown(""),
    ),
    behind(
        Sidecar::Nghttpx,
        |shape| behind_sidecars(Sidecar::Nghttpx, "", shape),
        || Sidecar::Nghttpx.shown(""),
    ),
    policies::MANAGED_BARE,
    Contender {
        configuration: Some(|| service::NULL.shown()),
        ..other(
            "managed",
            "applications behind a petasosd on each host, with a null policy on each side",
            Tone::Primary,
            |shape| managed(service::NULL, service::NULL, shape),
        )
    },
    Contender {
        configuration: Some(|| service::NULL_OVER_GRPC.shown()),
        ..other(
            "managed-grpc",
            "the same, with HTTP/2 and protobuf (gRPC) between the services",
            Tone::Tertiary,
            |shape| managed(service::NULL_OVER_GRPC, service::NULL_OVER_GRPC, shape),
        )
    },
    policies::MANAGED_LIMITED,
    policies::MANAGED_ACCESS,
    policies::MANAGED_WASM,
    Contender {
        configuration: Some(|| service::NULL.shown()),
        ..other(
            "managed-local",
            "both applications behind one petasosd, with a null policy on each side",
            Tone::Quaternary,
            managed_local,
        )
    },
];

/// The entry of tonic with a proxy on each host.
const fn behind(
    sidecar: Sidecar,
    start: fn(Shape) -> Result<Team, BenchError>,
    shown: fn() -> String,
) -> Contender {
    Contender {
        role: Role::Proxied,
        configuration: Some(shown),
        ..other(sidecar.name(), "tonic with this proxy on each host", Tone::Secondary, start)
    }
}

/// The contenders of a figure with these names, or all that it has, in the list's order.
///
/// # Errors
/// If the figure has none of a name.
pub fn chosen(names: &[String], figure: &[&str]) -> Result<Vec<Contender>, BenchError> {
    if let Some(unknown) = names.iter().find(|name| !figure.contains(&name.as_str())) {
        let known = figure.join(", ");
        return Err(format!("{unknown} is no contender here: there are {known}").into());
    }
    let is_chosen = |one: &&Contender| {
        figure.contains(&one.name) && (names.is_empty() || names.iter().any(|n| n == one.name))
    };
    Ok(ALL.iter().filter(is_chosen).copied().collect())
}

/// The names of all contenders.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|one| one.name).collect()
}

/// Prints how contenders are started and configured.
///
/// # Errors
/// None at present.
pub fn show(contenders: &[Contender]) -> Result<(), BenchError> {
    for Contender { name, about, configuration, .. } in contenders {
        println!("## {name}: {about}\n");
        if let Some(configuration) = configuration {
            println!("{}", configuration());
        }
    }
    Ok(())
}

fn relay(shape: Shape) -> Result<Team, BenchError> {
    let service = |core, other: &[_]| {
        let (process, addresses) = part(PartName::RelayService, core, shape, other)?;
        match addresses[..] {
            [hop, rings] => Ok((process, hop, rings)),
            _ => Err(BenchError::from("a service has two addresses")),
        }
    };
    let (far, hop, rings) = service(SERVER_CORE, &[])?;
    let (server, _) = part(PartName::RelayServer, SERVER_CORE, shape, &[rings])?;
    let (near, _, rings) = service(CLIENT_CORE, &[hop])?;
    let (client, _) = part(PartName::RelayClient, CLIENT_CORE, shape, &[rings])?;
    Ok(Team::new(client, server, vec![Between::Part(near), Between::Part(far)]))
}

fn managed_local(shape: Shape) -> Result<Team, BenchError> {
    let service = Service::start(SERVER_CORE, service::NULL)?;
    let (name, path) = (PartName::ManagedServer, service.path());
    let (server, addresses) = part_behind(name, SERVER_CORE, shape, &[], Some(&path))?;
    let (client, _) =
        part_behind(PartName::ManagedClient, CLIENT_CORE, shape, &addresses, Some(&path))?;
    Ok(Team::with_sidecars(client, server, [service.running]))
}

fn direct(shape: Shape) -> Result<Team, BenchError> {
    ends(PartName::DirectServer, PartName::DirectClient, shape)
}

fn tonic(shape: Shape) -> Result<Team, BenchError> {
    ends(PartName::TonicServer, PartName::TonicClient, shape)
}

fn ends(server: PartName, client: PartName, shape: Shape) -> Result<Team, BenchError> {
    let (server, addresses) = part(server, SERVER_CORE, shape, &[])?;
    let (client, _) = part(client, CLIENT_CORE, shape, &addresses)?;
    Ok(Team::new(client, server, Vec::new()))
}

fn direct_proxies(shape: Shape) -> Result<Team, BenchError> {
    let (server, addresses) = part(PartName::ProxiedServer, SERVER_CORE, shape, &[])?;
    let (far, addresses) = part(PartName::Proxy, SERVER_CORE, shape, &addresses)?;
    let (near, addresses) = part(PartName::Proxy, CLIENT_CORE, shape, &addresses)?;
    let (client, _) = part(PartName::ProxiedClient, CLIENT_CORE, shape, &addresses)?;
    Ok(Team::new(client, server, vec![Between::Part(near), Between::Part(far)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_one_contender_is_the_floor() {
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert_eq!(ALL.iter().filter(|one| one.role == Role::Floor).count(), 1);
        let others = ALL.iter().filter_map(|one| one.without);
        assert!(others.into_iter().all(|other| names.contains(other)));
    }

    #[test]
    fn contenders_are_chosen_by_name_in_the_list_s_order() {
        let names = |wanted: &[&str]| {
            let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
            let chosen = chosen(&wanted, PLAIN).map_err(|error| error.to_string());
            chosen.map(|chosen| chosen.iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["tonic", "relay"]), Ok(vec!["relay", "tonic"]));
        assert_eq!(names(&[]).as_deref(), Ok(PLAIN));
        assert!(names(&["nobody"]).is_err_and(|error| error.contains("relay, direct")));
    }
}

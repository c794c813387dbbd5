//! A service that runs as another user than its applications (ADR 21, D1).

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use petasos::{Channel, Request, Server, ServiceChoice, ServiceConfig, block_on};

use crate::support::managed::{WorkClient, WorkServer};
use crate::support::{Daemon, Worker, item};

/// The user of the service, and its group.
const SERVICE: (u32, u32) = (65534, 65530);
/// A user who may be `bank`.
const BANK: u32 = 65533;
/// Another user.
const OTHER: u32 = 65532;
/// Where the service is, and what the application calls itself.
const TO: &str = "PETASOSD_TEST_APPLICATION";

/// What an application says that runs as the user of this process: of [`said_by`].
#[test]
fn an_application() {
    let Some(to) = std::env::var_os(TO) else { return };
    let to = to.into_string().unwrap();
    let (service, name) = to.split_once(' ').unwrap();
    match echoed(service, name) {
        Ok(text) => println!("echoed {text}"),
        Err(why) => println!("refused: {why}"),
    }
}

/// Serves under this name, and calls itself, both through the service.
fn echoed(service: &str, name: &str) -> Result<String, String> {
    let config = ServiceConfig::new(service).unwrap().application(name).unwrap();
    let choice = ServiceChoice::Managed(config);
    let server = Server::builder().add(WorkServer::new(Worker)).listen("127.0.0.1:0");
    let server = server.service(choice.clone()).start().map_err(|error| format!("{error:?}"))?;
    let target = format!("petasos://{}", server.local_address().unwrap());
    let channel = block_on(Channel::builder(&target).service(choice).connect());
    let client = WorkClient::new(channel.map_err(|error| format!("{error:?}"))?);
    let echoed = block_on(client.echo(Request::new(item(name, 1))));
    Ok(echoed.map_err(|status| status.to_string())?.text().to_owned())
}

/// What an application says that calls itself so, and runs as this user and group.
fn said_by(daemon: &Daemon, name: &str, (user, group): (u32, u32)) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "users::an_application", "--nocapture"]);
    command.env(TO, format!("unix:{}/socket {name}", daemon.folder().display()));
    command.uid(user).gid(group).current_dir("/").stderr(Stdio::null());
    let Output { stdout, .. } = command.output().expect("the service was started as another user");
    String::from_utf8(stdout).unwrap()
}

#[test]
fn d1_a_service_of_another_user_serves_its_group_and_each_name_its_user() {
    let names = ["--application", "bank=uid:65533"];
    let Some(daemon) = Daemon::start_as("users", SERVICE, &names) else { return };
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    assert!(status.contains("Uid:\t65534\t65534") && status.contains("CapEff:\t0000000000000000"));
    let group = SERVICE.1;
    let said = said_by(&daemon, "bank", (BANK, group));
    assert!(said.contains("echoed bank"), "{said}");
    let said = said_by(&daemon, "shop", (OTHER, group));
    assert!(said.contains("echoed shop"), "{said}");
    // A name that is another user's.
    let said = said_by(&daemon, "bank", (OTHER, group));
    assert!(said.contains("refused") && !said.contains("echoed"), "{said}");
    // Nobody of the service's group.
    let said = said_by(&daemon, "shop", (OTHER, OTHER));
    assert!(said.contains("refused") && !said.contains("echoed"), "{said}");
    // That cost the others nothing.
    let said = said_by(&daemon, "bank", (BANK, group));
    assert!(said.contains("echoed bank"), "{said}");
}

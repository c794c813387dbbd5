//! The configuration file, and what of it changes while the daemon runs.

use std::path::{Path, PathBuf};

use petasos::Code;
use petasos_admin::{ListQuotasRequest, StepMut};
use petasos_attach::Attachment;
use petasos_attach::hello::Hello;

use crate::admin::Operator;
use crate::cluster::Etcd;
use crate::servers::until;
use crate::support::*;

/// Where the configuration is in etcd.
const KEY: &str = "petasos/config";

/// A file of this test's.
pub struct Config(PathBuf);

impl Config {
    pub fn new(test: &str, text: &str) -> Config {
        let name = format!("{test}-{}.toml", std::process::id());
        let config = Config(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        config.write(text);
        config
    }

    pub fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    /// What a service that only checks the file says of it.
    pub fn check(&self, daemon: &Daemon) -> (bool, String) {
        let file = self.0.to_str().unwrap();
        daemon.second_with(None, &["--check", "--config", file].map(str::to_owned))
    }

    pub fn start(&self, test: &str) -> Daemon {
        Daemon::start_more(test, None, &["--config".as_ref(), self.0.as_os_str()])
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn reload(mut step: StepMut<'_>) {
    step.reload_mut();
}

fn items_of_others(operator: &Operator) -> u64 {
    let request = ListQuotasRequest::new();
    let answer = operator.ask(request, |client, request| client.list_quotas(request)).unwrap();
    answer.quotas()[0].items_max().unwrap()
}

/// A host, and an application of it that greets until it is called with `stop`.
fn other_host(test: &str) -> (Daemon, String, std::thread::JoinHandle<Vec<String>>) {
    let (there, address) = Daemon::start_reached(test, None, "127.0.0.1:0", &[]);
    let server = there.serve_until("server", "stop");
    (there, address, server)
}

#[test]
fn all_that_can_change_does_at_once_or_not_at_all() {
    let (first, second) = (other_host("config-first"), other_host("config-second"));
    let text = |target: &str, denied: &str, items: u32, uid: u32| {
        format!(
            "listen = '127.0.0.1:0'\npeer.greeter = '{target}'\nquota.items = {items}\n\
             application.known.accounts = ['uid:{uid}']\n\
             [[policies]]\napplication = '*'\nkind = 'access'\n\
             [policies.configuration]\ndefault = 'allow'\n\
             [[policies.configuration.rules]]\nname = 'no'\naction = 'deny'\n\
             methods = ['greet.Greeter/Greet']\n\
             fields = [{{ path = 'name', is = {{ equals = '{denied}' }} }}]\n"
        )
    };
    let own = rustix::process::getuid().as_raw();
    let config = Config::new("whole", &text(&first.1, "eve", 100, own));
    let here = config.start("config-here");
    let operator = Operator::of(&here);
    let mut client = here.attach_caller("client");
    drop(here.attach_caller("known"));
    let target = client.target("greeter");
    assert_eq!(client.greet(target, "eve"), Err(7));
    assert_eq!(client.greet(target, "bob"), Ok("hello, bob".to_owned()));
    assert_eq!(items_of_others(&operator), 100);

    // Whatever of it is wrong, nothing changes.
    let wanted = text(&second.1, "bob", 200, own + 1);
    for (wrong, said) in [
        (wanted.replace("kind = 'access'", "kind = 'none'"), "policy 1: there is no kind `none`"),
        (wanted.replace("petasos://", "http://"), "peer `greeter`: "),
        (wanted.replace("items = 200", "items = 0"), "items_max is 1 to"),
        (wanted.replace("127.0.0.1:0", "127.0.0.1:1"), "`listen` cannot change while"),
        (format!("runtimes = 2\n{wanted}"), "`runtimes` cannot change while"),
        ("[".to_owned(), "line 1"),
    ] {
        config.write(&wrong);
        let (code, why) = operator.fails(&[&reload]);
        assert_eq!(code, Code::FailedPrecondition, "{why}");
        assert!(why.starts_with("all stays as it is: ") && why.contains(said), "{why}");
        assert_eq!(client.greet(target, "eve"), Err(7));
        assert_eq!(client.greet(target, "ann"), Ok("hello, ann".to_owned()));
        assert_eq!(items_of_others(&operator), 100);
        drop(here.attach_caller("known"));
    }
    // In a plan that fails later, likewise.
    config.write(&wanted);
    let (code, _) = operator.fails(&[&reload, &|mut step| {
        step.remove_policy_mut().set_id(99);
    }]);
    assert_eq!(code, Code::NotFound);
    assert_eq!(client.greet(target, "bob"), Ok("hello, bob".to_owned()));
    assert_eq!(items_of_others(&operator), 100);

    operator.change(&[&reload]);
    assert_eq!(client.greet(target, "bob"), Err(7));
    assert_eq!(client.greet(target, "eve"), Ok("hello, eve".to_owned()));
    assert_eq!(items_of_others(&operator), 200);
    let socket = here.folder().join("socket");
    let refused = Attachment::connect(&socket, &Hello::new("known", 1).unwrap(), PATIENCE);
    assert!(refused.unwrap_err().to_string().contains("another user or group"));
    assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
    let (mut at_first, at_second) = (first.0.attach("stops"), second.2.join().unwrap());
    let target = at_first.target("greeter");
    assert!(at_first.greet(target, "stop").is_ok());
    assert_eq!(at_second, ["eve", "stop"]);
    let all = first.2.join().unwrap();
    assert_eq!(all.iter().filter(|name| *name == "bob").count(), 2, "{all:?}");
}

#[test]
fn a_name_that_an_application_serves_is_not_given_to_another_host() {
    let config = Config::new("taken", "listen = '127.0.0.1:0'\n");
    let daemon = config.start("config-taken");
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    config.write("listen = '127.0.0.1:0'\npeer.greeter = 'petasos://127.0.0.1:9'\n");
    let (code, why) = operator.fails(&[&reload]);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(why.contains("`greeter`"), "{why}");
    assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
    server.join().unwrap();
}

/// Status and message of the latest reload, once there were so many.
fn reloads(operator: &Operator, by: &str, count: usize) -> (String, String) {
    let mut last = None;
    until(|| {
        let audit = operator.audit();
        let its: Vec<_> = audit.entries().iter().filter(|one| one.method() == by).collect();
        let latest = its.last().filter(|_| its.len() == count);
        last = latest.map(|one| (one.status().to_owned(), one.message().to_owned()));
        last.is_some()
    });
    last.unwrap()
}

#[test]
fn a_signal_reloads_and_is_written_down() {
    let config = Config::new("signal", "quota.items = 100\n");
    let daemon = config.start("config-signal");
    let operator = Operator::of(&daemon);
    let reloads = |count: usize| reloads(&operator, "Signal", count);
    config.write("quota.items = 200\n");
    daemon.hang_up();
    assert_eq!(reloads(1), ("OK".to_owned(), String::new()));
    assert_eq!(items_of_others(&operator), 200);
    config.write("quota.items = 'many'\n");
    daemon.hang_up();
    let (status, message) = reloads(2);
    assert_eq!(status, "FAILED_PRECONDITION");
    assert!(message.contains("`quota`"), "{message}");
    assert_eq!(items_of_others(&operator), 200);
}

#[test]
fn a_configuration_in_etcd_is_followed_while_etcd_comes_and_goes() {
    let Some(mut etcd) = Etcd::start("config") else { return };
    let source = etcd.target(KEY);
    let start = || Daemon::start_failing(&["--config", &source]);
    let said = start();
    assert!(said.contains(&format!("cannot read {source}: there is no such key")), "{said}");
    etcd.put(KEY, "quota.items = 'x'");
    let said = start();
    assert!(said.contains(&format!("{source}: `quota`: ")), "{said}");
    etcd.put(KEY, "quota.items = 100");
    let daemon = Daemon::start_more("config-etcd", None, &["--config", &*source]);
    let operator = Operator::of(&daemon);
    assert_eq!(items_of_others(&operator), 100);
    etcd.put(KEY, "quota.items = 200");
    assert_eq!(reloads(&operator, "Etcd", 1).0, "OK");
    assert_eq!(items_of_others(&operator), 200);
    etcd.put(KEY, "quota.items = 0");
    let (status, why) = reloads(&operator, "Etcd", 2);
    assert!(status == "FAILED_PRECONDITION" && why.contains("items_max is 1 to"), "{why}");
    // What cannot be applied yet is tried again.
    let policies = Config::new("etcd-policies", "[]");
    let path = policies.0.display().to_string();
    std::fs::remove_file(&path).unwrap();
    etcd.put(KEY, &format!("quota.items = 250\npolicies = '{path}'"));
    let (status, why) = reloads(&operator, "Etcd", 3);
    assert!(status == "FAILED_PRECONDITION" && why.contains(&path), "{why}");
    assert_eq!(items_of_others(&operator), 200);
    policies.write("[]");
    assert_eq!(reloads(&operator, "Etcd", 4).0, "OK");
    assert_eq!(items_of_others(&operator), 250);
    etcd.put(KEY, "quota.items = 200");
    assert_eq!(reloads(&operator, "Etcd", 5).0, "OK");
    // What is in force stays while etcd is away, and what changed meanwhile is found.
    etcd.stop();
    let (code, why) = operator.fails(&[&reload]);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(why.starts_with(&format!("all stays as it is: cannot read {source}: ")), "{why}");
    assert_eq!(items_of_others(&operator), 200);
    assert!(etcd.run());
    etcd.put(KEY, "quota.items = 300");
    assert_eq!(reloads(&operator, "Etcd", 6).0, "OK");
    assert_eq!(items_of_others(&operator), 300);
}

use std::path::Path;

use super::*;

/// A configuration file of this test.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let name = format!("petasosd-configuration-{}-{name}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("there is room");
        File(path)
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("there is room");
    }

    fn arguments(&self, more: &[&str]) -> Vec<OsString> {
        let config = [OsString::from("petasosd"), "--config".into(), self.0.clone().into()];
        config.into_iter().chain(more.iter().map(OsString::from)).collect()
    }

    fn read(&self, more: &[&str]) -> Result<Configuration, String> {
        Configuration::read(&self.arguments(more), None).map_err(|error| error.to_string())
    }

    fn fails(&self) -> String {
        self.read(&[]).err().expect("it is refused")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const WHOLE: &str = r#"
socket = "/tmp/x.sock"
listen = "127.0.0.1:4100"
transport = "tcp"
plaintext = true
runtimes = 2
cpus = [0, 1]
believe = ["host-b"]

[peer]
geo = "petasos://127.0.0.1:5000"

[application.shop]
accounts = ["uid:7", "gid:50"]
quota = { items = 100, processor-percent = 12.5, calls = 9, receive-heap-bytes = 2097152 }

[quota]
held-bytes = 2048
send-heap-bytes = 4194304

[[policies]]
application = "shop"
kind = "rate_limit"
configuration = { rate_per_s = 7, burst = 3 }
budget = { percent = 2.5, over = "closed" }

[[policies]]
application = "*"
kind = "null"
"#;

fn begun(configuration: Configuration) -> Live {
    configuration.begin().expect("it is right")
}

#[test]
fn a_file_has_the_options_and_what_they_have_not() {
    let file = File::new("whole", WHOLE);
    let configuration = file.read(&[]).expect("it is right");
    let options = &configuration.options;
    assert_eq!(options.socket, Path::new("/tmp/x.sock"));
    assert_eq!(options.listen.map(|at| at.port()), Some(4100));
    assert_eq!((options.runtimes, &*options.cpus), (2, &[0, 1][..]));
    assert_eq!(options.believe, ["host-b"]);
    assert_eq!(options.peer, [("geo".to_owned(), "petasos://127.0.0.1:5000".to_owned())]);
    let live = begun(configuration);
    let rules = live.rules.expect("there are some");
    let kinds: Vec<_> = rules.iter().map(|rule| rule.made.kind_name()).collect();
    assert_eq!(kinds, ["rate_limit", "null"]);
    assert_eq!(rules[0].budget.map(|budget| budget.percent()), Some(2.5));
    let whole = live.whole.expect("there is a file");
    let shop = whole.quotas.of("shop");
    assert_eq!((shop.limits.items_max, shop.limits.held_bytes_max), (100, 2048));
    assert_eq!(shop.processor.map(|share| share.percent()), Some(12.5));
    let told = ["shop", "other"].map(|name| whole.quotas.of(name).terms().limits);
    assert_eq!(told.map(|limits| limits.calls_max), [9, 4096]);
    assert_eq!(told.map(|limits| limits.receive.quota_bytes), [2 << 20, 1 << 30]);
    assert_eq!(told.map(|limits| limits.send.quota_bytes), [4 << 20; 2]);
    assert_eq!(whole.quotas.of("other").limits.held_bytes_max, 2048);
    let listed = ["shop=uid:7", "shop=gid:50"];
    let listed = listed.map(|text| crate::names::parse_name(text).expect("it is one"));
    assert_eq!(whole.names, Names::new(listed.into()));
}

#[test]
fn the_command_line_replaces_what_the_file_says() {
    let file = File::new("replaced", WHOLE);
    let other = File::new("policies", r#"[{"application": "*", "kind": "telemetry"}]"#);
    let policies = other.0.display().to_string();
    let more = ["--listen", "127.0.0.1:9", "--believe", "c", "--peer", "a=petasos://h:1"];
    let more = [&more[..], &["--policies", &policies, "--runtimes", "3"]].concat();
    let configuration = file.read(&more).expect("it is right");
    let options = &configuration.options;
    assert_eq!(options.listen.map(|at| at.port()), Some(9));
    assert_eq!((options.runtimes, &*options.believe), (3, &["c".to_owned()][..]));
    assert_eq!(options.peer.len(), 1);
    let account = file.read(&["--application", "shop=uid:9"]).expect("it is right");
    let names = begun(account).whole.expect("there is a file").names;
    assert_eq!(names, Names::new(vec![crate::names::parse_name("shop=uid:9").expect("it is one")]));
    let rules = begun(configuration).rules.expect("there are some");
    assert_eq!(rules.iter().map(|rule| rule.made.kind_name()).collect::<Vec<_>>(), ["telemetry"]);
}

#[test]
fn what_is_wrong_is_told_with_its_key() {
    let file = File::new("wrong", "");
    for (text, said) in [
        ("listen = ", "line 1"),
        ("lisen = 5", "there is no key `lisen`; there are admin, allow, application, audit"),
        ("config = 'x'", "there is no key `config`"),
        ("takeover = true", "there is no key `takeover`"),
        ("listen = 'here'", "invalid value 'here' for '--listen <ADDR>'"),
        ("listen = ['127.0.0.1:1']", "`listen` is a text or a number"),
        ("plaintext = 1", "`plaintext` is true or false"),
        ("runtimes = 0", "invalid value '0' for '--runtimes <N>'"),
        ("believe = 'a'", "`believe` is a list, or a table of names"),
        ("peer = { a = 1.5 }", "`peer` is a table of texts"),
        ("plugin = { mine = '' }", "invalid value 'mine=' for '--plugin <NAME=PATH>'"),
        ("quota = { items = 0 }", "`quota`: items_max is 1 to 1048576, and not 0"),
        ("quota = { item = 1 }", "`quota`: unknown field `item`"),
        ("quota = { calls = 0 }", "`quota`: calls_max is 1 to 1048576, and not 0"),
        ("quota = { send-heap-bytes = 65536 }", "`quota`: send_heap_bytes is 1048576 to"),
        (
            "[application.a]\nquota.receive-heap-bytes = 17179869185",
            "`application.a`: receive_heap_bytes is 1048576 to 17179869184, and not 17179869185",
        ),
        ("[application.'a b']", "`application.a b`: a name has 1 to 64"),
        ("[application.a]\naccounts = ['x']", "`application.a`: `x`: give it as uid:N or gid:N"),
        ("[application.a]\naccounts = []", "an empty list would let everybody have the name"),
        ("metrics-plaintext = true", "--metrics-plaintext says nothing without --metrics"),
        (
            "[application.a]\nquota.processor-percent = -1.0",
            "`application.a`: processor_percent is at least",
        ),
        ("[[policies]]\nkind = 'null'", "`policies`: missing field `application`"),
    ] {
        file.write(text);
        let why = file.fails();
        assert!(why.starts_with(&file.0.display().to_string()), "{text}: {why}");
        assert!(why.contains(said), "{text}: {why}");
    }
    file.write("[[policies]]\napplication = '*'\nkind = 'nul'");
    let why = file.read(&[]).expect("it is read").begin().err().expect("it is refused");
    assert!(why.starts_with("policy 1: there is no kind `nul`"), "{why}");
    let missing = File(PathBuf::from("/nowhere/petasosd.toml"));
    assert!(missing.fails().starts_with("cannot read /nowhere/petasosd.toml"));
}

#[test]
fn what_takes_a_restart_is_refused_when_it_is_read_again() {
    let file = File::new("again", WHOLE);
    let configuration = file.read(&[]).expect("it is right");
    let reader = Reader::new(file.arguments(&[]), &configuration);
    let live = begun(configuration);
    let rules = live.rules.expect("there are some");
    let before = Before { plugins: &live.plugins, rules: &rules };
    let changed = [("rate_per_s = 7", "rate_per_s = 8"), ("host-b", "host-c"), ("5000", "6000")];
    let text = changed.iter().fold(WHOLE.to_owned(), |text, (old, new)| text.replace(old, new));
    file.write(&text);
    let again =
        reader.read(None, before).expect("these can change").whole.expect("there is a file");
    assert_eq!(again.peers.believed, ["host-c"]);
    assert_eq!(again.peers.peers[0].1, "petasos://127.0.0.1:6000");
    file.write(&WHOLE.replace("4100", "4101").replace("runtimes = 2", ""));
    let why = reader.read(None, before).err().expect("it is refused");
    assert!(why.starts_with("`listen`, `runtimes` cannot change while the service runs"), "{why}");
    // What says nothing is no change, and what another option needs may be on the other side.
    file.write(&format!("metrics-plaintext = false\nviewer = []\n{WHOLE}"));
    assert!(reader.read(None, before).is_ok());
    file.write("metrics = '127.0.0.1:0'");
    assert!(file.read(&["--metrics-plaintext"]).is_ok());
    file.write("[");
    assert!(reader.read(None, before).is_err());
    // What somebody else has read is not read again.
    assert!(reader.read(Some(WHOLE), before).is_ok());
}

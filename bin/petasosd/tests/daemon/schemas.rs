//! Schemas that are known before an application sends them: recalled, kept on disk, and loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use petasos::Code;
use petasos_admin as proto;
use petasos_attach::ask::Ask;
use petasos_attach::hello::Hello;
use petasos_attach::reason::Text;
use petasos_attach::{AskError, Attachment};
use petasos_schema::Digest;

use crate::admin::Operator;
use crate::support::*;

fn schema() -> Vec<u8> {
    let compiled = petasos_schema::compile(["greet.proto"], [PROTOS], &Default::default());
    compiled.unwrap().schema.encode()
}

/// The same with another name for a field.
fn schema_with(field: &str) -> Vec<u8> {
    let mut bytes = schema();
    let at = bytes.windows(5).position(|text| text == b"count").unwrap();
    bytes[at..at + 5].copy_from_slice(field.as_bytes());
    bytes
}

/// An application that has bound nothing.
fn attached(daemon: &Daemon) -> Attachment {
    let hello = Hello::new("recalling", 1).unwrap();
    Attachment::connect(&daemon.folder().join("socket"), &hello, PATIENCE).unwrap()
}

/// Names a schema, without its bytes.
fn recall(daemon: &Daemon, schema: &[u8]) -> Result<u32, AskError> {
    let (digest, service) = (Digest::of(schema).to_bytes(), Text::new("greet.Greeter"));
    attached(daemon).ask(&Ask::Recall { digest, is_served: true, service })
}

/// A folder that goes when this does.
struct Cache(PathBuf);

impl Cache {
    fn new(name: &str) -> Cache {
        let name = format!("petasosd-cache-{}-{name}", std::process::id());
        Cache(std::env::temp_dir().join(name))
    }

    fn daemon(&self, name: &str) -> Daemon {
        let more = ["--schema-cache".as_ref(), self.0.as_os_str()];
        Daemon::start_more(name, None, &more)
    }

    fn file(&self, schema: &[u8]) -> PathBuf {
        self.0.join(Digest::of(schema).to_string())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits for what another thread of the daemon does.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
}

fn until_kept(file: &Path, schema: &[u8]) {
    until("it is not kept", || fs::read(file).is_ok_and(|found| found == schema));
}

#[test]
fn d13_a_schema_that_is_known_is_bound_without_its_bytes() {
    let daemon = Daemon::start("recalled", None);
    let schema = schema();
    assert!(matches!(recall(&daemon, &schema), Err(AskError::Unknown)));
    let app = daemon.attach("first");
    assert_eq!(recall(&daemon, &schema).unwrap(), 0);
    // It has only the name of another schema, which nobody has sent.
    assert!(matches!(recall(&daemon, &schema_with("other")), Err(AskError::Unknown)));
    drop(app);
    assert_eq!(recall(&daemon, &schema).unwrap(), 0, "it is kept when nobody has it");
    let (digest, service) = (Digest::of(&schema).to_bytes(), Text::new("greet.None"));
    let refused = attached(&daemon).ask(&Ask::Recall { digest, is_served: false, service });
    assert!(matches!(refused, Err(AskError::Refused(_))), "it has no such service");
}

#[test]
fn a_restarted_daemon_knows_what_was_kept() {
    let cache = Cache::new("restarted");
    let schema = schema();
    let daemon = cache.daemon("kept-first");
    drop(daemon.attach("first"));
    until_kept(&cache.file(&schema), &schema);
    drop(daemon);
    let daemon = cache.daemon("kept-second");
    assert_eq!(recall(&daemon, &schema).unwrap(), 0);
    // Its calls are those of any other.
    let _server = daemon.serve("server", 1);
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    assert_eq!(client.greet(target, "ann"), Ok("hello, ann".to_owned()));
}

#[test]
fn what_is_corrupt_in_the_cache_is_removed_and_kept_anew() {
    let cache = Cache::new("corrupt");
    drop(cache.daemon("corrupt-first"));
    let schema = schema();
    let file = cache.file(&schema);
    let digest_of_no_schema = cache.0.join(Digest::of(b"no schema").to_string());
    for contents in [&schema[..schema.len() - 1], &[&schema[..], &[0]].concat(), &[0; 300_000]] {
        fs::write(&file, contents).unwrap();
        // Its name is right, and it is none.
        fs::write(&digest_of_no_schema, b"no schema").unwrap();
        let daemon = cache.daemon("corrupt-second");
        assert!(!file.exists() && !digest_of_no_schema.exists());
        assert!(matches!(recall(&daemon, &schema), Err(AskError::Unknown)));
        drop(daemon.attach("app"));
        until_kept(&file, &schema);
    }
    fs::remove_file(&file).unwrap();
    let elsewhere = cache.0.join("elsewhere");
    fs::write(&elsewhere, &schema).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    let daemon = cache.daemon("corrupt-third");
    assert!(matches!(recall(&daemon, &schema), Err(AskError::Unknown)), "links are not followed");
}

#[test]
fn two_daemons_share_a_cache() {
    let cache = Cache::new("shared");
    let [one, other] = ["shared-one", "shared-other"].map(|name| cache.daemon(name));
    let (schema, newer) = (schema(), {
        let protos = format!("{PROTOS}/newer");
        let compiled = petasos_schema::compile(["greet.proto"], [protos], &Default::default());
        compiled.unwrap().schema.encode()
    });
    let _apps = [one.attach("a"), other.attach("b"), other.attach_newer("c")];
    until_kept(&cache.file(&schema), &schema);
    until_kept(&cache.file(&newer), &newer);
    drop((one, other));
    let daemon = cache.daemon("shared-third");
    assert_eq!(recall(&daemon, &schema).unwrap(), 0);
    assert_eq!(recall(&daemon, &newer).unwrap(), 0);
}

#[test]
fn a_full_cache_lets_the_oldest_go() {
    let cache = Cache::new("full");
    drop(cache.daemon("full-first"));
    let old: Vec<Vec<u8>> = (0..256).map(|at| schema_with(&format!("f{at:04}"))).collect();
    for (at, schema) in old.iter().enumerate() {
        let file = fs::File::create(cache.file(schema)).unwrap();
        std::io::Write::write_all(&mut &file, schema).unwrap();
        let used = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000 + at as u64);
        file.set_modified(used).unwrap();
    }
    let daemon = cache.daemon("full-second");
    for schema in [&old[0], &old[255]] {
        assert_eq!(recall(&daemon, schema).unwrap(), 0);
    }
    drop(daemon.attach("app"));
    until_kept(&cache.file(&schema()), &schema());
    let is_there = |at: usize| cache.file(&old[at]).exists();
    assert!(!is_there(1), "it was not used for longest");
    assert!(is_there(0) && is_there(2) && is_there(255));
}

#[test]
fn a_cache_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let cache = Cache::new("others");
    fs::create_dir(&cache.0).unwrap();
    fs::set_permissions(&cache.0, fs::Permissions::from_mode(0o777)).unwrap();
    let daemon = Daemon::start("refuses", None);
    let path = cache.0.display().to_string();
    for check in [&["--check".to_owned()][..], &[]] {
        let arguments = [check, &["--schema-cache".to_owned(), path.clone()]].concat();
        let (is_well, said) = daemon.second_with(None, &arguments);
        assert!(!is_well && said.contains("others may write it"), "{said}");
    }
}

#[test]
fn operators_load_show_and_evict_schemas() {
    let daemon = Daemon::start("loaded", None);
    let operator = Operator::of(&daemon);
    let (schema, other) = (schema(), schema_with("other"));
    let digest = Digest::of(&schema).to_string();
    let list = || {
        let request = proto::ListSchemasRequest::new();
        operator.ask(request, |client, request| client.list_schemas(request)).unwrap()
    };
    let load = |bytes: &[u8]| {
        let bytes = bytes.to_vec();
        move |mut step: proto::StepMut<'_>| {
            step.load_schema_mut().set_schema(bytes.as_slice());
        }
    };
    let evict = |digest: &str| {
        let digest = digest.to_owned();
        move |mut step: proto::StepMut<'_>| {
            step.evict_schema_mut().set_digest(&digest);
        }
    };
    // A plan that fails loads nothing for good.
    let (code, why) = operator.fails(&[&load(&other), &load(b"none")]);
    assert_eq!(code, Code::InvalidArgument, "{why}");
    assert!(!list().schemas().iter().any(|one| one.is_loaded()));
    operator.change(&[&load(&schema)]);
    assert_eq!(recall(&daemon, &schema).unwrap(), 0);
    let known = list();
    let one = known.schemas().iter().find(|one| one.digest() == digest).unwrap();
    assert!(one.is_loaded() && one.first_service() == "greet.Greeter" && one.messages() == 2);
    let mut request = proto::GetSchemaRequest::new();
    request.edit().set_digest(&digest);
    let shown = operator.ask(request, |client, request| client.get_schema(request)).unwrap();
    assert_eq!(shown.schema(), schema);
    let app = daemon.attach("app");
    let (code, why) = operator.fails(&[&evict(&digest)]);
    assert_eq!((code, why.contains("is in use by")), (Code::FailedPrecondition, true));
    drop(app);
    until("it is in use", || operator.try_change(super::admin::plan(&[&evict(&digest)])).is_ok());
    assert!(matches!(recall(&daemon, &schema), Err(AskError::Unknown)));
    assert_eq!(operator.fails(&[&evict(&digest)]).0, Code::NotFound);
    assert_eq!(operator.fails(&[&evict("abc")]).0, Code::InvalidArgument);
    // What was evicted comes back if a later step fails.
    operator.change(&[&load(&schema)]);
    assert_eq!(operator.fails(&[&evict(&digest), &load(b"none")]).0, Code::InvalidArgument);
    assert_eq!(recall(&daemon, &schema).unwrap(), 0);
}

#[test]
fn files_are_loaded_at_the_start_and_wrong_ones_are_refused() {
    let folder = Cache::new("files");
    fs::create_dir(&folder.0).unwrap();
    let (schema, file) = (schema(), folder.0.join("greet.schema"));
    fs::write(&file, &schema).unwrap();
    let more = ["--prefetch".as_ref(), file.as_os_str()];
    let daemon = Daemon::start_more("prefetched", None, &more);
    assert_eq!(recall(&daemon, &schema).unwrap(), 0);
    let path = file.display().to_string();
    for contents in [&b""[..], b"\x01", b"\x0a\x03abc", &schema[1..]] {
        fs::write(&file, contents).unwrap();
        for check in [&["--check".to_owned()][..], &[]] {
            let arguments = [check, &["--prefetch".to_owned(), path.clone()]].concat();
            let (is_well, said) = daemon.second_with(None, &arguments);
            assert!(!is_well && said.contains("cannot load"), "{contents:?}: {said}");
        }
    }
}

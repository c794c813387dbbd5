//! PostgreSQL and three memcacheds, for this run only: in a folder of their own, at Unix sockets.

use std::os::unix::fs::chown;
use std::path::Path;

use nix::unistd::{User, geteuid};
use rustix::process::Signal;
use tokio::net::UnixStream;

use super::folder::Folder;
use super::process::{Process, Start};
use super::programs;
use crate::error::Error;
use crate::service::Service;
use crate::store::postgres::Postgres;

/// Who runs them if root must not: Debian's PostgreSQL has this user.
const USER: &str = "postgres";

/// The running stores, with the suite's data.
pub struct Stores {
    // Dropped in this order: the folder after those who use it.
    _postgres: Process,
    _caches: Vec<Process>,
    folder: Folder,
}

/// The user who runs the stores, if it is another than this process's.
fn user() -> Option<&'static str> {
    geteuid().is_root().then_some(USER)
}

impl Stores {
    /// Starts them and loads the data.
    ///
    /// # Errors
    /// One is not installed, or does not come up.
    pub async fn start() -> Result<Stores, Error> {
        // What is missing shows before anything is started.
        let (initdb, postgres) = (programs::postgres("initdb")?, programs::postgres("postgres")?);
        let memcached = programs::memcached()?;
        let folder = Folder::new()?;
        give_away(folder.path())?;
        let data = folder.path().join("data");
        let words = ["-U", "hotel", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        let start = Start::of(&initdb, words.into_iter().map(Into::into).chain([data.clone()]));
        Start { user: user(), ..start }.run()?;
        let postgres = start_postgres(&postgres, &data, &folder).await?;
        let caches = Service::ALL.into_iter().filter(|service| service.has_cache());
        let mut started = Vec::new();
        for service in caches {
            started.push(start_memcached(&memcached, service, &folder).await?);
        }
        let stores = Stores { _postgres: postgres, _caches: started, folder };
        Postgres::connect(&stores.url()).await?.load().await?;
        Ok(stores)
    }

    /// Where PostgreSQL is, for `--store`.
    pub fn url(&self) -> String {
        url(&self.folder)
    }

    /// Where the memcached of a service is, for `--cache`.
    pub fn cache(&self, service: Service) -> String {
        format!("unix:{}", socket(&self.folder, service).display())
    }
}

fn url(folder: &Folder) -> String {
    format!("host={} user=hotel dbname=postgres", folder.path().display())
}

fn socket(folder: &Folder, service: Service) -> std::path::PathBuf {
    folder.path().join(format!("{}.sock", service.name()))
}

fn give_away(folder: &Path) -> Result<(), Error> {
    let Some(name) = user() else { return Ok(()) };
    let user = User::from_name(name).ok().flatten();
    let user = user.ok_or_else(|| Error::away(format!("there is no user `{name}`")))?;
    chown(folder, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
        .map_err(|error| Error::internal(format!("{}: {error}", folder.display())))
}

async fn start_postgres(program: &Path, data: &Path, folder: &Folder) -> Result<Process, Error> {
    let settings = [
        "listen_addresses=".to_owned(),
        format!("unix_socket_directories={}", folder.path().display()),
        "unix_socket_permissions=0700".to_owned(),
        // The data ends with the run.
        "fsync=off".to_owned(),
    ];
    let mut words = vec!["-D".to_owned(), data.display().to_string()];
    settings.into_iter().for_each(|setting| words.extend(["-c".to_owned(), setting]));
    let start = Start { user: user(), ..Start::of(program, words) };
    // Its fast shutdown, which does not wait for its clients.
    let mut postgres = start.start("postgres", folder.path())?.ended_by(Signal::INT);
    let url = url(folder);
    postgres.until(async |_| Postgres::connect(&url).await.ok()).await?;
    Ok(postgres)
}

async fn start_memcached(
    program: &Path,
    service: Service,
    folder: &Folder,
) -> Result<Process, Error> {
    let socket = socket(folder, service);
    let path = socket.display().to_string();
    let words = ["-s", &path, "-a", "0700", "-m", "64", "-t", "1"];
    let start = Start { user: user(), ..Start::of(program, words) };
    let mut memcached = start.start(&format!("memcached-{}", service.name()), folder.path())?;
    memcached.until(async |_| UnixStream::connect(&socket).await.ok()).await?;
    Ok(memcached)
}

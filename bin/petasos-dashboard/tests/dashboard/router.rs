//! A router as a child process, with workers and calls.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use petasos::{Channel, Join, Msg, Request, Server, Unary, block_on};

use crate::shelf::Books;
use crate::shelf::generated::{Book, Key, ShelfClient, ShelfServer};

/// A running `petasos-router`, whose group serves shelves. It ends with this.
pub struct Router {
    child: Child,
    folder: PathBuf,
    target: String,
}

impl Router {
    /// Starts one, if it was built; notes the skipped test otherwise.
    pub fn start(test: &str) -> Option<Router> {
        let folder = std::env::temp_dir().join(format!("petasos-r-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let (child, target) = Router::start_in(&folder)?;
        Some(Router { child, folder, target })
    }

    /// Another one where this one has ended.
    pub fn begin_again(&mut self) {
        (self.child, self.target) = Router::start_in(&self.folder).expect("it was there");
    }

    /// Kills it; its folder stays.
    pub fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn start_in(folder: &Path) -> Option<(Child, String)> {
        let executable = std::env::current_exe().expect("the test has a path");
        let built = executable.ancestors().nth(2).expect("tests lie in `deps`");
        let built = built.join("petasos-router");
        if !built.exists() {
            let advice = "it was not built: cargo build -p petasos-router-program";
            petasos_skips::skip("petasos-router", advice);
            return None;
        }
        let mut command = Command::new(built);
        command.args(["--listen", "127.0.0.1:0", "--service", "shelf.Shelf", "--policy", "jbsq3"]);
        command.arg("--admin").arg(folder.join("admin.sock"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut lines = lines.map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, rest) = line.split_once("join at ")?;
            rest.split(',').next().map(str::to_owned)
        });
        // What it says later is read, so that it does not wait.
        std::thread::spawn(move || lines.for_each(drop));
        Some((child, format!("router://{}", address.expect("it says where"))))
    }

    pub fn socket(&self) -> String {
        self.folder.join("admin.sock").display().to_string()
    }

    /// The group's name.
    pub fn group(&self) -> &str {
        self.target.strip_prefix("router://").expect("it was made so")
    }

    /// A worker that takes so many requests at a time.
    pub fn worker(&self, bound: u16) -> Server {
        let join = Join::new(&self.target).bound(bound);
        let server = Server::builder().add(ShelfServer::new(Books)).listen("127.0.0.1:0");
        let server = server.join(join).start().expect("loopback has ports");
        while !server.routers().iter().all(|at| at.is_member) {
            std::thread::sleep(Duration::from_millis(2));
        }
        server
    }

    pub fn client(&self) -> ShelfClient {
        ShelfClient::new(block_on(Channel::connect(&self.target)).expect("it is a router"))
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.end();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A call; with the title `slow` it never ends.
pub fn find(client: &ShelfClient, title: &str) -> Unary<Book> {
    let mut key: Msg<Key> = Key::new();
    key.edit().set_title(title);
    client.find(Request::new(key))
}

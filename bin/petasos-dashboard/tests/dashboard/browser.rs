//! A real browser without a window, spoken to over a pipe in the DevTools protocol.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use petasos::grpc::base64;
use petasos_base::Clock;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::support::WATCHDOG;

/// Programs that know the protocol, the smallest first.
const PROGRAMS: [&str; 4] =
    ["chromium-headless-shell", "chrome-headless-shell", "chromium", "google-chrome"];

/// The browser's ends of the pipe are descriptors 3 and 4. As root there is no sandbox.
const START: &str = "exec \"$0\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
                     --no-first-run --hide-scrollbars --remote-debugging-pipe \
                     --user-data-dir=\"$1\" about:blank 3<&0 4>&1 </dev/null >/dev/null";

/// A running browser with one page.
pub struct Browser {
    child: Child,
    input: Option<ChildStdin>,
    said: Receiver<Value>,
    folder: PathBuf,
    calls: u64,
    session: Option<String>,
}

impl Browser {
    /// Starts one; nothing if this host has none.
    pub fn start(test: &str) -> Option<Browser> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |program: &&str| {
            std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
        };
        let Some(program) = PROGRAMS.into_iter().find(is_there) else {
            petasos_skips::skip("browser", "there is no Chromium: apt install chromium");
            return None;
        };
        let folder = std::env::temp_dir().join(format!("petasos-{test}-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", START, program]).arg(&folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("there is a shell");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let said = messages(output);
        let mut browser = Browser { child, input, said, folder, calls: 0, session: None };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser.call("Page.enable", &json!({}));
        Some(browser)
    }

    /// Goes to a page.
    pub fn open(&mut self, url: &str) {
        let opened = self.call("Page.navigate", &json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{opened}");
    }

    /// What an expression is in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let wanted = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let mut result = self.call("Runtime.evaluate", &wanted);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let clock = Clock::system();
        let deadline = clock.now() + WATCHDOG;
        while self.value(&format!("Boolean({expression})")) != json!(true) {
            if clock.now() >= deadline {
                panic!("not so: {expression}: {}", self.value("document.body.innerText"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Does something with the page or the browser.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        let input = self.input.as_mut().expect("it is open until this is dropped");
        let mut bytes = call.to_string().into_bytes();
        bytes.push(0);
        input.write_all(&bytes).expect("the browser runs");
        loop {
            let mut said = self.said.recv_timeout(WATCHDOG).expect("the browser answers");
            if said["id"] == self.calls {
                assert!(said["error"].is_null(), "{method}: {said}");
                return said["result"].take();
            }
        }
    }

    /// Has the page be so wide, light or dark, and stores a picture of it.
    pub fn picture(&mut self, file: &Path, (width, height): (u32, u32), scheme: &str) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
        // The page draws anew once a second.
        std::thread::sleep(Duration::from_secs(2));
        let wanted = json!({ "format": "png", "captureBeyondViewport": true });
        let taken = self.call("Page.captureScreenshot", &wanted);
        let bytes = base64::decode(taken["data"].as_str().expect("a picture").as_bytes());
        let bytes = bytes.expect("it is base64");
        std::fs::write(file, bytes).expect("the file can be written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Without its pipe it ends; it may have ended by itself.
        self.input = None;
        for _ in 0..200 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Messages as they come, each ended by a zero.
fn messages(output: ChildStdout) -> Receiver<Value> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut bytes = Vec::new();
            match output.read_until(0, &mut bytes) {
                Ok(count) if count > 0 => bytes.pop(),
                _ => return,
            };
            let Ok(message) = serde_json::from_slice(&bytes) else { continue };
            if send.send(message).is_err() {
                return;
            }
        }
    });
    receive
}

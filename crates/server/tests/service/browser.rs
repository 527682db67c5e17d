//! A headless Chromium, driven over its DevTools protocol.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tollgate_testbed::Folder;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Before the address of its DevTools in what Chromium writes.
const LISTENING: &str = "DevTools listening on ";

/// A browser with one page; it is ended with its test.
pub(crate) struct Browser {
    process: Child,
    socket: WebSocketStream<TcpStream>,
    session: Value,
    calls: u64,
    /// Errors of the page so far: exceptions, console errors, what the policy forbids.
    pub(crate) errors: Vec<Value>,
    /// All that it writes; removed after it has ended.
    _folder: Folder,
}

// === impl Browser ===

impl Browser {
    pub(crate) async fn start() -> Browser {
        let folder = Folder::new();
        let mut process = Command::new("chromium")
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--hide-scrollbars", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", folder.file("profile")))
            .arg("about:blank")
            // Chromium leaves its own temporary directories behind when it is killed.
            .env("TMPDIR", folder.path())
            // So that its other processes are killed with it, and write nothing afterwards.
            .process_group(0)
            .stderr(Stdio::piped())
            .spawn()
            .expect("`chromium` is there: `cargo xtask ci` installs it");
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let mut lines = stderr.lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.strip_prefix(LISTENING)?.to_owned()));
        let url = url.expect("Chromium says where its DevTools are");
        // It must not stop because nobody reads what else it writes.
        std::thread::spawn(move || lines.for_each(drop));
        let address = url
            .strip_prefix("ws://")
            .unwrap()
            .split('/')
            .next()
            .unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let large = WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let (socket, _) = client_async_with_config(&url, stream, Some(large))
            .await
            .unwrap();
        let mut browser = Browser {
            process,
            socket,
            session: Value::Null,
            calls: 0,
            errors: Vec::new(),
            _folder: folder,
        };
        let target = browser
            .call("Target.createTarget", json!({"url": "about:blank"}))
            .await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.call("Target.attachToTarget", attach).await["sessionId"].clone();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({})).await;
        }
        browser
    }

    /// Calls a method of the protocol, and returns its result.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let id = self.calls;
        let mut call = json!({"id": id, "method": method, "params": params});
        if !self.session.is_null() {
            call["sessionId"] = self.session.clone();
        }
        self.socket
            .send(Message::text(call.to_string()))
            .await
            .unwrap();
        loop {
            let received = timeout(TIMEOUT, self.socket.next()).await;
            let received = received.unwrap_or_else(|_| panic!("no answer to {call}"));
            let Message::Text(text) = received.unwrap().unwrap() else {
                continue;
            };
            let mut message: Value = serde_json::from_str(&text).unwrap();
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{call}: {message}");
                return message["result"].take();
            }
            self.note(message);
        }
    }

    /// Keeps an event that is an error.
    fn note(&mut self, event: Value) {
        let params = &event["params"];
        let is_error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => params["type"] == "error",
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(event);
        }
    }

    /// Opens a page, and waits until all of it is there.
    pub(crate) async fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url})).await;
        self.wait_for("document.readyState === 'complete'").await;
    }

    /// The value of an expression in the page, once its promise is fulfilled.
    pub(crate) async fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut found = self.call("Runtime.evaluate", params).await;
        assert!(
            found.get("exceptionDetails").is_none(),
            "{expression}: {found}"
        );
        found["result"]["value"].take()
    }

    /// Waits until an expression is true in the page.
    pub(crate) async fn wait_for(&mut self, condition: &str) {
        let wait = format!(
            "new Promise((done) => {{ const timer = setInterval(() => {{ let found = false; \
             try {{ found = {condition}; }} catch {{}} \
             if (found) {{ clearInterval(timer); done(true); }} }}, 50); }})"
        );
        self.evaluate(&wait).await;
    }

    /// Sets the size of the window, and whether its colours are dark, and waits until it is drawn
    /// so: what moves on the page after that is not the change of the window.
    pub(crate) async fn show_as(&mut self, width: u32, height: u32, scheme: &str) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features).await;
        // The second call is made once the first frame has been drawn.
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
        )
        .await;
    }

    /// A picture of the window, as PNG in base64.
    pub(crate) async fn picture(&mut self) -> String {
        let taken = self
            .call("Page.captureScreenshot", json!({"format": "png"}))
            .await;
        taken["data"].as_str().unwrap().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.process.wait();
    }
}

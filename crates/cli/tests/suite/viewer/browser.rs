//! A real browser without a window, driven by its DevTools protocol.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

use super::TIMEOUT;

/// Names of the program, Debian's first.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page.
pub struct Browser {
    child: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    last: u64,
    /// Errors and warnings of the page.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts the browser.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("a directory");
        let directory = format!("--user-data-dir={}", profile.path().display());
        let start = |program: &str| {
            Command::new(program)
                .args([
                    "--headless=new",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                    "--disable-background-networking",
                    "--disable-component-update",
                    "--disable-sync",
                    "--no-first-run",
                    "--hide-scrollbars",
                    "--force-color-profile=srgb",
                    "--remote-debugging-port=0",
                    &directory,
                    "about:blank",
                ])
                .env("HOME", profile.path())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .ok()
        };
        let mut child = PROGRAMS
            .iter()
            .find_map(|program| start(program))
            .expect("chromium is missing: install it with apt-get install chromium");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        let url = loop {
            line.clear();
            assert_ne!(said.read_line(&mut line).expect("text"), 0, "chromium has ended");
            if let Some(url) = line.trim().strip_prefix("DevTools listening on ") {
                break url.to_owned();
            }
        };
        // Drain the pipe, so that it does not fill up.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let address = url.trim_start_matches("ws://").split('/').next().expect("an address");
        let stream = TcpStream::connect(address).expect("the browser listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time limit");
        let (socket, _) = tungstenite::client(&url, stream).expect("a DevTools connection");
        let mut browser = Self {
            child,
            socket,
            session: String::new(),
            last: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the browser, and waits for the result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.try_call(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(message.to_string())).expect("the browser listens");
        loop {
            let message = self.socket.read().expect("the browser answers");
            let Message::Text(text) = message else { continue };
            let message: Value = serde_json::from_str(&text).expect("JSON");
            if message["id"] == self.last {
                let error = &message["error"];
                return if error.is_null() {
                    Ok(message["result"].clone())
                } else {
                    Err(error.clone())
                };
            }
            self.hear(&message);
        }
    }

    fn hear(&mut self, message: &Value) {
        let parameters = &message["params"];
        let complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                ["error", "warning", "assert"].iter().any(|kind| parameters["type"] == *kind)
            }
            Some("Log.entryAdded") => parameters["entry"]["level"] == "error",
            _ => false,
        };
        if complaint {
            self.complaints.push(parameters.to_string());
        }
    }

    /// Sets the size of the window in CSS pixels, and the screen pixels per CSS pixel.
    pub fn resize(&mut self, width: u32, height: u32, density: f64, is_phone: bool) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": density, "mobile": is_phone,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let touch = json!({ "enabled": is_phone, "maxTouchPoints": 5 });
        self.call("Emulation.setTouchEmulationEnabled", touch);
    }

    /// Opens a page.
    pub fn open(&mut self, url: &str) {
        let gone = self.call("Page.navigate", json!({ "url": url }));
        assert!(gone["errorText"].is_null(), "{gone}");
    }

    /// Runs a script and returns its value, or that of its promise.
    pub fn run(&mut self, script: &str) -> Value {
        let request = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let reply = self.call("Runtime.evaluate", request);
        assert!(reply["exceptionDetails"].is_null(), "{script}: {reply}");
        reply["result"]["value"].clone()
    }

    /// Waits until a condition holds in the page.
    pub fn wait_for(&mut self, condition: &str) {
        let begin = std::time::Instant::now();
        let request = json!({ "expression": format!("!!({condition})"), "returnByValue": true });
        loop {
            // The page may not be loaded yet, or be replaced at the same time.
            let reply = self.try_call("Runtime.evaluate", request.clone());
            if reply.is_ok_and(|reply| reply["result"]["value"] == true) {
                return;
            }
            assert!(begin.elapsed() < TIMEOUT, "never: {condition}\n{:?}", self.complaints);
        }
    }

    /// Presses the mouse at one point, moves it in steps to another, and releases it.
    pub fn drag(&mut self, from: [f64; 2], to: [f64; 2], modifiers: u32) {
        const STEPS: u32 = 8;
        self.mouse("mousePressed", from, modifiers);
        for step in 1..=STEPS {
            let share = f64::from(step) / f64::from(STEPS);
            let at = [0, 1].map(|axis| from[axis] + (to[axis] - from[axis]) * share);
            self.mouse("mouseMoved", at, modifiers);
        }
        self.mouse("mouseReleased", to, modifiers);
    }

    /// Clicks the left button.
    pub fn click(&mut self, at: [f64; 2]) {
        self.mouse("mousePressed", at, 0);
        self.mouse("mouseReleased", at, 0);
    }

    /// Moves the mouse without a button.
    pub fn hover(&mut self, [x, y]: [f64; 2]) {
        self.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y }));
    }

    /// Sets the preferred color scheme: `light` or `dark`.
    pub fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// Sets the directory for downloads.
    pub fn save_to(&mut self, directory: &std::path::Path) {
        let behavior = json!({ "behavior": "allow", "downloadPath": directory });
        self.call("Browser.setDownloadBehavior", behavior);
    }

    fn mouse(&mut self, kind: &str, [x, y]: [f64; 2], modifiers: u32) {
        let event = json!({
            "type": kind, "x": x, "y": y, "modifiers": modifiers, "button": "left", "buttons": 1,
            "clickCount": 1,
        });
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Turns the wheel.
    pub fn wheel(&mut self, [x, y]: [f64; 2], way: f64, modifiers: u32) {
        let event = json!({
            "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": way, "modifiers": modifiers,
        });
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Touches the screen with fingers; none for the end.
    pub fn touch(&mut self, kind: &str, fingers: &[[f64; 2]]) {
        let points: Vec<_> = fingers
            .iter()
            .enumerate()
            .map(|(id, [x, y])| json!({ "x": x, "y": y, "id": id }))
            .collect();
        self.call("Input.dispatchTouchEvent", json!({ "type": kind, "touchPoints": points }));
    }

    /// Presses a key that gives a text, or that has only a name.
    pub fn key(&mut self, key: &str, modifiers: u32) {
        let mut event = json!({ "type": "keyDown", "key": key, "modifiers": modifiers });
        if key.chars().count() == 1 {
            event["text"] = json!(key);
        }
        // The browser identifies these keys by their codes.
        let number = match key {
            "Tab" => Some(9),
            "Enter" => Some(13),
            "Escape" => Some(27),
            _ => None,
        };
        if let Some(number) = number {
            event["windowsVirtualKeyCode"] = json!(number);
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Returns a screenshot as PNG.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let taken = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        decoded(taken["data"].as_str().expect("a picture"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Decodes base 64.
fn decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

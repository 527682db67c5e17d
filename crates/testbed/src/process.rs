//! A server's process, which ends when its owner does.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// How long a server may take to get ready.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Starts the server, prints its number, and waits for our end of the pipe to close, which happens
/// even if we are killed.
const WATCHDOG: &str = r#"
sh -c 'echo $$; exec "$@"' sh "$@" </dev/null & server=$!
exec >/dev/null 2>&1
exec 3<&0
read -r _ <&3
kill -9 "$server"
wait "$server"
"#;

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Process {
    watchdog: Child,
    number: String,
}

// === impl Process ===

impl Process {
    /// Starts `program` and waits until it has written a line that contains `ready`; `None` if it
    /// ended before, as it does when another process took its port.
    ///
    /// # Panics
    ///
    /// If the program cannot be started at all.
    pub fn start(program: &str, arguments: &[String], ready: &str) -> Option<Process> {
        let mut command = Command::new("sh");
        command
            .args(["-c", WATCHDOG, "sh", program])
            .args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut watchdog = command.spawn().expect("sh is installed");
        let stdout = watchdog.stdout.take().expect("asked for above");
        let lines = lines_of(stdout);
        let number = lines.recv_timeout(READY_WITHIN).expect("sh tells a number");
        let process = Process { watchdog, number };
        loop {
            match lines.recv_timeout(READY_WITHIN) {
                Ok(line) if line.contains(ready) => return Some(process),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    /// The process's number.
    pub fn number(&self) -> &str {
        &self.number
    }

    /// Sends a signal: `KILL`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        kill.args(["-s", name, &self.number]).stderr(Stdio::null());
        let _gone_already = kill.status();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal("KILL");
        drop(self.watchdog.stdin.take());
        let _ended = self.watchdog.wait();
    }
}

/// The lines that come out of a pipe, read to the end so that the writer never waits.
#[expect(clippy::disallowed_methods, reason = "the writer must never wait")]
fn lines_of(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _nobody_listens = send.send(line);
        }
    });
    lines
}

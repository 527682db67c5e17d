//! A relay between a client and a server that injects faults.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are relayed at once.
const PIECE_BYTES: usize = 64 * 1024;

/// The faults to inject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The delay of every byte, in each direction.
    pub delay: Duration,
    /// Nothing is relayed, and no connection is closed.
    pub stalled: bool,
    /// New connections are closed at once.
    pub closes_new_connections: bool,
    /// Every connection is closed after this many more bytes of replies.
    pub cut_after: Option<usize>,
}

/// A relay on a free port of 127.0.0.1; closed when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    wires: Arc<Wires>,
}

#[derive(Debug)]
struct Wires {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    /// Both ends of every connection.
    ends: Vec<TcpStream>,
    gone: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Question,
    Reply,
}

// === impl Proxy ===

impl Proxy {
    /// A relay to `address`, without faults.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub fn to(address: &str) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback is there");
        let port = listener.local_addr().expect("it is bound").port();
        let wires = Arc::new(Wires {
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (accepting, address) = (Arc::clone(&wires), address.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.is_gone() {
                    return;
                }
                accepting.join(client, &address);
            }
        });
        Proxy { port, wires }
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Replaces the faults.
    pub fn set(&self, faults: Faults) {
        self.wires.change(|state| state.faults = faults);
    }

    /// Closes every connection, now.
    pub fn cut(&self) {
        self.wires.change(State::cut);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.wires.change(|state| {
            state.gone = true;
            state.cut();
        });
        // Wakes the accepting thread, which then ends.
        let _gone_already = TcpStream::connect(("127.0.0.1", self.port));
    }
}

// === impl State ===

impl State {
    fn cut(&mut self) {
        for end in self.ends.drain(..) {
            let _gone_already = end.shutdown(Shutdown::Both);
        }
    }
}

// === impl Wires ===

impl Wires {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().expect("nobody panics holding it"));
        self.changed.notify_all();
    }

    fn is_gone(&self) -> bool {
        self.state.lock().expect("nobody panics holding it").gone
    }

    /// Connects a client to the server and relays both directions.
    fn join(self: &Arc<Wires>, client: TcpStream, address: &str) {
        let closes_new_connections = self
            .state
            .lock()
            .expect("nobody panics holding it")
            .faults
            .closes_new_connections;
        let Some(server) = (!closes_new_connections)
            .then(|| TcpStream::connect(address).ok())
            .flatten()
        else {
            return;
        };
        let _slower_without = client
            .set_nodelay(true)
            .and_then(|()| server.set_nodelay(true));
        let other = |end: &TcpStream| end.try_clone().expect("a connection has a second handle");
        self.change(|state| state.ends.extend([other(&client), other(&server)]));
        self.relay(other(&client), other(&server), Way::Question);
        self.relay(server, client, Way::Reply);
    }

    /// Starts two threads: one reads and timestamps the bytes, the other sends them when they are
    /// due.
    #[expect(
        clippy::disallowed_methods,
        reason = "a delayed pipe holds what the test sends"
    )]
    fn relay(self: &Arc<Wires>, from: TcpStream, to: TcpStream, way: Way) {
        let (send, due) = channel();
        let (reading, writing) = (Arc::clone(self), Arc::clone(self));
        thread::spawn(move || reading.read(from, &send));
        thread::spawn(move || writing.write(to, &due, way));
    }

    fn read(&self, mut from: TcpStream, send: &Sender<(Instant, Vec<u8>)>) {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            let delay = self
                .state
                .lock()
                .expect("nobody panics holding it")
                .faults
                .delay;
            if send
                .send((Instant::now() + delay, piece[..count].to_vec()))
                .is_err()
            {
                return;
            }
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "delays real bytes, on a thread of its own"
    )]
    fn write(&self, mut to: TcpStream, due: &Receiver<(Instant, Vec<u8>)>, way: Way) {
        for (at, piece) in due {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            let allowed = self.wait_for_leave(piece.len(), way);
            let sent = to.write_all(&piece[..allowed]);
            if allowed < piece.len() {
                self.change(State::cut);
            }
            if sent.is_err() {
                break;
            }
        }
        let _gone_already = to.shutdown(Shutdown::Both);
    }

    /// Waits while nothing is relayed; then returns how much of a piece may go.
    fn wait_for_leave(&self, length: usize, way: Way) -> usize {
        let state = self.state.lock().expect("nobody panics holding it");
        let stalled = |state: &mut State| state.faults.stalled && !state.gone;
        let state = self.changed.wait_while(state, stalled);
        let mut state = state.expect("nobody panics holding it");
        match &mut state.faults.cut_after {
            Some(left) if way == Way::Reply => {
                let allowed = length.min(*left);
                *left -= allowed;
                allowed
            }
            _ => length,
        }
    }
}

//! The frames of an HTTP/2 connection, counted as they come in.
//!
//! Frames that carry no part of a request cost their sender nothing, and the service a response
//! each. A connection may send a burst of them, more for each request, more for what it is sent,
//! and more as time passes: enough for keepalive, window updates and cancelled calls of any client
//! that also sends requests. A connection that sends more is closed. The HTTP library bounds most
//! floods, and not these.

use std::io::IoSlice;
use std::time::Instant;

/// The bytes before each frame's payload.
const HEAD_BYTES: usize = 9;
/// What a client sends before its first frame.
const PREFACE_BYTES: usize = 24;
/// Frames without a request that each request allows: window updates, priority, a reset.
const FRAMES_PER_REQUEST: u32 = 4;
/// Frames without a request that each DATA frame to the peer allows. gRPC's clients in C, and those
/// in Python, Ruby and PHP that are built on it, send two window updates for each message of a
/// stream, however short, and now and then a PING that measures the connection.
const FRAMES_PER_DATA: u32 = 4;
/// Bytes that are sent to the peer, for each of which it may send a frame: window updates, while it
/// reads a long response.
const SENT_PER_FRAME: usize = 1024;
/// A tenth of the allowance is added each second.
const REFILL_PART: u32 = 10;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Which frames there were too many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flood(pub(crate) &'static str);

/// Counts the frames of one connection.
#[derive(Debug)]
pub(crate) struct Frames {
    from_peer: Heads,
    to_peer: Heads,
    control: Allowance,
    /// Bytes sent that have not allowed a frame yet.
    sent: usize,
    /// Streams that the peer itself resets.
    resets: Allowance,
}

/// Finds the heads of frames in the bytes of one direction.
#[derive(Debug)]
struct Heads {
    /// Bytes of the preface or of a payload that are still to come.
    skip: usize,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
}

/// What a frame is, and how long its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    kind: u8,
    payload: usize,
}

/// A token bucket of frames.
#[derive(Debug)]
struct Allowance {
    most: u32,
    left: u32,
    refilled: Instant,
}

// === impl Frames ===

impl Frames {
    /// For a connection that may send a burst of so many frames without a request.
    pub(crate) fn new(control_frames: u32, now: Instant) -> Frames {
        let allowance = Allowance {
            most: control_frames,
            left: control_frames,
            refilled: now,
        };
        Frames {
            from_peer: Heads::behind(PREFACE_BYTES),
            // What the service sends begins with a frame.
            to_peer: Heads::behind(0),
            control: Allowance { ..allowance },
            sent: 0,
            resets: allowance,
        }
    }

    /// Counts the frames that begin in `bytes`, which follow those before.
    ///
    /// # Errors
    ///
    /// [`Flood`], if there are too many.
    pub(crate) fn read(&mut self, mut bytes: &[u8], now: Instant) -> Result<(), Flood> {
        let mut counted = Ok(());
        while let Some(head) = self.from_peer.next(&mut bytes) {
            counted = counted.and(self.count(head, now));
        }
        counted
    }

    /// Counts the first `written` bytes of these, which were sent to the peer.
    pub(crate) fn record_sent(&mut self, parts: &[IoSlice<'_>], written: usize) {
        self.sent += written;
        let mut earned = u32::try_from(self.sent / SENT_PER_FRAME).unwrap_or(u32::MAX);
        self.sent %= SENT_PER_FRAME;
        let mut left = written;
        for part in parts {
            let mut bytes = &part[..part.len().min(left)];
            left -= bytes.len();
            while let Some(head) = self.to_peer.next(&mut bytes) {
                if head.kind == DATA && head.payload > 0 {
                    earned = earned.saturating_add(FRAMES_PER_DATA);
                }
            }
        }
        self.control.earn(earned.min(self.control.most));
    }

    /// Counts a frame of the peer.
    fn count(&mut self, head: Head, now: Instant) -> Result<(), Flood> {
        let name = match head.kind {
            HEADERS => {
                self.control.earn(FRAMES_PER_REQUEST);
                return Ok(());
            }
            DATA if head.payload > 0 => return Ok(()),
            RST_STREAM => {
                self.resets.spend(now).ok_or(Flood("RST_STREAM"))?;
                "RST_STREAM"
            }
            DATA => "empty DATA",
            SETTINGS => "SETTINGS",
            PING => "PING",
            WINDOW_UPDATE => "WINDOW_UPDATE",
            CONTINUATION => "CONTINUATION",
            _ => "other",
        };
        self.control.spend(now).ok_or(Flood(name))
    }
}

// === impl Heads ===

impl Heads {
    /// The heads of the frames behind so many bytes.
    const fn behind(skip: usize) -> Heads {
        Heads {
            skip,
            head: [0; HEAD_BYTES],
            head_bytes: 0,
        }
    }

    /// The next head that is complete in `bytes`, which then begin behind it.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<Head> {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            *bytes = &bytes[skipped..];
            let wanted = (HEAD_BYTES - self.head_bytes).min(bytes.len());
            let (part, rest) = bytes.split_at(wanted);
            self.head[self.head_bytes..self.head_bytes + wanted].copy_from_slice(part);
            self.head_bytes += wanted;
            *bytes = rest;
            if self.head_bytes == HEAD_BYTES {
                self.head_bytes = 0;
                let [a, b, c, kind, ..] = self.head;
                let length = u32::from_be_bytes([0, a, b, c]);
                let payload = usize::try_from(length).unwrap_or(usize::MAX);
                self.skip = payload;
                return Some(Head { kind, payload });
            }
        }
        None
    }
}

// === impl Allowance ===

impl Allowance {
    fn earn(&mut self, count: u32) {
        self.left = (self.left + count).min(self.most);
    }

    fn spend(&mut self, now: Instant) -> Option<()> {
        if self.left == 0 {
            self.refill(now);
        }
        self.left = self.left.checked_sub(1)?;
        Some(())
    }

    fn refill(&mut self, now: Instant) {
        let millis = now.saturating_duration_since(self.refilled).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        let each_second = u64::from((self.most / REFILL_PART).max(1));
        let refill = millis.saturating_mul(each_second) / 1000;
        // Less than one frame stays, and grows until the next refill.
        if refill > 0 {
            self.refilled = now;
            self.earn(u32::try_from(refill).unwrap_or(u32::MAX).min(self.most));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PREFACE: [u8; PREFACE_BYTES] = [b'P'; PREFACE_BYTES];

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let mut out = u32::try_from(payload).expect("small").to_be_bytes()[1..].to_vec();
        out.extend_from_slice(&[kind, 0, 0, 0, 0, 1]);
        out.resize(HEAD_BYTES + payload, 0xff);
        out
    }

    fn frames(now: Instant) -> Frames {
        let mut frames = Frames::new(100, now);
        assert_eq!(frames.read(&PREFACE, now), Ok(()));
        frames
    }

    /// How many of these fit before the connection is closed.
    fn fit(frames: &mut Frames, frame: &[u8], now: Instant) -> usize {
        (0..100_000)
            .find(|_| frames.read(frame, now).is_err())
            .unwrap_or(100_000)
    }

    #[test]
    fn every_kind_of_flood_is_detected_and_requests_are_not() {
        let now = Instant::now();
        for (kind, payload, name) in [
            (PING, 8, "PING"),
            (SETTINGS, 6, "SETTINGS"),
            (RST_STREAM, 4, "RST_STREAM"),
            (WINDOW_UPDATE, 4, "WINDOW_UPDATE"),
            (CONTINUATION, 50, "CONTINUATION"),
            (DATA, 0, "empty DATA"),
            (2, 5, "other"),
        ] {
            let mut frames = frames(now);
            let frame = frame(kind, payload);
            assert_eq!(fit(&mut frames, &frame, now), 100, "{name}");
            assert_eq!(frames.read(&frame, now), Err(Flood(name)));
        }
        let mut frames = frames(now);
        let request = [
            frame(HEADERS, 70),
            frame(DATA, 200),
            frame(WINDOW_UPDATE, 4),
        ]
        .concat();
        assert_eq!(fit(&mut frames, &request, now), 100_000);
    }

    /// Sends bytes to the peer, a part of them at a time, in two buffers each.
    fn send(frames: &mut Frames, bytes: &[u8], at_once: usize) {
        for part in bytes.chunks(at_once) {
            let (first, rest) = part.split_at(part.len() / 3);
            // What lies behind the written bytes is not sent yet.
            let later = frame(DATA, 9);
            let parts = [first, rest, &later].map(IoSlice::new);
            frames.record_sent(&parts, part.len());
        }
    }

    #[test]
    fn a_peer_that_reads_a_long_response_may_send_window_updates() {
        let now = Instant::now();
        let mut frames = frames(now);
        let update = frame(WINDOW_UPDATE, 4);
        let response = frame(HEADERS, 16 * 1024 - HEAD_BYTES);
        for _ in 0..1000 {
            send(&mut frames, &response, 16 * 1024);
            assert_eq!(frames.read(&update.repeat(2), now), Ok(()));
        }
        // The answer to a PING is too short to allow the next one.
        let ping = frame(PING, 8);
        let flood = (0..1000).find(|_| {
            send(&mut frames, &ping, 17);
            frames.read(&ping, now).is_err()
        });
        assert!(flood.is_some_and(|pings| pings < 110), "{flood:?}");
    }

    #[test]
    fn a_peer_that_reads_a_stream_of_short_messages_may_send_window_updates_for_each() {
        let now = Instant::now();
        let update = frame(WINDOW_UPDATE, 4);
        for at_once in [1, 5, 9, 24, 25, 1000] {
            let mut frames = frames(now);
            send(&mut frames, &frame(SETTINGS, 36), at_once);
            for _ in 0..1000 {
                send(&mut frames, &frame(DATA, 16), at_once);
                let sent = [frame(DATA, 30), update.repeat(2), frame(PING, 8)].concat();
                assert_eq!(frames.read(&sent, now), Ok(()), "{at_once}");
            }
            // Empty ones carry nothing that has to be acknowledged.
            send(&mut frames, &frame(DATA, 0).repeat(100), at_once);
            assert!(fit(&mut frames, &update, now) < 100, "{at_once}");
        }
    }

    #[test]
    fn streams_that_are_reset_at_once_are_a_flood_although_they_are_requests() {
        let now = Instant::now();
        let mut frames = frames(now);
        let reset = [frame(HEADERS, 70), frame(RST_STREAM, 4)].concat();
        assert_eq!(fit(&mut frames, &reset, now), 100);
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let now = Instant::now();
        let mut text = PREFACE.to_vec();
        for _ in 0..50 {
            text.extend_from_slice(&frame(PING, 8));
            text.extend_from_slice(&frame(DATA, 300));
        }
        for size in [1, 2, 7, 9, 10, 1000] {
            let mut frames = Frames::new(100, now);
            for part in text.chunks(size) {
                assert_eq!(frames.read(part, now), Ok(()), "{size}");
            }
            assert_eq!(fit(&mut frames, &frame(PING, 8), now), 50, "{size}");
        }
    }

    #[test]
    fn the_allowance_refills_with_time() {
        let now = Instant::now();
        let mut frames = frames(now);
        assert_eq!(fit(&mut frames, &frame(PING, 8), now), 100);
        let later = now + Duration::from_millis(150);
        assert_eq!(fit(&mut frames, &frame(PING, 8), later), 1);
        let later = later + Duration::from_secs(3600);
        assert_eq!(fit(&mut frames, &frame(PING, 8), later), 100);
    }
}

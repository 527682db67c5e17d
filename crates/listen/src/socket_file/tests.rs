//! What becomes of files that are there already, and of those of listeners that end.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixDatagram, UnixListener as Listening};
use std::sync::Arc;

use tempfile::TempDir;
use tokio::sync::Barrier;

use super::*;
use crate::address::SOCKET_MODE;

fn at(directory: &TempDir, name: &str) -> SocketPath {
    SocketPath {
        path: directory.path().join(name),
        mode: SOCKET_MODE,
    }
}

fn is_there(at: &SocketPath) -> bool {
    fs::symlink_metadata(&at.path).is_ok()
}

async fn message(at: &SocketPath) -> String {
    open(at).await.unwrap_err().to_string()
}

/// A file that a process has left behind that was killed.
fn leave_dead_socket(at: &SocketPath) {
    drop(Listening::bind(&at.path).unwrap());
    assert!(is_there(at));
}

#[tokio::test]
async fn the_file_has_its_permissions_and_goes_with_the_listener() {
    let directory = TempDir::new().unwrap();
    for mode in [0o600, 0o660, 0o666, 0o777, 0o200] {
        let at = SocketPath {
            mode,
            ..at(&directory, "s")
        };
        let opened = open(&at).await.unwrap();
        let permissions = fs::symlink_metadata(&at.path).unwrap().mode();
        assert_eq!(permissions & 0o7777, mode, "{mode:o}");
        drop(opened);
        assert!(!is_there(&at));
    }
}

#[tokio::test]
async fn a_socket_on_which_nobody_accepts_is_replaced() {
    let directory = TempDir::new().unwrap();
    let at = at(&directory, "s");
    leave_dead_socket(&at);
    let (listener, _file) = open(&at).await.unwrap();
    let (accepted, connected) = tokio::join!(listener.accept(), UnixStream::connect(&at.path));
    accepted.unwrap();
    connected.unwrap();
}

#[tokio::test]
async fn a_socket_that_is_in_use_is_left_alone() {
    let directory = TempDir::new().unwrap();
    let used = at(&directory, "used");
    let listener = Listening::bind(&used.path).unwrap();
    let expected = "a process accepts connections there; stop it, or use another path";
    assert_eq!(message(&used).await, expected);
    // So is one whose process accepts no more connections at the moment.
    listener.set_nonblocking(true).unwrap();
    let mut waiting = Vec::new();
    while let Ok(connection) = UnixStream::connect(&used.path).await {
        waiting.push(connection);
        assert!(waiting.len() < 100_000, "any number may wait");
    }
    assert_eq!(message(&used).await, expected);
    // One that only takes datagrams.
    let datagrams = at(&directory, "datagrams");
    let _socket = UnixDatagram::bind(&datagrams.path).unwrap();
    let text = message(&datagrams).await;
    assert!(text.contains("whether it is in use is unknown"), "{text}");
    assert!(is_there(&used) && is_there(&datagrams));
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_alone() {
    let directory = TempDir::new().unwrap();
    let dead = at(&directory, "dead");
    leave_dead_socket(&dead);
    let file = at(&directory, "file");
    fs::write(&file.path, "precious").unwrap();
    let link = at(&directory, "link");
    symlink(&dead.path, &link.path).unwrap();
    let folder = at(&directory, "folder");
    fs::create_dir(&folder.path).unwrap();
    for there in [&file, &link, &folder] {
        let expected = "a file that is not a socket is there; remove it, or use another path";
        assert_eq!(message(there).await, expected);
        assert!(is_there(there));
    }
}

#[tokio::test]
async fn errors_say_what_to_do_about_the_directory() {
    let directory = TempDir::new().unwrap();
    let text = message(&at(&directory, "missing/s")).await;
    let missing = directory.path().join("missing");
    let expected = format!("; create the directory {}", missing.display());
    assert!(text.ends_with(&expected), "{text}");
    fs::write(missing, "").unwrap();
    let text = message(&at(&directory, "missing/s")).await;
    assert!(
        text.contains("is not a directory; use another path"),
        "{text}"
    );
}

/// Of any number that start at once on the file of a dead one, one has it, and keeps it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_several_replaces_a_dead_socket() {
    let directory = TempDir::new().unwrap();
    let at = at(&directory, "s");
    for _round in 0..200 {
        let together = Arc::new(Barrier::new(4));
        leave_dead_socket(&at);
        let starting: Vec<_> = (0..4)
            .map(|_| {
                let at = at.clone();
                let together = Arc::clone(&together);
                tokio::spawn(async move {
                    together.wait().await;
                    open(&at).await
                })
            })
            .collect();
        let mut opened = Vec::new();
        for start in starting {
            opened.extend(start.await.unwrap().ok());
        }
        assert_eq!(opened.len(), 1);
        UnixStream::connect(&at.path).await.unwrap();
        drop(opened);
        assert!(!is_there(&at));
    }
}

/// Otherwise the second of two processes that find the file of a dead one could remove the first
/// one's.
#[tokio::test(start_paused = true)]
async fn one_process_at_a_time_opens_sockets_in_a_directory() {
    let directory = TempDir::new().unwrap();
    let at = at(&directory, "s");
    let other = File::open(directory.path()).unwrap();
    flock(&other, FlockOperation::LockExclusive).unwrap();
    let expected = format!(
        "another process holds a lock on {}; end it, or use another directory",
        directory.path().display()
    );
    assert_eq!(message(&at).await, expected);
    drop(other);
    let opened = open(&at).await.unwrap();
    // The lock is not held any longer than that.
    let other = File::open(directory.path()).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    drop(opened);
}

#[tokio::test]
async fn a_file_of_another_process_is_not_removed() {
    let directory = TempDir::new().unwrap();
    let at = at(&directory, "s");
    let opened = open(&at).await.unwrap();
    fs::remove_file(&at.path).unwrap();
    let _other = Listening::bind(&at.path).unwrap();
    drop(opened);
    assert!(is_there(&at));
}

//! The file of a Unix socket: made with its permissions, and removed with its listener.
//!
//! A process that was killed leaves its file behind, to which nobody can connect and in whose place
//! no socket can be made. Such a file is removed, but only if it is a socket on which nobody
//! accepts connections.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::address::SocketPath;

/// The most connections that wait to be accepted, also over TCP, where the kernel ignores further
/// ones until their client asks again, a second later. The kernel's own maximum,
/// `net.core.somaxconn`, is 4096 by default.
pub(crate) const BACKLOG: u32 = 4096;
/// How often to try to lock the directory, while another process opens a socket in it.
const LOCK_TRIES_MAX: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The file of a socket that is open. Dropping it removes the file, unless another process has
/// replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

/// Opens a Unix socket and makes its file.
///
/// # Errors
///
/// What the system says, or why the file that is there is not replaced; with what to do.
pub(crate) async fn open(at: &SocketPath) -> io::Result<(UnixListener, SocketFile)> {
    let path = &at.path;
    // Of two processes that find the same file of a dead one, the second would remove the first
    // one's.
    let _locked = lock_directory(path).await?;
    let listener = match bind(at) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_dead_socket(path).await?;
            bind(at)
        }
        bound => bound,
    };
    let listener = listener.map_err(|error| explain(error, path))?;
    let metadata = fs::symlink_metadata(path)?;
    let file = SocketFile {
        path: path.clone(),
        identity: identity_of(&metadata),
    };
    // Bits that the process's mask has removed.
    if metadata.mode() & 0o777 != at.mode {
        fs::set_permissions(path, Permissions::from_mode(at.mode))?;
    }
    Ok((listener, file))
}

/// Binds a socket whose file never has more permissions than it is to have.
fn bind(at: &SocketPath) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    // The file is made with the permissions of the socket.
    fchmod(&socket, Mode::from_raw_mode(at.mode))?;
    socket.bind(&at.path)?;
    socket.listen(BACKLOG)
}

/// Locks the directory of a socket against other processes that open one there; `None` if it may
/// not be read, and so cannot be locked.
async fn lock_directory(path: &Path) -> io::Result<Option<File>> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let directory = match File::open(parent) {
        Ok(directory) => directory,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(explain(error, path)),
    };
    for _try in 0..LOCK_TRIES_MAX {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(directory)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sleep(LOCK_PAUSE).await;
            }
            // A file system without locks.
            Err(_) => return Ok(None),
        }
    }
    let message = format!(
        "another process holds a lock on {}; end it, or use another directory",
        parent.display()
    );
    Err(io::Error::new(ErrorKind::WouldBlock, message))
}

/// Removes the file of a socket on which nobody accepts connections.
async fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !metadata.file_type().is_socket() {
        let message = "a file that is not a socket is there; remove it, or use another path";
        return Err(io::Error::new(ErrorKind::AlreadyExists, message));
    }
    match UnixStream::connect(path)
        .await
        .map_err(|error| (error.kind(), error))
    {
        Err((ErrorKind::ConnectionRefused, _)) => {}
        // The second is a process that has more connections to accept than can wait.
        Ok(_) | Err((ErrorKind::WouldBlock, _)) => {
            let message = "a process accepts connections there; stop it, or use another path";
            return Err(io::Error::new(ErrorKind::AddrInUse, message));
        }
        Err((ErrorKind::NotFound, _)) => return Ok(()),
        Err((kind, error)) => {
            let message = format!(
                "a socket is there, and whether it is in use is unknown ({error}); remove it, or \
                 use another path"
            );
            return Err(io::Error::new(kind, message));
        }
    }
    info!(path = %path.display(), "removed a socket on which nobody accepts connections");
    fs::remove_file(path)
}

/// Says what to do about an error of the system.
fn explain(error: io::Error, path: &Path) -> io::Error {
    let parent = path.parent().unwrap_or(Path::new("")).display();
    let help = match error.kind() {
        ErrorKind::NotFound => format!("create the directory {parent}"),
        ErrorKind::NotADirectory => format!("{parent} is not a directory; use another path"),
        ErrorKind::PermissionDenied => format!("let this user write to {parent}"),
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}; {help}"))
}

fn identity_of(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = |metadata: Metadata| identity_of(&metadata) == self.identity;
        if !fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            warn!(path = %self.path.display(), %error, "cannot remove the file of a socket");
        }
    }
}

#[cfg(test)]
mod tests;

//! Clients of the Redis protocol.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::bodies::hold;
use super::crowd::{Attacking, crowd};
use super::floods::send;
use crate::peer::{connect, connect_narrow, source, within};
use crate::target::Target;

/// Commands of one write.
const COMMANDS: usize = 1000;
/// More than a command without a line end may have.
const LINE_BYTES: usize = 32 * 1024;
/// The largest word that the service takes, less a word that is already large: two of them make the
/// largest command.
const WORD_BYTES: usize = 60 * 1024;
/// More connections than the service accepts at this listener.
const CONNECTIONS: u32 = 2000;
/// How often a connection sends something, to appear active.
const EVERY: Duration = Duration::from_secs(2);

/// Pipelines of decisions on ever new keys, without a pause.
pub(super) fn large_pipelines(target: Target) -> Attacking {
    crowd(8, move |number| async move {
        let mut stream = connect(source(number), target.redis).await?;
        for round in 0_u64.. {
            let mut commands = String::new();
            for key in 0..COMMANDS {
                commands += &format!("CL.THROTTLE {number}-{round}-{key} 1 1 3600\r\n");
                commands += "TG.CHECK d 1 k many\r\n";
            }
            send(&mut stream, commands.as_bytes()).await?;
        }
        Ok(())
    })
}

/// Words, arrays and lines larger than any that the service takes.
pub(super) fn large_commands(target: Target) -> Attacking {
    crowd(64, move |number| async move {
        let line = "x".repeat(LINE_BYTES);
        let words = format!("*100000\r\n{}", "$1\r\nx\r\n".repeat(100_000));
        let large = ["*1\r\n$536870912\r\n", "*2147483647\r\n", &line, &words];
        for commands in large {
            let mut stream = connect(source(number), target.redis).await?;
            // The service answers with an error and closes.
            let _closed = send(&mut stream, commands.as_bytes()).await;
            let _end = within(stream.read_to_end(&mut Vec::new())).await;
        }
        Ok(())
    })
}

/// Commands of nearly the largest size that lack their last byte.
pub(super) fn unfinished_commands(target: Target) -> Attacking {
    crowd(1000, move |number| async move {
        let mut stream = connect(source(number), target.redis).await?;
        let word = "x".repeat(WORD_BYTES);
        let word = format!("${WORD_BYTES}\r\n{word}\r\n");
        let mut command = format!("*3\r\n$4\r\nECHO\r\n{word}{word}");
        command.pop();
        stream.write_all(command.as_bytes()).await?;
        hold(&mut stream).await
    })
}

/// As many connections as possible, each of which appears active.
pub(super) fn hoarded_connections(target: Target) -> Attacking {
    crowd(CONNECTIONS, move |number| async move {
        // Not all at once: that would attack the kernel's queue instead of the service.
        sleep(Duration::from_millis(u64::from(number / 4))).await;
        let mut stream = connect(source(number), target.redis).await?;
        loop {
            stream.write_all(b"PING\r\n").await?;
            let mut reply = [0; 7];
            within(stream.read_exact(&mut reply)).await?;
            sleep(EVERY).await;
        }
    })
}

/// Sends commands with long replies, and reads a byte of them each second.
pub(super) fn slow_readers(target: Target) -> Attacking {
    crowd(500, move |number| async move {
        let mut stream = connect_narrow(source(number), target.redis).await?;
        let (mut read, mut write) = stream.split();
        let word = "x".repeat(WORD_BYTES);
        let echo = format!("*2\r\n$4\r\nECHO\r\n${WORD_BYTES}\r\n{word}\r\n");
        let write = async { while write.write_all(echo.as_bytes()).await.is_ok() {} };
        let read = async {
            while read.read_u8().await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::join!(write, read);
        Ok(())
    })
}

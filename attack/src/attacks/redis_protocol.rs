//! Clients of the Redis protocol.

use tokio::io::AsyncReadExt;

use super::crowd::{Attacking, crowd};
use super::floods::send;
use crate::peer::{connect, source, within};
use crate::target::Target;

/// Commands of one write.
const COMMANDS: usize = 1000;
/// More than a command without a line end may have.
const LINE_BYTES: usize = 32 * 1024;

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

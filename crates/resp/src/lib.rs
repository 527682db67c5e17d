//! The Redis protocol from the server's side: commands in, replies out, versions 2 and 3.
//!
//! A [`Parser`] finds the next [`Command`] in what a connection has received so far: an array of
//! bulk strings, or a line of words, as people type it (an inline command). Its words are slices
//! of the received bytes. What it keeps between calls is bounded, and no byte is looked at twice.
//! A [`Replies`] writes replies in the version that the client has chosen.
//!
//! Knows no sockets, and no command but by its shape.

mod command;

mod inline;

mod parser;

mod protocol_error;

mod replies;

pub use command::Command;
pub use parser::{COMMAND_BYTES_MAX, LINE_BYTES_MAX, Parser, WORD_BYTES_MAX, WORDS_MAX};
pub use protocol_error::ProtocolError;
pub use replies::{Replies, Version};

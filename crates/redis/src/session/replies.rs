//! What comes back on a connection, and whom it is for.

use std::io;

use bytes::Bytes;

use super::{Call, Sent, Session};
use crate::failure::{Failure, Refusal};
use crate::lane::Pending;
use crate::question::Question;
use crate::resp::{self, Reply};
use crate::told::Told;
use tokio::time::Instant;

impl Session<'_> {
    /// Reads every reply that is there.
    pub(super) fn hear(&mut self) -> io::Result<()> {
        self.heard_at = Instant::now();
        while let Some(reply) = resp::take(&mut self.input).map_err(io::Error::other)? {
            let call = self.sent.pop_front();
            let call = call.ok_or_else(|| io::Error::other("a reply to nothing"))?;
            self.read_reply(call, reply)?;
        }
        Ok(())
    }

    fn read_reply(&mut self, call: Call, reply: Reply) -> io::Result<()> {
        let took = self.heard_at.saturating_duration_since(call.at);
        if took <= self.shared.patience {
            self.lost = 0;
            if self.is_broken {
                self.is_broken = false;
                self.shared.set_broken(false);
            }
        }
        match call.sent {
            Sent::Plain(questions) => {
                self.shared.stats.replied(took);
                self.questions -= questions.len();
                match reply {
                    Reply::Bulk(answer) => answer_plain(questions, answer)?,
                    Reply::Error(text) => self.refused(questions, &text)?,
                    _ => return Err(io::Error::other("no answer of a script")),
                }
            }
            Sent::General(questions) => {
                self.shared.stats.replied(took);
                self.questions -= questions.len();
                match reply {
                    Reply::Bulk(answer) => answer_general(questions, answer)?,
                    Reply::Error(text) => self.refused(questions, &text)?,
                    _ => return Err(io::Error::other("no answer of a script")),
                }
            }
            Sent::Command(asker) => {
                let _nobody_waits_any_more = asker.send(reply);
            }
            Sent::Load | Sent::Asking | Sent::Probe => {
                if let Reply::Error(text) = reply {
                    return Err(io::Error::other(
                        String::from_utf8_lossy(&text).into_owned(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The server did nothing with these questions, and says why.
    fn refused(&mut self, questions: Vec<Pending>, text: &[u8]) -> io::Result<()> {
        let fail = |questions: Vec<Pending>, failure: &Failure| {
            for mut pending in questions {
                pending.fail(failure);
            }
        };
        match Refusal::read(text) {
            Refusal::NoScript => {
                self.load();
                self.shared.put_back(questions);
            }
            Refusal::Questions(failure) => fail(questions, &failure),
            Refusal::NotMaster(why) => {
                fail(questions, &Failure::Unreachable(why));
                return Err(io::Error::other("no master"));
            }
        }
        Ok(())
    }
}

fn answer_plain(questions: Vec<Pending>, answer: Bytes) -> io::Result<()> {
    let is_leasing = |pending: &&Pending| pending.question.is_leasing();
    let leasing = questions.iter().filter(is_leasing).count();
    let told = Told::plain(answer, questions.len(), leasing).map_err(io::Error::other)?;
    for (mut pending, told) in questions.into_iter().zip(told) {
        pending.answer(match told {
            Told::Changed => Err(Failure::Changed),
            told => Ok(told),
        });
    }
    Ok(())
}

fn answer_general(questions: Vec<Pending>, answer: Bytes) -> io::Result<()> {
    let states = questions.iter().map(|pending| match &pending.question {
        Question::General(general) => general.states,
        Question::Plain(_) => 0,
    });
    let told = Told::general(answer, states).map_err(io::Error::other)?;
    for (mut pending, told) in questions.into_iter().zip(told) {
        pending.answer(Ok(told));
    }
    Ok(())
}

//! What comes back on a connection, and whom it is for.

use std::io;

use bytes::Bytes;

use super::{Call, Sent, Session};
use crate::failure::{ErrorReply, Failure, Refusal};
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
                    Reply::Bulk(answer) => {
                        self.decided(writes(&questions));
                        answer_plain(questions, answer)?;
                    }
                    Reply::Error(text) => self.refused(questions, &text)?,
                    _ => return Err(io::Error::other("no answer of a script")),
                }
            }
            Sent::General(questions) => {
                self.shared.stats.replied(took);
                self.questions -= questions.len();
                match reply {
                    Reply::Bulk(answer) => {
                        self.decided(writes(&questions));
                        answer_general(questions, answer)?;
                    }
                    Reply::Error(text) => self.refused(questions, &text)?,
                    _ => return Err(io::Error::other("no answer of a script")),
                }
            }
            Sent::Command(asker) => {
                let _nobody_waits_any_more = asker.send(Ok(reply));
            }
            Sent::Load | Sent::Asking => {
                if let Reply::Error(text) = reply {
                    let error = ErrorReply::read(&String::from_utf8_lossy(&text));
                    self.shared.stats.trouble.replied(&self.address, &error);
                    return Err(io::Error::other(error.text.to_string()));
                }
            }
            // Even an error (of a disk that is full) is a sign of life.
            Sent::Probe => {}
            Sent::Check => self.checked(&reply)?,
            Sent::Trial => self.tried(&reply)?,
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
            Refusal::Elsewhere(failure) => fail(questions, &failure),
            Refusal::Unable(error) => {
                if let Some(first) = questions.first() {
                    self.failed(&error, first.question.keys()[0]);
                }
                fail(questions, &error.failure());
            }
            Refusal::NotMaster(error) => {
                self.shared.stats.trouble.replied(&self.address, &error);
                fail(questions, &error.failure());
                self.was_useful = false;
                return Err(io::Error::other(error.text.to_string()));
            }
        }
        Ok(())
    }
}

fn writes(questions: &[Pending]) -> bool {
    questions.iter().any(|pending| pending.question.writes())
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

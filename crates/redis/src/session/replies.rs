//! Receiving: replies, and the callers that wait for them.

use std::io;

use bytes::Bytes;

use super::calls::{has_one_slot, spans_slots};
use super::{Call, Sent, Session};
use crate::failure::{ErrorReply, Failure, Rejection};
use crate::request_queue::Pending;
use crate::resp::{self, Reply};
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;
use tokio::time::Instant;

impl Session<'_> {
    /// Reads every complete reply.
    pub(super) fn read_replies(&mut self) -> io::Result<()> {
        self.received_at = Instant::now();
        self.is_suspect = false;
        while let Some(reply) = resp::take(&mut self.input).map_err(io::Error::other)? {
            let call = self.sent.pop_front();
            let call = call.ok_or_else(|| io::Error::other("a reply without a request"))?;
            self.read_reply(call, reply)?;
        }
        Ok(())
    }

    /// Passes one reply to the callers that wait for it, and notes what it says about the server.
    fn read_reply(&mut self, call: Call, reply: Reply) -> io::Result<()> {
        if self.is_in_time(call.at) {
            self.lost = 0;
        }
        match call.sent {
            Sent::Plain(requests) => {
                self.read_script_reply(call.at, requests, reply, answer_plain)?;
            }
            Sent::General(requests) => {
                self.read_script_reply(call.at, requests, reply, answer_general)?;
            }
            Sent::Command(caller) => {
                let _caller_has_gone = caller.send(Ok(reply));
            }
            loaded @ (Sent::Load | Sent::Asking) => {
                self.loading -= usize::from(matches!(loaded, Sent::Load));
                if let Reply::Error(text) = reply {
                    let error = ErrorReply::read(&String::from_utf8_lossy(&text));
                    self.shared
                        .stats
                        .trouble
                        .record_error(&self.address, &error);
                    return Err(io::Error::other(error.text.to_string()));
                }
            }
            Sent::Check => self.check_identity(&reply)?,
            Sent::Trial => self.finish_trial(call.at, &reply)?,
        }
        Ok(())
    }

    /// Reads the reply to a script call that was sent at `sent_at`; `answer` passes it to the
    /// callers.
    fn read_script_reply(
        &mut self,
        sent_at: Instant,
        requests: Vec<Pending>,
        reply: Reply,
        answer: fn(Vec<Pending>, Bytes) -> io::Result<()>,
    ) -> io::Result<()> {
        let took = self.received_at.saturating_duration_since(sent_at);
        self.shared.stats.observe_call_time(took);
        self.note_replies(sent_at, requests.len());
        match reply {
            Reply::Bulk(packed) => {
                self.note_success(sent_at, writes(&requests));
                if spans_slots(&requests) {
                    self.slot_sharing.note_success();
                }
                answer(requests, packed)
            }
            Reply::Error(text) => self.reject(requests, &text),
            _ => Err(io::Error::other("an unexpected reply to a script call")),
        }
    }

    /// Counts requests that are no longer in flight.
    fn note_replies(&mut self, sent_at: Instant, requests: usize) {
        self.window
            .on_reply(sent_at, self.received_at, requests, self.requests);
        self.requests -= requests;
    }

    /// Handles an error reply: the server did not execute these requests.
    fn reject(&mut self, requests: Vec<Pending>, text: &[u8]) -> io::Result<()> {
        let fail = |requests: Vec<Pending>, failure: &Failure| {
            for mut pending in requests {
                pending.fail(failure);
            }
        };
        match Rejection::read(text) {
            Rejection::NoScript => {
                self.load();
                self.shared.put_back(requests);
            }
            Rejection::Elsewhere(_) if spans_slots(&requests) => self.split(requests),
            Rejection::Unable(error) if error.is_unknown() && spans_slots(&requests) => {
                self.split(requests);
            }
            Rejection::Elsewhere(failure) => fail(requests, &failure),
            Rejection::Unable(error) => {
                if let Some(first) = requests.first() {
                    self.note_error(&error, first.request.keys()[0]);
                }
                fail(requests, &error.failure());
            }
            Rejection::NotMaster(error) => {
                self.shared
                    .stats
                    .trouble
                    .record_error(&self.address, &error);
                fail(requests, &error.failure());
                self.was_useful = false;
                return Err(io::Error::other(error.text.to_string()));
            }
        }
        Ok(())
    }
}

impl Session<'_> {
    /// Sends the requests of a call for several slots again, in a call for each slot: none of them
    /// was executed.
    fn split(&mut self, mut requests: Vec<Pending>) {
        requests.retain_mut(has_one_slot);
        self.slot_sharing.note_failure();
        self.shared.stats.count_split_call();
        self.shared.put_back(requests);
    }
}

fn writes(requests: &[Pending]) -> bool {
    requests.iter().any(|pending| pending.request.writes())
}

fn answer_plain(requests: Vec<Pending>, answer: Bytes) -> io::Result<()> {
    let is_leasing = |pending: &&Pending| pending.request.is_leasing();
    let leasing = requests.iter().filter(is_leasing).count();
    let reply = ScriptReply::plain(answer, requests.len(), leasing).map_err(io::Error::other)?;
    for (mut pending, reply) in requests.into_iter().zip(reply) {
        pending.answer(unless_changed(reply));
    }
    Ok(())
}

fn answer_general(requests: Vec<Pending>, answer: Bytes) -> io::Result<()> {
    let states = requests.iter().map(|pending| match &pending.request {
        ScriptRequest::General(general) => general.states,
        ScriptRequest::Plain(_) => 0,
    });
    let reply = ScriptReply::general(answer, states).map_err(io::Error::other)?;
    for (mut pending, reply) in requests.into_iter().zip(reply) {
        pending.answer(unless_changed(reply));
    }
    Ok(())
}

fn unless_changed(reply: ScriptReply) -> Result<ScriptReply, Failure> {
    match reply {
        ScriptReply::Changed => Err(Failure::Changed),
        reply => Ok(reply),
    }
}

//! Checks of an answer by itself: which limits a request met, and what follows from their
//! decisions.

use tollgate_core::{Algorithm, Answer, Cost, Enforcement, Limited, Status, Wait};

use super::{Account, MILLI, Open};

impl Account {
    /// Checks an answer, wherever it was decided.
    pub(super) fn judge_answer(&mut self, number: u64, open: &Open, now: u64, answer: &Answer) {
        let all: Vec<&Limited> = answer.limited().collect();
        let why = match answer.denial {
            None => why_not_allowed(open, &all).or_else(|| why_not_delayed(open, answer, &all)),
            Some(_) => why_not_denied(open, denied_part(answer), &all)
                .or_else(|| (!answer.delay.is_zero()).then(|| "it has a delay".to_owned())),
        };
        if let Some(why) = why {
            self.fail(now, &format!("decision {number}: {why}: {answer:?}"));
        }
    }

    /// Checks the time to wait of a denial by the shared store.
    pub(super) fn judge_wait(&mut self, number: u64, open: &Open, now: u64, answer: &Answer) {
        let Some(limited) = answer.denied_by() else {
            return;
        };
        let part = open.parts[denied_part(answer)];
        let counter = &self.plan.counters[part.counter];
        let cost = open.judged_units(part.counter);
        let fits = |view| cost <= u64::from(counter.meet_again(&limited.limit, view).available());
        let bound = self.find_bound(part.counter);
        // What was charged beyond the limit is paid back.
        let most = bound.longest_lock() * self.debts_of(part.counter) + 2 * MILLI;
        let is_right = match limited.decision.wait() {
            Some(Wait::For(wait)) => fits(open.most) && wait.as_nanos() <= most,
            Some(Wait::Never) => !fits(open.least),
            None => true,
        };
        if !is_right {
            let why = format!("decision {number}: {cost} units cannot wait so long: {answer:?}");
            self.fail(now, &why);
        }
    }
}

/// Which of the parts that met a limit was denied.
fn denied_part(answer: &Answer) -> usize {
    let by = answer.denial.map_or(0, |denial| denial.by);
    let before = answer.statuses.iter().take(by);
    let met = before.filter(|status| matches!(status, Status::Limited(_)));
    met.count()
}

/// Why a request with these decisions is not allowed, if it is not.
fn why_not_allowed(open: &Open, all: &[&Limited]) -> Option<String> {
    let denies = |limited: &&&Limited| !limited.decision.is_allowed();
    let enforced = |limited: &&&Limited| limited.enforcement == Enforcement::Enforce;
    if all.iter().filter(enforced).any(|limited| denies(&limited)) {
        return Some("allowed although a limit denies it".to_owned());
    }
    let quotas = quotas(open, all);
    let is_over = !quotas.is_empty() && quotas.iter().all(|limited| denies(&limited));
    is_over.then(|| "allowed although every quota denies it".to_owned())
}

/// Why a request is not denied by the limit that denies it, if it is not.
fn why_not_denied(open: &Open, by: usize, all: &[&Limited]) -> Option<String> {
    let by = all[by];
    if by.decision.is_allowed() {
        return Some("denied by a limit that allows it".to_owned());
    }
    match by.enforcement {
        Enforcement::Enforce => None,
        Enforcement::Shadow => Some("denied by a shadow limit".to_owned()),
        Enforcement::Quota => {
            let allows = |limited: &&Limited| limited.decision.is_allowed();
            let one = quotas(open, all).into_iter().find(allows);
            one.map(|_| "denied by a quota although another one allows it".to_owned())
        }
    }
}

/// Why the delay is not that of a leaky bucket, if there is one.
fn why_not_delayed(open: &Open, answer: &Answer, all: &[&Limited]) -> Option<String> {
    let mut parts = open.parts.iter().zip(all);
    let is_queued = parts.any(|(part, limited)| {
        matches!(part.cost, Cost::Take(_))
            && limited.limit.algorithm() == Algorithm::LeakyBucket
            && limited.enforcement != Enforcement::Shadow
    });
    let is_wrong = !answer.delay.is_zero() && !is_queued;
    is_wrong.then(|| "no limit delays it".to_owned())
}

/// The decisions of quotas on anything but refunds.
fn quotas<'a>(open: &Open, all: &[&'a Limited]) -> Vec<&'a Limited> {
    let parts = open.parts.iter().zip(all);
    let quotas = parts.filter(|(part, limited)| {
        limited.enforcement == Enforcement::Quota && !part.cost.is_refund()
    });
    quotas.map(|(_, limited)| *limited).collect()
}

use tollgate_core::{Charge, Cost, Limit, Span};

use super::super::request::{Departures, Refunds, Waiting, caller};
use super::*;

const NODES: Nodes = 1;
const TIMEOUT: Duration = Duration::from_millis(12);
const ROUNDS: usize = 3;

static DEPARTURES: Departures = Departures::new();

fn member(keys: &[u64]) -> (Member, Waiting<'static>) {
    let limit = Limit::fixed_window(9, Span::DAY).expect("a day is a window");
    let charge = |key: &u64| Charge::new(Key::from_bits(u128::from(*key)), &limit, Cost::ONE);
    let charges: Vec<Charge<'_>> = keys.iter().map(charge).collect();
    let request = Request::new(&charges, Refunds::ToDo, Instant::now());
    let request = request.expect("a day is whole microseconds");
    let (caller, waiting) = caller(&DEPARTURES);
    (Member { request, caller }, waiting)
}

fn first(queues: &Arc<Queues>, member: Member) -> QueueGuard {
    match queues.enter(NODES, member, TIMEOUT) {
        Entry::New(guard) => guard,
        Entry::Joined | Entry::Full => panic!("it has no queue of its own"),
    }
}

#[test]
fn a_request_for_keys_of_two_queues_makes_one_of_them() {
    let queues = Arc::new(Queues::default());
    let ((one, _one), (other, _other)) = (member(&[1, 2]), member(&[3, 4]));
    let (guard, emptied) = (first(&queues, one), first(&queues, other));
    let (both, _both) = member(&[2, 3]);
    assert!(matches!(queues.enter(NODES, both, TIMEOUT), Entry::Joined));
    assert!(emptied.next(Vec::new(), false).is_empty());
    drop(emptied);
    assert_eq!(guard.next(Vec::new(), false).len(), 3);
    let (late, _late) = member(&[4, 5]);
    assert!(matches!(queues.enter(NODES, late, TIMEOUT), Entry::Joined));
}

/// Its refunds would be judged together with the charges of others.
#[test]
fn nobody_joins_a_request_with_refunds() {
    let queues = Arc::new(Queues::default());
    let refunding = |key| {
        let limit = Limit::fixed_window(9, Span::DAY).expect("a day is a window");
        let keys = [key, key + 1].map(Key::from_bits);
        let costs = [Cost::Refund(1), Cost::ONE];
        let charges = [0, 1].map(|at| Charge::new(keys[at], &limit, costs[at]));
        let request = Request::new(&charges, Refunds::ToDo, Instant::now());
        let (caller, waiting) = caller(&DEPARTURES);
        let request = request.expect("a day is whole microseconds");
        (Member { request, caller }, waiting)
    };
    let mut tasks = Vec::new();
    let mut waiting = Vec::new();
    // As many as make the nodes busy.
    for key in 0..16 {
        let (member, caller) = refunding(2 * key);
        waiting.push(caller);
        let guard = first(&queues, member);
        assert_eq!(guard.next(Vec::new(), false).len(), 1);
        tasks.push(guard);
    }
    let (one, _one) = member(&[100, 101]);
    let (other, _other) = member(&[200, 201]);
    let guard = first(&queues, one);
    assert!(matches!(queues.enter(NODES, other, TIMEOUT), Entry::Joined));
    assert_eq!(guard.next(Vec::new(), false).len(), 2, "they share a round");
}

/// Requests that share no key have separate queues, until too many are in rounds.
#[test]
fn while_too_many_are_in_rounds_others_wait_with_them() {
    let queues = Arc::new(Queues::default());
    let mut tasks = Vec::new();
    let mut waiting = Vec::new();
    for key in 0..u64::MAX {
        let (member, caller) = member(&[2 * key, 2 * key + 1]);
        waiting.push(caller);
        match queues.enter(NODES, member, TIMEOUT) {
            Entry::New(guard) => {
                assert_eq!(guard.next(Vec::new(), false).len(), 1);
                tasks.push(guard);
            }
            Entry::Joined | Entry::Full => break,
        }
    }
    assert_eq!(tasks.len(), 16);
    let (elsewhere, _waiting) = member(&[1, 2]);
    let elsewhere = queues.enter(NODES + 1, elsewhere, TIMEOUT);
    assert!(matches!(elsewhere, Entry::New(_)), "other nodes");
}

#[test]
fn requests_that_would_wait_too_long_are_turned_away() {
    let queues = Arc::new(Queues::default());
    let (member_of_one, _caller) = member(&[1, 2]);
    let guard = first(&queues, member_of_one);
    let mut callers = Vec::new();
    let mut enter = |queues: &Arc<Queues>, count: usize| {
        for _ in 0..count {
            let (member, caller) = member(&[1, 2]);
            callers.push(caller);
            assert!(matches!(
                queues.enter(NODES, member, TIMEOUT),
                Entry::Joined
            ));
        }
    };
    enter(&queues, 99);
    assert!(!queues.is_full(NODES), "nothing is known yet");
    // A round of 16 takes a third of the reply timeout, so 16 * 3 * 3/4 = 36 may wait.
    let now = Instant::now();
    let round = guard.next(Vec::new(), false);
    assert_eq!(round.len(), 16);
    guard.end(
        now.checked_sub(TIMEOUT / 3).expect("long ago"),
        16,
        RoundTime::Typical,
    );
    let _next = guard.next(Vec::new(), false);
    assert!(
        queues.is_full(NODES),
        "68 wait, 36 is all there is time for"
    );
}

/// Otherwise each pause of the callers would make a busy server look like a new one.
#[tokio::test(start_paused = true)]
async fn what_rounds_have_measured_outlives_the_queue() {
    let queues = Arc::new(Queues::default());
    let (one, _one) = member(&[1, 2]);
    let guard = first(&queues, one);
    let began_at = Instant::now();
    let count = guard.next(Vec::new(), false).len();
    tokio::time::advance(TIMEOUT).await;
    guard.end(began_at, count, RoundTime::Failed);
    assert!(guard.next(Vec::new(), false).is_empty());
    drop(guard);

    let mut callers = Vec::new();
    let mut enter = |key| {
        let (member, caller) = member(&[key, 2]);
        callers.push(caller);
        queues.enter(NODES, member, TIMEOUT)
    };
    let Entry::New(guard) = enter(1) else {
        panic!("no other request waits")
    };
    (3..20).for_each(|key| drop(enter(key)));
    let round = guard.next(Vec::new(), false).len();
    assert_eq!(round, 4, "as few as after a round that was late");
}

#[test]
fn the_loads_of_idle_nodes_are_bounded() {
    let queues = Arc::new(Queues::default());
    for nodes in 0..1_000 {
        let (member, _caller) = member(&[1, 2]);
        match queues.enter(nodes, member, TIMEOUT) {
            Entry::New(guard) => drop(guard),
            Entry::Joined | Entry::Full => panic!("the nodes have no queue"),
        }
        assert!(queues.inner().loads.len() <= IDLE_LOADS_MAX);
    }
}

/// If the oldest went first, each round would begin shortly before their deadlines, and fail too:
/// none would take its usual time, which tells how many may wait.
#[tokio::test(start_paused = true)]
async fn a_slow_round_does_not_make_all_later_ones_late() {
    let mut overload = Overload::new();
    assert_eq!(overload.round(TIMEOUT * 2).await, 0, "the slow round");
    let mut answered = 0;
    for _ in 0..ROUNDS {
        answered += overload.round(TIMEOUT / 4).await;
    }
    assert!(answered > ROUNDS, "{answered} were answered");
}

/// Requests that arrive faster than rounds can take them.
struct Overload {
    queues: Arc<Queues>,
    guard: QueueGuard,
    callers: VecDeque<(Instant, Waiting<'static>)>,
}

impl Overload {
    fn new() -> Overload {
        let queues = Arc::new(Queues::default());
        let (member, caller) = member(&[1, 2]);
        Overload {
            guard: first(&queues, member),
            callers: VecDeque::from([(Instant::now(), caller)]),
            queues,
        }
    }

    /// A round whose slots reply after this time; how many of its callers still wait then. The
    /// slots are waited for until the last deadline.
    async fn round(&mut self, takes: Duration) -> usize {
        let round = self.guard.next(Vec::new(), false);
        let youngest = round.iter().map(|member| member.request.since).max();
        let deadline = youngest.expect("more wait than a round takes") + TIMEOUT;
        let (began_at, replied_at) = (Instant::now(), Instant::now() + takes);
        while Instant::now() < replied_at.min(deadline) {
            tokio::time::advance(Duration::from_millis(1)).await;
            self.arrive(100);
        }
        let (time, answered) = match replied_at <= deadline {
            true => {
                let waits = |member: &&Member| member.caller.is_waiting();
                (RoundTime::Typical, round.iter().filter(waits).count())
            }
            false => (RoundTime::Failed, 0),
        };
        self.guard.end(began_at, round.len(), time);
        answered
    }

    /// Callers arrive, and others give up.
    fn arrive(&mut self, count: usize) {
        let now = Instant::now();
        while let Some((since, _)) = self.callers.front()
            && *since + TIMEOUT <= now
        {
            self.callers.pop_front();
        }
        for _ in (0..count).filter(|_| !self.queues.is_full(NODES)) {
            let (member, caller) = member(&[1, 2]);
            let entry = self.queues.enter(NODES, member, TIMEOUT);
            assert!(matches!(entry, Entry::Joined));
            self.callers.push_back((now, caller));
        }
    }
}

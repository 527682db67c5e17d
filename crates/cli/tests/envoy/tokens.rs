//! A budget of tokens, of which a response reports how many it used.

use crate::configuration::{LOOK, SPEND};
use crate::mesh::{Mesh, soon};

/// Waits until so many tokens are left: Envoy reports them after the response, without waiting for
/// an answer.
fn until_left(mesh: &Mesh, left: &str) {
    soon("what was used", || {
        let reply = mesh.get(&[(LOOK, "ann")]);
        (reply.header("x-ratelimit-remaining") == left).then_some(())
    });
}

#[test]
fn tokens_of_responses_exhaust_the_budget_and_peeks_do_not() {
    let mesh = Mesh::start();
    // 600 of 1000 each: the second is allowed, because 400 are left.
    for left in ["400", "0"] {
        let reply = mesh.get(&[(SPEND, "ann")]);
        assert_eq!(reply.status, 200, "{reply:?}");
        until_left(&mesh, left);
    }
    assert_eq!(mesh.statuses(SPEND, "ann", 3), [429; 3]);
    assert_eq!(mesh.statuses(LOOK, "ann", 3), [429; 3]);
    assert_eq!(mesh.statuses(LOOK, "bob", 3), [200; 3]);
    assert_eq!(mesh.get(&[(SPEND, "bob")]).status, 200);
}

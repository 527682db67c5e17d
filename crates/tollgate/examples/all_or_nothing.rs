//! A request that meets two limits: per user and per address.

use std::net::IpAddr;

use tollgate::{JointError, Limit, Limiter, check_all};

fn main() -> Result<(), JointError> {
    let per_user = Limiter::builder(Limit::per_minute(5))
        .name("per user")
        .build();
    let per_address = per_user.sibling("per address", Limit::per_minute(8));
    let address = IpAddr::from([192, 0, 2, 7]);
    for user in ["ann", "bob"].repeat(5) {
        let joint = check_all(&[per_user.ask(user), per_address.ask(&address)])?;
        match joint.denied_by() {
            None => eprintln!("{user}: allowed"),
            Some(limit) => eprintln!("{user}: denied {limit}, {:?}", joint.retry_after()),
        }
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the limits are siblings");
}

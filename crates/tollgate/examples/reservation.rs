//! Tokens of a language model: reserve an estimate, then settle what the answer took.

use tollgate::{Denial, Limit, Limiter};

/// The most tokens that an answer may take.
const ANSWER_MAX: u64 = 1_500;

/// Stands for the model: fails without a question, and answers with as many tokens.
fn answer(question: &str) -> Option<u64> {
    let words = question.split_whitespace().count();
    u64::try_from(words)
        .ok()
        .filter(|words| *words > 0)
        .map(|words| words * 100)
}

fn ask(tokens: &Limiter, user: &str, question: &str) -> Result<(), Denial> {
    let reservation = tokens.reserve(user, ANSWER_MAX)?;
    // If the model fails, the reservation is dropped, and all of its tokens are refunded.
    let Some(used) = answer(question) else {
        eprintln!("{user}: no answer");
        return Ok(());
    };
    let settlement = reservation.settle(used);
    eprintln!(
        "{user}: {} tokens, {} remain",
        settlement.charged, settlement.remaining
    );
    Ok(())
}

fn main() {
    let tokens = Limiter::new(Limit::per_hour(4_000));
    let questions = ["why is the sky blue", "", "what is a token", "and again"];
    for question in questions.repeat(3) {
        if let Err(denial) = ask(&tokens, "ann", question) {
            eprintln!("ann: {denial}");
        }
    }
}

#[test]
fn it_runs() {
    main();
}

//! Many questions at once, in one message to each node.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Asked, Nodes, Reach};
use crate::cluster::Node;
use crate::failure::Failure;
use crate::join::together;
use crate::keys;
use crate::question::Question;
use crate::told::Told;

impl Reach {
    /// Asks all of these, with one message to each node that serves some of their keys; says how
    /// many messages that were.
    pub(crate) async fn ask_all(
        &self,
        questions: Vec<Question>,
        since: Instant,
    ) -> (Vec<Result<Told, Asked>>, usize) {
        let cluster = match &self.nodes {
            Nodes::One(alone) => return (alone.ask_all(questions, since).await, 1),
            Nodes::Cluster { cluster, .. } => cluster,
        };
        // For each node, which questions it is asked.
        let mut parts: Vec<(Option<Arc<Node>>, Vec<usize>)> = Vec::new();
        for (place, question) in questions.iter().enumerate() {
            let node = cluster.serving(keys::slot(question.keys()[0]));
            let address = |node: &Option<Arc<Node>>| node.as_ref().map(Arc::as_ptr);
            match parts
                .iter_mut()
                .find(|(other, _)| address(other) == address(&node))
            {
                Some((_, places)) => places.push(place),
                None => parts.push((node, vec![place])),
            }
        }
        let messages = parts.len();
        let asked = parts.iter().map(|(node, places)| async {
            let some = places.iter().map(|place| {
                let question = questions[*place].clone();
                let slot = keys::slot(question.keys()[0]);
                (question, slot)
            });
            match node {
                Some(node) => node.ask_all(some, since).await,
                None => some.map(|_| Err(Asked::nowhere(None))).collect(),
            }
        });
        let told = together(asked.collect()).await;
        let places = parts.iter().flat_map(|(_, places)| places.iter().copied());
        let mut told: Vec<(usize, Result<Told, Asked>)> =
            places.zip(told.into_iter().flatten()).collect();
        told.sort_by_key(|(place, _)| *place);
        let settled = told
            .into_iter()
            .map(|(place, told)| self.redirected(told, &questions[place], since));
        (together(settled.collect()).await, messages)
    }

    /// Asks again whoever serves a question's keys by now, if it was redirected.
    async fn redirected(
        &self,
        told: Result<Told, Asked>,
        question: &Question,
        since: Instant,
    ) -> Result<Told, Asked> {
        match told {
            Err(Asked {
                failure: Failure::Moved { .. } | Failure::Ask { .. } | Failure::TryAgain,
                ..
            }) => self.ask(|| question.clone(), since).await,
            told => told,
        }
    }
}

impl Node {
    /// Asks all of these on the first lane, so that they go out together.
    pub(super) async fn ask_all(
        &self,
        questions: impl ExactSizeIterator<Item = (Question, u16)>,
        since: Instant,
    ) -> Vec<Result<Told, Asked>> {
        let failed = |failure| Asked {
            failure,
            address: self.address.clone(),
        };
        let count = questions.len();
        let answers = match self.lanes[0].ask_together(questions, since) {
            Ok(answers) => answers,
            Err(failure) => return (0..count).map(|_| Err(failed(failure.clone()))).collect(),
        };
        let mut told = Vec::with_capacity(count);
        for answer in answers {
            told.push(answer.await.unwrap_or(Err(Failure::Lost)).map_err(failed));
        }
        told
    }
}

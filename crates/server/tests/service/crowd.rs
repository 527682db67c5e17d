//! Many clients at once.

use tokio::task::JoinSet;
use tollgate_rls::rate_limit_response::Code;

use crate::grpc_client;
use crate::house::House;
use crate::http_client;

/// A number of clients, each of which sends a number of requests.
#[derive(Clone, Copy)]
pub(crate) struct Crowd {
    pub(crate) clients: usize,
    pub(crate) asked_by_each: usize,
}

// === impl Crowd ===

impl Crowd {
    /// How many requests are allowed, over one connection for all clients.
    pub(crate) async fn allowed_by_grpc(self, house: &House, question: &'static str) -> usize {
        let client = grpc_client::Client::to(house.grpc()).await;
        let mut tasks = JoinSet::new();
        for _ in 0..self.clients {
            let client = client.clone();
            tasks.spawn(async move {
                let mut allowed = 0;
                for _ in 0..self.asked_by_each {
                    let response = client.ask(question).await.unwrap();
                    allowed += usize::from(response.overall_code() == Code::Ok);
                }
                allowed
            });
        }
        tasks.join_all().await.into_iter().sum()
    }

    /// The same, over a connection per client.
    pub(crate) async fn allowed_by_http(
        self,
        house: &House,
        path: &'static str,
        question: &'static str,
    ) -> usize {
        let address = house.http();
        let mut tasks = JoinSet::new();
        for _ in 0..self.clients {
            tasks.spawn(async move {
                let mut client = http_client::Client::to(address).await;
                let mut allowed = 0;
                for _ in 0..self.asked_by_each {
                    match client.post(path, question).await.status {
                        200 => allowed += 1,
                        429 => {}
                        other => panic!("{other}"),
                    }
                }
                allowed
            });
        }
        tasks.join_all().await.into_iter().sum()
    }
}

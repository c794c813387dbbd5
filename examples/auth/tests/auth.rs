//! Callers with a valid token are accepted, over datagrams and gRPC; all others are refused.

use std::time::Duration;

use auth::{Bearer, VaultClient, serve, targets, vault::ReadRequest};
use petasos::{Channel, Code, Status};

/// Runs a test with a time limit, so that it cannot hang.
fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime starts");
    let patience = Duration::from_secs(50);
    runtime.block_on(async { tokio::time::timeout(patience, test).await.expect("it hangs") });
}

async fn client(target: &str, token: Option<&str>) -> VaultClient {
    let mut builder = Channel::builder(target);
    if let Some(token) = token {
        builder = builder.intercept(Bearer::new(token));
    }
    VaultClient::new(builder.connect().await.expect("the server is up"))
}

/// What is spelled, and for whom.
async fn spelled(client: &VaultClient) -> Result<(String, String), Status> {
    let mut letters = client.spell(ReadRequest::new()).await?;
    let (mut owner, mut text) = (String::new(), String::new());
    while let Some(letter) = letters.message().await? {
        owner = letter.owner().to_owned();
        text.push_str(letter.text());
    }
    Ok((owner, text))
}

#[test]
fn a_token_opens_the_vault() {
    run(async {
        let server = serve().expect("loopback has ports");
        for target in targets(&server) {
            for (token, name) in [("t0ken-of-ada", "Ada"), ("t0ken-of-bob", "Bob")] {
                let client = client(&target, Some(token)).await;
                let secret = client.read(ReadRequest::new()).await.expect("the token is known");
                assert_eq!((secret.owner(), secret.text()), (name, "open sesame"), "{target}");
                let spelled = spelled(&client).await.expect("the token is known");
                assert_eq!(spelled, (name.to_owned(), "open".to_owned()), "{target}");
            }
        }
    });
}

#[test]
fn nobody_else_is_let_in() {
    run(async {
        let server = serve().expect("loopback has ports");
        for target in targets(&server) {
            for token in [None, Some("a guess"), Some("")] {
                let client = client(&target, token).await;
                let refused = client.read(ReadRequest::new()).await.expect_err("it is no token");
                assert_eq!(refused.code(), Code::Unauthenticated, "{target} {token:?}");
                let refused = spelled(&client).await.expect_err("it is no token");
                assert_eq!(refused.code(), Code::Unauthenticated, "{target} {token:?}");
            }
        }
    });
}

#[test]
fn a_token_that_cannot_be_sent_fails_its_call() {
    run(async {
        let server = serve().expect("loopback has ports");
        for target in targets(&server) {
            let client = client(&target, Some("line\nbreak")).await;
            let refused = client.read(ReadRequest::new()).await.expect_err("it is no value");
            assert_eq!(refused.code(), Code::InvalidArgument, "{target}");
        }
    });
}

//! Static bearer tokens.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, Error};
use serde_json::json;

use crate::place::Place;
use crate::running::Running;

/// A client that shows a token and no certificate.
async fn client(place: &Place, token: &str) -> Client {
    let mut kubeconfig = Kubeconfig::read_from(place.path().join(".thane/kubeconfig")).unwrap();
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(serde_json::from_value(json!({"token": token})).unwrap());
    }
    let options = KubeConfigOptions { context: Some("hub".to_owned()), ..KubeConfigOptions::default() };
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()).unwrap()
}

#[tokio::test]
async fn who_shows_a_token_of_the_file_is_let_in() {
    let place = Place::new();
    place.write("tokens.csv", "secret,ann,7,\"builders,testers\"\n");
    let running = Running::start(&place, &["--clusters", "0", "--token-file", "tokens.csv"]);
    let ask = async |token: &str| {
        let api: Api<SelfSubjectReview> = Api::all(client(&place, token).await);
        api.create(&PostParams::default(), &SelfSubjectReview::default()).await
    };
    let known = ask("secret").await.unwrap().status.unwrap().user_info.unwrap();
    assert_eq!((known.username.as_deref(), known.uid.as_deref()), (Some("ann"), Some("7")));
    assert_eq!(known.groups.unwrap(), ["builders", "testers", "system:authenticated"]);
    let refused = ask("guess").await.unwrap_err();
    assert!(matches!(&refused, Error::Api(status) if status.code == 401), "{refused}");
    assert_eq!(running.stop("-TERM").0, Some(0));
}

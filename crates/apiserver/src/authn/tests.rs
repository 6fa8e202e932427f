use jiff::SignedDuration;

use super::*;

const ISSUER: &str = "https://issuer";

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn issuer(key: &str, older: &[String]) -> TokenIssuer {
    TokenIssuer::new(ISSUER, &["api".to_owned()], key, older).unwrap()
}

fn key() -> String {
    TokenIssuer::generate_key().unwrap()
}

fn named(name: &str) -> NamedUid {
    NamedUid { name: name.to_owned(), uid: format!("{name}-uid") }
}

/// Claims that hold for an hour from now on.
fn claims() -> Claims {
    let at = now().as_second();
    Claims {
        aud: vec!["api".to_owned()],
        exp: at + 3600,
        iat: at,
        iss: ISSUER.to_owned(),
        jti: "id".to_owned(),
        kubernetes: Kubernetes { namespace: "ns".to_owned(), serviceaccount: named("robot"), ..Kubernetes::default() },
        nbf: at,
        sub: "system:serviceaccount:ns:robot".to_owned(),
    }
}

#[test]
fn a_token_file_is_read_as_kubernetes_reads_it() {
    let text = "secret,ann,1,\"builders,\"\"odd\"\"\"\r\n\nplain,bob,2\n,nobody,3\nsecret,eve,4,\n";
    let file = TokenFile::parse(text).unwrap();
    let groups = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let bob = file.user("plain").unwrap();
    assert_eq!((bob.name.as_str(), bob.uid.as_str(), bob.groups), ("bob", "2", groups(&[AUTHENTICATED])));
    assert_eq!(file.user("secret").unwrap().name, "eve", "the later of two");
    assert_eq!(file.user(""), None, "no token is nobody's");
    assert_eq!(file.user("plai"), None);
    let first = TokenFile::parse("secret,ann,1,\"builders,testers\"").unwrap().user("secret").unwrap();
    assert_eq!(first.groups, groups(&["builders", "testers", AUTHENTICATED]));
    assert!(!format!("{file:?}").contains("plain"), "tokens are not shown");
}

#[test]
fn a_token_file_that_is_wrong_says_where() {
    let told = |text: &str| TokenFile::parse(text).unwrap_err().to_string();
    assert!(told("a,b,c\n\nd,e\n").ends_with("found 2 on line 3"), "{}", told("a,b,c\n\nd,e\n"));
    assert!(told("a,b\"c,d\n").contains("line 1: bare"));
    assert!(told("a,b,c\n\"d\"x,e,f\n").contains("line 2: extraneous or missing"));
    assert!(told("\"open,b,c").contains("line 1: extraneous or missing"));
    assert_eq!(
        TokenFile::parse("\"a\nb\",\"x, y\",1\nshort").unwrap_err().to_string().split(' ').next_back(),
        Some("3")
    );
}

#[test]
fn only_bearer_tokens_are_tokens() {
    assert_eq!(bearer_token("Bearer abc"), Some("abc"));
    assert_eq!(bearer_token("  bEARER abc def"), Some("abc"));
    for other in ["Bearer", "Bearer ", "Bearer  abc", "Basic abc", "abc", ""] {
        assert_eq!(bearer_token(other), None, "{other:?}");
    }
}

#[test]
fn tokens_hold_between_their_times() {
    let issuer = issuer(&key(), &[]);
    let read = |change: fn(&mut Claims), later: SignedDuration| {
        let mut claims = claims();
        change(&mut claims);
        issuer.read(&issuer.sign(&claims).unwrap(), &[], now() + later).map(|claims| claims.is_some())
    };
    let minutes = SignedDuration::from_mins;
    assert_eq!(read(|_| {}, minutes(0)), Ok(true));
    assert_eq!(read(|_| {}, minutes(60)), Ok(true), "clocks differ a little");
    assert_eq!(read(|_| {}, minutes(62)), Err(TokenError::Expired));
    assert_eq!(read(|_| {}, minutes(-2)), Err(TokenError::NotYet));
    assert_eq!(read(|claims| claims.nbf = 0, minutes(-2)), Err(TokenError::FromFuture));
    assert_eq!(read(|claims| claims.iss = "https://other".to_owned(), minutes(0)), Ok(false), "not ours to judge");
}

#[test]
fn tokens_are_for_whom_they_say() {
    let issuer = issuer(&key(), &[]);
    let token = |audiences: &[&str]| {
        let aud = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        issuer.sign(&Claims { aud, ..claims() }).unwrap()
    };
    let holds = |token: &str, asked: &[String]| issuer.read(token, asked, now()).map(|claims| claims.is_some());
    let vault = ["vault".to_owned()];
    assert_eq!(holds(&token(&["api", "vault"]), &[]), Ok(true));
    assert_eq!(holds(&token(&["api", "vault"]), &vault), Ok(true));
    assert_eq!(holds(&token(&[]), &[]), Ok(true), "one for nobody in particular is for the server");
    assert!(matches!(holds(&token(&["vault"]), &[]), Err(TokenError::Audience(..))));
    assert!(matches!(holds(&token(&["api"]), &vault), Err(TokenError::Audience(..))));
}

#[test]
fn tokens_of_older_keys_hold_and_those_of_others_do_not() {
    let (old, new) = (key(), key());
    let before = issuer(&old, &[]);
    let after = issuer(&new, std::slice::from_ref(&old));
    let token = before.sign(&claims()).unwrap();
    assert!(after.read(&token, &[], now()).unwrap().is_some());
    assert_eq!(issuer(&new, &[]).read(&token, &[], now()), Err(TokenError::NoKey));
    assert_eq!(after.jwks()["keys"].as_array().unwrap().len(), 2);
    let other = before.sign(&Claims { jti: "other".to_owned(), ..claims() }).unwrap();
    let (head, signature) = (token.rsplit_once('.').unwrap().0, other.rsplit_once('.').unwrap().1);
    let forged = format!("{head}.{signature}");
    assert_eq!(before.read(&forged, &[], now()), Err(TokenError::Signature));
    assert_eq!(before.read("no.such.token", &[], now()), Ok(None));
    assert!(TokenIssuer::new(ISSUER, &[], "no key", &[]).is_err());
}

#[test]
fn an_account_holds_while_what_it_is_bound_to_is_there() {
    let mut claims = claims();
    claims.kubernetes.pod = Some(named("pod"));
    claims.kubernetes.node = Some(named("node"));
    let kinds: Vec<&str> = claims.references().iter().map(|reference| reference.resource).collect();
    assert_eq!(kinds, ["serviceaccounts", "pods"], "the node only says where the pod runs");
    let there = |reference: &Reference| Some(Found { uid: format!("{}-uid", reference.name), deleted: None });
    let user = claims.user(now(), there).unwrap();
    assert_eq!(user.name, "system:serviceaccount:ns:robot");
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED]);
    assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["pod"]);
    assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["node"]);

    let without =
        |gone: &'static str| move |reference: &Reference| there(reference).filter(|_| reference.resource != gone);
    assert_eq!(claims.user(now(), without("serviceaccounts")), Err(TokenError::NoServiceAccount("robot".to_owned())));
    assert_eq!(claims.user(now(), without("pods")), Err(TokenError::Invalidated));
    let another = |_: &Reference| Some(Found { uid: "another".to_owned(), deleted: None });
    assert!(matches!(claims.user(now(), another), Err(TokenError::Uid { .. })));
    let going = |age: SignedDuration| {
        move |reference: &Reference| there(reference).map(|found| Found { deleted: Some(now() - age), ..found })
    };
    assert!(claims.user(now(), going(SignedDuration::from_secs(10))).is_ok(), "it may finish what it does");
    assert!(matches!(claims.user(now(), going(SignedDuration::from_mins(5))), Err(TokenError::Deleted(_))));
}

#[test]
fn credentials_that_fail_are_not_no_credentials() {
    let issuer = issuer(&key(), &[]);
    let token = issuer.sign(&claims()).unwrap();
    let file = TokenFile::parse("secret,ann,1").unwrap();
    let authenticator = Authenticator { token_file: Some(file), issuer: Some(issuer), anonymous: true };
    let refused = ClientCertificate::refused("is foreign");
    let who = |certificate: Option<&ClientCertificate>, header: Option<&str>| {
        authenticator.identify(certificate, header, now())
    };
    assert_eq!(who(None, None), Identity::User(anonymous_user()));
    assert_eq!(who(None, Some("Basic abc")), Identity::User(anonymous_user()));
    assert_eq!(who(None, Some("Bearer nonsense")), Identity::Refused(vec![TokenError::Unknown]));
    assert_eq!(who(Some(&refused), None), Identity::Refused(vec![TokenError::Certificate("is foreign".to_owned())]));
    assert!(matches!(who(Some(&refused), Some("Bearer secret")), Identity::User(user) if user.name == "ann"));
    assert!(matches!(who(None, Some(&format!("Bearer {token}"))), Identity::Claims(_)));
    assert!(matches!(who(Some(&refused), Some("Bearer nonsense")), Identity::Refused(errors) if errors.len() == 2));
    let strict = Authenticator { anonymous: false, ..Authenticator::default() };
    assert_eq!(strict.identify(None, None, now()), Identity::Refused(Vec::new()));
}

#[test]
fn each_part_of_acting_as_another_is_asked_for() {
    let headers = |pairs: &[(&'static str, &str)]| {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
    };
    let wanted = |pairs: &[(&'static str, &str)]| impersonation(&headers(pairs), "/api");
    assert_eq!(wanted(&[]).unwrap(), None);
    let ann = wanted(&[("impersonate-user", "ann"), ("impersonate-group", "a"), ("impersonate-extra-x%2fy", "1")]);
    let ann = ann.unwrap().unwrap();
    assert_eq!(ann.user.groups, ["a", AUTHENTICATED]);
    assert_eq!(ann.user.extra["x/y"], ["1"]);
    let asked: Vec<(&str, &str, &str)> = ann
        .actions
        .iter()
        .map(|action| (action.resource.as_str(), action.subresource.as_str(), action.name.as_str()))
        .collect();
    assert_eq!(asked, [("users", "", "ann"), ("groups", "", "a"), ("userextras", "x/y", "1")]);
    assert!(ann.actions.iter().all(|action| action.verb == "impersonate"));
    let robot = wanted(&[("impersonate-user", "system:serviceaccount:ns:robot")]).unwrap().unwrap();
    assert_eq!((robot.actions[0].resource.as_str(), robot.actions[0].namespace.as_str()), ("serviceaccounts", "ns"));
    assert!(robot.user.is_in("system:serviceaccounts:ns"));
    let nobody = wanted(&[("impersonate-user", ANONYMOUS)]).unwrap().unwrap();
    assert_eq!(nobody.user.groups, [UNAUTHENTICATED]);
    assert_eq!(wanted(&[("impersonate-group", "a")]).unwrap_err().code, 500, "a group alone is nobody");
}

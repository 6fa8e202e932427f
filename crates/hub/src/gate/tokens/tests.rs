use std::sync::OnceLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn tokens() -> &'static Tokens {
    static TOKENS: OnceLock<Tokens> = OnceLock::new();
    TOKENS.get_or_init(|| Tokens::new(&generate_short_key().unwrap()).unwrap())
}

type Change = fn(&mut Value);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn subject() -> Subject {
    Subject::new("agent-a", Mode::Managed)
}

fn part(token: &str, place: usize) -> Value {
    let part = token.split('.').nth(place).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[test]
fn claims_are_those_of_argocd_agent() {
    let token = tokens().access(&subject(), at(1000)).unwrap();
    assert_eq!(part(&token, 0), json!({"alg": "HS512", "typ": "JWT"}));
    let mut claims = part(&token, 1);
    let id = claims["jti"].take();
    assert_eq!(id.as_str().map(str::len), Some(36));
    let expected = json!({
        "iss": "argocd-agent-server", "sub": r#"{"clientID":"agent-a","mode":"managed"}"#,
        "aud": ["argocd-agent-server-access"], "exp": 1300, "nbf": 1000, "iat": 1000, "jti": null,
    });
    assert_eq!(claims, expected);
    let refresh = part(&tokens().refresh(&subject(), at(1000)).unwrap(), 1);
    assert_eq!((&refresh["aud"], &refresh["exp"]), (&json!(["argocd-agent-server-refresh"]), &json!(87_400)));
    let proxy = tokens().resource_proxy("agent-a", at(1000)).unwrap();
    assert_eq!(part(&proxy, 0), json!({"alg": "RS512", "typ": "JWT"}));
    let proxy = part(&proxy, 1);
    assert_eq!((&proxy["sub"], proxy.get("exp")), (&json!("agent-a"), None));
}

#[test]
fn time_decides_with_a_leeway_for_clocks() {
    let token = tokens().access(&subject(), at(1000)).unwrap();
    let verify = |second| tokens().verify(&token, Audience::Access, at(second));
    assert_eq!(verify(1000), Ok((subject(), ACCESS)));
    assert_eq!(verify(1359).map(|(_, left)| left), Ok(Duration::ZERO));
    assert_eq!(verify(1360), Err(Invalid::Expired));
    assert!(verify(940).is_ok());
    assert_eq!(verify(939), Err(Invalid::Early));
}

#[test]
fn a_token_is_good_for_one_use_only() {
    let now = at(1000);
    let made = [
        (Audience::Access, tokens().access(&subject(), now).unwrap()),
        (Audience::Refresh, tokens().refresh(&subject(), now).unwrap()),
        (Audience::ResourceProxy, tokens().resource_proxy("agent-a", now).unwrap()),
    ];
    for (audience, token) in &made {
        for wanted in [Audience::Access, Audience::Refresh] {
            let verified = tokens().verify(token, wanted, now);
            assert_eq!(verified.is_ok(), *audience == wanted, "{audience:?} for {wanted:?}");
        }
        let proxied = tokens().verify_resource_proxy(token, now);
        assert_eq!(proxied.is_ok(), *audience == Audience::ResourceProxy);
    }
}

#[test]
fn tokens_of_others_are_refused() {
    let now = at(1000);
    let other = Tokens::new(&generate_short_key().unwrap()).unwrap();
    let good = tokens().access(&subject(), now).unwrap();
    let (header, rest) = good.split_once('.').unwrap();
    let (claims, signature) = rest.split_once('.').unwrap();
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut changed = part(&good, 1);
    changed["sub"] = json!(r#"{"clientID":"agent-b","mode":"managed"}"#);
    let bad = [
        other.access(&subject(), now).unwrap(),
        format!("{header}.{}.{signature}", encode(changed)),
        format!("{}.{claims}.", encode(json!({"alg": "none"}))),
        format!("{}.{claims}.{signature}", encode(json!({"alg": "RS256", "typ": "JWT"}))),
        format!("{}.{claims}.{signature}", encode(json!({"alg": "RS512", "typ": "JWT"}))),
        format!("{}.{claims}.{signature}", encode(json!({"alg": "HS256", "typ": "JWT"}))),
        maced_with(tokens().signing.public_key().as_ref(), claims),
        format!("{good}x"),
        format!("{good}.x"),
        good.trim_end_matches(|letter| letter != '.').to_owned(),
        "x".repeat(TOKEN_BYTES_MAX + 1),
        "a.b".to_owned(),
        String::new(),
    ];
    for token in bad {
        assert_eq!(tokens().verify(&token, Audience::Access, now), Err(Invalid::Foreign), "{token}");
    }
    let claims = |change: Change, signed: bool| {
        let mut claims = part(&good, 1);
        change(&mut claims);
        let claims = claims.to_string();
        if signed { tokens().sign(claims.as_bytes()).unwrap() } else { tokens().mac(claims.as_bytes()) }
    };
    let cases: [(Change, Invalid); 4] = [
        (|claims| claims["iss"] = json!("other"), Invalid::Foreign),
        (|claims| drop(claims.as_object_mut().unwrap().remove("exp")), Invalid::Foreign),
        (|claims| claims["sub"] = json!("agent-a"), Invalid::Subject),
        (|claims| claims["exp"] = json!(i64::MIN), Invalid::Expired),
    ];
    for (change, invalid) in cases {
        for signed in [true, false] {
            assert_eq!(tokens().verify(&claims(change, signed), Audience::Access, now), Err(invalid));
        }
    }
}

/// A token with a MAC whose key everybody knows.
fn maced_with(key: &[u8], claims: &str) -> String {
    let token = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(MACED));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA512, key), token.as_bytes());
    format!("{token}.{}", URL_SAFE_NO_PAD.encode(tag))
}

#[test]
fn a_signed_token_of_the_same_key_counts_too() {
    let claims = part(&tokens().access(&subject(), at(1000)).unwrap(), 1).to_string();
    let signed = tokens().sign(claims.as_bytes()).unwrap();
    assert_eq!(tokens().verify(&signed, Audience::Access, at(1000)), Ok((subject(), ACCESS)));
}

#[test]
fn a_hub_that_was_restarted_believes_its_tokens() {
    let pem = generate_short_key().unwrap();
    let token = Tokens::new(&pem).unwrap().refresh(&subject(), at(1000)).unwrap();
    assert!(Tokens::new(&pem).unwrap().verify(&token, Audience::Refresh, at(1000)).is_ok());
}

#[test]
fn keys_are_checked() {
    let pem = generate_short_key().unwrap();
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n") && pem.ends_with("-----END PRIVATE KEY-----\n"));
    assert!(pem.lines().all(|line| line.len() <= PEM_WIDTH));
    let elliptic = thane_runtime::pki::Authority::create("x", at(1_700_000_000), ACCESS).unwrap();
    for bad in ["", "junk", &elliptic.identity().key_pem, elliptic.cert_pem()] {
        assert!(matches!(Tokens::new(bad), Err(KeyError::Unreadable(_))), "{bad}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_other_text_is_a_token(text in ".{0,200}", parts in prop::collection::vec("[A-Za-z0-9_-]{0,60}", 0..5)) {
        for text in [text, parts.join(".")] {
            prop_assert!(tokens().verify(&text, Audience::Access, at(1000)).is_err());
            prop_assert!(tokens().verify_resource_proxy(&text, at(1000)).is_err());
        }
    }

    #[test]
    fn a_token_with_another_letter_is_none(place in any::<prop::sample::Index>(), letter in "[A-Za-z0-9_.-]") {
        for token in [tokens().access(&subject(), at(1000)), tokens().resource_proxy("agent-a", at(1000))] {
            let token = token.unwrap();
            let place = place.index(token.len());
            let mut changed = token.clone();
            changed.replace_range(place..=place, &letter);
            if changed != token {
                prop_assert!(tokens().verify(&changed, Audience::Access, at(1000)).is_err());
                prop_assert!(tokens().verify_resource_proxy(&changed, at(1000)).is_err());
            }
        }
    }

    #[test]
    fn any_claims_with_our_signature_are_read_or_refused(
        sub in any::<String>(), exp in any::<Option<i64>>(), nbf in any::<i64>(), second in -1_000_000_i64..1_000_000_000,
    ) {
        let claims = json!({
            "iss": ISSUER, "sub": sub, "aud": [Audience::Access.name()], "exp": exp, "nbf": nbf, "iat": nbf, "jti": "x",
        });
        let token = tokens().mac(claims.to_string().as_bytes());
        if let Ok((read, _)) = tokens().verify(&token, Audience::Access, at(second)) {
            prop_assert_eq!(serde_json::from_str::<Subject>(&sub).ok(), Some(read));
        }
    }
}

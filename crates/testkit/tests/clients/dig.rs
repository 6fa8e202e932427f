//! dig: an answer that a resolver of others takes apart, over UDP and TCP, with and without EDNS.

use std::process::Command;

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use thane_testkit::client::HttpsClient;
use thane_testkit::peer::PeerHome;

use super::ours;

/// The answer of dig to some arguments.
async fn dig(home: &PeerHome, address: &str, arguments: &str) -> String {
    let (host, port) = address.split_once(':').unwrap();
    let mut command = Command::new(home.program("dig"));
    command.args([&format!("@{host}"), "-p", port, "+time=5", "+tries=1"]).args(arguments.split(' '));
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

async fn register(address: &str, body: &Value) {
    let request = Request::put("/v1/catalog/register").header("host", address).body(Full::from(body.to_string()));
    let answer = HttpsClient::plain(address).exchange(request.unwrap()).await.unwrap();
    assert!(answer.status.is_success(), "{}", String::from_utf8_lossy(&answer.body));
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dig_understands_every_answer() {
    let Some((home, thane)) = ours(&["dig"]).await else { return };
    // What is written through one agent is answered by another.
    let (api, dns) = (thane.published("discovery").unwrap(), thane.published("dns-cluster-2").unwrap());
    for number in 1..=40 {
        let address = format!("10.2.0.{number}");
        let service =
            json!({"Service": "many", "Port": 8000 + number, "Tags": [if number == 7 { "odd" } else { "even" }]});
        let body = json!({"Node": format!("node-{number}"), "Address": address, "Service": service});
        register(&api, &body).await;
    }
    let check = json!({"Name": "c", "Status": "critical", "ServiceID": "ill"});
    let ill = json!({"Node": "node-1", "Address": "10.2.0.1", "Service": {"Service": "ill"}, "Check": check});
    register(&api, &ill).await;

    let few = dig(&home, &dns, "+short +noedns many.service.consul A").await;
    assert_eq!(few.lines().count(), 3, "{few}");
    let all = dig(&home, &dns, "+short +tcp many.service.consul A").await;
    assert_eq!(all.lines().count(), 40, "{all}");
    assert_eq!(sorted(&dig(&home, &dns, "+short MANY.service.dc1.CONSUL A").await), sorted(&all));
    let cut = dig(&home, &dns, "+bufsize=600 +ignore many.service.consul SRV").await;
    assert!(cut.contains("flags: qr aa tc rd;") && cut.contains("EDNS: version: 0"), "{cut}");
    let whole = dig(&home, &dns, "+bufsize=600 many.service.consul SRV").await;
    assert!(whole.contains("ANSWER: 40,") && whole.contains("(TCP)"), "dig asks again where it was cut: {whole}");

    let odd = dig(&home, &dns, "+noall +answer +additional _many._odd.service.consul SRV").await;
    let words: Vec<Vec<&str>> = odd.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0][3..], ["SRV", "1", "1", "8007", "node-7.node.dc1.consul."]);
    assert_eq!(words[1], ["node-7.node.dc1.consul.", "0", "IN", "A", "10.2.0.7"]);
    let cases = [
        ("+short odd.many.service.consul A", "10.2.0.7\n"),
        ("+short node-9.node.consul A", "10.2.0.9\n"),
        ("+short 0a020009.addr.dc1.consul A", "10.2.0.9\n"),
        ("+short -x 10.2.0.9", "node-9.node.dc1.consul.\n"),
        ("+short many.service.consul AAAA", ""),
    ];
    for (arguments, wanted) in cases {
        assert_eq!(dig(&home, &dns, arguments).await, wanted, "{arguments}");
    }
    let statuses = [
        ("many.service.consul AAAA", "NOERROR"),
        ("ill.service.consul A", "NXDOMAIN"),
        ("none.service.consul A", "NXDOMAIN"),
        ("many.service.dc9.consul A", "NXDOMAIN"),
        ("example.com A", "REFUSED"),
        ("+opcode=NOTIFY many.service.consul A", "NOTIMP"),
        ("+edns=7 +noednsneg many.service.consul A", "BADVERS"),
    ];
    for (arguments, wanted) in statuses {
        let told = dig(&home, &dns, arguments).await;
        assert!(told.contains(&format!("status: {wanted},")), "{arguments}: {told}");
        let negative = matches!(wanted, "NOERROR" | "NXDOMAIN");
        assert_eq!(told.contains("SOA\tns.consul. hostmaster.consul."), negative, "{arguments}: {told}");
    }
}

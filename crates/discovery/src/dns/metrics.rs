//! What is counted.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::record::Code;

/// What DNS counts; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    queries: Family<Labels, Counter>,
    truncated: Counter,
    dropped: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    transport: &'static str,
    code: &'static str,
}

impl Metrics {
    /// Makes them known.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("dns_queries", "DNS queries answered, by transport and code", self.queries.clone());
        registry.register("dns_truncated", "DNS answers that had to be cut", self.truncated.clone());
        registry.register(
            "dns_dropped",
            "DNS queries and connections left unanswered because too many were at work",
            self.dropped.clone(),
        );
    }

    pub(super) fn answered(&self, transport: &'static str, code: Code) {
        let code = match code {
            Code::Ok => "noerror",
            Code::Malformed => "formerr",
            Code::ServerFailure => "servfail",
            Code::NoSuchName => "nxdomain",
            Code::NotImplemented => "notimp",
            Code::Refused => "refused",
            Code::BadVersion => "badvers",
        };
        self.queries.get_or_create(&Labels { transport, code }).inc();
    }

    pub(super) fn cut(&self) {
        self.truncated.inc();
    }

    pub(super) fn dropped(&self) {
        self.dropped.inc();
    }
}

//! Logs, commands and ports of the pods that run here, for the API server.

mod exec;
mod logs;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use thane_runtime::net::BoxIo;
use thane_runtime::pods::{AccessError, ContainerAt, ExecOptions, ExecSession, LogOptions, PodAccess};

use crate::netns::PodNetwork;
use crate::node::Node;
use crate::program::Living;
use crate::record::Attempt;

impl Node {
    /// The last start of a container, or the one before.
    fn attempt(&self, of: &ContainerAt, previous: bool) -> Result<Attempt, AccessError> {
        let directory = self.shared.pod(&of.uid);
        let last = directory.last_attempt(&of.container);
        let number = if previous { last.and_then(|last| last.checked_sub(1)) } else { last };
        let found = number.map(|number| directory.attempt(&of.container, number)).filter(|one| one.path().exists());
        let what = if previous { "previous terminated container" } else { "container" };
        found.ok_or_else(|| AccessError::NotFound(format!("{what} {:?} in this pod not found", of.container)))
    }
}

impl PodAccess for Node {
    fn logs(
        &self,
        of: ContainerAt,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Bytes>, AccessError>> {
        Box::pin(async move {
            let attempt = self.attempt(&of, options.previous)?;
            logs::stream(attempt.run(), &options).map_err(|error| AccessError::Failed(error.to_string()))
        })
    }

    fn exec(&self, of: ContainerAt, options: ExecOptions) -> BoxFuture<'_, Result<ExecSession, AccessError>> {
        Box::pin(async move {
            let attempt = self.attempt(&of, false)?;
            exec::start(&attempt.run(), options, &self.tasks).await
        })
    }

    fn dial<'a>(&'a self, uid: &'a str, port: u16) -> BoxFuture<'a, Result<BoxIo, AccessError>> {
        Box::pin(async move {
            let record = self.shared.pod(uid).read();
            let record = record.ok_or_else(|| AccessError::NotFound("the pod does not run here".to_owned()))?;
            // Its record outlives it, with its logs; of a pod that has the machine's network, too.
            if Living::find(&record.holder).is_none() {
                return Err(AccessError::NotFound("the pod has ended".to_owned()));
            }
            let network = if record.host_network { PodNetwork::host() } else { PodNetwork::of(record.holder) };
            let to = |ip: IpAddr| network.connect(SocketAddr::new(ip, port));
            let refused = match to(Ipv4Addr::LOCALHOST.into()).await {
                Ok(stream) => return Ok(Box::new(stream) as BoxIo),
                Err(error) => error,
            };
            // What listens on the other `localhost` alone is found as well; if neither does, the first tells why.
            match to(Ipv6Addr::LOCALHOST.into()).await {
                Ok(stream) => Ok(Box::new(stream) as BoxIo),
                Err(_) => Err(AccessError::Refused(format!(
                    "failed to connect to localhost:{port} inside the pod: {refused}"
                ))),
            }
        })
    }
}

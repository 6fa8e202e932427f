//! The server as a `kube::Client` in this process: the same path as over TLS, without the wire.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use kube::client::Body as ClientBody;
use tower::Service;

use crate::authz::User;
use crate::response::Body;
use crate::server::{ApiServer, Origin};

/// A tower service that sends requests as one user.
#[derive(Clone)]
pub struct InProcess {
    server: ApiServer,
    user: Arc<User>,
}

impl ApiServer {
    /// A service for requests as `user`, who passes the same RBAC and limits as over TLS.
    pub fn service(&self, user: User) -> InProcess {
        InProcess { server: self.clone(), user: Arc::new(user) }
    }

    /// A client for requests as `user`.
    pub fn client(&self, user: User, namespace: &str) -> kube::Client {
        kube::Client::new(self.service(user), namespace)
    }
}

impl Service<Request<ClientBody>> for InProcess {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<ClientBody>) -> Self::Future {
        request.extensions_mut().insert(Origin::Process(Arc::clone(&self.user)));
        let server = self.server.clone();
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}

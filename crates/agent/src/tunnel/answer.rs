//! One request of the hub, from its head to the last byte of its answer.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use thane_api::wire::tunnel::frame::Part;
use thane_api::wire::tunnel::{Answer, Frame, Refusal, Request};
use thane_link::tunnel::{
    Broken, Inlet, Receiving, Sending, answer_headers, ends, exchange, frame, read_headers, relay, request_headers,
};
use tokio::sync::mpsc;
use tonic::Streaming;

use super::Tunnel;

/// Answers, unless the hub gives up before.
pub(super) async fn answer(
    tunnel: &Tunnel,
    request: Request,
    frames: Streaming<Frame>,
    out: mpsc::Sender<Frame>,
) -> Result<(), Broken> {
    let (sending, receiving, inlet) = ends(&out, &tunnel.metrics.bytes);
    let carries_bytes = request.method == Method::CONNECT.as_str();
    let work = async {
        if carries_bytes {
            return connect(tunnel, &request.target, &out, sending, receiving).await;
        }
        match ask(tunnel, &request, receiving).await {
            Ok((response, receiving)) => pass(response, &out, sending, receiving).await,
            Err(reason) => {
                let refusal = Part::Refusal(Refusal { reason });
                out.send(frame(refusal)).await.map_err(|_| Broken::Gone)
            }
        }
    };
    let mut reading = std::pin::pin!(read(frames, inlet));
    {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            // First what is done: a hub that has it all ends the call.
            biased;
            done = &mut work => done?,
            ended = &mut reading => {
                ended?;
                // A hub that carries bytes may leave as soon as it has said everything; the place gets what is here.
                let left = if carries_bytes { tunnel.config.answer_timeout } else { Duration::ZERO };
                return tokio::time::timeout(left, work).await.map_err(|_| Broken::Gone)?;
            }
        }
    }
    drop(out);
    // The hub ends the call when it has all of it; dropped earlier, it might lose what is still on its way.
    let _ = tokio::time::timeout(tunnel.config.answer_timeout, reading).await;
    Ok(())
}

/// Carries bytes to a place and back.
async fn connect(
    tunnel: &Tunnel,
    place: &str,
    out: &mpsc::Sender<Frame>,
    sending: Sending,
    receiving: Receiving,
) -> Result<(), Broken> {
    let connected = match &tunnel.places {
        Some(places) => places.connect(place, tunnel.config.answer_timeout).await,
        None => Err("this agent carries bytes to nobody but its cluster's API".to_owned()),
    };
    let stream = match connected {
        Ok(stream) => stream,
        Err(reason) => {
            let refusal = Part::Refusal(Refusal { reason });
            return out.send(frame(refusal)).await.map_err(|_| Broken::Gone);
        }
    };
    let head = Answer { status: u32::from(StatusCode::OK.as_u16()), headers: Vec::new() };
    out.send(frame(Part::Answer(head))).await.map_err(|_| Broken::Gone)?;
    relay(stream, sending, receiving).await;
    Ok(())
}

/// Takes in what the hub sends, until it ends the call, in order or not.
async fn read(mut frames: Streaming<Frame>, mut inlet: Inlet) -> Result<(), Broken> {
    loop {
        match frames.message().await {
            Ok(Some(frame)) => match inlet.take(frame) {
                Ok(None) | Err(Broken::Gone) => {}
                Ok(Some(_)) => return Err(Broken::Order),
                Err(broken) => return Err(broken),
            },
            Ok(None) if inlet.has_ended() => return Ok(()),
            Ok(None) | Err(_) => return Err(Broken::Gone),
        }
    }
}

/// The cluster's answer, and what is still to come from the hub; or why there is none.
async fn ask(
    tunnel: &Tunnel,
    request: &Request,
    mut receiving: Receiving,
) -> Result<(http::Response<Body>, Receiving), String> {
    let body = if request.has_body {
        let collected = receiving.collect(tunnel.config.body_bytes_max).await.map_err(|broken| broken.to_string())?;
        collected.ok_or_else(|| "the request's body is too large".to_owned())?
    } else {
        Bytes::new()
    };
    let asked = http_request(request, body)?;
    let answered = tokio::time::timeout(tunnel.config.answer_timeout, tunnel.client.send(asked)).await;
    let answered = answered.map_err(|_| "the cluster's API gave no answer in time".to_owned())?;
    let response = answered.map_err(|error| format!("the cluster's API cannot be reached: {error}"))?;
    Ok((response, receiving))
}

fn http_request(request: &Request, body: Bytes) -> Result<http::Request<Body>, String> {
    let uri: Uri = request.target.parse().map_err(|_| "the target is no path".to_owned())?;
    if uri.scheme().is_some() || uri.authority().is_some() || !uri.path().starts_with('/') {
        return Err("the target is no path".to_owned());
    }
    let method: Method = request.method.parse().map_err(|_| "the method is none".to_owned())?;
    let headers = read_headers(&request.headers).map_err(|_| "the headers are none".to_owned())?;
    let mut asked = http::Request::new(Body::from(body));
    // Whatever a hub says, no header passes that says who asks.
    *asked.headers_mut() = read_headers(&request_headers(&headers)).map_err(|_| "the headers are none".to_owned())?;
    *asked.method_mut() = method;
    *asked.uri_mut() = uri;
    Ok(asked)
}

/// Passes the answer on: head, then its body, or bytes both ways after a switch of protocols.
async fn pass(
    mut response: http::Response<Body>,
    out: &mpsc::Sender<Frame>,
    sending: Sending,
    receiving: Receiving,
) -> Result<(), Broken> {
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let status = u32::from(response.status().as_u16());
    let head = Answer { status, headers: answer_headers(response.headers(), switched) };
    let upgrade = switched.then(|| hyper::upgrade::on(&mut response));
    out.send(frame(Part::Answer(head))).await.map_err(|_| Broken::Gone)?;
    if let Some(upgrade) = upgrade {
        let upgraded = upgrade.await.map_err(|_| Broken::Gone)?;
        exchange(TokioIo::new(upgraded), sending, receiving).await;
        return Ok(());
    }
    let mut body = response.into_body();
    while let Some(part) = body.frame().await {
        // A body that breaks off has no end here either.
        let part = part.map_err(|_| Broken::Gone)?;
        if let Ok(bytes) = part.into_data() {
            sending.data(bytes).await?;
        }
    }
    sending.end().await
}

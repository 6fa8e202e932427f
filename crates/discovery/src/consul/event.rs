//! `/v1/event/*`: users' events.

use std::hash::Hasher;

use http::StatusCode;

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::headers::put_index;
use super::options::ReadOptions;
use super::view::EventView;
use crate::command::{Command, Outcome as Written};
use crate::model::{Policy, Resource, UserEvent};
use crate::topic::{Row, Topic};

/// The largest payload; Consul's gossip takes no more.
const PAYLOAD_BYTES_MAX: u64 = 300;

impl Call<'_> {
    pub(super) async fn event_fire(&self) -> Outcome {
        let name = self.named("Missing name")?;
        let query = self.query();
        let length = match &self.request.body {
            Ok(body) => u64::try_from(body.len()).unwrap_or(u64::MAX),
            Err(large) => large.declared.unwrap_or(u64::MAX),
        };
        let payload = self.request.body.clone().ok().filter(|_| length <= PAYLOAD_BYTES_MAX).ok_or_else(|| {
            Failure::too_large(format!(
                "Event payload too large, received {length} bytes, max size: {PAYLOAD_BYTES_MAX} bytes. User events should \
                 be kept small for efficient gossip propagation."
            ))
        })?;
        let event = UserEvent {
            id: uuid::Uuid::new_v4().to_string(),
            name: name.to_owned(),
            payload,
            node_filter: query.get("node").to_owned(),
            service_filter: query.get("service").to_owned(),
            tag_filter: query.get("tag").to_owned(),
            ltime: 0,
        };
        if !event.tag_filter.is_empty() && event.service_filter.is_empty() {
            return Err(Failure::failed("Cannot provide tag filter without service filter"));
        }
        if !self.access.allows(Resource::Event, name, Policy::Write) {
            return Err(Failure::new(StatusCode::FORBIDDEN, "Permission denied"));
        }
        self.datacenter()?;
        let done = self.write(Command::Fire(event.clone())).await?;
        match done.outcome {
            // Consul tells the number only in listings.
            Written::Event(_) => self.json(&EventView::new(&event)),
            _ => Ok(crate::http::Answer::empty(StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }

    pub(super) async fn event_list(&self) -> Outcome {
        let options = ReadOptions::parse_wait(self.request)?;
        let name = self.query().given("name");
        let fits = |event: &UserEvent| name.is_none_or(|name| event.name == name);
        // The index is made of the newest event's id: any other index than that one is answered at once.
        let asked = options.index;
        let mut reading = self.topic(&Topic::Events, &ReadOptions::default()).await?;
        if asked > 0 && asked == newest(&reading.data.rows, fits) {
            let options = ReadOptions { index: reading.data.index.max(1), ..options };
            reading = self.topic_if(&Topic::Events, &options, |data| newest(&data.rows, fits) != asked).await?;
        }
        let all = events(&reading.data.rows).filter(|event| fits(event));
        let (seen, hidden): (Vec<_>, Vec<_>) =
            all.partition(|event| self.access.allows(Resource::Event, &event.name, Policy::Read));
        let views: Vec<_> = seen.into_iter().map(EventView::new).collect();
        let mut answer = self.json(&views)?;
        put_index(&mut answer.headers, newest(&reading.data.rows, fits));
        self.tell_hidden(&mut answer, !hidden.is_empty());
        Ok(answer)
    }
}

fn events(rows: &[Row]) -> impl Iterator<Item = &UserEvent> {
    rows.iter().filter_map(|row| match row {
        Row::Event(event) => Some(event.value.as_ref()),
        _ => None,
    })
}

/// Both halves of the newest event's id laid over each other, as Consul's clients may do too.
fn newest(rows: &[Row], fits: impl Fn(&UserEvent) -> bool) -> u64 {
    let Some(last) = events(rows).filter(|event| fits(event)).last() else { return 1 };
    match uuid::Uuid::parse_str(&last.id) {
        Ok(id) => {
            let (high, low) = id.as_u64_pair();
            (high ^ low).max(1)
        }
        Err(_) => {
            let mut hasher = std::hash::DefaultHasher::new();
            hasher.write(last.id.as_bytes());
            hasher.finish().max(1)
        }
    }
}

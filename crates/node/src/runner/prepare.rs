//! What a pod needs before its first container: namespaces, an address, files.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use thane_executor::plan::PodPlan;
use thane_runtime::pods::ContainerAt;

use super::{HOST_ADDRESS, Runner};
use crate::decide::Verdict;
use crate::environment::{Whereabouts, hostname};
use crate::netns::PodNetwork;
use crate::pod::{PodExt, RestartPolicy};
use crate::program::Living;
use crate::record::PodRecord;
use crate::references;
use crate::state::{ContainerState, Ended, Now};
use crate::volumes::{self, Place};
use crate::{egress, files, ids, launch, layers};

impl Runner {
    /// Finds out what its predecessor left: on disk what still runs, in the API what has ended before.
    pub(super) fn adopt(&mut self) {
        if let Some(record) = self.directory.read() {
            self.shared.addresses.reserve(record.address);
            self.record = Some(record);
        }
        let names: Vec<String> =
            self.pod.init_containers().iter().chain(self.pod.containers()).map(|one| one.name.clone()).collect();
        let earlier = self.record.is_none();
        for name in names {
            let state = match self.directory.adopt(&name) {
                Some((state, living)) => {
                    if let Some(living) = living {
                        self.living.insert(name.clone(), Arc::new(living));
                    }
                    Some(state)
                }
                None => self.told_before(&name),
            };
            if let Some(mut state) = state {
                state.earlier = earlier;
                self.containers.insert(name, state);
            }
        }
        if earlier && self.pod.containers().iter().any(|one| runs_again(&self.pod, self.containers.get(&one.name))) {
            // What init containers made is gone with the pod's files, so they run again before the others do.
            let inits: Vec<String> = self.pod.init_containers().iter().map(|one| one.name.clone()).collect();
            self.containers.retain(|name, _| !inits.contains(name));
        }
    }

    /// What the API knows of a container that left nothing here.
    fn told_before(&self, name: &str) -> Option<ContainerState> {
        let status = self.pod.status.as_ref()?;
        let mut all = status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
        let told = all.find(|told| told.name == name)?;
        let state = told.state.as_ref();
        let ended = state.and_then(|state| state.terminated.as_ref());
        let since = state.and_then(|state| state.running.as_ref()?.started_at.as_ref()).map(|time| time.0);
        let now = self.shared.clock.now();
        let ended = match (ended, since) {
            (Some(ended), _) => Ended {
                id: ended.container_id.clone().unwrap_or_default(),
                code: ended.exit_code,
                signal: ended.signal,
                reason: ended.reason.clone().unwrap_or_default(),
                message: ended.message.clone().unwrap_or_default(),
                started: ended.started_at.as_ref().map_or(now, |time| time.0),
                finished: ended.finished_at.as_ref().map_or(now, |time| time.0),
            },
            (None, Some(since)) => Ended {
                id: told.container_id.clone().unwrap_or_default(),
                code: 137,
                signal: None,
                reason: "ContainerStatusUnknown".to_owned(),
                message: "The container could not be located when the pod was taken over".to_owned(),
                started: since,
                finished: now,
            },
            (None, None) => return None,
        };
        let restarts = u32::try_from(told.restart_count).unwrap_or_default();
        Some(ContainerState {
            now: Now::Ended(ended),
            restarts,
            image_id: told.image_id.clone(),
            ..ContainerState::default()
        })
    }

    /// Goes on with what still runs.
    pub(super) async fn resume(&mut self) {
        let running: Vec<String> = self.living.keys().cloned().collect();
        for name in &running {
            self.put_in_order(name).await;
            self.watch(name);
        }
        if !running.is_empty() && self.record.is_some() {
            if let Err(error) = self.open_ways().await {
                tracing::warn!(%error, pod = self.pod.name(), "a pod that was taken over cannot reach outside");
            }
            self.measure();
            self.renew_at = Some(self.shared.clock.now());
        }
    }

    /// Goes on with what an earlier process had begun to do to a container's files; if that cannot be, it ends.
    async fn put_in_order(&self, name: &str) {
        let Some(number) = self.directory.last_attempt(name) else { return };
        let at = ContainerAt { uid: PodExt::uid(&*self.pod).to_owned(), container: name.to_owned() };
        let attempt = self.directory.attempt(name, number);
        if let Err(error) = layers::repair(&self.shared, at, attempt).await {
            tracing::warn!(
                error,
                pod = self.pod.name(),
                container = name,
                "a container's files cannot be put in order"
            );
            if let Some(living) = self.living.get(name) {
                living.kill();
            }
        }
    }

    /// What is known only here.
    pub(super) fn whereabouts(&self) -> Whereabouts {
        let address = self.record.as_ref().map(|record| self.address(record)).unwrap_or_default();
        Whereabouts { address, host: HOST_ADDRESS.to_owned() }
    }

    pub(super) fn network(&self) -> PodNetwork {
        match self.record.as_ref().filter(|_| !self.pod.host_network()) {
            Some(record) => PodNetwork::of(record.holder.clone()),
            None => PodNetwork::host(),
        }
    }

    /// Makes namespaces and files, unless they are there.
    pub(super) async fn prepare(&mut self) -> Result<(), String> {
        if let Some(why) = launch::refused(&self.pod) {
            self.verdict = Some(Verdict { reason: "Forbidden".to_owned(), message: why.clone() });
            return Err(why);
        }
        let targets = egress::targets(&self.pod)?;
        let held = self.record.as_ref().is_some_and(|record| Living::find(&record.holder).is_some());
        if held {
            return if self.ways_open { Ok(()) } else { self.complete(&targets, false).await };
        }
        files::private_directory(&self.directory.path).map_err(|error| failed(&error))?;
        let plan = PodPlan {
            hostname: hostname(&self.pod),
            ids: ids::RANGE,
            host_network: self.pod.host_network(),
            memory: volumes::memory(&self.pod),
        };
        let holder = self.shared.program.hold(&plan).await?;
        let address = match self.record.as_ref().map(|record| record.address) {
            Some(address) => address,
            None => self.shared.addresses.take().ok_or("no address is left")?,
        };
        let record = PodRecord { holder, address, host_network: self.pod.host_network() };
        let written = self.directory.write(&record);
        self.record = Some(record);
        written.map_err(|error| failed(&error))?;
        self.complete(&targets, true).await
    }

    /// Makes what else a pod has. Our predecessor may have been killed in the middle of it; what a container of the same
    /// pod was started with is left as it is.
    async fn complete(&mut self, targets: &[egress::Target], is_new: bool) -> Result<(), String> {
        if is_new || !self.directory.has_started() {
            self.write_etc(targets).map_err(|error| failed(&error))?;
            self.make_volumes().await?;
        }
        self.open_ways().await.map_err(|error| failed(&error))?;
        self.measure();
        Ok(())
    }

    async fn open_ways(&mut self) -> io::Result<()> {
        let targets = egress::targets(&self.pod).map_err(io::Error::other)?;
        if !self.pod.host_network() {
            egress::serve(targets, &self.network(), &self.tasks).await?;
        }
        self.ways_open = true;
        Ok(())
    }

    fn write_etc(&self, targets: &[egress::Target]) -> io::Result<()> {
        files::private_directory(&self.directory.path.join("etc"))?;
        let name = hostname(&self.pod);
        let mut hosts = format!("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.0.1\t{name}\n");
        hosts.push_str(&egress::hosts(targets));
        for alias in self.pod.spec().iter().flat_map(|spec| spec.host_aliases.iter().flatten()) {
            let names = alias.hostnames.clone().unwrap_or_default().join("\t");
            hosts.extend([alias.ip.as_str(), "\t", names.as_str(), "\n"]);
        }
        // In its own network nobody answers questions about names.
        let resolver =
            if self.pod.host_network() { std::fs::read("/etc/resolv.conf").unwrap_or_default() } else { Vec::new() };
        for (file, content) in
            [("hosts", hosts.as_bytes()), ("hostname", format!("{name}\n").as_bytes()), ("resolv.conf", &resolver)]
        {
            files::mapped_file(&self.directory.etc(file), content, 0o644, None)?;
        }
        Ok(())
    }

    pub(super) fn places(&self) -> Result<BTreeMap<String, Place>, String> {
        volumes::places(&self.pod, &self.directory.volumes(), &self.shared.claims())
    }

    async fn make_volumes(&mut self) -> Result<(), String> {
        files::private_directory(&self.directory.volumes()).map_err(|error| failed(&error))?;
        for place in self.places()?.values() {
            if let Place::Directory { path, .. } = place {
                let parent = path.parent().unwrap_or(path);
                files::private_directory(parent).map_err(|error| failed(&error))?;
                files::lasting_directory(path, 0o777, PodExt::uid(&*self.pod)).map_err(|error| failed(&error))?;
            }
        }
        self.write_volumes().await
    }

    async fn write_volumes(&mut self) -> Result<(), String> {
        let here = self.whereabouts();
        if self.interest.is_none() {
            // Before they are read, so that no change is missed.
            self.interest = Some(self.shared.changes.interest(references::objects(&self.pod, &here)?));
        }
        let due = references::write_volumes(&self.shared.client, &self.pod, &self.directory.volumes(), &here).await?;
        let now = self.shared.clock.now();
        self.renew_at = due.and_then(|seconds| now.saturating_add(Duration::from_secs(seconds)).ok());
        Ok(())
    }

    /// The files of its volumes are to be made again.
    pub(super) fn renew_now(&mut self) {
        if self.interest.is_some() && !self.released {
            self.renew_at = Some(self.shared.clock.now());
        }
    }

    /// Writes files again whose time has come.
    pub(super) async fn renew(&mut self) {
        let now = self.shared.clock.now();
        if self.released || self.renew_at.is_none_or(|at| at > now) {
            return;
        }
        if let Err(error) = self.write_volumes().await {
            tracing::warn!(%error, pod = self.pod.name(), "the files of a pod's volumes were not renewed");
            self.renew_at = now.saturating_add(Duration::from_secs(30)).ok();
        }
    }
}

/// Whether a container that is like this is to be started.
fn runs_again(pod: &Pod, state: Option<&ContainerState>) -> bool {
    let Some(ended) = state.and_then(ContainerState::ended) else { return true };
    match pod.restart_policy() {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => ended.code != 0,
        RestartPolicy::Never => false,
    }
}

pub(super) fn failed(error: &io::Error) -> String {
    error.to_string()
}

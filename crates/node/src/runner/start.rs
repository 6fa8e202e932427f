//! Starting a container.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use thane_executor::plan::{ContainerPlan, LAST_WORD, LogLimits, Lower, Mount, ROOT, Root, Source};
use thane_runtime::open_files;
use tokio::sync::mpsc;

use super::prepare::failed;
use super::{News, Runner};
use crate::images::{HOST, ImageConfig, OWN};
use crate::layers::Files;
use crate::pod::PodExt;
use crate::probe::{self, Subject};
use crate::program::Living;
use crate::record::{Attempt, ContainerRecord};
use crate::state::{Now, Running};
use crate::{environment, files, ids, launch, references, resources, volumes};

const FINDINGS_MAX: usize = 8;

/// Why a container was not started: in one word and in words.
type Refused = (&'static str, String);

/// What an image gives a container.
struct Base {
    id: String,
    config: ImageConfig,
    lowers: Vec<Lower>,
    mounts: Vec<Mount>,
    image: Option<crate::images::Image>,
    /// The pod's own files of `/etc` are among the layers, instead of being mounted.
    has_etc: bool,
}

/// The pod's own files of `/etc`.
const ETC: [&str; 3] = ["hosts", "hostname", "resolv.conf"];

impl Runner {
    /// Starts a container, for the first time or again; says why if it cannot be.
    pub(super) async fn start(&mut self, name: &str) {
        let Some(container) = self.container(name) else { return };
        let state = self.containers.get(name).cloned().unwrap_or_default();
        let before = state.ended().cloned().or(state.last.clone());
        let attempt = if before.is_some() { state.restarts + 1 } else { 0 };
        let result = self.try_start(&container, attempt).await;
        let now = self.shared.clock.now();
        let rule = self.shared.rule();
        let entry = self.containers.entry(name.to_owned()).or_default();
        match result {
            Ok(record) => {
                self.shared.metrics.started.inc();
                entry.now = Now::Running(Running {
                    id: record.id,
                    since: record.since,
                    started: false,
                    ready: false,
                    stopping: false,
                });
                entry.image_id = record.image_id;
                entry.restarts = attempt;
                entry.retry_at = None;
                entry.earlier = false;
                if let Some(before) = &before {
                    entry.backoff = entry.backoff.started(now, before.finished, &rule);
                }
                entry.last = before;
                self.watch(name);
                let (shared, pod) = (Arc::clone(&self.shared), Arc::clone(&self.pod));
                let note = format!("Started container {name}");
                self.tasks.spawn("event", async move { shared.tell(&pod, false, "Started", note).await });
            }
            Err((reason, message)) => {
                self.shared.metrics.failed.inc();
                if state.ended().is_some() {
                    entry.last = before;
                }
                entry.now = Now::Waiting { reason: reason.to_owned(), message: message.clone() };
                entry.retry_at = now.saturating_add(rule.first).ok();
                self.shared.tell(&self.pod, true, "Failed", message).await;
            }
        }
    }

    async fn try_start(&mut self, container: &Container, attempt: u32) -> Result<ContainerRecord, Refused> {
        let mut base = self.base(container)?;
        self.prepare().await.map_err(|why| ("CreateContainerConfigError", why))?;
        let keeps = launch::keeps(&self.pod, container);
        // What is written in them belongs to the files that are kept.
        base.has_etc =
            keeps && self.lay_etc(&mut base.lowers).map_err(|error| ("CreateContainerError", failed(&error)))?;
        let directory = self.directory.attempt(&container.name, attempt);
        let group = super::group(&container.name, attempt);
        let plan =
            self.plan(container, &base, &directory, &group).await.map_err(|why| ("CreateContainerConfigError", why))?;
        // What an earlier try left is of no use.
        let made = files::remove_tree(directory.path()).and_then(|()| make(&directory));
        made.map_err(|error| ("CreateContainerError", failed(&error)))?;
        let id = format!("thane://{}-{}-{attempt}", PodExt::uid(&*self.pod), container.name);
        let started = match self.shared.program.create(&plan).await {
            Ok(started) => started,
            Err(why) => {
                self.clear(&group, &directory).await;
                return Err(("CreateContainerError", why));
            }
        };
        // Where nothing runs between steps, what they wrote can be kept.
        let files = keeps.then(|| Files::new(base.lowers, base.id.clone(), &plan.root.upper));
        let written = files.map_or(Ok(()), |files| files.write(directory.path()));
        let record = ContainerRecord { started, since: self.shared.clock.now(), image_id: base.id, id };
        if let Err(error) = written.and_then(|()| directory.write(&record)) {
            // Nobody could find it again.
            if let Some(living) = Living::find(&record.started) {
                living.kill();
            }
            return Err(("CreateContainerError", failed(&error)));
        }
        if let Some(living) = Living::find(&record.started) {
            self.living.insert(container.name.clone(), Arc::new(living));
        }
        let _ = self.directory.forget_before(&container.name, attempt);
        Ok(record)
    }

    fn base(&self, container: &Container) -> Result<Base, Refused> {
        let name = container.image.as_deref().unwrap_or_default();
        let host = &self.shared.host;
        // One of our name that somebody brought goes before our own.
        let own = self.shared.own.as_ref().filter(|_| name == OWN && self.shared.images.find(name).is_err());
        if name == HOST || own.is_some() {
            return Ok(Base {
                id: name.to_owned(),
                config: own.map_or(&host.config, |own| &own.config).clone(),
                lowers: vec![Lower { path: host.skeleton.clone(), mapped: false }],
                mounts: host.mounts.iter().chain(own.map(|own| &own.mount)).cloned().collect(),
                image: None,
                has_etc: false,
            });
        }
        let find = || self.shared.images.find(name).map_err(|error| ("ErrImagePull", error.to_string()));
        let (uid, pod) = (PodExt::uid(&*self.pod), format!("{}/{}", PodExt::namespace(&*self.pod), self.pod.name()));
        // A use counts as long as this is there.
        crate::files::private_directory(&self.directory.path)
            .map_err(|error| ("CreateContainerError", failed(&error)))?;
        let used = self.shared.images.begin_use(&find()?.id, uid, &pod, &self.directory.path);
        used.map_err(|error| ("CreateContainerError", failed(&error)))?;
        // Who removes images may not have seen that; then it is gone by now.
        let image = find()?;
        let lowers = self.shared.images.layers(&image).into_iter().map(|path| Lower { path, mapped: true }).collect();
        Ok(Base {
            id: format!("sha256:{}", image.id),
            config: image.config.clone(),
            lowers,
            mounts: Vec::new(),
            image: Some(image),
            has_etc: false,
        })
    }

    async fn plan(
        &self,
        container: &Container,
        base: &Base,
        attempt: &Attempt,
        group: &str,
    ) -> Result<ContainerPlan, String> {
        let record = self.record.as_ref().ok_or("the pod is not set up")?;
        let known = references::environment(&self.shared.client, &self.pod, container).await?;
        let env = environment::environment(&self.pod, container, &base.config.env, &known, &self.whereabouts())?;
        let find = |name: &str| self.shared.images.user(base.image.as_ref()?, name);
        let user = launch::user(&self.pod, container, &base.config, find)?;
        let context = container.security_context.clone().unwrap_or_default();
        let mut mounts = base.mounts.clone();
        if !base.has_etc {
            mounts.extend(self.etc_mounts());
        }
        mounts.extend(volumes::mounts(container, &self.places()?, &env)?);
        mounts.push(Mount {
            target: container.termination_message_path.clone().unwrap_or_else(|| "/dev/termination-log".to_owned()),
            source: Source::Bind(attempt.run().join(LAST_WORD)),
            read_only: false,
        });
        let bounds = resources::bounds(container);
        let uid = PodExt::uid(&*self.pod);
        Ok(ContainerPlan {
            directory: attempt.run(),
            holder: record.holder.clone(),
            ids: ids::RANGE,
            host_network: self.pod.host_network(),
            root: Root {
                lowers: base.lowers.clone(),
                upper: attempt.upper(),
                work: attempt.work(),
                read_only: context.read_only_root_filesystem == Some(true),
            },
            mounts,
            cgroups: self.shared.layout.plan(&self.shared.group, uid, group, &bounds),
            main: launch::main(&self.pod, container, &base.config, &env)?,
            env,
            working_directory: launch::working_directory(container, &base.config),
            user,
            capabilities: launch::capabilities(container)?,
            oom_score: resources::oom_score(&self.pod, container, self.shared.memory),
            log: LogLimits::default(),
            open_files: open_files::inherited(),
            file_bytes_max: Some(resources::disk(&self.pod).unwrap_or(self.shared.config.disk_bytes_max)),
        })
    }

    fn etc_mounts(&self) -> impl Iterator<Item = Mount> {
        ETC.map(|name| Mount {
            target: format!("/etc/{name}"),
            source: Source::Bind(self.directory.etc(name)),
            read_only: false,
        })
        .into_iter()
    }

    /// Puts the pod's files of `/etc` over an image's layers; whether that can be done.
    fn lay_etc(&self, lowers: &mut Vec<Lower>) -> std::io::Result<bool> {
        let found =
            lowers.iter().find_map(|lower| Some((lower, std::fs::symlink_metadata(lower.path.join("etc")).ok()?)));
        let base = self.directory.base();
        let etc = base.join("etc");
        files::mapped_directory(&base, 0o755)?;
        files::mapped_directory(&etc, 0o755)?;
        if let Some((lower, found)) = found {
            if !found.is_dir() {
                return Ok(false);
            }
            let outside = |id: u32| if lower.mapped { id.saturating_add(ids::BASE) } else { id };
            chown(&etc, Some(outside(found.uid())), Some(outside(found.gid())))?;
            std::fs::set_permissions(&etc, PermissionsExt::from_mode(found.mode() & 0o7777))?;
        }
        for name in ETC {
            files::mapped_file(&etc.join(name), &std::fs::read(self.directory.etc(name))?, 0o644, None)?;
        }
        lowers.insert(0, Lower { path: base, mapped: false });
        Ok(true)
    }

    /// Follows a running container: its probes while it lives, its end when that comes.
    pub(super) fn watch(&mut self, name: &str) {
        let (Some(container), Some(state)) = (self.container(name), self.containers.get_mut(name)) else { return };
        let attempt = state.restarts;
        if let Now::Running(running) = &mut state.now {
            running.started = container.startup_probe.is_none();
            running.ready = container.readiness_probe.is_none();
        }
        let Some(living) = self.living.get(name).cloned() else {
            // It has ended already.
            return self.exited(name, attempt);
        };
        let run: PathBuf = self.directory.attempt(name, attempt).run();
        let subject = Subject { container: container.clone(), run, network: self.network() };
        let (news, group, name) = (self.news.clone(), self.tasks.clone(), name.to_owned());
        let hooks = container.lifecycle.and_then(|lifecycle| lifecycle.post_start);
        self.tasks.spawn("container", async move {
            let (tell, mut hear) = mpsc::channel(FINDINGS_MAX);
            let probing = async {
                if let Some(hook) = hooks
                    && let Err(why) = super::stop::hook(&subject, &hook, Duration::from_secs(30)).await
                {
                    // Nobody listens only when the pod is gone.
                    let _ = tell.send(probe::Finding::Sick(format!("PostStartHook failed: {why}"))).await;
                }
                probe::watch(subject, tell).await;
                std::future::pending::<()>().await;
            };
            let mut probing = std::pin::pin!(probing);
            loop {
                let news_now = tokio::select! {
                    () = group.cancelled() => return,
                    () = living.ended() => News::Exited(name.clone(), attempt),
                    Some(finding) = hear.recv() => News::Found(name.clone(), attempt, finding),
                    () = &mut probing => return,
                };
                let ended = matches!(news_now, News::Exited(..));
                if news.send(news_now).await.is_err() || ended {
                    return;
                }
            }
        });
    }
}

/// The directories of a start.
fn make(attempt: &Attempt) -> std::io::Result<()> {
    files::private_directory(attempt.path())?;
    files::mapped_directory(&attempt.run(), 0o700)?;
    files::private_directory(&attempt.run().join(ROOT))?;
    files::mapped_directory(&attempt.upper(), 0o755)?;
    files::mapped_directory(&attempt.work(), 0o755)?;
    files::mapped_file(&attempt.run().join(LAST_WORD), b"", 0o666, None)
}

# Everything a contributor runs; `make help` lists it. Needs Rust and a C compiler; the rest is set up where it is used.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
TARGET_DIR = $(or $(CARGO_TARGET_DIR),target)
STATIC = $(TARGET_DIR)/$(HOST)/release/thane
# The program and what measures it are built alike, so that what both stand on is built once. Packed relocations: without,
# a process reads megabytes of them at its start only to find out where it is.
RELEASE = RUSTFLAGS='-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs' $(CARGO)
MEASURE = THANE_PROGRAM=target/release/thane $(RELEASE) run --release --locked --target $(HOST) --package thane-testkit --example
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: build
build: ## the static release program, at target/release/thane
	$(RELEASE) build --release --locked --package thane --target $(HOST)
	@mkdir -p target/release
	@ln -sfn "$$(realpath $(STATIC))" target/release/thane

.PHONY: up
up: build ## a hub and its clusters on this machine; prints where everything is
	target/release/thane up $(UP)

.PHONY: test
test: ## all tests; those that need peers say so when they are not built
	$(CARGO) test --workspace --locked --no-fail-fast

.PHONY: check
check: ## formatting, lints, tidiness, dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --locked --workspace --test tidy
	@if ! $(CARGO) deny --version >/dev/null 2>&1; then echo "cargo-deny is not installed: licenses, sources and duplicates were not checked (cargo install --locked cargo-deny)"; \
	else $(CARGO) deny check bans licenses sources; \
	  if $(CARGO) deny fetch db >/dev/null 2>&1; then $(CARGO) deny check --disable-fetch advisories; \
	  else echo "the advisory database could not be fetched: advisories were NOT checked"; fi; fi

.PHONY: peers
peers: ## build the real Kubernetes, etcd, argocd-agent and Argo CD, once; install what a node takes
	peers/build

# All commands name the workspace, so that third-party crates are built once, with one set of features.
SUITES = $(addprefix --test ,artifacts lint $(filter-out node tidy simulation,$(sort $(basename $(notdir $(wildcard crates/testkit/tests/*))))))

.PHONY: test-peers
test-peers: ## the tests against the real Kubernetes and argocd-agent; run `make peers` first
	$(CARGO) test --locked --workspace --no-run
	THANE_PEERS_REQUIRED=1 $(CARGO) test --locked --workspace $(SUITES) --no-fail-fast -- --nocapture

.PHONY: corpus
corpus: ## how the real Argo ends its own examples, recorded on a real node, as root; run `make peers` and `peers/build argo-workflows` first
	$(CARGO) run --locked --package thane-testkit --example corpus -- argo $(CORPUS)

.PHONY: test-node
test-node: image ## hub, agent, sandboxes and workloads on a real node with real Argo and Argo CD, as root; run `make peers` first
	agents=$$(agents/packed); THANE_AGENTS_IMAGE=$$agents \
	THANE_PROGRAM=$(CURDIR)/target/release/thane THANE_IMAGE=$(CURDIR)/target/thane-image.tar \
	  $(CARGO) test --locked --workspace --test node -- --nocapture

.PHONY: chaos
chaos: build ## two thousand claims while sandboxes, gateways and operators are killed, as root
	THANE_CHAOS=full THANE_PROGRAM=$(CURDIR)/target/release/thane \
	  $(CARGO) test --locked --package thane-testkit --test sandboxes -- --nocapture chaos

.PHONY: test-agents
test-agents: ## the Python agents with a real PostgreSQL, Chromium, LiteLLM and S3; sets itself up
	agents/test $(AGENTS)

.PHONY: test-pipeline
test-pipeline: build ## the agents' pipeline on one machine without a cluster, each agent killed once, as root; sets itself up
	agents/pipeline target/release/thane $(PIPELINE)

.PHONY: sim
sim: ## the protocol, and fleet and discovery over a simulated network; SEEDS=10000 for more
	SIM_SEEDS=$(or $(SEEDS),200) $(CARGO) test --release --locked --package thane-sync --test sim
	@# only with this flag is tokio's own choice among what is ready a matter of the seed
	SIM_SEEDS=$(or $(SEEDS),200) RUSTFLAGS="--cfg tokio_unstable" $(CARGO) test --release --locked \
		--target-dir target/simulation --package thane-testkit --test simulation

.PHONY: bench
bench: build ## side by side with kube-apiserver and etcd; run `make peers` first
	$(MEASURE) bench -- target/release/thane $(BENCH)

.PHONY: bench-fleet
bench-fleet: build ## a hub and an agent, Go's and ours beside each other, or one pair: BENCH='--hub thane'; run `make peers` first
	$(MEASURE) bench_fleet -- $(BENCH)

.PHONY: bench-crowd
bench-crowd: build ## a thousand agents on one hub, Go's with BENCH='--hub go --hub-api kubernetes'; run `make peers` first
	$(MEASURE) bench_crowd -- $(BENCH)

.PHONY: bench-live
bench-live: build ## live access beside Go's and the cluster itself, as root, or BENCH=--alone; run `make peers` first
	$(MEASURE) bench_live -- $(BENCH)

.PHONY: bench-discovery
bench-discovery: build ## discovery beside a real Consul, or BENCH=--alone; run `make peers` first
	$(MEASURE) bench_discovery -- $(BENCH)

.PHONY: bench-sandboxes
bench-sandboxes: build ## sandboxes beside runc, bwrap and a plain process, as root
	$(MEASURE) bench_sandboxes -- $(BENCH)

.PHONY: bench-workflows
bench-workflows: build ## workflows: starts, steps in pods and in warm sandboxes, many at once, as root
	$(MEASURE) bench_workflows -- $(BENCH)

.PHONY: bench-node
bench-node: ## workflows on a real node with pods, by a real Argo and by ours, as root; run `make peers` first
	NODE_CASE=speed $(MAKE) test-node

# The tools must read what this compiler writes: its own component, or a Debian package of the same major version.
LLVM = $(shell rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
OWN_TOOLS = $(shell rustc --print sysroot)/lib/rustlib/$(HOST)/bin
.PHONY: coverage
coverage: ## line coverage in coverage/html; COVERAGE='--package thane-kv' for a part
	@$(CARGO) llvm-cov --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-llvm-cov
	@[ -x $(OWN_TOOLS)/llvm-profdata ] || rustup component add llvm-tools || [ -x /usr/lib/llvm-$(LLVM)/bin/llvm-profdata ] || \
	  { echo "coverage needs llvm-profdata and llvm-cov $(LLVM): rustup component add llvm-tools, or apt install llvm-$(LLVM)"; exit 1; }
	@tools=$(OWN_TOOLS); [ -x $$tools/llvm-profdata ] || tools=/usr/lib/llvm-$(LLVM)/bin; \
	  export LLVM_COV=$$tools/llvm-cov LLVM_PROFDATA=$$tools/llvm-profdata; \
	  $(CARGO) llvm-cov $(or $(COVERAGE),--workspace) --locked --html --output-dir coverage && $(CARGO) llvm-cov report --summary-only

.PHONY: image
image: build ## an OCI archive of the program, at target/thane-image.tar
	$(CARGO) build --locked --workspace --example image
	$(TARGET_DIR)/debug/examples/image target/release/thane target/thane-image.tar localhost/thane:$(VERSION)
	@echo "target/thane-image.tar: localhost/thane:$(VERSION)"

.PHONY: image-agents
image-agents: ## an OCI archive of the Python agents, at target/agents-image.tar; needs Debian's mmdebstrap
	agents/image target/agents-image.tar localhost/thane-agents:$(VERSION)

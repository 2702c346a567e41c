# What a person or CI does with this tree. `make help` lists it.

.DEFAULT_GOAL := build
.PHONY: build setup demo test lint bench fuzz soak ebpf check-ebpf clean help

# Where cargo puts what it builds; the demo and the scripts ask the same variable.
CARGO_TARGET_DIR ?= $(CURDIR)/target
export CARGO_TARGET_DIR

# Seconds that `make fuzz` gives each target.
SECONDS ?= 30
# Times that `make soak` repeats the properties, and cases of each that names no number of its own.
ROUNDS ?= 50
CASES ?= 20000

build: ## Build target/release/sluice
	cargo build --release --locked -p control

setup: ## Install what is missing, by apt-get; nothing else is changed
	scripts/setup

demo: setup build ## Show the switch at work on this machine, in namespaces of its own (root)
	$(CARGO_TARGET_DIR)/release/sluice demo

test: setup ## Run every test, those that need root too
	scripts/test

lint: ## Formatting, clippy and documentation, warnings refused
	scripts/setup fuzz
	scripts/lint

bench: ## Measure the packet path in memory, under valgrind, and over veth (root)
	scripts/setup bench
	cargo run --release --locked -p bench -- all

fuzz: ## Fuzz each target for SECONDS (30)
	scripts/setup fuzz
	fuzz/run $(SECONDS)

soak: ## Repeat every property ROUNDS (50) times with new chance
	scripts/soak $(ROUNDS) $(CASES)

ebpf: ## Build ebpf/sluice.bpf.o from its sources (fetches a compiler; minutes the first time)
	ebpf/build

check-ebpf: ## Build the eBPF object elsewhere and compare it with the committed one
	ebpf/check

clean: ## Remove what was built
	cargo clean
	cargo clean --manifest-path fuzz/Cargo.toml --target-dir $(CARGO_TARGET_DIR)/fuzz
	rm -rf fuzz/corpus

help: ## Print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'

# make help lists the targets; `make run` and `make test` are all the set-up there is.
GO      ?= go
TAGS    := nomsgpack
PKGS    := ./...
BUILD   := -X main.version=$(shell git describe --tags --match 'v*' --dirty 2>/dev/null) \
	-X main.commit=$(shell git describe --always --exclude '*' --abbrev=12 --dirty 2>/dev/null) \
	-X main.date=$(shell TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null)
LDFLAGS := -s -w $(BUILD)
LINT    := $(GO) tool -modfile=.ci/tools.mod golangci-lint
BENCHTIME ?= 1s
FUZZTIME  ?= 20s

.DEFAULT_GOAL := help
.PHONY: help build run stack quick test race lint golden freeze fuzz mutants bench soak screenshots deps release release-dry-run vuln

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

build: ## build bin/sloengine, a static binary
	@CGO_ENABLED=0 scripts/build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/sloengine ./cmd/sloengine

run: build ## start the demo: thirty days of history, live traffic, status page
	./bin/sloengine demo

stack: build ## start engine, Prometheus and Alertmanager (and Grafana with containers), break something, show the alert
	@scripts/stack

deps: ## install what the tests need and is missing (Chromium, promtool, amtool, Redis, RabbitMQ from Debian, Kafka by Maven, OpenTelemetry's senders)
	@scripts/test-deps

quick: ## vet, and the tests without servers, browsers and other programs
	@scripts/quick

test: deps ## every test, the linter, and a count of what was skipped
	@scripts/test

# TestOneOracle is left out: it simulates Prometheus for thirty hours in one goroutine, which takes an hour when instrumented.
race: ## the tests under the race detector
	$(GO) test -race -tags $(TAGS) -short -skip '^TestOneOracle$$' -timeout 60m $(PKGS)

lint: ## golangci-lint, pinned in .ci/tools.mod
	$(LINT) run --build-tags $(TAGS) $(PKGS)

golden: ## rewrite the golden files from what the code does now
	$(GO) test -tags $(TAGS) $$(grep -rlF 'testkit.Golden' --include=*_test.go . | xargs -n1 dirname | sort -u | grep -v cmd/sloengine) -update
	$(GO) test -tags $(TAGS) ./cmd/sloengine -run 'TestMetricsDocument$$$$|TestDocument|TestContents|TestPrometheusRuleIsGenerated' -update

freeze: ## freeze the formats of this build as testdata/frozen/VERSION
	$(GO) test -tags $(TAGS) ./internal/e2e/faults -run 'TestFreeze$$' -count 1 -args -freeze $(VERSION)
	$(GO) test -tags $(TAGS) ./cmd/sloengine/app/config -run TestFrozenSettings -count 1 -args -freeze $(VERSION)

fuzz: ## every fuzz target for FUZZTIME each
	@scripts/fuzz $(FUZZTIME)

mutants: ## change the code in a hundred places, one at a time (scripts/mutants.txt), and see that a test fails
	@scripts/mutants $(WORD)

bench: build ## measure the figures of docs/performance.md, or of one SECTION
	@scripts/bench $(BENCHTIME) $(SECTION)

soak: build ## the crash tests for an hour (SOAK=1h)
	SLOENGINE_SOAK=$${SOAK:-1h} $(GO) test -tags $(TAGS) -timeout 0 -run 'TestCrash|TestPowerLoss' -count 1 -v ./internal/e2e/faults ./internal/e2e/otlp ./ingest/engine ./reliability/wal

screenshots: ## take the README's pictures again
	SLOENGINE_SCREENSHOTS=docs/pictures $(GO) test -tags $(TAGS) -run TestPage -count 1 ./internal/e2e/web

release-dry-run: ## build everything of a release twice, compare the bytes and look into the packages; publishes nothing
	@scripts/release-dry-run

release: ## publish the tag that is checked out (needs GITHUB_TOKEN, cosign and docker)
	$(GO) tool -modfile=.ci/release.mod goreleaser release --config .ci/goreleaser.yaml --clean

vuln: ## known vulnerabilities that the program can reach (asks the Go vulnerability database)
	$(GO) tool -modfile=.ci/release.mod govulncheck -tags $(TAGS) $(PKGS)

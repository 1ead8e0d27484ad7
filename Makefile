# One target per job. Every check is a verify-x whose update-x mends it.

GO ?= go
KUBERNETES := $(shell $(GO) list -m -f '{{.Version}}' k8s.io/kubernetes)
VERSION_PACKAGE := k8s.io/component-base/version
LDFLAGS := -s -w -X main.release=$(shell git describe --always --dirty 2>/dev/null) \
	-X $(VERSION_PACKAGE).gitVersion=$(KUBERNETES) -X $(VERSION_PACKAGE).gitMajor=1 -X $(VERSION_PACKAGE).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))

.PHONY: help build test conformance fidelity kubectls clients agents soak update-conformance update-golden update-columns fuzz bench lint fmt verify

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | column -t -s '	'

build: ## build bin/kubecase, stamped with the versions
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/kubecase .

test: ## run all tests
	$(GO) test -timeout 30m ./...

conformance: ## compare with what a real cluster answered; KUBECASE_DIFF=<regexp> shows misses
	$(GO) test -count=1 -timeout 30m -run 'TestExchanges|TestTranscripts' -v ./conformance/ | grep -v '^ *=== \|^ *--- PASS'

kubectls: ## run every recorded command with each installed kubectl and the built-in one
	KUBECASE_ALL_KUBECTLS=1 $(GO) test -count=1 -timeout 60m -run 'TestExitCodes|TestRecordedKubectl' -v ./conformance/ | grep -v '^ *=== \|^ *--- PASS'

CLIENTS ?= $(CURDIR)/bin/clients
clients: ## install other clients (Debian, npm, Go modules) and run them; slow the first time
	dpkg -s python3-kubernetes >/dev/null 2>&1 || apt-get install -y python3-kubernetes
	mkdir -p $(CLIENTS) && cp conformance/clients/* $(CLIENTS)/ && npm install --prefix $(CLIENTS) --no-audit --no-fund
	test -x $(CLIENTS)/stern || GOBIN=$(CLIENTS) $(GO) install github.com/stern/stern@v1.33.1
	test -x $(CLIENTS)/helm || GOBIN=$(CLIENTS) $(GO) install helm.sh/helm/v3/cmd/helm@v3.22.0
	test -x $(CLIENTS)/k9s || GOBIN=$(CLIENTS) $(GO) install github.com/derailed/k9s@v0.50.16
	dpkg -s tmux >/dev/null 2>&1 || apt-get install -y tmux
	KUBECASE_CLIENTS=$(CLIENTS) $(GO) test -count=1 -run 'TestLibraries|TestMCPServer|TestInsideContainers|TestStern|TestHelm|TestK9s|TestRecordedLibraries' -v ./conformance/

update-conformance: ## rewrite conformance/known-misses.tsv, keeping the causes
	KUBECASE_UPDATE=1 $(GO) test -count=1 -timeout 30m -run 'TestExchanges|TestTranscripts' ./conformance/

update-golden: ## rewrite the expected output in testdata/script
	$(GO) test -count=1 -run TestScripts . -update

update-columns: ## regenerate apiserver/builtin/columns-*.json from older Kubernetes versions
	apiserver/builtin/columns/update.sh 34.4 35.4 36.3

agents: build ## run the four scripted agents on all shipped cases and compare them
	rm -rf bin/runs
	for agent in closer guesser backwards repeater; do \
		bin/kubecase run $$(bin/kubecase cases -o name) --parallel 2 --agent $$agent --out bin/runs/$$agent -- agents/$$agent.sh >/dev/null || exit 1; \
	done
	bin/kubecase score bin/runs/*

fidelity: ## run every command of the public cases with the kubectl that printed them, and every tool; ten minutes
	KUBECASE_ALL_COMMANDS=1 $(GO) test -count=1 -timeout 30m -run 'TestPublicFidelity|TestPublicToolsEstablish' -v .

soak: ## a thousand idle watches and 64 busy clients for a minute
	KUBECASE_SOAK=1m $(GO) test -count=1 -run TestThousandWatchers -v ./apiserver/

.PHONY: browser
browser: ## look at the pages in headless Chromium, which is installed where it isn't (Debian)
	command -v chromium >/dev/null || apt-get install -y chromium
	KUBECASE_BROWSER=1 $(GO) test -count=1 -run 'Looks' -v ./evaluator/report/

FUZZTIME ?= 30s
fuzz: ## run every fuzz target for FUZZTIME
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; done

bench: ## run the benchmarks; KUBE_APISERVER=<binary> compares with a real server
	$(GO) test -run '^$$' -bench . -benchmem ./...

GOLANGCI_LINT ?= golangci-lint
lint: ## run the linters of .golangci.yml (golangci-lint v2)
	$(GOLANGCI_LINT) run ./...

fmt: ## format the code
	gofmt -w $$(git ls-files '*.go')

verify: ## check formatting, vet and that go.mod is tidy
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run 'make fmt'"; exit 1; }
	$(GO) vet ./...
	$(GO) mod tidy -diff

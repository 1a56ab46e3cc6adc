# test/faults/faults.mk
#
# Real faults (see README.md in this folder).  The report goes to
# build/evidence, its progress to the terminal.  Part of the Makefile.

#: Real faults:
#:   faults         three instances and a real store under faults, judged;
#:                  DURATION=1h (4min), STORE=consul|cassandra|azure, SEED=n
#:   traces         the same for two minutes on each store (STORE=consul for one), with
#:                  each decision of the workers judged, too; DURATION=2min
#:   judge          the programs that judge, and their tests
#:

DURATION ?= 4min
FAULTS_STORE = $(if $(filter-out local,$(STORE)),$(STORE),consul)
FAULTS_REPORT = build/evidence/$(if $(TRACES),traces,faults)-$(FAULTS_STORE).txt
GO = $(or $(shell command -v go),/usr/local/go/bin/go)

.PHONY: faults traces judge
judge:
	cd test/traces && $(GO) vet . && $(GO) test . && \
		$(GO) build -o ../../build/traces-judge .
	cd test/faults/judge && $(GO) vet . && $(GO) test . && \
		$(GO) build -o ../../../build/faults-judge .

# A disk that is full for some files of an instance.
build/full-disk.so: test/faults/full_disk.c
	@mkdir -p $(@D)
	$(TEST_CC) -O2 -fPIC -shared $(TEST_WARNINGS) -o $@ $< -ldl

faults: judge build/full-disk.so $(if $(filter cassandra,$(FAULTS_STORE)),gateway)
	@$(BUILD) --silent
	@mkdir -p $(dir $(FAULTS_REPORT))
	@scripts/source-id $(if $(filter consul,$(FAULTS_STORE)),extension) \
		> $(FAULTS_REPORT:.txt=.source)
	@STORE=$(FAULTS_STORE) DURATION=$(DURATION) SEED=$(SEED) ONLY="$(ONLY)" TRACES=$(TRACES) \
		$(if $(TRACES),$(TEST_SANDBOX),$(SANDBOX)) test/faults/run > $(FAULTS_REPORT); rc=$$?; \
		cat $(FAULTS_REPORT); exit $$rc

# The stores in turn, whatever one of them shows.
traces: DURATION = 2min
traces:
	@rc=0; for store in $(if $(filter-out local,$(STORE)),$(STORE),$$(test/faults/stores)); do \
		$(MAKE) --no-print-directory faults TRACES=1 STORE=$$store DURATION=$(DURATION) \
			|| rc=1; \
	done; exit $$rc

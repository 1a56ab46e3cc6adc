# leader_election/Makefile
#
# Built with PGXS, for the PostgreSQL whose pg_config comes first on PATH or
# is named by PG_CONFIG.  "make help" lists the targets.  Those that install
# their own prerequisites (demo, test, ...) also work on a machine that has no
# PostgreSQL headers yet, so pgxs.mk is included only when it is there.

MODULE_big = leader_election
EXTENSION = leader_election
PGFILEDESC = "leader_election - elect a leader through a lease store"
DATA = sql/leader_election--1.0.sql

# Every C file below src/ is part of the library; its folders are the rooms of
# docs/architecture.md.
in_room = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/src/$(1)*.c)))

# Decisions only: compiled without any PostgreSQL header by the unit tests.
CORE_OBJS = $(call in_room,core/)

# Codecs: also compiled as frontend code by the unit tests and the fuzzers.
STORE_OBJS = $(call in_room,store/)

OBJS = $(call in_room) $(CORE_OBJS) $(STORE_OBJS) $(call in_room,shmem/) \
	$(call in_room,worker/) $(call in_room,sql/)

# Every input file in sql/ but the install scripts is a regression test.
REGRESS = $(filter-out leader_election--%, \
	$(basename $(notdir $(sort $(wildcard $(srcdir)/sql/*.sql)))))
REGRESS_OPTS = --inputdir=$(srcdir) --encoding=UTF8 --no-locale

# timer_create() is in librt before glibc 2.34
SHLIB_LINK += -lcurl -lrt

# PostgreSQL's own headers and calling conventions do not allow for
# -Wunused-parameter and -Wsign-compare.
WARNINGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Werror=implicit-function-declaration \
	$(if $(WERROR),-Werror)
# Flags of another compiler, recorded in pg_config, are no concern of clang's.
CLANG_QUIET = -Wno-unknown-warning-option -Wno-ignored-attributes \
	-Wno-ignored-optimization-argument
CC_QUIET = $(if $(findstring clang,$(CC)),$(CLANG_QUIET))

PG_CPPFLAGS = -I$(srcdir)/src
PG_CFLAGS = $(WARNINGS) $(CC_QUIET) -MMD -MP
EXTRA_CLEAN = build tmp_check $(OBJS:.o=.d)

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
# Debian's client package has pgxs.mk, so that alone shows nothing.
PG_HEADER := $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)/postgres.h

# all is the default target, whatever else follows
all:

ifneq ($(and $(wildcard $(PGXS)),$(wildcard $(PG_HEADER))),)
include $(PGXS)

# A header that changes rebuilds what includes it, bitcode too.
-include $(OBJS:.o=.d)
ifeq ($(with_llvm),yes)
$(OBJS:.o=.bc): %.bc: %.o
endif

# A VPATH build needs the directories of the objects.
ifdef VPATH
ROOMS = src/core src/store src/shmem src/worker src/sql
$(OBJS): | $(ROOMS)
$(ROOMS):
	$(MKDIR_P) $@
endif
else
srcdir = .
all install uninstall installcheck:
	@echo "$(MAKE): the PostgreSQL server headers (PGXS) were not found;" \
		"set PG_CONFIG or run \"make deps\"" >&2; exit 1
clean:
	rm -rf $(EXTRA_CLEAN) $(OBJS) $(OBJS:.o=.bc) $(MODULE_big).so
endif

#
# Unit tests of core and store, by flavour: asan (the default), plain (for
# valgrind) and fuzz.  Each test/unit/test_NAME.c is one cmocka program, each
# test/unit/fuzz_NAME.c one libFuzzer target; the other files of the directory
# are linked into all of them.
#
UNIT_TESTS = $(basename $(notdir $(wildcard test/unit/test_*.c)))
UNIT_FUZZERS = $(basename $(notdir $(wildcard test/unit/fuzz_*.c)))
UNIT_COMMON = $(basename $(notdir $(filter-out test/unit/test_% \
	test/unit/fuzz_%,$(wildcard test/unit/*.c))))

# Tables of cases leave out what is zero, which -Wextra takes for a slip.
UNIT_WARNINGS = $(WARNINGS) -Wno-missing-field-initializers

UNIT_CC = $(if $(filter default undefined,$(origin CC)),gcc,$(CC))
UNIT_CFLAGS = -std=gnu99 -g $(UNIT_WARNINGS) $(CC_QUIET) -fno-strict-aliasing \
	-fwrapv -fno-omit-frame-pointer -MMD -MP -Isrc
SANITIZE = address,undefined
FUZZ_SECONDS ?= 20
VALGRIND ?= valgrind --quiet --error-exitcode=9 --leak-check=full

pg_dir = $(shell $(PG_CONFIG) --$(1))
UNIT_PG_CFLAGS = -DFRONTEND -I$(call pg_dir,includedir-server) \
	-I$(call pg_dir,includedir)
UNIT_LIBS = -L$(call pg_dir,pkglibdir) -L$(call pg_dir,libdir) \
	-lpgcommon -lpgport -lm -lpthread

# $(call unit_flavour,NAME,COMPILER,FLAGS,FLAGS OF THE PROGRAMS)
define unit_flavour
build/$(1)/core/%.o: src/core/%.c
	@mkdir -p $$(@D)
	$(2) $$(UNIT_CFLAGS) $(3) -c -o $$@ $$<
build/$(1)/store/%.o: src/store/%.c
	@mkdir -p $$(@D)
	$(2) $$(UNIT_CFLAGS) $(3) $$(UNIT_PG_CFLAGS) -c -o $$@ $$<
build/$(1)/unit/%.o: test/unit/%.c
	@mkdir -p $$(@D)
	$(2) $$(UNIT_CFLAGS) $(3) $$(UNIT_PG_CFLAGS) -Itest/unit -c -o $$@ $$<
$$(addprefix build/$(1)/,$$(UNIT_TESTS) $$(UNIT_FUZZERS)): build/$(1)/%: \
		build/$(1)/unit/%.o $$(UNIT_COMMON:%=build/$(1)/unit/%.o) \
		$$(patsubst src/%,build/$(1)/%,$$(CORE_OBJS) $$(STORE_OBJS))
	$(2) $(3) $(4) -o $$@ $$^ $$(UNIT_LIBS) \
		$$(if $$(filter test_%,$$*),-lcmocka)
-include $$(wildcard build/$(1)/*/*.d)
endef
$(eval $(call unit_flavour,asan,$$(UNIT_CC),-O1 -fsanitize=$$(SANITIZE) -fno-sanitize-recover=all))
$(eval $(call unit_flavour,plain,$$(UNIT_CC),-O1))
$(eval $(call unit_flavour,fuzz,clang,-O1 $$(CLANG_QUIET) -fsanitize=$$(SANITIZE)$$(comma)fuzzer-no-link -fno-sanitize-recover=all,-fsanitize=fuzzer))
comma := ,

# $(call run_each,PREFIX,PROGRAMS): runs all, fails if one of them did
run_each = @rc=0; for t in $(2); do echo "$(1)$$t"; \
	$(1)$$t || rc=1; done; exit $$rc

.PHONY: unit valgrind fuzz
unit: $(UNIT_TESTS:%=build/asan/%)
	$(call run_each,,$^)

valgrind: $(UNIT_TESTS:%=build/plain/%)
	$(call run_each,$(VALGRIND) ,$^)

fuzz: $(UNIT_FUZZERS:%=build/fuzz/%)
	@set -e; for f in $(UNIT_FUZZERS); do \
		name=$${f#fuzz_}; new=build/fuzz/corpus/$$name; \
		seeds=test/unit/corpus/$$name; \
		mkdir -p $$new; test -d $$seeds || seeds=; \
		echo "$$f, $(FUZZ_SECONDS) s"; \
		build/fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
			-max_len=65536 -print_final_stats=1 -verbosity=0 \
			-artifact_prefix=build/fuzz/$$f- $$new $$seeds; \
	done

#
# Deterministic simulation (test/sim): the worker's own code, its static
# variables gathered in one section by state.lds, in a world of virtual clocks.
#
SIM_MODELLED = $(addprefix src/worker/,claimlog.o http.o statefile.o tokens.o)
SIM_WORKER = $(CORE_OBJS) \
	$(filter-out $(SIM_MODELLED),$(call in_room,worker/)) \
	$(addprefix src/,shmem/bound.o shmem/clock.o shmem/leases.o sql/arguments.o \
		sql/fence.o sql/jobs.o sql/xact.o)
SIM_OBJS = $(patsubst test/sim/%.c,build/sim/%.o,$(wildcard test/sim/*.c)) \
	$(patsubst src/%,build/sim/%,$(STORE_OBJS))
SIM_CFLAGS = -std=gnu99 -O3 $(SIM_NATIVE) $(SIM_PROFILE) -fno-pie \
	$(UNIT_WARNINGS) $(CC_QUIET) -fno-strict-aliasing -fwrapv -D_GNU_SOURCE \
	-MMD -MP -Isrc -Itest/sim \
	-I$(call pg_dir,includedir-server) -I$(call pg_dir,includedir)/internal \
	-I$(call pg_dir,pkgincludedir)/internal

# What makes it quicker, where it is to be had: many small functions that call
# each other are compiled as one (Clang would need another linker for that),
# for this very machine, without a detour to those of the C library, and as
# some schedules of a first build have shown which way is taken how often.
supported = $(shell echo 'int main(void) { return 0; }' | \
	$(UNIT_CC) $(1) -x c -o /dev/null - 2> /dev/null && echo '$(1)')
SIM_UNIT = $(if $(findstring clang,$(UNIT_CC)),,-flto -flto-partition=one)
SIM_NATIVE = $(eval SIM_NATIVE := $(call supported,-march=native))$(SIM_NATIVE)
SIM_STATIC = $(eval SIM_STATIC := $(call supported,-static))$(SIM_STATIC)
SIM_LEARNED = $(if $(SIM_UNIT),build/learned)
SIM_PROFILE = $(if $(SIM_LEARNED),-fprofile-use -Wno-missing-profile)

# In the same place, since what was counted is found by the objects' names.
# Schedules that crash or hang leave nothing to learn from; that does no harm.
build/learned: $(wildcard test/sim/*.[ch] src/*.[ch] src/*/*.[ch]) \
		test/sim/state.lds Makefile
	@rm -rf build/sim
	@$(MAKE) --no-print-directory SIM_LEARNED= \
		SIM_PROFILE=-fprofile-generate build/sim/sim
	-seq -f seed=%.0f 3000 | timeout 60 build/sim/sim regress /dev/stdin > $@.log
	@find build/sim -type f ! -name '*.gcda' -delete
	@touch $@
$(SIM_OBJS) $(SIM_WORKER:src/%=build/sim/worker/%): $(SIM_LEARNED)

build/sim/test/%.o build/sim/%.o: test/sim/%.c
	@mkdir -p $(@D)
	$(UNIT_CC) $(SIM_CFLAGS) $(SIM_UNIT) -c -o $@ $<
# Its jumps must not become part of others, nor be counted.
build/sim/coroutine.o: SIM_UNIT =
build/sim/coroutine.o: override SIM_PROFILE =
build/sim/store/%.o: src/store/%.c
	@mkdir -p $(@D)
	$(UNIT_CC) $(SIM_CFLAGS) $(SIM_UNIT) -c -o $@ $<
build/sim/worker/%.o: src/%.c
	@mkdir -p $(@D)
	$(UNIT_CC) $(SIM_CFLAGS) $(SIM_UNIT) -fdata-sections -c -o $@ $<
# The libraries that do the counting are no part of the worker.
build/sim/worker.o: private override SIM_PROFILE =
build/sim/worker.o: $(SIM_WORKER:src/%=build/sim/worker/%) test/sim/state.lds Makefile
	$(UNIT_CC) $(SIM_CFLAGS) $(SIM_UNIT) -fdata-sections -r -nostdlib \
		$(and $(SIM_UNIT),-flinker-output=nolto-rel) -o build/sim/unit.o \
		$(filter %.o,$^)
	$(LD) -r -T test/sim/state.lds -o $@ build/sim/unit.o
build/sim/sim: build/sim/worker.o $(SIM_OBJS)
	$(UNIT_CC) $(SIM_CFLAGS) $(SIM_UNIT) $(or $(SIM_STATIC),-no-pie) \
		-Wl,--wrap=clock_gettime -o $@ $^ $(UNIT_LIBS)
-include $(wildcard build/sim/*.d build/sim/*/*.d build/sim/*/*/*.d)

SCHEDULES ?= 500000
EXHAUST ?= 1
.PHONY: sim sim-load mutants evidence
sim: build/sim/sim
	@test/sim/run $(if $(SEED),replay seed=$(SEED) $(EDIT),\
		run schedules=$(SCHEDULES) $(if $(FROM),from=$(FROM)) -- $(EXHAUST))

sim-load: build/sim/sim
	@test/sim/run load

mutants:
	@test/mutants/run $(M)

evidence:
	@scripts/evidence

#
# Everything that starts servers: in a private directory, as an unprivileged
# user, with the extension staged there (see scripts/sandbox).
#
STORE ?= local
PROVE_JOBS ?= 2
T ?= test/t/*.pl
SANDBOX = PG_CONFIG="$(PG_CONFIG)" PROVE_JOBS="$(PROVE_JOBS)" \
	MAKE="$(MAKE)" scripts/sandbox
BUILD = $(MAKE) --no-print-directory all with_llvm=no

.PHONY: deps test regress pgtap tap jobs test-versions demo bench failover \
	bench-gateway
deps:
	scripts/deps all

# A new make for the rest, since deps may have installed the PGXS.
test:
	scripts/deps test
	$(BUILD)
	$(MAKE) --no-print-directory gateway unit sim
	test/gateway/run
	$(MAKE) --no-print-directory faults STORE=consul DURATION=4min
	$(SANDBOX) test/run regress pgtap tap

regress pgtap:
	$(BUILD)
	$(SANDBOX) test/run $@

tap: gateway build/sim/sim
	$(BUILD)
	$(SANDBOX) test/run tap $(T)

# Two tests of tap, for longer, and their numbers.
jobs: DURATION = 10min
jobs: gateway
	$(BUILD)
	@JOBS_DURATION=$(DURATION) $(SANDBOX) test/run tap \
		test/t/084_run_faults.pl test/t/087_run_cassandra.pl

test-versions:
	test/versions $(VERSIONS)

demo:
	@scripts/deps demo $(STORE)
	@$(BUILD) --silent $(if $(filter cassandra,$(STORE)),gateway)
	@$(SANDBOX) scripts/demo $(STORE)

bench:
	@$(BUILD) --silent
	@$(SANDBOX) bench/run

failover:
	@$(BUILD) --silent
	@$(SANDBOX) bench/failover

bench-gateway: gateway
	@$(BUILD) --silent
	cd test/gateway && go test -c -o ../../build/gateway-tests .
	@$(SANDBOX) bench/gateway

#
# Real faults (see test/faults/README.md).  The report goes to build/evidence,
# its progress to the terminal.
#
DURATION ?= 4min
FAULTS_STORE = $(if $(filter-out local,$(STORE)),$(STORE),consul)
FAULTS_REPORT = build/evidence/faults-$(FAULTS_STORE).txt
GO = $(or $(shell command -v go),/usr/local/go/bin/go)

.PHONY: faults judge
judge:
	cd test/faults/judge && $(GO) vet . && $(GO) test . && \
		$(GO) build -o ../../../build/faults-judge .

faults: judge $(if $(filter cassandra,$(FAULTS_STORE)),gateway)
	@$(BUILD) --silent
	@mkdir -p $(dir $(FAULTS_REPORT))
	@scripts/source-id $(if $(filter consul,$(FAULTS_STORE)),extension) \
		> $(FAULTS_REPORT:.txt=.source)
	@STORE=$(FAULTS_STORE) DURATION=$(DURATION) SEED=$(SEED) ONLY="$(ONLY)" \
		$(SANDBOX) test/faults/run > $(FAULTS_REPORT); rc=$$?; \
		cat $(FAULTS_REPORT); exit $$rc

#
# The Cassandra gateway, a Go module of its own.  Its unit tests take seconds;
# the rest starts a real Cassandra (see test/gateway/run).
#
.PHONY: gateway gateway-unit gateway-test
gateway:
	@mkdir -p build
	cd gateway && go build -o ../build/le-gateway ./cmd/le-gateway

gateway-unit:
	cd gateway && go vet ./... && go test ./...

gateway-test:
	test/gateway/run

.PHONY: lint format
lint:
	scripts/style --check
	scripts/lint

format:
	scripts/style --fix

.PHONY: help
help:
	@echo "Usage: make [TARGET] [VARIABLE=VALUE ...]"
	@echo
	@echo "  all            build the extension (default)"
	@echo "  install        install it; DESTDIR=dir stages it"
	@echo "  uninstall      remove what install put there"
	@echo "  installcheck   pg_regress against a running server that preloads it"
	@echo "  clean          remove everything that was built"
	@echo
	@echo "  demo           a leader, its loss and the takeover; STORE=local|consul|"
	@echo "                 cassandra"
	@echo "  test           unit, sim, gateway-test, regress, pgtap, tap and faults;"
	@echo "                 installs what they need"
	@echo "  unit           unit tests of core and store codecs under ASan and UBSan"
	@echo "  sim            deterministic simulation, SCHEDULES=n ($(SCHEDULES));"
	@echo "                 SEED=n replays one with a trace"
	@echo "  sim-load       requests per second of up to 100 simulated nodes"
	@echo "  mutants        deliberate defects, each of which a test must catch;"
	@echo "                 M=\"margin-0\" for one"
	@echo "  evidence       docs/evidence.md from what the last runs left"
	@echo "  regress        pg_regress on a throw-away instance"
	@echo "  pgtap          pgTAP tests on a throw-away instance"
	@echo "  tap            TAP tests with several instances and a real Consul;"
	@echo "                 T=\"test/t/003*.pl\" runs some, PROVE_JOBS=n ($(PROVE_JOBS))"
	@echo "  jobs           scheduled jobs on three instances that fail, with Consul and"
	@echo "                 with Cassandra; DURATION=1h (10min)"
	@echo "  test-versions  build and pg_regress on PostgreSQL 16.14 and 18.6;"
	@echo "                 VERSIONS=18.6 for one"
	@echo "  bench          cost of a check beside pg_is_in_recovery(), of a round trip"
	@echo "                 through the worker, and of the fence in a transaction"
	@echo "  failover       time from kill -9 of a leader to the next one, beside"
	@echo "                 Consul's own client; ROUNDS=n (3)"
	@echo "  bench-gateway  leases through extension and gateway beside the bare CQL"
	@echo "                 statement; handoff, failover, renewal of many; ROUNDS=n (3)"
	@echo "  faults         three instances and a real store under faults, judged;"
	@echo "                 DURATION=1h ($(DURATION)), STORE=consul|cassandra,"
	@echo "                 SEED=n"
	@echo "  judge          the program that judges, and its tests"
	@echo "  valgrind       unit tests under valgrind"
	@echo "  fuzz           codecs under libFuzzer, FUZZ_SECONDS=n each ($(FUZZ_SECONDS))"
	@echo
	@echo "  gateway        build the Cassandra lease gateway (build/le-gateway)"
	@echo "  gateway-unit   its unit tests"
	@echo "  gateway-test   all its tests, on a real Cassandra; LONG=1, QUICK=1"
	@echo
	@echo "  lint           style check, cppcheck, shellcheck"
	@echo "  format         repair what the style check can repair"
	@echo "  deps           install what any of these need (as root, Debian)"
	@echo
	@echo "Variables: PG_CONFIG=path, CC=compiler, WERROR=1, LE_KEEP=1 (keep the"
	@echo "private directory of the tests), LE_CONSUL=path (a consul binary)."

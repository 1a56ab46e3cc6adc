# leader_election/Makefile
#
# Built with PGXS, for the PostgreSQL with the first pg_config on PATH, or with
# that of PG_CONFIG.  Targets that install their own prerequisites (demo, test,
# ...) also work on a machine without PostgreSQL headers, so pgxs.mk is included
# only if installed.  "make help" prints the lines with "#:", here and in the
# files that this one includes.

#: Usage: make [TARGET] [VARIABLE=VALUE ...]
#:
#: Variables: PG_CONFIG=path, CC=compiler, WERROR=1, LE_KEEP=1 (keep the
#: private directory of the tests), LE_CONSUL=path (a consul binary).
#:
#: The extension:
#:   all            build it (default)
#:   install        install it; DESTDIR=dir stages it
#:   uninstall      remove what install put there
#:   installcheck   pg_regress against a running server that preloads it
#:   clean          remove everything that was built
#:   (WITHOUT_CURL=1 builds it without libcurl, for the store "local" alone)
#:   demo           a leader, its loss and the takeover;
#:                  STORE=local|consul|cassandra|azure (local)
#:   gateway        build the Cassandra lease gateway (build/le-gateway)
#:   deps           install what any of these targets need (as root, Debian)
#:

MODULE_big = leader_election
EXTENSION = leader_election
PGFILEDESC = "leader_election - elect a leader through a lease store"
# The control file has the version's number; test/t/008_version.pl checks copies.
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" \
	$(srcdir)/$(EXTENSION).control)
DATA = sql/$(EXTENSION)--$(EXTVERSION).sql

# Every C file below src/ is part of the library; its folders are the rooms of
# docs/architecture.md.
in_room = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/src/$(1)*.c)))

# Decisions only: compiled without any PostgreSQL header by the unit tests.
CORE_OBJS = $(call in_room,core/)

# Codecs: also compiled as frontend code by the unit tests and the fuzzers.
STORE_OBJS = $(call in_room,store/)

# Only one file uses libcurl; without it the stores that speak HTTP are refused.
HTTP = src/worker/wire/$(if $(WITHOUT_CURL),no_http,http).o
WORKER_OBJS = $(call in_room,worker/) $(HTTP) \
	$(filter-out %/http.o %/no_http.o,$(call in_room,worker/*/))

OBJS = $(call in_room) $(CORE_OBJS) $(STORE_OBJS) $(call in_room,shmem/) \
	$(WORKER_OBJS) $(call in_room,sql/)

# Every input file in sql/ but the install scripts is a regression test.
REGRESS = $(filter-out leader_election--%, \
	$(basename $(notdir $(sort $(wildcard $(srcdir)/sql/*.sql)))))
REGRESS_OPTS = --inputdir=$(srcdir) --encoding=UTF8 --no-locale

# timer_create() is in librt before glibc 2.34
SHLIB_LINK += $(if $(WITHOUT_CURL),,-lcurl) -lrt

# PostgreSQL's own headers and calling conventions do not allow for
# -Wunused-parameter and -Wsign-compare.
WARNINGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Werror=implicit-function-declaration \
	$(if $(WERROR),-Werror)
# Clang must ignore flags of another compiler that pg_config has recorded.
CLANG_QUIET = -Wno-unknown-warning-option -Wno-ignored-attributes \
	-Wno-ignored-optimization-argument
CC_QUIET = $(if $(findstring clang,$(CC)),$(CLANG_QUIET))

PG_CPPFLAGS = -I$(srcdir)/src -DLE_VERSION='"$(EXTVERSION)"' \
	$(if $(ASSERT),-DUSE_ASSERT_CHECKING -DLE_TRACES) \
	$(if $(WITHOUT_CURL),-DLE_WITHOUT_CURL)
PG_CFLAGS = $(WARNINGS) $(CC_QUIET) -MMD -MP
EXTRA_CLEAN = build tmp_check $(OBJS:.o=.d)

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
# Debian's client package has pgxs.mk, too, so look for a server header.
PG_HEADER := $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)/postgres.h

# The first target is the default.
all:

ifneq ($(and $(wildcard $(PGXS)),$(wildcard $(PG_HEADER))),)
include $(PGXS)

# A changed header rebuilds its includers, bitcode too.
-include $(OBJS:.o=.d)
src/leader_election.o src/sql/functions.o: $(EXTENSION).control

# Another PostgreSQL, with headers elsewhere, or other flags rebuild all.
BUILT_FOR := $(shell mkdir -p build && \
	now='$(MAJORVERSION) $(pkglibdir) $(CC) $(ASSERT) $(WITHOUT_CURL)' && \
	{ [ "$$now" = "$$(cat build/built-for)" ] || \
		echo "$$now" > build/built-for; } 2>/dev/null)
$(OBJS) $(OBJS:.o=.bc): build/built-for
ifeq ($(with_llvm),yes)
$(OBJS:.o=.bc): %.bc: %.o
endif

# The tests take and give up all of the server's elections.
installcheck: may-installcheck
.PHONY: may-installcheck
may-installcheck:
	@$(srcdir)/scripts/may-installcheck '$(bindir)/psql'

# A VPATH build looks up sources in the tree, but no products, which have other
# flags.  It needs the directories of the objects, by their full names, or else make
# would find those of the sources.
ifdef VPATH
out_of_tree := yes
# VPATH, if that is given to make
srcdir := $(srcdir)
vpath %.c $(srcdir)
vpath %.control $(srcdir)
override VPATH :=
ROOMS = $(patsubst %/,$(CURDIR)/%,$(sort $(dir $(OBJS))))
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
# Targets that start servers: in a private directory, as an unprivileged user,
# with the extension staged there (see scripts/sandbox).
#
STORE ?= local
PROVE_JOBS ?= $(shell expr 3 \* $$(nproc))
T ?=
SANDBOX = PG_CONFIG="$(PG_CONFIG)" PROVE_JOBS="$(PROVE_JOBS)" \
	MAKE="$(MAKE)" scripts/sandbox
# Tests check the Asserts; measurements and demos do not.
TEST_SANDBOX = LE_ASSERT=1 $(SANDBOX)
BUILD = $(MAKE) --no-print-directory all with_llvm=no

#: Tests; servers are thrown away afterwards:
#:   test-quick     unit, a short simulation, regress and pgtap, with nothing
#:                  but PostgreSQL; installs what they need
#:   test           unit, sim, gateway-test, faults, regress, pgtap and tap, some side
#:                  by side, in a quarter of an hour; installs what they need
#:   test-long      what takes longer: the other TAP tests, proofs, more schedules, long
#:                  faults on each store, the gateway for longer, a quick bench,
#:                  packages-test
#:   test-list      the TAP tests: in which of the two, how many seconds, what they show
#:   steady         test, RUNS=n times (5) beside a load: which tests depend on the
#:                  machine's speed, as a table
#:   regress        pg_regress
#:   pgtap          pgTAP tests
#:   tap            several instances and real stores, those of "test";
#:                  T="test/t/003*.pl" runs others, PROVE_JOBS=n (3 a processor)
#:   store-test     the contract of all stores, judged on one; STORE=consul,
#:                  cassandra, azure or local, or the name of a new one
#:   jobs           scheduled jobs on three instances that fail, with Consul
#:                  and with Cassandra; DURATION=1h (10min)
#:   gateway-unit   unit tests of the gateway
#:   gateway-test   all its tests, on a real Cassandra; LONG=1, QUICK=1
#:   test-postgres  PostgreSQL's own regression suite, with the extension
#:                  preloaded and each query bound to a term, and without:
#:                  the same output; TESTS="int4 join" for some
#:   test-versions  build, pg_regress and some TAP tests with PostgreSQL 15 to 18
#:                  and a preview of 19; VERSIONS=18 for one, FRESH=1 fetches
#:                  them anew
#:   metrics        make docs/monitoring/*.yaml anew from metrics.yaml
#:   gateway-man    make gateway/le-gateway.8 anew from what --help prints
#:   lint           style check, cppcheck, shellcheck, and the tests of pages,
#:                  alerts, reports, rooms and mutants in test/lint
#:   format         repair what the style check can repair
#:

RUNS ?= 5
.PHONY: deps test test-long test-list test-quick steady regress pgtap tap store-test jobs \
	test-postgres test-versions demo
deps:
	scripts/deps all

test-quick:
	@PG_CONFIG="$(PG_CONFIG)" test/quick

# Runs make again, since deps may have installed the PGXS.
test:
	scripts/deps test
	@$(SANDBOX:scripts/sandbox=test/all)

test-long:
	scripts/deps test
	@$(SANDBOX:scripts/sandbox=test/all) long

test-list:
	@test/list

steady:
	scripts/deps test
	@$(SANDBOX:scripts/sandbox=test/steady) $(RUNS)

regress pgtap:
	$(BUILD)
	$(TEST_SANDBOX) test/run $@

tap: gateway goclient build/full-disk.so build/sim/sim
	$(BUILD)
	$(TEST_SANDBOX) test/run tap $(T)

store-test: gateway
	$(BUILD)
	$(TEST_SANDBOX) test/run tap test/contract/$(STORE).pl

# Two TAP tests, for longer, with their numbers.
jobs: DURATION = 10min
jobs: gateway
	$(BUILD)
	@JOBS_DURATION=$(DURATION) $(TEST_SANDBOX) test/run tap \
		test/t/084_run_faults.pl test/t/087_run_cassandra.pl

test-postgres:
	$(BUILD)
	@$(SANDBOX:scripts/sandbox=test/postgres/run) $(TESTS)

test-versions:
	test/versions/run $(VERSIONS)

# Consul's own Go client, for a TAP test.
.PHONY: goclient
goclient:
	@mkdir -p build
	cd test/goclient && go build -o ../../build/consul-lock .

demo:
	@scripts/deps demo $(STORE)
	@$(BUILD) --silent $(if $(filter cassandra,$(STORE)),gateway)
	@$(SANDBOX) scripts/demo $(STORE)

#
# The Cassandra gateway, a Go module of its own.  Its unit tests take seconds;
# the rest starts a real Cassandra (see test/gateway/run).
#
.PHONY: gateway gateway-man gateway-unit gateway-test
gateway:
	@mkdir -p build
	cd gateway && go build -o ../build/le-gateway ./cmd/le-gateway

# The page is in the tree: the builder of a package may be unable to run the program.
gateway-man: gateway
	{ build/le-gateway schema --help; build/le-gateway help; } | \
		awk -f gateway/man.awk > gateway/le-gateway.8

gateway-unit:
	cd gateway && go vet ./... && go test ./...

gateway-test:
	test/gateway/run

.PHONY: metrics lint format
metrics:
	scripts/metrics

lint:
	scripts/style --check
	scripts/lint

format:
	scripts/style --fix

#
# Parts of this file, in the folders of their sources.
#

# The compiler and flags of unit tests and simulator.  Tables of cases leave out
# zero fields, which -Wextra warns of.
TEST_CC = $(if $(filter default undefined,$(origin CC)),gcc,$(CC))
TEST_WARNINGS = $(WARNINGS) -Wno-missing-field-initializers $(CC_QUIET)
pg_dir = $(shell $(PG_CONFIG) --$(1))
TEST_LIBS = -L$(call pg_dir,pkglibdir) -L$(call pg_dir,libdir) \
	-lpgcommon -lpgport -lm -lpthread

PARTS = test/unit/unit.mk test/sim/sim.mk test/prove/prove.mk \
	test/faults/faults.mk bench/bench.mk lectl/lectl.mk packages/packages.mk
# A release has no tests and no measurements.
THERE = $(wildcard $(PARTS:%=$(srcdir)/%))
include $(THERE)

.PHONY: help
help:
	@sed -n 's/^#: \{0,1\}//p' $(srcdir)/Makefile $(THERE)

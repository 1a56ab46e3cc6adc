# test/sim/sim.mk
#
# Deterministic simulation: the worker's own code, its static variables
# gathered in one section by state.lds, in a world of virtual clocks.  Part of
# the Makefile, which sets CORE_OBJS, STORE_OBJS, TEST_CC, ...

#: Simulation:
#:   sim            schedules of faults on virtual time; SCHEDULES=n (500000),
#:                  FROM=seed; SEED=n replays one with a trace
#:   sim-load       requests per second of up to 100 simulated nodes
#:   mutants        deliberate defects, each of which a test must catch;
#:                  M="margin-0" for one
#:   evidence       docs/evidence.md from what the last runs left
#:

SIM_MODELLED = $(addprefix src/worker/,claimlog.o http.o statefile.o tokens.o)
SIM_WORKER = $(CORE_OBJS) \
	$(filter-out $(SIM_MODELLED),$(call in_room,worker/)) \
	$(addprefix src/,shmem/bound.o shmem/clock.o shmem/leases.o sql/arguments.o \
		sql/fence.o sql/jobs.o sql/xact.o)
SIM_OBJS = $(patsubst test/sim/%.c,build/sim/%.o,$(wildcard test/sim/*.c)) \
	$(patsubst src/%,build/sim/%,$(STORE_OBJS))
SIM_CFLAGS = -std=gnu99 -O3 $(SIM_NATIVE) $(SIM_PROFILE) -fno-pie \
	$(TEST_WARNINGS) -fno-strict-aliasing -fwrapv -D_GNU_SOURCE \
	-MMD -MP -Isrc -Itest/sim \
	-I$(call pg_dir,includedir-server) -I$(call pg_dir,includedir)/internal \
	-I$(call pg_dir,pkgincludedir)/internal

# What makes it quicker, where it is to be had: many small functions that call
# each other are compiled as one (Clang would need another linker for that),
# for this very machine, without a detour to those of the C library, and as
# some schedules of a first build have shown which way is taken how often.
supported = $(shell echo 'int main(void) { return 0; }' | \
	$(TEST_CC) $(1) -x c -o /dev/null - 2> /dev/null && echo '$(1)')
SIM_UNIT = $(if $(findstring clang,$(TEST_CC)),,-flto -flto-partition=one)
SIM_NATIVE = $(eval SIM_NATIVE := $(call supported,-march=native))$(SIM_NATIVE)
SIM_STATIC = $(eval SIM_STATIC := $(call supported,-static))$(SIM_STATIC)
SIM_LEARNED = $(if $(SIM_UNIT),build/learned)
SIM_PROFILE = $(if $(SIM_LEARNED),-fprofile-use -Wno-missing-profile)

# In the same place, since what was counted is found by the objects' names.
# Schedules that crash or hang leave nothing to learn from; that does no harm.
build/learned: $(wildcard test/sim/*.[ch] src/*.[ch] src/*/*.[ch]) \
		test/sim/state.lds test/sim/sim.mk
	@rm -rf build/sim
	@$(MAKE) --no-print-directory SIM_LEARNED= \
		SIM_PROFILE=-fprofile-generate build/sim/sim
	-seq -f seed=%.0f 3000 | timeout 60 build/sim/sim regress /dev/stdin > $@.log
	@find build/sim -type f ! -name '*.gcda' -delete
	@touch $@
$(SIM_OBJS) $(SIM_WORKER:src/%=build/sim/worker/%): $(SIM_LEARNED)

build/sim/test/%.o build/sim/%.o: test/sim/%.c
	@mkdir -p $(@D)
	$(TEST_CC) $(SIM_CFLAGS) $(SIM_UNIT) -c -o $@ $<
# Its jumps must not become part of others, nor be counted.
build/sim/coroutine.o: SIM_UNIT =
build/sim/coroutine.o: override SIM_PROFILE =
build/sim/store/%.o: src/store/%.c
	@mkdir -p $(@D)
	$(TEST_CC) $(SIM_CFLAGS) $(SIM_UNIT) -c -o $@ $<
build/sim/worker/%.o: src/%.c
	@mkdir -p $(@D)
	$(TEST_CC) $(SIM_CFLAGS) $(SIM_UNIT) -fdata-sections -c -o $@ $<
# The libraries that do the counting are no part of the worker.
build/sim/worker.o: private override SIM_PROFILE =
build/sim/worker.o: $(SIM_WORKER:src/%=build/sim/worker/%) test/sim/state.lds test/sim/sim.mk
	$(TEST_CC) $(SIM_CFLAGS) $(SIM_UNIT) -fdata-sections -r -nostdlib \
		$(and $(SIM_UNIT),-flinker-output=nolto-rel) -o build/sim/unit.o \
		$(filter %.o,$^)
	$(LD) -r -T test/sim/state.lds -o $@ build/sim/unit.o
build/sim/sim: build/sim/worker.o $(SIM_OBJS)
	$(TEST_CC) $(SIM_CFLAGS) $(SIM_UNIT) $(or $(SIM_STATIC),-no-pie) \
		-Wl,--wrap=clock_gettime -o $@ $^ $(TEST_LIBS)
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

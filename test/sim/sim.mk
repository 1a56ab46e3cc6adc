# test/sim/sim.mk
#
# Deterministic simulation: the worker's own code in a world of virtual clocks.
# Part of the Makefile, which sets CORE_OBJS, STORE_OBJS, TEST_CC, ...

#: Simulation:
#:   sim            schedules of faults on virtual time; SCHEDULES=n (500000),
#:                  FROM=seed; SEED=n replays one with a trace
#:   sim-load       requests per second of up to 100 simulated nodes
#:   mutants        deliberate defects, each of which a test must catch;
#:                  M="margin-0" for one
#:   evidence       docs/evidence.md from what the last runs left
#:

# The rooms core, shmem and worker without the parts that the simulator models,
# and the part of sql below the SQL functions.
SIM_MODELLED = $(addprefix src/,shmem/ring.o shmem/events.o shmem/history.o \
	shmem/job_snapshot.o shmem/requests.o shmem/stats.o \
	worker/disk/checkedlog.o worker/disk/claimlog.o worker/wire/http.o worker/disk/statefile.o \
	worker/disk/clonefile.o worker/disk/pastfile.o \
	worker/disk/tokens.o)
SIM_REAL = $(CORE_OBJS) $(filter-out $(SIM_MODELLED), \
	$(call in_room,shmem/) $(WORKER_OBJS)) \
	$(addprefix src/sql/,arguments.o fence.o jobs.o session.o xact.o)
# The parts of the store "consul" without text: its plan of transactions and its
# capabilities.  Names and JSON are numbers (consul_numbers.c).
SIM_NUMBERS = $(addprefix src/store/consul_,list.o session.o text.o txn.o wire.o)
SIM_STORE = $(filter-out $(SIM_NUMBERS),$(STORE_OBJS))
SIM_WORKER = $(SIM_REAL:src/%=build/sim/worker/%)
SIM_OBJS = $(patsubst test/sim/%.c,build/sim/%.o,$(wildcard test/sim/*.c)) \
	$(SIM_STORE:src/%=build/sim/%)

# For speed, many small functions that call each other are compiled as one unit
# and more of them become part of their callers than by default (Clang would
# need another linker for that).  "SIM_UNIT=" compiles quicker.
SIM_UNIT = $(if $(findstring clang,$(TEST_CC)),,-flto -flto-partition=one \
	--param inline-unit-growth=150 --param max-inline-insns-auto=60)
SIM_CFLAGS = -std=gnu99 -O3 -fno-pie $(TEST_WARNINGS) -fno-strict-aliasing \
	-fwrapv -D_GNU_SOURCE -DUSE_ASSERT_CHECKING -DLE_TRACES -MMD -MP -Isrc -Itest/sim \
	-I$(call pg_dir,includedir-server) -I$(call pg_dir,includedir)/internal \
	-I$(call pg_dir,pkgincludedir)/internal

build/sim/%.o: test/sim/%.c
	@mkdir -p $(@D)
	$(TEST_CC) $(SIM_CFLAGS) $(SIM_UNIT) -c -o $@ $<
build/sim/store/%.o: src/store/%.c
	@mkdir -p $(@D)
	$(TEST_CC) $(SIM_CFLAGS) $(SIM_UNIT) -c -o $@ $<
build/sim/worker/%.o: src/%.c
	@mkdir -p $(@D)
	$(TEST_CC) $(SIM_CFLAGS) $(SIM_UNIT) -c -o $@ $<
# Its jumps must not be inlined.
build/sim/coroutine.o: SIM_UNIT =
build/sim/sim: $(SIM_WORKER) $(SIM_OBJS)
	$(TEST_CC) $(SIM_CFLAGS) $(SIM_UNIT) -no-pie -Wl,--wrap=clock_gettime \
		-o $@ $^ $(TEST_LIBS)
-include $(wildcard build/sim/*.d build/sim/*/*.d build/sim/*/*/*.d \
	build/sim/*/*/*/*.d)

SCHEDULES ?= 500000
EXHAUST ?= 1
KILLS ?= 20
.PHONY: sim sim-load sim-objects mutants evidence
# The product's objects on the link line, for scripts/simulated.
sim-objects:
	@printf 'linked %s\n' $(SIM_REAL) $(SIM_STORE)
	@printf 'modelled %s\n' $(SIM_MODELLED) $(SIM_NUMBERS)

sim: build/sim/sim
	@scripts/simulated --check
	@test/sim/run $(if $(SEED),replay seed=$(SEED) $(EDIT),\
		run schedules=$(SCHEDULES) $(if $(FROM),from=$(FROM)) -- $(EXHAUST) $(KILLS))

sim-load: build/sim/sim
	@test/sim/run load

mutants:
	@test/mutants/run $(M)

evidence:
	@scripts/evidence

# test/unit/unit.mk
#
# Unit tests of the rooms core and store, by flavour: asan (the default), nowrap (those
# of core), plain (for valgrind) and fuzz.  Each test_NAME.c is one cmocka program, each
# fuzz_NAME.c one libFuzzer target; the other files of the directory are linked
# into all of them.  Part of the Makefile, which sets WARNINGS, CORE_OBJS, ...

#: Unit tests:
#:   unit           unit tests of core and store under ASan and UBSan, those of core
#:                  without -fwrapv, too; UNIT_TESTS=test_node for one
#:   valgrind       the same under valgrind
#:   fuzz           the stores' codecs under libFuzzer; FUZZ_SECONDS=n each (20)
#:

UNIT_TESTS = $(basename $(notdir $(wildcard test/unit/test_*.c)))
CORE_TESTS = $(filter $(CORE_OBJS:src/core/%.o=test_%),$(UNIT_TESTS))
UNIT_FUZZERS = $(basename $(notdir $(wildcard test/unit/fuzz_*.c)))
UNIT_COMMON = $(basename $(notdir $(filter-out test/unit/test_% \
	test/unit/fuzz_%,$(wildcard test/unit/*.c))))

# The server's files that a test links beside core and store.  The test defines the
# other functions that they call.  A header test_NAME.h is included in each of them.
test_cache_PARTS = worker/view/cache
test_dispatch_PARTS = shmem/process $(addprefix worker/wire/,authenticate \
	dispatch exchange flight gossip health lanes local_tokens secret servers \
	throttle)
test_events_PARTS = shmem/events shmem/ring
test_gossip_PARTS = worker/wire/gossip
test_history_PARTS = shmem/history shmem/ring
test_job_callers_PARTS = sql/job_callers
test_leases_PARTS = shmem/clock shmem/leases shmem/process
test_pending_PARTS = shmem/leases shmem/process worker/lead/pending \
	worker/lead/pending_list
test_progress_PARTS = shmem/progress
test_run_registry_PARTS = shmem/run_registry
test_stats_PARTS = shmem/stats

UNIT_CFLAGS = -std=gnu99 -g $(TEST_WARNINGS) -fno-strict-aliasing -fwrapv \
	-fno-omit-frame-pointer -MMD -MP -Isrc
UNIT_SERVER_CFLAGS = -D_GNU_SOURCE -DUSE_ASSERT_CHECKING \
	-I$(call pg_dir,includedir-server) -I$(call pg_dir,includedir)
UNIT_PG_CFLAGS = -DFRONTEND $(UNIT_SERVER_CFLAGS)
SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=all
VALGRIND ?= valgrind --quiet --error-exitcode=9 --leak-check=full
FUZZ_SECONDS ?= 20

# $(call unit_parts,FLAVOUR,COMPILER,FLAGS,TEST)
define unit_parts
build/$(1)/$(4): $(patsubst %,build/$(1)/$(4).parts/%.o,$($(4)_PARTS))
build/$(1)/$(4).parts/%.o: src/%.c
	@mkdir -p $$(@D)
	$(2) $$(UNIT_CFLAGS) $(3) $$(UNIT_SERVER_CFLAGS) \
		$$(addprefix -include ,$$(wildcard test/unit/$(4).h)) -c -o $$@ $$<
endef

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
	$(2) $(3) $(4) -o $$@ $$^ $$(TEST_LIBS) \
		$$(if $$(filter test_%,$$*),-lcmocka)
-include $$(wildcard build/$(1)/*/*.d build/$(1)/*/*/*.d build/$(1)/*/*/*/*.d)
endef
$(eval $(call unit_flavour,asan,$$(TEST_CC),-O1 $$(SANITIZE)))
# Under -fwrapv, which PostgreSQL has, UBSan sees no overflow.
$(eval $(call unit_flavour,nowrap,$$(TEST_CC),-O1 $$(SANITIZE) -fno-wrapv))
$(eval $(call unit_flavour,plain,$$(TEST_CC),-O1))
$(foreach t,$(UNIT_TESTS), \
	$(eval $(call unit_parts,asan,$$(TEST_CC),-O1 $$(SANITIZE),$(t))) \
	$(eval $(call unit_parts,plain,$$(TEST_CC),-O1,$(t))))
$(eval $(call unit_flavour,fuzz,clang,-O1 $$(CLANG_QUIET) $$(SANITIZE) \
	-fsanitize=fuzzer-no-link,-fsanitize=fuzzer))

# $(call run_each,PREFIX,PROGRAMS): runs all, fails if one of them did
run_each = @rc=0; for t in $(2); do echo "$(1)$$t"; \
	$(1)$$t || rc=1; done; exit $$rc

.PHONY: unit valgrind fuzz
unit: $(UNIT_TESTS:%=build/asan/%) $(CORE_TESTS:%=build/nowrap/%)
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

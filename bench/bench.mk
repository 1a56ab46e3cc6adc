# bench/bench.mk
#
# Measurements beside peers.  Part of the Makefile.

#: Measurements, in docs/performance.md:
#:   bench          every row of the table, beside its peers in the same run;
#:                  ONLY=row[,row] (bench/rows; number or name), ROUNDS=n (5),
#:                  QUICK=1 (one short round, numbers mean nothing); leaves
#:                  build/bench/results.json and plots
#:   bench-docs     put the last results into docs/performance.md
#:   failover       ONLY=failover: kill -9 of a leader to the next one
#:   scale          ONLY=scale: 1 to 10,000 elections; ELECTIONS="1 100",
#:                  STORE=consul|cassandra (consul)
#:   bench-gateway  ONLY=cassandra,gateway: leases beside bare CQL statements
#:   handoff        one of many elections is handed over: how long it takes, and
#:                  what it costs those that do not care; ELECTIONS="10 10000",
#:                  ROUNDS=n (20)
#:   profile        where the worker's time goes while a session acquires and
#:                  releases, by perf; PROFILE_SECONDS=n (10)
#:   bench-azure    leases on Azurite's blobs beside the same requests alone, by
#:                  libcurl; handoff, failover; ROUNDS=n (5), TIMES=n (200)
#:

BENCH_CFLAGS = -O2 -g $(WARNINGS) $(CC_QUIET)

build/bench-bare: bench/bare.c
	@mkdir -p build
	$(CC) $(BENCH_CFLAGS) -o $@ $< -lcurl -lpthread

build/bench-floor.so: bench/floor.c
	@mkdir -p build
	$(CC) $(BENCH_CFLAGS) -fPIC -shared -I$(call pg_dir,includedir-server) -o $@ $<

build/gateway-tests: $(wildcard test/gateway/*.go)
	cd test/gateway && go test -c -o ../../build/gateway-tests .

.PHONY: bench bench-build bench-docs failover scale handoff profile bench-gateway \
	bench-azure
bench-build: gateway goclient build/bench-bare build/bench-floor.so \
		build/gateway-tests
	@$(BUILD) --silent

# Report the measurements even after a failure.
bench: bench-build
	@mkdir -p build/bench
	@status=0; new=build/bench/new.$$$$.json; \
	ONLY="$(ONLY)" ROUNDS="$(ROUNDS)" QUICK="$(QUICK)" \
		$(SANDBOX) bench/run > $$new || status=$$?; \
	bench/report $$new && rm -f $$new && exit $$status

bench-docs:
	bench/report --docs

failover:
	@$(MAKE) --no-print-directory bench ONLY=failover

scale:
	@$(MAKE) --no-print-directory bench ONLY=scale

handoff:
	@$(BUILD) --silent
	@$(SANDBOX) bench/handoff

bench-gateway:
	@$(MAKE) --no-print-directory bench ONLY=cassandra,gateway

build/azure-bare: bench/azure_bare.c
	@mkdir -p $(@D)
	$(TEST_CC) -std=gnu99 -O2 $(TEST_WARNINGS) -o $@ $< -lcurl

profile:
	@$(BUILD) --silent
	@$(SANDBOX:scripts/sandbox=bench/profile)

bench-azure: build/azure-bare
	@$(BUILD) --silent
	@$(SANDBOX) bench/azure

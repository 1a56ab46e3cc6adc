# bench/bench.mk
#
# Measurements; each prints its numbers.  Part of the Makefile.

#: Measurements:
#:   bench          cost of a check beside pg_is_in_recovery(), of a round trip
#:                  through the worker, and of the fence in a transaction
#:   failover       time from kill -9 of a leader to the next one, beside
#:                  Consul's own client; ROUNDS=n (3)
#:   scale          many elections: time until all are held, cost of holding
#:                  and waiting, takeover; ELECTIONS="1 100 1000 10000",
#:                  STORE=consul|cassandra (consul)
#:   handoff        one of many elections is handed over: how long it takes, and
#:                  what it costs those that do not care; ELECTIONS="10 10000",
#:                  ROUNDS=n (20)
#:   bench-gateway  leases through extension and gateway beside the bare CQL
#:                  statement; handoff, failover, renewal of many; ROUNDS=n (3)
#:   bench-azure    leases on Azurite's blobs beside the same requests alone, by
#:                  libcurl; handoff, failover; ROUNDS=n (5), TIMES=n (200)
#:

.PHONY: bench failover scale handoff bench-gateway bench-azure
bench:
	@$(BUILD) --silent
	@$(SANDBOX) bench/run

failover:
	@$(BUILD) --silent
	@$(SANDBOX) bench/failover

scale:
	@$(BUILD) --silent $(if $(filter cassandra,$(STORE)),gateway)
	@$(SANDBOX) bench/scale

handoff:
	@$(BUILD) --silent
	@$(SANDBOX) bench/handoff

bench-gateway: gateway
	@$(BUILD) --silent
	cd test/gateway && go test -c -o ../../build/gateway-tests .
	@$(SANDBOX) bench/gateway

build/azure-bare: bench/azure_bare.c
	@mkdir -p $(@D)
	$(TEST_CC) -std=gnu99 -O2 $(TEST_WARNINGS) -o $@ $< -lcurl

bench-azure: build/azure-bare
	@$(BUILD) --silent
	@$(SANDBOX) bench/azure

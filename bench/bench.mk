# bench/bench.mk
#
# Measurements; each prints its numbers.  Part of the Makefile.

#: Measurements:
#:   bench          cost of a check beside pg_is_in_recovery(), of a round trip
#:                  through the worker, and of the fence in a transaction
#:   failover       time from kill -9 of a leader to the next one, beside
#:                  Consul's own client; ROUNDS=n (3)
#:   bench-gateway  leases through extension and gateway beside the bare CQL
#:                  statement; handoff, failover, renewal of many; ROUNDS=n (3)
#:

.PHONY: bench failover bench-gateway
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

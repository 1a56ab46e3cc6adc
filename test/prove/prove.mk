# test/prove/prove.mk
#
# Proofs about src/core; see test/prove/README.md.  Part of the Makefile.

#: Proofs:
#:   prove          CBMC on each step of the machines and the arithmetic of core, then all
#:                  states of two nodes, within bounds; ONLY="election/HELD/*" for
#:                  some, LIMIT=seconds for each (300), M=name a defect of
#:                  test/mutants, which must fail its claim (M=all for each)
#:

.PHONY: prove
prove:
	$(if $(M),test/prove/mutants $(M),test/prove/run $(ONLY))

module github.com/leader-election/leader_election/test/faults/judge

go 1.21

require github.com/anishathalye/porcupine v1.3.1

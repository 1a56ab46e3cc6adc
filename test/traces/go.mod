module github.com/leader-election/leader_election/test/traces

go 1.21

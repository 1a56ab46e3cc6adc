package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// State is a machine's, of an election or of a node. Fields that are 0 are left
// out of a record; the judge reads those that its rules are about.
type State struct {
	State    string
	Lease    int64
	TTL      int64
	Margin   int64
	Wanted   int
	Token    uint64
	Write    uint64 `json:"write_index"`
	Floor    uint64 `json:"token_floor"`
	Attempt  uint64 `json:"attempt_number"`
	Deadline int64
	Renewing int
	Timer    int64 `json:"timer_at"`
	Request  uint32
	raw      json.RawMessage
}

// UnmarshalJSON keeps the text as well: the same state is the same text.
func (s *State) UnmarshalJSON(b []byte) error {
	type plain State
	s.raw = append(json.RawMessage(nil), b...)
	return json.Unmarshal(b, (*plain)(s))
}

// View is an election's key as an answer showed it.
type View struct {
	Holder      string
	Exists      int
	Usable      int
	Released    int
	HolderEnded int   `json:"holder_ended"`
	SilentAt    int64 `json:"silent_at"`
	Index       uint64
	Token       uint64
	listed      bool // by a list of what a session holds: it has no token
}

// Input is what a machine was fed.
type Input struct {
	Kind     string
	Now      int64
	Lease    int64
	TTL      int64
	Margin   int64
	Index    uint64
	Outcome  string
	Conflict string
	Sent     int64
	Deadline int64
	Held     int
	View     *View
}

// Does is what a machine answered.
type Does struct {
	TermEnds      int `json:"term_ends"`
	TermBegins    int `json:"term_begins"`
	TermsEnd      int `json:"terms_end"`
	DeadlineMoved int `json:"deadline_moved"`
	Ended         int
	Send          Sends
	Index         uint64
	Verdict       string
}

// Sends are the requests that a machine asked for.
type Sends []string

// UnmarshalJSON takes one request, or a list.
func (s *Sends) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(s))
	}
	var one string
	err := json.Unmarshal(b, &one)
	*s = Sends{one}
	return err
}

func (s Sends) has(what string) bool {
	for _, one := range s {
		if one == what {
			return true
		}
	}
	return false
}

// Claim is a job's record, or what a claim wants of it.
type Claim struct {
	Exists  int
	Ours    int
	Over    int
	Tick    int64
	Try     int
	Token   uint64
	State   string
	Lost    int
	CatchUp int `json:"catch_up"`
	Forget  int
	Judged  int `json:"term_is_judged"`
}

// Line is one line of a record; README.md has the kinds.
type Line struct {
	At          int64
	Line        string
	Node        string
	Incarnation string
	Session     string
	Election    string
	Store       string
	Sessions    int
	KeyLeases   int `json:"key_leases"`
	Was, Is     *State
	Input       *Input
	Does        *Does
	Index       uint64
	Outcome     string
	Written     uint64
	Job         string
	Found, Wish *Claim
	Verdict     string
	Try         int
	What        string
	Shows, PPM  int64
	Beyond      int

	file   string
	number int
}

// known are the kinds of lines. A judge that does not know one has judged too
// little.
var known = map[string]bool{"worker": true, "election": true, "election resumed": true,
	"node": true, "node resumed": true, "accept": true, "unlock": true, "unlocked": true,
	"claim": true, "clock": true, "deed": true}

// Read returns the lines of a run, in their order in time. A run is a file, or
// all files of a directory.
func Read(path string) ([]*Line, error) {
	var lines []*Line
	err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".jsonl") {
			return err
		}
		of, err := readFile(file)
		lines = append(lines, of...)
		return err
	})
	sort.SliceStable(lines, func(i, k int) bool { return lines[i].At < lines[k].At })
	return lines, err
}

func readFile(name string) ([]*Line, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []*Line
	in := bufio.NewReaderSize(file, 1<<20)
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return lines, nil // what follows was cut off with its worker
		}
		line := &Line{file: name, number: number}
		if err := json.Unmarshal(text, line); err != nil {
			return nil, fmt.Errorf("%s:%d: %v", name, number, err)
		}
		if !known[line.Line] {
			return nil, fmt.Errorf("%s:%d: a line of an unknown kind, %q", name, number, line.Line)
		}
		if line.Is == nil {
			line.Is = line.Was // nothing has changed
		}
		lines = append(lines, line)
	}
}

// differences names the fields that are not the same in two states.
func differences(a, b *State) []string {
	if string(a.raw) == string(b.raw) {
		return nil
	}
	var x, y map[string]any
	_ = json.Unmarshal(a.raw, &x)
	_ = json.Unmarshal(b.raw, &y)
	var names []string
	for name, value := range x {
		if y[name] != value {
			names = append(names, name)
		}
	}
	for name := range y {
		if _, there := x[name]; !there {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

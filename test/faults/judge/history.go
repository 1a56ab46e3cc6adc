package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
)

// Record is one line of a history. The valid fields depend on Type; see
// README.md. Instants are nanoseconds of CLOCK_BOOTTIME, one clock for all.
type Record struct {
	Type     string `json:"type"`
	Holder   string `json:"holder,omitempty"`
	Node     string `json:"node,omitempty"`
	Election string `json:"election,omitempty"`
	Token    int64  `json:"token,omitempty"`

	// belief
	Low   int64 `json:"low,omitempty"`
	First int64 `json:"first,omitempty"`
	Last  int64 `json:"last,omitempty"`
	Until int64 `json:"until,omitempty"`

	// op, commit, claim
	Client int    `json:"client,omitempty"`
	Op     string `json:"op,omitempty"`
	Result string `json:"result,omitempty"`
	Leader string `json:"leader,omitempty"`
	Call   int64  `json:"call,omitempty"`
	Return int64  `json:"return,omitempty"`
	Job    string `json:"job,omitempty"`
	Tick   string `json:"tick,omitempty"`
	Try    int64  `json:"try,omitempty"`

	// silence, fault, exempt, gated
	Kind     string   `json:"kind,omitempty"`
	Target   string   `json:"target,omitempty"`
	From     int64    `json:"from,omitempty"`
	To       int64    `json:"to,omitempty"`
	Checks   []string `json:"checks,omitempty"`
	Required bool     `json:"required,omitempty"`

	// heal, left, end
	At        int64    `json:"at,omitempty"`
	Elections []string `json:"elections,omitempty"`
	What      string   `json:"what,omitempty"`

	// key
	Index        int64  `json:"index,omitempty"`
	LockIndex    int64  `json:"lock_index,omitempty"`
	Session      string `json:"session,omitempty"`
	ValueSession string `json:"value_session,omitempty"`
	Released     bool   `json:"released,omitempty"`

	// lock
	Owner string `json:"owner,omitempty"`
	Free  bool   `json:"free,omitempty"`

	// run
	Store       string `json:"store,omitempty"`
	Grants      string `json:"grants,omitempty"` // "counted", "in steps", or both
	Seed        int64  `json:"seed,omitempty"`
	Lease       int64  `json:"lease,omitempty"`
	Margin      int64  `json:"margin,omitempty"`
	Bound       int64  `json:"bound,omitempty"`
	CancelBound int64  `json:"cancel_bound,omitempty"`
	Partial     string `json:"partial,omitempty"`
	Samples     int64  `json:"samples,omitempty"`
}

// History is all records of a run, by type, in order of time.
type History struct {
	run     *Record
	end     int64
	samples int64

	beliefs  []Record
	ops      []Record
	silences []Record
	faults   []Record
	heals    []Record
	exempts  []Record
	apart    map[string]int // by check: breaches without a promise
	keys     []Record
	locks    []Record
	lefts    []Record
	commits  []Record
	claims   []Record
	ticks    []Record
	begun    []Record
	ran      []Record
	gated    []Record
	freed    []Record
}

// Read reads all files of a directory. A killed process leaves a line cut off
// at the end of its file; any other line that cannot be understood makes the
// history worthless, since it may hide a violation.
func Read(dir string) (*History, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no history", dir)
	}
	h := &History{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		err = h.readFrom(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return h, h.arrange()
}

func (h *History) readFrom(r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<20)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil // nothing, or a line cut off
		}
		if err != nil {
			return err
		}
		var record Record
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&record); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := h.add(record); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
}

func (h *History) add(r Record) error {
	switch r.Type {
	case "run":
		if h.run != nil {
			return fmt.Errorf("two records \"run\"")
		}
		h.run = &r
	case "end":
		h.end = r.At
	case "samples":
		h.samples += r.Samples
	case "belief":
		h.beliefs = append(h.beliefs, r)
	case "op":
		h.ops = append(h.ops, r)
	case "silence":
		h.silences = append(h.silences, r)
	case "fault":
		h.faults = append(h.faults, r)
	case "heal":
		h.heals = append(h.heals, r)
	case "exempt":
		h.exempts = append(h.exempts, r)
	case "key":
		h.keys = append(h.keys, r)
	case "lock":
		h.locks = append(h.locks, r)
	case "left":
		h.lefts = append(h.lefts, r)
	case "commit":
		h.commits = append(h.commits, r)
	case "claim":
		h.claims = append(h.claims, r)
	case "tick":
		h.ticks = append(h.ticks, r)
	case "begun":
		h.begun = append(h.begun, r)
	case "ran":
		h.ran = append(h.ran, r)
	case "freed":
		h.freed = append(h.freed, r)
	case "gated":
		h.gated = append(h.gated, r)
	default:
		return fmt.Errorf("unknown type \"%s\"", r.Type)
	}
	return nil
}

// arrange puts the records in order, and joins a witness's repeated records of
// one interval of belief.
func (h *History) arrange() error {
	if h.run == nil {
		return fmt.Errorf("no record \"run\"")
	}
	if h.end == 0 {
		return fmt.Errorf("no record \"end\": the run was cut short")
	}
	type key struct {
		holder, election string
		token, first     int64
	}
	at := map[key]int{}
	var joined []Record
	for _, b := range h.beliefs {
		k := key{b.Holder, b.Election, b.Token, b.First}
		i, seen := at[k]
		if !seen {
			at[k] = len(joined)
			joined = append(joined, b)
			continue
		}
		if b.Last > joined[i].Last {
			joined[i].Last = b.Last
		}
		if b.Until != 0 {
			joined[i].Until = b.Until
		}
	}
	h.beliefs = joined
	sort.SliceStable(h.beliefs, func(i, j int) bool {
		return h.beliefs[i].First < h.beliefs[j].First
	})
	sort.SliceStable(h.ops, func(i, j int) bool { return h.ops[i].Call < h.ops[j].Call })
	sort.SliceStable(h.locks, func(i, j int) bool { return h.locks[i].Call < h.locks[j].Call })
	sort.SliceStable(h.keys, func(i, j int) bool { return h.keys[i].Index < h.keys[j].Index })
	return nil
}

// exempt tells whether the harness broke this check for the election at that
// instant, by design. Breaches found there are counted apart.
func (h *History) exempt(check, election string, at int64) bool {
	for _, e := range h.exempts {
		if e.Election != election || at < e.From || at > e.To {
			continue
		}
		for _, c := range e.Checks {
			if c == check {
				if h.apart == nil {
					h.apart = map[string]int{}
				}
				h.apart[check]++
				return true
			}
		}
	}
	return false
}

func byElection(records []Record) map[string][]Record {
	m := map[string][]Record{}
	for _, r := range records {
		m[r.Election] = append(m[r.Election], r)
	}
	return m
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

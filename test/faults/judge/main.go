// Judge checks the history of a run of test/faults against the promises of
// leader_election, and prints a report. It ends with 1 if a promise was broken,
// with 2 if the history cannot be judged, and with 3 if a check had nothing to
// judge.
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strings"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: judge DIRECTORY")
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	h, err := Read(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(2)
	}
	violations, idle := Report(os.Stdout, h)
	if violations > 0 {
		os.Exit(1)
	}
	if len(idle) > 0 {
		os.Exit(3)
	}
}

// shown is the number of violations of one check that are printed in full.
const shown = 20

// Report prints everything. It returns the number of violations, and the checks
// that had nothing to judge though the run gave each of them work: they have
// proven nothing, which must not pass for success.
func Report(w io.Writer, h *History) (total int, idle []string) {
	r := h.run
	fmt.Fprintf(w, "store %s, seed %d, lease %.1f s, margin %.1f s, %.1f min\n",
		r.Store, r.Seed, seconds(r.Lease), seconds(r.Margin), seconds(h.end-r.At)/60)
	faults(w, h)
	operationCounts(w, h)

	c := Changes(h)
	fmt.Fprintf(w, "\n%d samples, %d terms seen in %d elections\n",
		h.samples, c.terms, c.elections)
	fmt.Fprintf(w, "handovers from one holder to another: %d", c.handovers)
	if len(c.gaps) > 0 {
		fmt.Fprintf(w, "\n  where all contend, without a leader for %s (least), %s (median), %s (most)",
			ms(c.gaps[0]), ms(c.gaps[len(c.gaps)/2]), ms(c.gaps[len(c.gaps)-1]))
	}
	fmt.Fprintln(w)

	overlaps := 0
	fmt.Fprintf(w, "\n%-5s %-52s %10s %8s %10s\n", "check", "", "judged", "excused", "violations")
	var found []Violation
	for _, checker := range checkers {
		violations, judged, excused := checker.Check(h)
		fmt.Fprintf(w, "%-5s %-52s %10d %8d %10d\n",
			checker.Name, checker.What, judged, excused, len(violations))
		total += len(violations)
		if judged == 0 {
			idle = append(idle, checker.Name)
		}
		if checker.Name == "I1" {
			overlaps = len(violations)
		}
		for i, v := range violations {
			if i == shown {
				v = fmt.Sprintf("... and %d more", len(violations)-shown)
			}
			if i <= shown {
				found = append(found, Violation{checker.Name, v})
			}
		}
	}
	fmt.Fprintf(w, "\nbroken on purpose, where nothing is promised, and judged apart: I1 %d, I3 %d, I6 %d\n",
		h.apart["I1"], h.apart["I3"], h.apart["I6"])
	if overlaps == 0 && c.handovers > 0 {
		fmt.Fprintf(w, "\nno overlap in %d handovers: with 95 %% confidence at most %.2g of handovers"+
			" under such faults overlap\n", c.handovers, UpperBound(c.handovers))
	}
	if len(idle) > 0 && r.Partial != "" {
		fmt.Fprintf(w, "%s judged nothing, as may be in a run of %s\n",
			strings.Join(idle, ", "), r.Partial)
		idle = nil
	}
	if total == 0 {
		fmt.Fprintln(w, "no violations")
	}
	for _, name := range idle {
		fmt.Fprintf(w, "NOTHING JUDGED by %s\n", name)
	}
	for _, v := range found {
		fmt.Fprintf(w, "VIOLATION %s: %s\n", v.Check, v.Text)
	}
	return
}

// UpperBound is the largest rate at which n clean trials in a row still have a
// probability of 5 %; close to 3/n.
func UpperBound(n int) float64 {
	return 1 - math.Pow(0.05, 1/float64(n))
}

// Summary of changes of leadership, by the witness.
type Summary struct {
	terms, elections, handovers int
	gaps                        []int64
}

// Changes counts successions: terms of one election in the order of their
// tokens. A gap lasts from the last proof of one belief to the first of the
// next, in elections that always have a candidate.
func Changes(h *History) (s Summary) {
	contended := map[string]bool{}
	for _, heal := range h.heals {
		for _, election := range heal.Elections {
			contended[election] = true
		}
	}
	type span struct {
		holder             string
		token, first, last int64
	}
	for election, beliefs := range byElection(h.beliefs) {
		terms := map[int64]*span{}
		for _, b := range beliefs {
			t := terms[b.Token]
			if t == nil {
				terms[b.Token] = &span{b.Holder, b.Token, b.First, b.Last}
				continue
			}
			t.first, t.last = min64(t.first, b.First), max64(t.last, b.Last)
		}
		var order []*span
		for _, t := range terms {
			order = append(order, t)
		}
		sort.Slice(order, func(i, j int) bool { return order[i].token < order[j].token })
		s.elections++
		s.terms += len(order)
		for i := 1; i < len(order); i++ {
			// A change that the harness forced says nothing about the others.
			if order[i].holder == order[i-1].holder ||
				h.exempt("I1", election, order[i].first) {
				continue
			}
			s.handovers++
			if contended[election] {
				s.gaps = append(s.gaps, order[i].first-order[i-1].last)
			}
		}
	}
	sort.Slice(s.gaps, func(i, j int) bool { return s.gaps[i] < s.gaps[j] })
	return
}

func faults(w io.Writer, h *History) {
	count, time := map[string]int{}, map[string]int64{}
	for _, f := range h.faults {
		count[f.Kind]++
		time[f.Kind] += f.To - f.From
	}
	fmt.Fprintf(w, "\n%d faults\n", len(h.faults))
	for _, kind := range sortedKeys(count) {
		fmt.Fprintf(w, "  %-48s %5d   %7.1f s in all\n", kind, count[kind], seconds(time[kind]))
	}
}

func operationCounts(w io.Writer, h *History) {
	count := map[string]map[string]int{}
	note := func(op, result string) {
		if count[op] == nil {
			count[op] = map[string]int{}
		}
		count[op][result]++
	}
	for _, o := range h.ops {
		note(o.Op, o.Result)
	}
	for _, c := range h.commits {
		note("fenced commit", c.Result)
	}
	for _, c := range h.claims {
		note("claim", c.Result)
	}
	fmt.Fprintf(w, "\n%d operations\n", len(h.ops)+len(h.commits)+len(h.claims))
	for _, op := range sortedKeys(count) {
		var parts []string
		for _, result := range sortedKeys(count[op]) {
			parts = append(parts, fmt.Sprintf("%s %d", result, count[op][result]))
		}
		fmt.Fprintf(w, "  %-14s %s\n", op, strings.Join(parts, ", "))
	}
}

func seconds(ns int64) float64 {
	return float64(ns) / 1e9
}

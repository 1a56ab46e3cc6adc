// Traces judges the records that workers of the tests leave of their decisions:
// is what they did a run of the specification? It ends with 1 if a step was none,
// with 2 if a record cannot be read, and with 3 if there was nothing to judge.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: traces FILE|DIRECTORY ...  (each is a run of its own)")
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	total := &Judgement{}
	for _, path := range flag.Args() {
		lines, err := Read(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, "traces:", err)
			os.Exit(2)
		}
		total.add(Judge(lines))
	}
	Report(os.Stdout, total, flag.NArg())
	switch {
	case len(total.Wrong) > 0:
		os.Exit(1)
	case total.Terms == 0:
		os.Exit(3)
	}
}

// shown is the number of steps that are told in full.
const shown = 20

// Report prints what was judged, and what was wrong.
func Report(w io.Writer, j *Judgement, runs int) {
	for i, text := range j.Wrong {
		if i == shown {
			fmt.Fprintf(w, "... and %d more\n", len(j.Wrong)-shown)
			break
		}
		fmt.Fprintln(w, "NO STEP of the specification:", text)
	}
	fmt.Fprintf(w, "traces: %d lines of %d workers in %d runs, %d terms, %d handovers, %d checks\n",
		j.Lines, j.Workers, runs, j.Terms, j.Handovers, j.sum())
	names := make([]string, 0, len(j.Checks))
	for name := range j.Checks {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(w, "  %9d  %s\n", j.Checks[name], name)
	}
	switch {
	case len(j.Wrong) > 0:
		fmt.Fprintf(w, "traces: REJECTED, %d steps\n", len(j.Wrong))
	case j.Terms == 0:
		fmt.Fprintln(w, "traces: NOTHING TO JUDGE")
	default:
		fmt.Fprintln(w, "traces: accepted")
	}
}

// Judgement is what came of one run, or of several.
type Judgement struct {
	Lines, Workers, Terms, Handovers int
	Checks                           map[string]int // by what they are about
	Wrong                            []string
}

func (j *Judgement) add(other *Judgement) {
	j.Lines += other.Lines
	j.Workers += other.Workers
	j.Terms += other.Terms
	j.Handovers += other.Handovers
	if j.Checks == nil {
		j.Checks = map[string]int{}
	}
	for name, n := range other.Checks {
		j.Checks[name] += n
	}
	j.Wrong = append(j.Wrong, other.Wrong...)
}

func (j *Judgement) sum() (n int) {
	for _, checks := range j.Checks {
		n += checks
	}
	return
}

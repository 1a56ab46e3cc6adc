package api

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Schemathesis makes requests from openapi.yaml, allowed and forbidden ones,
// sends them to a gateway, and judges the answers by the description: in all
// phases, with all checks, with a token and without.
// SCHEMATHESIS names the program; test/gateway/run installs and sets it.
func TestSchemathesis(t *testing.T) {
	program := os.Getenv("SCHEMATHESIS")
	if program == "" {
		t.Skip("SCHEMATHESIS is not set")
	}
	examples := os.Getenv("SCHEMATHESIS_EXAMPLES")
	if examples == "" {
		examples = "20"
	}
	for name, change := range map[string]func(*Options){"open": func(*Options) {}, "token": withTokens(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(o *Options) {
				change(o)
				o.MaxRequests, o.MaxWaiters = 64, 64
			})
			f.svc.Drain() // long polls answer at once
			// For two operations the hooks filter out most generated requests:
			// a slow machine is then called unhealthy.
			args := []string{"run", f.http.URL + "/openapi.yaml", "--max-examples", examples,
				"--suppress-health-check", "filter_too_much,too_slow"}
			if name == "token" {
				args = append(args, "--header", "Authorization: Bearer token-of-root-0001")
			}
			c := exec.CommandContext(t.Context(), program, args...)
			c.Dir = t.TempDir() // has its settings, and gets its files
			if err := os.CopyFS(c.Dir, os.DirFS("testdata")); err != nil {
				t.Fatal(err)
			}
			c.Env = append(os.Environ(), "NO_COLOR=1")
			started := time.Now()
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			// A run without operations finds no faults either.
			for _, phase := range []string{"Examples", "Coverage", "Fuzzing", "Stateful"} {
				if !strings.Contains(string(out), "✅ "+phase) {
					t.Errorf("the phase %s was not passed:\n%s", phase, out)
				}
			}
			t.Logf("%v\n%s", time.Since(started), out)
		})
	}
}

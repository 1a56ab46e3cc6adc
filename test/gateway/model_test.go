package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// model puts random requests to the gateway and compares its answers with
// those of the simulator's models of gateway and Cassandra
// (test/sim/gateway.c, cassandra.c): the same statuses and problems, the same
// holder, value, token and revision, the same claims.
func model(t *testing.T, g *proc, _ string) {
	for seed := range pick(3, 20) {
		modelSeed(t, g, seed+1, pick(300, 1000))
	}
}

// request is a line of "sim model-cassandra".
type request struct {
	Method, Path string
	Body         any
	Status       int
	Answer       map[string]any
}

// modelSeed compares one run. If Cassandra did not answer in time, the state of
// the lock is unknown, and the model ends: the run begins again, with locks of
// other names. It has to get through in the end.
func modelSeed(t *testing.T, g *proc, seed, operations int) {
	for try := range 5 {
		if compared(t, g, fmt.Sprintf("model%d-%d-", seed, try), seed, operations) {
			return
		}
	}
	t.Errorf("seed %d: no run without an answer 503", seed)
}

// compared tells whether every request had an answer that the model can have.
func compared(t *testing.T, g *proc, prefix string, seed, operations int) bool {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	cmd := exec.CommandContext(ctx, os.Getenv("SIM"), "model-cassandra", fmt.Sprint(seed), fmt.Sprint(operations))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	seen := map[string]int{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r request
		must(t, json.Unmarshal(lines.Bytes(), &r))
		got, err := send(g.url, r.Method, strings.Replace(r.Path, "/v1/locks/e", "/v1/locks/"+prefix+"e", 1), named(r.Body, prefix))
		must(t, err)
		if strings.Contains(got.raw, `"outcome":`) { // a 503, or one of a batch's
			t.Logf("seed %d: %s\nthe gateway: %s", seed, lines.Text(), got.raw)
			end()
			cmd.Wait()
			return false
		}
		if what := differs(r, got, prefix); what != "" {
			t.Fatalf("seed %d: %s\n%s\nthe gateway: %d %s", seed, what, lines.Text(), got.Status, got.raw)
		}
		seen[fmt.Sprint(r.Status, " ", got.problem())]++
		for _, outcome := range outcomes(r.Answer) {
			seen[outcome]++
		}
	}
	must(t, cmd.Wait())
	// A model that refused everything would agree with any store.
	for _, outcome := range []string{"batch 200 ", "batch 201 ", "batch 204 ", "batch 404 free", "batch 409 held", "200 ", "201 ", "204 ", "404 free", "404 no-claim", "409 held", "409 lost", "409 claim-refused"} {
		if seen[outcome] == 0 {
			t.Errorf("seed %d: no answer %q among %v", seed, outcome, seen)
		}
	}
	return true
}

// outcomes is the outcome for each lock of a batch.
func outcomes(answer map[string]any) (list []string) {
	results, _ := answer["results"].([]any)
	for _, r := range results {
		r := r.(map[string]any)
		problem, _ := r["problem"].(map[string]any)
		kind, _ := problem["type"].(string)
		list = append(list, fmt.Sprint("batch ", r["status"], " ", strings.TrimPrefix(kind, "urn:leader-election:problem:")))
	}
	return list
}

// named gives the locks in a request's body names of this seed.
func named(body any, prefix string) any {
	if b, ok := body.(map[string]any); ok {
		if locks, ok := b["locks"].([]any); ok {
			for _, l := range locks {
				l := l.(map[string]any)
				l["name"] = prefix + l["name"].(string)
			}
		}
	}
	return body
}

func differs(r request, got lock, prefix string) string {
	if got.Status != r.Status {
		return "another status"
	}
	if r.Status == http.StatusNoContent {
		return ""
	}
	answer := map[string]any{}
	if err := json.Unmarshal([]byte(got.raw), &answer); err != nil {
		return err.Error()
	}
	if locks, ok := answer["locks"].([]any); ok {
		answer["locks"] = of(locks, prefix)
	}
	return unlike(r.Answer, answer, prefix)
}

// of: the locks of this seed in a list, by name; the gateway lists locks as
// they lie in Cassandra.
func of(locks []any, prefix string) []any {
	mine := []any{}
	for _, l := range locks {
		if strings.HasPrefix(l.(map[string]any)["name"].(string), prefix) {
			mine = append(mine, l)
		}
	}
	slices.SortFunc(mine, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
	})
	return mine
}

// unlike tells where the real answer lacks a field of the model's, or differs.
// Words and times are the gateway's own.
func unlike(want, got any, prefix string) string {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("no document: %v", got)
		}
		for key, w := range want {
			switch key {
			case "title", "trust_ms", "expires_in_ms":
				continue
			}
			if what := unlike(w, value(got, key, w, prefix), prefix); what != "" {
				return key + ": " + what
			}
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return fmt.Sprintf("not as many: %v", got)
		}
		for i := range want {
			if what := unlike(want[i], got[i], prefix); what != "" {
				return fmt.Sprintf("%d: %s", i, what)
			}
		}
	default:
		if !reflect.DeepEqual(want, got) {
			return fmt.Sprintf("%v, not %v", got, want)
		}
	}
	return ""
}

// value is a document's content, an empty value if it has none.
func value(doc map[string]any, key string, like any, prefix string) any {
	v, ok := doc[key]
	if name, is := v.(string); is && key == "name" {
		return strings.TrimPrefix(name, prefix)
	}
	if !ok {
		return reflect.Zero(reflect.TypeOf(like)).Interface()
	}
	return v
}

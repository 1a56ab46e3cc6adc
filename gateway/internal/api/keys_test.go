package api

import (
	"strings"
	"testing"
)

// In encoding/json the last of two keys counts, in any case: a program in front
// of the gateway may have read another owner or token than the gateway does.
func TestKeysAreReadStrictly(t *testing.T) {
	for body, fault := range map[string]string{
		`{"owner": "a", "token": 1}`:                       "",
		`{"owner": "a", "owner": "b"}`:                     "twice",
		`{"owner": "a", "Owner": "b"}`:                     "unknown field",
		`{"OWNER": "a"}`:                                   "unknown field",
		`{"to\u212aen": 1}`:                                "unknown field", // Kelvin's sign
		`{"own\u0065r": "a", "owner": "b"}`:                "twice",
		`{"owner": "owner", "value": "owner", "token": 1}`: "",
	} {
		var into renewBody
		checkFault(t, body, decode([]byte(body), &into), fault)
	}
	for body, fault := range map[string]string{
		`{"locks": [{"name": "a"}, {"name": "b"}]}`: "",
		`{"locks": [{"name": "a", "name": "b"}]}`:   "twice",
		`{"locks": [{"name": "a"}, {"Name": "b"}]}`: "unknown field",
		`{"locks": [{"name": "a"}], "locks": []}`:   "twice",
		`{"Locks": [{"name": "a"}]}`:                "unknown field",
	} {
		var into struct {
			Locks batch[struct {
				Name string `json:"name"`
			}] `json:"locks"`
		}
		checkFault(t, body, decode([]byte(body), &into), fault)
	}
}

func checkFault(t *testing.T, body string, err error, fault string) {
	t.Helper()
	if fault == "" && err != nil {
		t.Errorf("%s: %v", body, err)
	}
	if fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
		t.Errorf("%s: %v, not %q", body, err, fault)
	}
}

package auth

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte("the secret of the hash")))
	for _, c := range []struct{ name, text, err string }{
		{"fine", "# comment\n\na secret-of-sixteen *\nb sha256:" + hash + " x/ y/\n", ""},
		{"empty", "# nothing\n", "no tokens"},
		{"no prefix", "a secret-of-sixteen\n", "line 1"},
		{"short", "a short *\n", "16 characters"},
		{"bad hash", "a sha256:12 *\n", "64 hex"},
		{"twice", "a secret-of-sixteen *\nb secret-of-sixteen x\n", "line 2"},
		// the comment's words would open a/..., also..., test...
		{"comment at the end", "billing secret-of-sixteen billing/ # also a test of b\n", "line of its own"},
		{"comment without blank", "a secret-of-sixteen a/ #x\n", "line of its own"},
		{"comment for a secret", "a #secret-of-sixteen a/\n", "line of its own"},
		{"star in a prefix", "\na secret-of-sixteen billing*\n", "line 2: field 3"},
		{"regular expression", "a secret-of-sixteen a/ ^b$\n", "field 4"},
		{"slash first", "a secret-of-sixteen /a\n", "field 3"},
		{"empty segment", "a secret-of-sixteen a//b\n", "field 3"},
		{"dots", "a secret-of-sixteen a/../b\n", "field 3"},
		{"too long", "a secret-of-sixteen " + strings.Repeat("n", 200) + "n\n", "field 3"},
		{"no room after the slash", "a secret-of-sixteen " + strings.Repeat("n", 199) + "/\n", "field 3"},
		{"columns exchanged", "a b/ the-secret:of-sixteen\n", "field 3"},
		{"unusual prefixes", "a secret-of-sixteen . .. a/. b/.. c/.d - _/ " + strings.Repeat("n", 200) + "\n", ""},
	} {
		_, err := parse(strings.NewReader(c.text))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the secret: %v", c.name, err)
		}
	}
}

func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(s string) { os.WriteFile(file, []byte(s), 0o600) }
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte("the-secret-of-b-1")))
	write("a the-secret-of-a-1 x/ y\nb sha256:" + hash + " *\n")
	tokens, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	a, ok := tokens.Caller("the-secret-of-a-1")
	if !ok || a.Label != "a" || !a.May("x/1") || !a.May("y") || a.May("x") || a.May("z") {
		t.Errorf("%+v %v", a, ok)
	}
	if b, ok := tokens.Caller("the-secret-of-b-1"); !ok || !b.May("anything") {
		t.Errorf("%+v %v", b, ok)
	}
	if _, ok := tokens.Caller(""); ok {
		t.Error("no token is a token")
	}
	write("broken\n")
	if tokens.Reload() == nil {
		t.Error("a broken file was taken")
	}
	if _, ok := tokens.Caller("the-secret-of-a-1"); !ok {
		t.Error("a broken file made the old tokens void")
	}
	write("c the-secret-of-c-1 *\n")
	if err := tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, ok := tokens.Caller("the-secret-of-a-1"); ok {
		t.Error("a removed token still works")
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no file, no error")
	}
}

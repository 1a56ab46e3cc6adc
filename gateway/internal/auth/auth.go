// Package auth controls access to locks: bearer tokens from a file, each with
// the name prefixes it opens.
package auth

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/leader-election/leader_election/gateway/internal/lease"
)

// minSecret keeps tokens that can be guessed out of the file.
const minSecret = 16

// Caller is the owner of a token.
type Caller struct {
	Label    string // for the log; never the token
	prefixes []string
}

// Everyone is the caller where no tokens are asked for.
var Everyone = &Caller{Label: "-", prefixes: []string{""}}

// May tells whether the caller may use a lock.
func (c *Caller) May(name string) bool {
	for _, p := range c.prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// Tokens is a token file that can be read again while it is used.
type Tokens struct {
	file string
	set  atomic.Pointer[map[[sha256.Size]byte]*Caller]
}

// Load reads a token file. Each line is
//
//	LABEL SECRET PREFIX...
//
// where SECRET is the token, or sha256: and its hash in hex, and a PREFIX of *
// opens every name. Empty lines and lines that begin with # are skipped. A
// prefix of no valid name is an error, and so is a comment behind the prefixes,
// since its words would be more prefixes.
func Load(file string) (*Tokens, error) {
	t := &Tokens{file: file}
	return t, t.Reload()
}

// Reload reads the file again. If it is invalid, the old tokens stay.
func (t *Tokens) Reload() error {
	f, err := os.Open(t.file)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	set, err := parse(f)
	if err != nil {
		return fmt.Errorf("token file %s: %w", t.file, err)
	}
	t.set.Store(&set)
	return nil
}

// Caller finds the owner of a token. The lookup of its hash takes the same time
// for any right part of the token.
func (t *Tokens) Caller(token string) (*Caller, bool) {
	c, ok := (*t.set.Load())[sha256.Sum256([]byte(token))]
	return c, ok
}

func parse(r io.Reader) (map[[sha256.Size]byte]*Caller, error) {
	set := make(map[[sha256.Size]byte]*Caller)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		hash, caller, err := parseLine(fields)
		if err != nil { // must not show the secret
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, twice := set[hash]; twice {
			return nil, fmt.Errorf("line %d: the token stands in the file twice", n)
		}
		set[hash] = caller
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(set) == 0 {
		return nil, errors.New("no tokens in it")
	}
	return set, nil
}

func parseLine(fields []string) (hash [sha256.Size]byte, c *Caller, err error) {
	if len(fields) < 3 {
		return hash, nil, errors.New("wants LABEL SECRET PREFIX..., with * for every name")
	}
	c = &Caller{Label: fields[0]}
	for i, p := range fields[1:] {
		if strings.HasPrefix(p, "#") {
			return hash, nil, errors.New("a comment stands on a line of its own; here its words would be prefixes")
		}
		if i == 0 {
			continue // the secret
		}
		if p == "*" {
			p = ""
		} else if !lease.BeginsNames(p) {
			return hash, nil, fmt.Errorf("field %d is no prefix: no lock's name can begin with it", i+2)
		}
		c.prefixes = append(c.prefixes, p)
	}
	if text, hashed := strings.CutPrefix(fields[1], "sha256:"); hashed {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != sha256.Size {
			return hash, nil, errors.New("sha256: wants 64 hex digits")
		}
		return [sha256.Size]byte(b), c, nil
	}
	if len(fields[1]) < minSecret {
		return hash, nil, fmt.Errorf("a token has at least %d characters", minSecret)
	}
	return sha256.Sum256([]byte(fields[1])), c, nil
}

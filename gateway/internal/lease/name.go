package lease

import (
	"fmt"
	"strings"
)

// MaxNameBytes is how long the name of a lock can be.
const MaxNameBytes = 200

// CheckName accepts the names of elections: 1 to 200 bytes of A-Z a-z 0-9 . _
// - and /, without empty, . and .. segments.
func CheckName(name string) error {
	if len(name) < 1 || len(name) > MaxNameBytes {
		return fmt.Errorf("a lock's name has 1 to %d bytes, not %d", MaxNameBytes, len(name))
	}
	for _, c := range []byte(name) {
		if !('A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' ||
			c == '.' || c == '_' || c == '-' || c == '/') {
			return fmt.Errorf("a lock's name is made of A-Z a-z 0-9 . _ - and /, it cannot contain %q", c)
		}
	}
	for seg := range strings.SplitSeq(name, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return fmt.Errorf("a lock's name cannot have the segment %q", seg)
		}
	}
	return nil
}

// BeginsNames tells whether a lock can have a name that begins with prefix: it
// is one itself, or one more letter makes it one.
func BeginsNames(prefix string) bool {
	return CheckName(prefix) == nil || CheckName(prefix+"x") == nil
}

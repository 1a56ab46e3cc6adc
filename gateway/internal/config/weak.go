package config

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
)

// Weak lists settings that are allowed but unwise. The gateway starts all the
// same and logs them, again at each reload.
func (c *Config) Weak() []string {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	host, _, _ := net.SplitHostPort(c.Listen)
	open := !loopback(host)
	switch {
	case c.TokenFile != "":
		if open && c.TLSCert == "" {
			say("tokens travel in clear text: set --tls-cert, or put a TLS proxy in front")
		}
	case c.ClientCA != "":
		say("every certificate of --client-ca opens every name: set --token-file, too, to tell clients apart")
	case open:
		say("anyone who reaches %s can take and release every lock: set --token-file or --client-ca", c.Listen)
	}
	o := &c.Cassandra
	if o.Username != "" && !o.TLS && (o.Discover || slices.ContainsFunc(o.Hosts, func(h string) bool { return !loopback(h) })) {
		say("the password for Cassandra travels in clear text: set --cassandra-tls")
	}
	for _, secret := range []struct{ flag, file string }{
		{"--token-file", c.TokenFile}, {"--tls-key", c.TLSKey},
		{"--password-file", o.PasswordFile}, {"--cassandra-key-file", o.KeyFile},
	} {
		if secret.file == "" {
			continue
		}
		// The reader of the file reports an unreadable one.
		if info, err := os.Stat(secret.file); err == nil {
			if what := exposed(info.Mode()); what != "" {
				say("%s %s (mode %04o) can be %s: give it to root and the gateway's group, mode 0640", secret.flag, secret.file, info.Mode().Perm(), what)
			}
		}
	}
	return list
}

// exposed describes the access to a file with a secret that others have beside
// owner and group, and the group beside reading.
func exposed(mode fs.FileMode) string {
	switch {
	case mode&0o022 != 0:
		return "written by others"
	case mode&0o007 != 0:
		return "read by others"
	}
	return ""
}

package api

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// checkHost refuses requests for another host than this machine, if nobody has
// to authenticate because only this machine can connect. A web page can make
// a local browser connect: if evil.example suddenly resolves to 127.0.0.1, its
// page has the same origin as the gateway. The page cannot change the name,
// which the browser sends as the host.
func (s *Server) checkHost(r *http.Request) error {
	if !s.opt.Local || r.Host == "" || localHost(r.Host, s.opt.Hosts) {
		return nil
	}
	return invalid("cross-origin", "the gateway is for this machine alone: the host may be localhost, a loopback address, "+
		"or one of --allow-hosts, not %.80q", r.Host)
}

func localHost(host string, also []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback() || slices.Contains(also, host)
}

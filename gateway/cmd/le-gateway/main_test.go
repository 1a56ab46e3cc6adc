package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the daemon, so that signals, exit codes and the
// environment are the real ones.
func TestMain(m *testing.M) {
	if os.Getenv("BE_LE_GATEWAY") != "" {
		main()
	}
	os.Exit(m.Run())
}

func command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "BE_LE_GATEWAY=1")
	return c
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		args string
		ok   bool
		want string
	}{
		{"--help", true, "--max-clock-skew"},
		{"help", true, "le-gateway schema"},
		{"schema --help", true, "--replication"},
		{"version", true, "le-gateway"},
		{"schema --replication dc1=3,dc2=3", true, "'dc1': 3, 'dc2': 3"},
		{"schema --replication dc1=3", true, "default_time_to_live = 0 AND gc_grace_seconds = 864000"},
		{"schema --replication dc1=1", false, "no majority is left"},
		{"schema --replication dc1=2", false, "no majority is left"},
		{"schema --replication dc1=3,dc2=1 --serial-consistency LOCAL_SERIAL", false, "dc2"},
		{"schema --replication dc1=1 --allow-fragile", true, "'dc1': 1"},
		{"schema --replication what", false, "datacenter=copies"},
		{"schema", false, "--replication is required"},
		{"nonsense", false, "unknown command"},
		{"--listen 0.0.0.0:0", false, "without authentication"},
		{"--token-file /does/not/exist", false, "token file"},
		{"--tls-cert /does/not/exist --tls-key /does/not/exist", false, "no such file"},
	} {
		out, err := command(strings.Fields(c.args)...).CombinedOutput()
		if (err == nil) != c.ok || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, without %q:\n%s", c.args, err, c.want, out)
		}
	}
}

// The manual page, made from the help, has each command and setting.
func TestManual(t *testing.T) {
	var help bytes.Buffer
	for _, args := range []string{"schema --help", "help"} {
		out, err := command(strings.Fields(args)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		help.Write(out)
	}
	awk := exec.Command("awk", "-f", "../../man.awk")
	awk.Stdin = &help
	made, err := awk.Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../le-gateway.8")
	if err != nil || !bytes.Equal(made, page) {
		t.Errorf("gateway/le-gateway.8 is not what --help says (%v): make gateway-man", err)
	}
	for _, want := range []string{"le\\-gateway schema", ".B \\-\\-token\\-file file\n", ".B \\-\\-replication ", ".SH ENVIRONMENT"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// authority makes certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", true)
	return a
}

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(name string, ca bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.n++
	c := &x509.Certificate{SerialNumber: big.NewInt(a.n), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: ca, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, _ := x509.MarshalPKCS8PrivateKey(key)
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", keyDER)
	c, _ = x509.ParseCertificate(der)
	return c, key
}

func (a *authority) write(file, kind string, der []byte) {
	os.WriteFile(a.path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

func (a *authority) client(cert string) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	conf := &tls.Config{RootCAs: pool}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(a.path(cert+".pem"), a.path(cert+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
}

type daemon struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
	mu   sync.Mutex
	log  bytes.Buffer
	done chan error
}

// start starts a gateway without its Cassandra.
func start(t *testing.T, args ...string) *daemon {
	t.Helper()
	return startWith(t, nil, args...)
}

func startWith(t *testing.T, env []string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, cmd: command(append([]string{"--listen", "127.0.0.1:0", "--port", "1", "--log-format", "json"}, args...)...),
		done: make(chan error, 1)}
	d.cmd.Env = append(d.cmd.Env, env...)
	r, err := d.cmd.StderrPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			d.mu.Lock()
			d.log.WriteString(lines.Text() + "\n")
			d.mu.Unlock()
		}
		d.done <- d.cmd.Wait()
	}()
	t.Cleanup(func() { d.cmd.Process.Kill() })
	d.addr = d.logged(`"address":"([^"]+)"`)
	return d
}

// logged waits for a line of the log and returns what the pattern captures.
func (d *daemon) logged(pattern string) string {
	d.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		d.mu.Lock()
		text := d.log.String()
		d.mu.Unlock()
		if m := re.FindAllStringSubmatch(text, -1); m != nil {
			return m[len(m)-1][len(m[len(m)-1])-1]
		}
		if time.Now().After(end) {
			d.t.Fatalf("no %s in the log:\n%s", pattern, text)
		}
	}
}

func get(c *http.Client, url, bearer string) (*http.Response, string, error) {
	req, _ := http.NewRequest("GET", url, nil)
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	r, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r, string(b), err
}

func TestTLSTokensAndReload(t *testing.T) {
	a := newAuthority(t)
	a.issue("server", false)
	a.issue("client", false)
	tokens := a.path("tokens")
	os.WriteFile(tokens, []byte("one token-number-one1 *\n"), 0o600)
	d := start(t, "--tls-cert", a.path("server.pem"), "--tls-key", a.path("server.key"), "--client-ca", a.path("ca.pem"), "--token-file", tokens)
	lock := "https://" + d.addr + "/v1/locks/l"
	if _, _, err := get(a.client(""), lock, "token-number-one1"); err == nil {
		t.Error("a client without certificate got in")
	}
	if _, _, err := get(http.DefaultClient, "http://"+d.addr+"/healthz", ""); err == nil {
		if r, _, _ := get(http.DefaultClient, "http://"+d.addr+"/healthz", ""); r.StatusCode == 200 {
			t.Error("plain HTTP is served on a TLS port")
		}
	}
	status := func(bearer string, want int) *http.Response {
		t.Helper()
		r, body, err := get(a.client("client"), lock, bearer)
		if err != nil || r.StatusCode != want {
			t.Fatalf("%v %+v %s, want %d", err, r, body, want)
		}
		return r
	}
	status("token-number-two2", 401)
	before := status("token-number-one1", 503) // there is no Cassandra
	os.WriteFile(tokens, []byte("two token-number-two2 *\n"), 0o600)
	os.Chmod(tokens, 0o644)
	a.issue("server", false)
	d.cmd.Process.Signal(syscall.SIGHUP)
	d.logged("reloaded tokens and certificates")
	d.logged(`"level":"WARN","msg":"weak set-up","problem":"--token-file \S+ \(mode 0644\) can be read by others`)
	status("token-number-one1", 401)
	after := status("token-number-two2", 503)
	if before.TLS.PeerCertificates[0].SerialNumber.Cmp(after.TLS.PeerCertificates[0].SerialNumber) == 0 {
		t.Error("the certificate was not read again")
	}
	os.WriteFile(tokens, []byte("broken\n"), 0o600)
	d.cmd.Process.Signal(syscall.SIGHUP)
	d.logged("the old settings stay")
	status("token-number-two2", 503)
}

func TestWithoutCassandra(t *testing.T) {
	d := start(t)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/version": 200, "/metrics": 200, "/openapi.yaml": 200, "/v1/locks/l": 503} {
		r, body, err := get(http.DefaultClient, "http://"+d.addr+path, "")
		if err != nil || r.StatusCode != want {
			t.Errorf("%s: %v %v %s", path, err, r, body)
		}
		if want == 503 && !strings.Contains(body, `"outcome":"not-applied"`) {
			t.Errorf("%s: %s", path, body)
		}
	}
	// a page under a name that resolves to us (DNS rebinding)
	req, _ := http.NewRequest("PUT", "http://"+d.addr+"/v1/locks/l", nil)
	req.Host = "evil.example"
	if r, err := http.DefaultClient.Do(req); err != nil || r.StatusCode != 403 {
		t.Errorf("a foreign host: %v %v", err, r)
	}
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-d.done:
		if err != nil {
			t.Errorf("exit: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("does not stop")
	}
}

// The service manager is told each state, in order, and meanwhile that the
// gateway lives, even without Cassandra.
func TestServiceManager(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	heard := func() string {
		t.Helper()
		b := make([]byte, 4096)
		manager.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := manager.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	state := func(want string) {
		t.Helper()
		for {
			got := heard()
			if strings.HasPrefix(got, want) {
				return
			}
			if !strings.HasPrefix(got, "WATCHDOG=1\n") {
				t.Fatalf("%q, want %q", got, want)
			}
		}
	}
	d := startWith(t, []string{"NOTIFY_SOCKET=" + name, "WATCHDOG_USEC=1000000"})
	if got := heard(); got != "READY=1\nSTATUS=listening on "+d.addr {
		t.Errorf("first of all: %q", got)
	}
	for range 2 {
		if got := heard(); !strings.HasPrefix(got, "WATCHDOG=1\nSTATUS=") || !strings.Contains(got, "Cassandra") {
			t.Errorf("%q", got)
		}
	}
	d.cmd.Process.Signal(syscall.SIGHUP)
	state("RELOADING=1")
	state("READY=1")
	state("WATCHDOG=1")
	d.cmd.Process.Signal(syscall.SIGTERM)
	state("STOPPING=1")
	if err := <-d.done; err != nil {
		t.Error(err)
	}
}

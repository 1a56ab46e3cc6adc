// Consul-lock takes a key by the Lock of Consul's own Go client, as its users do,
// and reports its state by lines on standard output:
//
//	waiting NS     its session is there, and it asks for the lock
//	locked NS      it has it
//	lost NS        the client was told that it has it no more
//	unlocked NS    it gave it back, since standard input said "unlock"
//
// NS is CLOCK_BOOTTIME in nanoseconds: after the client said so for "locked",
// before it does anything for "unlocked". It ends with its standard input.
//
// For measurements (bench/rows) it repeats an operation on one warm client and
// prints the time of each, in microseconds; see bench.go.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sys/unix"
)

// boottime is the clock of the tests and of the extension.
func boottime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		log.Fatal(err)
	}
	return ts.Nano()
}

func say(what string, at int64) {
	fmt.Printf("%s %d\n", what, at)
}

func main() {
	address := flag.String("address", "127.0.0.1:8500", "address of the Consul agent")
	key := flag.String("key", "", "key to lock")
	name := flag.String("name", "", "name of the session")
	ttl := flag.String("ttl", api.DefaultLockSessionTTL, "TTL of the session")
	delay := flag.Duration("delay", 15*time.Second, "lock-delay of the session")
	var many bench
	many.flags()
	flag.Parse()

	config := api.DefaultConfig()
	config.Address = *address
	client, err := api.NewClient(config)
	if err != nil {
		log.Fatal(err)
	}
	if many.wanted() {
		many.run(client, *key)
		return
	}
	lock, err := client.LockOpts(&api.LockOptions{
		Key:   *key,
		Value: []byte(*name),
		SessionOpts: &api.SessionEntry{
			Name: *name, TTL: *ttl, LockDelay: *delay,
			Behavior: api.SessionBehaviorRelease,
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	ended := make(chan struct{})
	unlock := make(chan struct{}, 1)
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			if in.Text() == "unlock" {
				unlock <- struct{}{}
			}
		}
		close(ended)
	}()

	say("waiting", boottime())
	lost, err := lock.Lock(ended)
	if err != nil {
		log.Fatal(err)
	}
	if lost == nil { // the input ended first
		return
	}
	say("locked", boottime())
	select {
	case <-lost:
		say("lost", boottime())
	case <-unlock:
		say("unlocked", boottime())
		if err := lock.Unlock(); err != nil {
			log.Fatal(err)
		}
	case <-ended:
	}
	<-ended
}

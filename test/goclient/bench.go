package main

import (
	"flag"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// bench is the repeated measurement:
//
//	-pairs n      Lock and Unlock by one session: "lock US", "unlock US"
//	-handoffs n   one session waits in Lock, another one calls Unlock:
//	              "handoff US", from that call until the first has it
//	-contend n    n sessions Lock and Unlock, -for so long: "client PAIRS
//	              LONGEST" of each, LONGEST the longest Lock
type bench struct {
	pairs, handoffs, contend int
	during                   time.Duration
}

func (b *bench) flags() {
	flag.IntVar(&b.pairs, "pairs", 0, "lock and unlock so many times")
	flag.IntVar(&b.handoffs, "handoffs", 0, "hand over so many times")
	flag.IntVar(&b.contend, "contend", 0, "so many sessions take turns")
	flag.DurationVar(&b.during, "for", 30*time.Second, "for how long they do")
}

func (b *bench) wanted() bool { return b.pairs+b.handoffs+b.contend > 0 }

func (b *bench) run(client *api.Client, key string) {
	switch {
	case b.pairs > 0:
		l := warm(client, key)
		for range b.pairs {
			fmt.Printf("lock %d\n", took(func() { lock(l) }).Microseconds())
			fmt.Printf("unlock %d\n", took(func() { unlock(l) }).Microseconds())
		}
	case b.handoffs > 0:
		handOver(warm(client, key), warm(client, key), b.handoffs)
	default:
		contend(client, key, b.contend, b.during)
	}
}

// warm is a lock with a session, renewed as the client does it.
func warm(client *api.Client, key string) *api.Lock {
	id, _, err := client.Session().CreateNoChecks(&api.SessionEntry{
		TTL: api.DefaultLockSessionTTL, LockDelay: time.Nanosecond,
		Behavior: api.SessionBehaviorRelease}, nil)
	if err != nil {
		log.Fatal(err)
	}
	go client.Session().RenewPeriodic(api.DefaultLockSessionTTL, id, nil, make(chan struct{}))
	l, err := client.LockOpts(&api.LockOptions{Key: key, Session: id})
	if err != nil {
		log.Fatal(err)
	}
	lock(l)
	unlock(l)
	return l
}

func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func lock(l *api.Lock) {
	if lost, err := l.Lock(nil); err != nil || lost == nil {
		log.Fatal("not locked: ", err)
	}
}

func unlock(l *api.Lock) {
	if err := l.Unlock(); err != nil {
		log.Fatal(err)
	}
}

func handOver(holder, waiter *api.Lock, times int) {
	lock(holder)
	for range times {
		locked := make(chan time.Time)
		go func() {
			lock(waiter)
			locked <- time.Now()
		}()
		// its long poll is at the server by then
		time.Sleep(20 * time.Millisecond)
		began := time.Now()
		unlock(holder)
		fmt.Printf("handoff %d\n", (<-locked).Sub(began).Microseconds())
		holder, waiter = waiter, holder
	}
	unlock(holder)
}

func contend(client *api.Client, key string, clients int, during time.Duration) {
	var all sync.WaitGroup
	locks := make([]*api.Lock, clients)
	for i := range locks {
		locks[i] = warm(client, key)
	}
	end := time.After(during)
	ended := make(chan struct{})
	go func() { <-end; close(ended) }()
	var mu sync.Mutex
	for _, l := range locks {
		all.Add(1)
		go func() {
			defer all.Done()
			pairs, longest := 0, time.Duration(0)
			for {
				began := time.Now()
				lost, err := l.Lock(ended)
				longest = max(longest, time.Since(began))
				if err != nil {
					log.Fatal(err)
				}
				if lost == nil { // the time is over
					break
				}
				unlock(l)
				pairs++
				select {
				case <-ended:
				default:
					continue
				}
				break
			}
			mu.Lock()
			fmt.Printf("client %d %d\n", pairs, longest.Microseconds())
			mu.Unlock()
		}()
	}
	all.Wait()
}

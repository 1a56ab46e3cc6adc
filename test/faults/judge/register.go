package main

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// The specification of one election for Porcupine: its holder and token. A term
// that ends by itself is an event of its own, "end", which the witness of
// belief has dated. After it the store may still show the old holder for a
// while, or nobody, and a read may flap between the two; only an acquire
// decides.
//
// If the store ends a holder's session by force, it frees the key while the
// holder may still believe, until its deadline: reads show no holder then, but
// no acquire succeeds.
//
// A request whose outcome is unknown stays open for ever: it may have been
// applied at any later instant, or never. A statement that is canceled right
// after its acquire was granted leaves a session with a term, as it leaves it
// with an advisory lock; such a term has no dated end.
//
// An acquire that "gave back" was granted by the store, but its token could not
// be kept; its caller is told so while the lease is being released. A waiting
// one may have been granted before, too: the node releases a grant that it
// hears of too late, and tries again. Where the store counts its grants the
// missing token shows that.
//
// A store's grant may take two steps, the lease and then the stamp: in between
// nobody leads, and others are refused.
//
// A grant may be in the store before the node hears of it, since the answer was
// lost or is late. Others read the holder there already, while the node itself,
// when another session asks it to release or renew, answers that it does not
// lead: it does not, until its acquire returns.

type registerState struct {
	holder string // "": free, by its last holder's release
	node   string // as visible to reads
	token  int64  // the highest so far
	ended  bool   // the term is over, which the store may not know yet
	vague  bool   // it may not be over: acquired with an unknown outcome
	freed  bool   // the store has freed it, the term may not be over yet
}

// delayed stands in for the holder while a lock-delay may run.
const delayed = "(lock-delay)"

type registerInput struct {
	op     string
	holder string
	node   string
	token  int64 // end: its term
	rival  bool  // acquire: another's grant, in steps, was under way
	news   int64 // release, renew: the term that its node had not heard of yet
}

type registerOutput struct {
	result string
	token  int64
	leader string
}

func registerModel() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{registerState{}} },
		Step: func(state, input, output interface{}) []interface{} {
			return step(state.(registerState), input.(registerInput), output.(registerOutput))
		},
		Equal: func(a, b interface{}) bool { return a == b },
		DescribeOperation: func(input, output interface{}) string {
			return describe(input.(registerInput), output.(registerOutput))
		},
	}
	return model.ToModel()
}

func describe(in registerInput, out registerOutput) string {
	switch in.op {
	case "freed":
		return fmt.Sprintf("%s's session ended by force", in.node)
	case "end":
		return fmt.Sprintf("end of %s's term %d", in.holder, in.token)
	case "read":
		return fmt.Sprintf("read: %s \"%s\"", out.result, out.leader)
	}
	return fmt.Sprintf("%s by %s: %s, token %d", in.op, in.holder, out.result, out.token)
}

// step gives the states that may follow; none: this cannot have happened.
func step(s registerState, in registerInput, out registerOutput) []interface{} {
	mine := s.holder == in.holder && s.holder != ""
	free := s.holder == "" || s.ended
	certain := mine && !s.ended && !s.freed
	one := func(n registerState) []interface{} { return []interface{}{n} }

	switch in.op + " " + out.result {
	case "acquire true":
		switch {
		case mine && !s.ended && (out.token == 0 || out.token == s.token):
			return one(s)
		case free && out.token == 0:
			// lost again before its token could be read
			return one(registerState{holder: in.holder, node: in.node, token: s.token, ended: true})
		case free && out.token > s.token:
			return one(registerState{holder: in.holder, node: in.node, token: out.token})
		}
		return nil
	case "acquire false":
		if (s.holder == "" && !in.rival) || certain {
			return nil
		}
		return one(s)
	case "acquire unknown", "acquire gave back":
		if free && !mine {
			return []interface{}{s, registerState{holder: in.holder, node: in.node, token: s.token, ended: true, vague: true}}
		}
		return one(s)
	case "release true":
		switch {
		case !mine:
			return nil
		case s.freed:
			return one(registerState{holder: delayed, token: s.token, ended: true})
		}
		return one(registerState{token: s.token})
	case "release false":
		if certain && s.token != in.news {
			return nil
		}
		return one(s)
	case "release unknown":
		if !mine {
			return one(s)
		}
		over := s
		over.ended = true
		return []interface{}{s, over, registerState{token: s.token}}
	case "renew true":
		if !certain && !(mine && s.vague) {
			return nil
		}
		return one(s)
	case "renew false":
		if certain && s.token != in.news {
			return nil
		}
		return one(s)
	case "read true":
		if (out.leader == s.node && s.holder != "") || (out.leader == "" && (free || s.freed)) {
			return one(s)
		}
		return nil
	case "freed ":
		if s.node == in.node && s.holder != "" {
			over := s
			over.freed = true
			return one(over)
		}
		return one(s)
	case "end ":
		if mine && s.token == in.token {
			over := s
			over.ended = true
			return one(over)
		}
		return one(s)
	}
	return one(s) // an outcome without information
}

// undecided is the time limit for one election; histories are so short that
// milliseconds suffice.
const undecided = 60 * time.Second

// linearizable: I8.
func linearizable(h *History) (violations []string, judged, excused int) {
	ends := ends(h)
	elections := byElection(h.ops)
	var mutex sync.Mutex
	var wait sync.WaitGroup
	slots := make(chan bool, 2)

	for _, election := range sortedKeys(elections) {
		ops, stale := withoutStale(h, elections[election])
		excused += stale
		if len(ops) == 0 {
			continue
		}
		history, exempt := operations(h, ops, ends)
		if exempt {
			excused++
			continue
		}
		judged += len(history)
		wait.Add(1)
		go func(election string) {
			defer wait.Done()
			slots <- true
			defer func() { <-slots }()
			result := porcupine.CheckOperationsTimeout(registerModel(), history, undecided)
			if result == porcupine.Ok {
				return
			}
			text := fmt.Sprintf("%s: undecided after %s (%d operations)", election, undecided, len(history))
			if result == porcupine.Illegal {
				text = fmt.Sprintf("%s: no order of these operations explains their answers%s",
					election, shortest(history))
			}
			mutex.Lock()
			violations = append(violations, text)
			mutex.Unlock()
		}(election)
	}
	wait.Wait()
	sort.Strings(violations)
	return
}

// withoutStale leaves out reads that a Consul leader may have answered when it
// was thawed. To prove that it still leads it waits for the followers' next
// answers, and those that had arrived before it was frozen count as well.
// Writes of that time stay in: they name the index that they rest on.
func withoutStale(h *History, ops []Record) (rest []Record, stale int) {
	for _, o := range ops {
		if o.Op == "read" && h.storeFrozen(o.Call, o.Return) {
			stale++
			continue
		}
		rest = append(rest, o)
	}
	return
}

func (h *History) storeFrozen(from, to int64) bool {
	for _, f := range h.faults {
		if (f.Kind == "store leader stopped" || f.Kind == "store without a quorum") &&
			f.From < to && f.To > from {
			return true
		}
	}
	return false
}

// hasRival tells whether a refused acquire met another's grant between its
// steps.
func (h *History) hasRival(o Record, ops []Record) bool {
	if !strings.Contains(h.run.Grants, "in steps") || o.Op != "acquire" || o.Result != "false" {
		return false
	}
	for _, p := range ops {
		if p.Call > o.Return {
			break
		}
		if p.Op == "acquire" && p.Holder != o.Holder && (p.Result == "true" || p.Result == "unknown") &&
			(p.Return > o.Call || p.Result == "unknown") {
			return true
		}
	}
	return false
}

// unheard gives the term that its node had not heard of when it refused a
// release or a renewal: that of an acquire of the same holder that was under
// way then, if no client had been told of it before. 0: none.
func unheard(o Record, ops []Record) int64 {
	if (o.Op != "release" && o.Op != "renew") || o.Result != "false" {
		return 0
	}
	var told, underWay int64
	for _, p := range ops {
		switch {
		case p.Call > o.Return || p.Op != "acquire" || p.Result != "true" || p.Holder != o.Holder:
		case p.Return <= o.Call:
			told = max64(told, p.Token)
		default:
			underWay = max64(underWay, p.Token)
		}
	}
	if underWay <= told {
		return 0 // tokens rise: a repeated one is not new
	}
	return underWay
}

// mostUntold bounds the search for grants that no node heard of.
const mostUntold = 3

// untold is the number of grants that an acquire may have got before the
// reported one: the tokens in between that no client was told of, since the
// last one told before the acquire was called.
func (h *History) untold(o Record, ops []Record) (n int) {
	if !strings.Contains(h.run.Grants, "counted") {
		return 0 // its tokens do not count its grants
	}
	told := map[int64]bool{}
	last := int64(0)
	for _, p := range ops {
		if p.Op != "acquire" || p.Result != "true" {
			continue
		}
		told[p.Token] = true
		if p.Return < o.Call {
			last = max64(last, p.Token)
		}
	}
	for token := last + 1; token < o.Token && n < mostUntold; token++ {
		if !told[token] {
			n++
		}
	}
	return n
}

// operations makes Porcupine's history of one election: the clients'
// operations, the ends of their terms, and grants that they may have got
// before.
func operations(h *History, ops []Record, ends map[term]termEnd) (history []porcupine.Operation, exempt bool) {
	over := map[term]bool{}
	for _, o := range ops {
		if h.exempt("I8", o.Election, o.Call) {
			return nil, true
		}
		back := o.Return
		if o.Result == "unknown" {
			if o.Op == "read" || o.Op == "renew" {
				continue
			}
			back = math.MaxInt64
		}
		history = append(history, porcupine.Operation{
			ClientId: o.Client,
			Input:    registerInput{op: o.Op, holder: o.Holder, node: o.Node, rival: h.hasRival(o, ops), news: unheard(o, ops)},
			Call:     o.Call,
			Output:   registerOutput{result: o.Result, token: o.Token, leader: o.Leader},
			Return:   back,
		})
		if o.Op != "acquire" || o.Result != "true" || o.Token == 0 {
			continue
		}
		t := term{o.Holder, o.Election, o.Token}
		if over[t] {
			continue
		}
		over[t] = true
		for i := h.untold(o, ops); i > 0; i-- {
			history = append(history, porcupine.Operation{
				ClientId: o.Client,
				Input:    registerInput{op: "acquire", holder: o.Holder, node: o.Node},
				Call:     o.Call,
				Output:   registerOutput{result: "gave back"},
				Return:   o.Return,
			})
		}
		end, seen := ends[t]
		if !seen {
			end.last = o.Call
		}
		if end.until == 0 {
			end.until = math.MaxInt64
		}
		history = append(history, porcupine.Operation{
			Input:  registerInput{op: "end", holder: o.Holder, token: o.Token},
			Call:   max64(end.last, o.Call),
			Output: registerOutput{},
			Return: max64(end.until, o.Call),
		})
	}
	for _, f := range h.freed {
		if f.From > ops[0].Call && f.From < ops[len(ops)-1].Return {
			history = append(history, porcupine.Operation{
				Input:  registerInput{op: "freed", node: f.Holder},
				Call:   f.From,
				Output: registerOutput{},
				Return: math.MaxInt64,
			})
		}
	}
	return history, false
}

// shortest finds the first operation that makes the history inexplicable, and
// shows the operations that led to it.
func shortest(history []porcupine.Operation) string {
	sort.SliceStable(history, func(i, j int) bool { return history[i].Return < history[j].Return })
	// Operations that are still open at the cut must stay in: they may have
	// had an effect already.
	prefix := func(n int) []porcupine.Operation {
		cut := history[n-1].Return
		var part []porcupine.Operation
		for i, o := range history {
			in, out := o.Input.(registerInput), o.Output.(registerOutput)
			open := o.Call <= cut && (in.op == "acquire" || in.op == "release") &&
				(out.result == "true" || out.result == "unknown")
			switch {
			case i < n:
				part = append(part, o)
			case open || in.op == "end" || in.op == "freed":
				// An acquire that is still open needs the end of the term
				// before it, at any time.
				o.Return = math.MaxInt64
				part = append(part, o)
			}
		}
		return part
	}
	low, high := 1, len(history)
	for low < high {
		middle := (low + high) / 2
		if porcupine.CheckOperationsTimeout(registerModel(), prefix(middle), undecided) == porcupine.Illegal {
			high = middle
		} else {
			low = middle + 1
		}
	}
	text := ""
	for i := max64(0, int64(low)-12); i < int64(low); i++ {
		o := history[i]
		text += fmt.Sprintf("\n      %d .. %d  client %d  %s", o.Call, o.Return, o.ClientId,
			describe(o.Input.(registerInput), o.Output.(registerOutput)))
	}
	return text
}

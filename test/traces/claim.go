package main

// claim: what may be claimed, as docs/jobs.md promises it. A tick is claimed
// once, and never one before the last.
func (r *Run) claim(line *Line) {
	const claims = "claims of ticks"
	found, wish := line.Found, line.Wish
	again := found.Exists != 0 && found.Tick == wish.Tick
	switch line.Verdict {
	case "take":
		if found.Exists == 0 || wish.Forget != 0 {
			r.must(claims, line.Try == 1, line, "a first try is number %d", line.Try)
			return
		}
		r.must(claims, found.Tick <= wish.Tick, line, "tick %d is claimed after %d", wish.Tick,
			found.Tick)
		if !again {
			r.must(claims, line.Try == 1, line, "a first try is number %d", line.Try)
			return
		}
		r.must(claims, wish.CatchUp != 0, line, "a tick is claimed again, but not to catch up")
		r.must(claims, found.State == "running", line, "a tick that is %s is claimed again", found.State)
		r.must(claims, found.Over != 0 || found.Token < wish.Token ||
			found.Token > wish.Token && wish.Judged != 0, line,
			"a tick is claimed again while somebody may act on it")
		r.must(claims, line.Try == found.Try+1, line, "try %d after try %d", line.Try, found.Try)
	case "ours":
		r.must(claims, found.Ours != 0 && line.Try == found.Try, line, "a record of another is ours")
	case "lost":
		r.must(claims, found.Lost != 0, line, "a record is lost that is there")
	default:
		r.must(claims, found.Ours == 0, line, "our own record is another's")
	}
}

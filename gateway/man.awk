# gateway/man.awk
#
# Makes the manual page from the output of "le-gateway schema --help" and
# "le-gateway help", one behind the other.  Options of both are left out of the
# first.

function put(text)
{
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	say((text ~ /^[.']/ ? "\\&" : "") text)
}

# The options of schema come behind the others.
function say(line)
{
	if (of_schema)
		later = later line "\n"
	else
		print line
}

function begin(section)
{
	say(".SH " section)
	part = section
}

/^le-gateway schema - / { of_schema = 1; next }
/^le-gateway - / {
	of_schema = skip = 0
	sub(/^le-gateway - /, "")
	print ".TH LE\\-GATEWAY 8 \"\" leader_election"
	begin("NAME")
	put("le-gateway - " $0)
	begin("SYNOPSIS")
	print ".nf"
	next
}
of_schema && /^Cassandra:$/ { skip = 1 }
/^Every flag can be set/ {
	skip = of_schema
	if (!of_schema) {
		printf "%s", later
		begin("ENVIRONMENT")
	}
}
/^Schema:$/ { skip = 0 }
skip { next }
/^$/ {
	if (part == "SYNOPSIS") {
		blank++
		if (blank == 2) {
			print ".fi"
			begin("DESCRIPTION")
		}
	}
	next
}
/^Try it:$/ { begin("EXAMPLES"); print ".nf"; next }
/^[A-Z][a-z]+:$/ {
	if (part == "EXAMPLES")
		print ".fi"
	if (of_schema)
		begin("OPTIONS OF SCHEMA")
	else {
		if (part != "OPTIONS")
			begin("OPTIONS")
		print ".SS " substr($0, 1, length($0) - 1)
	}
	next
}
/^  --/ {
	say(".TP")
	$1 = $1
	gsub(/-/, "\\-")
	say(".B " $0)
	next
}
{
	sub(/^ +/, "")
	put($0)
}
END {
	print ".PP"
	print ".BR NOTIFY_SOCKET \", \" WATCHDOG_USEC \" and \" WATCHDOG_PID"
	put("are systemd's, for a unit of Type=notify: the service manager is told when the")
	put("gateway listens, reloads and stops. With WatchdogSec= the gateway makes a request")
	put("to itself twice in that time, and is silent if that does not come back; a")
	put("Cassandra that is away is no reason to be silent.")
	begin("FILES")
	print ".TP"
	print ".I /etc/default/leader\\-election\\-gateway"
	put("environment of the service leader-election-gateway, a line per variable")
	begin("SEE ALSO")
	print ".BR lectl (1),"
	print ".BR systemd.service (5)"
}

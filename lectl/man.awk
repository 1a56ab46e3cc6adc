# lectl/man.awk
#
# Makes the manual page from the output of "lectl --help": its first line is the
# name, each of its parts a section, unchanged.

function section(title)
{
	print ".fi\n.SH " title "\n.nf"
	empty = 0
}

function text(line)
{
	if (empty)
		print ""
	empty = 0
	gsub(/\\/, "\\e", line)
	gsub(/-/, "\\-", line)
	print (line ~ /^[.']/ ? "\\&" : "") line
}

NR == 1 {
	sub(/^lectl is /, "")
	sub(/\.$/, "")
	print ".TH LECTL 1 \"\" leader_election\n.SH NAME"
	print "lectl \\- " $0 "\n.nf"
	next
}
/^$/ { empty = 1; next }
/^Usage:$/ { section("SYNOPSIS"); next }
/^An INTERVAL / { section("DESCRIPTION") }
/^[a-z-]+: / {
	section(toupper(substr($1, 1, length($1) - 1)))
	sub(/^[a-z-]+: /, "")
}
/^[A-Z][a-z]+ options:$/ {
	section(toupper(substr($0, 1, length($0) - 1)))
	next
}
/^Exit codes/ { section("EXIT STATUS") }
{ text($0) }
END { print ".fi" }

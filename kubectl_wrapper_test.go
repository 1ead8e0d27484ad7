package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestReadsInputOnly: a filter is run again only if it reads nothing but its input
// and writes nothing but its output.
func TestReadsInputOnly(t *testing.T) {
	for line, want := range map[string]bool{
		"grep -v Running": true, "grep -i -A 3 error": true, "grep -e a -e b": true, "grep -E a|b -": true, "egrep -m 1 x": true,
		"grep x file": false, "grep -f patterns": false, "grep -r x": false, "grep -e x file": false, "grep --file=x": false,
		"head -3": true, "head -n 3": true, "head file": false, "tail -n +2": true, "tail -f": false, "tail -1": true,
		"sort": true, "sort -k 2 -r": true, "sort -t , -k 1": true, "sort -o out": false, "sort -oout": false, "sort file": false,
		"uniq -c": true, "uniq in out": false, "wc -l": true, "wc -l file": false,
		"cut -d , -f 1": true, "cut -d: -f2-": true, "cut -c 1-10": true, "cut -f 1 file": false,
		"tr a b": true, "tr -d x": true, "cat": true, "cat file": false, "column -t": true,
		"jq .items": true, "jq -r .a": true, "jq . file": false, "jq -f prog": false, "jq --slurpfile a b .": false,
	} {
		if got := readsInputOnly(strings.Fields(line)); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

func TestRefilter(t *testing.T) {
	const text = "NAME READY\na 1/1\nb 0/1\nc 0/1\n"
	for _, tt := range []struct {
		filters [][]string
		want    string
		known   bool
	}{
		{[][]string{{"grep", "0/1"}}, "b 0/1\nc 0/1\n", true},
		{[][]string{{"grep", "0/1"}, {"head", "-1"}}, "b 0/1\n", true},
		{[][]string{{"grep", "nothing like it"}}, "", true},
		{[][]string{{"grep", "["}}, "", false}, // grep itself failed
		{[][]string{{"grep", "x", "/etc/passwd"}}, "", false},
		{[][]string{{"not-a-program-anywhere"}}, "", false},
	} {
		got, known := refilter(text, tt.filters, []string{"PATH=/usr/bin:/bin"})
		if got != tt.want || known != tt.known {
			t.Errorf("%q: %q, %v; want %q, %v", tt.filters, got, known, tt.want, tt.known)
		}
	}
}

// TestBlank: what is blanked is found nowhere any more, and all else stays.
func TestBlank(t *testing.T) {
	data := []byte("before secret text after secret text")
	blank(data, []byte("secret text"))
	if want := "before             after            "; string(data) != want {
		t.Errorf("%q, want %q", data, want)
	}
	whole := bytes.Repeat([]byte("x"), 10)
	blank(whole, nil)
	if string(whole) != "xxxxxxxxxx" {
		t.Errorf("nothing to blank gives %q", whole)
	}
}

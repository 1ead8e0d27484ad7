package conformance

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// knownMisses lists what is known to differ: id, cause.
const knownMisses = "known-misses.tsv"

// causes are the words that known-misses.tsv may give; docs/conformance.md
// explains them. The first ones are where the harness found the difference, the
// others are the reason, given by hand.
var causes = []string{
	"validation",
	"status", "header", "body", "style", "events", "age", "wait", "exit", "stdout", "stderr", "connection",
	"write", "history", "restart", "process", "uncaptured", "identity", "printer", "encoding", "client", "bug",
}

// The two kinds of things that are compared.
const (
	exchanges   = "exchanges"
	transcripts = "transcripts"
)

// report collects the outcomes of a run.
type report struct {
	known map[string]string // id -> cause, from known-misses.tsv
	diff  *regexp.Regexp    // ids whose diff is printed

	mu       sync.Mutex
	outcomes map[string]outcome // by id
}

type outcome struct {
	kind, family string
	miss         *miss // nil if passed
}

func newReport() (*report, error) {
	r := &report{known: map[string]string{}, outcomes: map[string]outcome{}}
	if expr := os.Getenv("KUBECASE_DIFF"); expr != "" {
		var err error
		if r.diff, err = regexp.Compile(expr); err != nil {
			return nil, fmt.Errorf("KUBECASE_DIFF: %w", err)
		}
	}
	file, err := os.Open(knownMisses)
	if os.IsNotExist(err) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		id, cause, ok := strings.Cut(lines.Text(), "\t")
		if !ok || cause == "" {
			return nil, fmt.Errorf("%s: %q is not an id and a cause", knownMisses, lines.Text())
		}
		if !slices.Contains(causes, cause) {
			return nil, fmt.Errorf("%s: %s has cause %q, which is none of %v", knownMisses, id, cause, causes)
		}
		r.known[id] = cause
	}
	return r, lines.Err()
}

// add records an outcome, and fails the test if it is news: a miss that isn't
// known, or a pass that is a known miss.
func (r *report) add(t *testing.T, id, kind, family string, m *miss) {
	t.Helper()
	r.mu.Lock()
	r.outcomes[id] = outcome{kind, family, m}
	r.mu.Unlock()
	cause, known := r.known[id]
	if m != nil && r.diff != nil && r.diff.MatchString(id) {
		fmt.Printf("--- %s (%s)\n%s: %s\n%s\n", id, family, m.cause, m.detail, m.diff)
	}
	if os.Getenv("KUBECASE_UPDATE") != "" {
		return
	}
	switch {
	case m != nil && m.cause == "harness":
		t.Errorf("%s: %s", id, m.detail)
	case m != nil && !known:
		t.Errorf("%s (%s): %s: %s", id, family, m.cause, m.detail)
	case m == nil && known:
		t.Errorf("%s (%s) passes, but %s lists it (%s): the list is stale, run make update-conformance", id, family, knownMisses, cause)
	}
}

// write prints the counts: per family, per kind, and altogether in the last line.
func (r *report) write(w io.Writer) {
	type count struct{ passed, total int }
	families, kinds, all := map[string]count{}, map[string]count{}, count{}
	tally := func(c count, m *miss) count {
		c.total++
		if m == nil {
			c.passed++
		}
		return c
	}
	for _, o := range r.outcomes {
		family := o.kind + " " + o.family
		families[family] = tally(families[family], o.miss)
		kinds[o.kind] = tally(kinds[o.kind], o.miss)
		all = tally(all, o.miss)
	}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		fmt.Fprintf(w, "%-44s %d/%d\n", family, families[family].passed, families[family].total)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(w, "conformance: %s %d of %d\n", kind, kinds[kind].passed, kinds[kind].total)
	}
	fmt.Fprintf(w, "conformance: %d of %d\n", all.passed, all.total)
}

// save writes the files that the environment asks for: KUBECASE_MISSES names
// one for the misses with their details, KUBECASE_REPORT one for the counts,
// and KUBECASE_UPDATE has known-misses.tsv rewritten, keeping known causes and
// the entries that this run didn't try.
func (r *report) save() error {
	ids := slices.Sorted(maps.Keys(r.outcomes))
	if name := os.Getenv("KUBECASE_MISSES"); name != "" {
		var out strings.Builder
		for _, id := range ids {
			if o := r.outcomes[id]; o.miss != nil {
				fmt.Fprintf(&out, "%s\t%s %s\t%s: %s\n", id, o.kind, o.family, o.miss.cause, strings.ReplaceAll(o.miss.detail, "\t", " "))
			}
		}
		if err := os.WriteFile(name, []byte(out.String()), 0o644); err != nil {
			return err
		}
	}
	if name := os.Getenv("KUBECASE_REPORT"); name != "" {
		var out strings.Builder
		r.write(&out)
		if err := os.WriteFile(name, []byte(out.String()), 0o644); err != nil {
			return err
		}
	}
	if os.Getenv("KUBECASE_UPDATE") == "" {
		return nil
	}
	known := maps.Clone(r.known)
	for id, o := range r.outcomes {
		switch {
		case o.miss == nil:
			delete(known, id)
		case known[id] == "":
			known[id] = o.miss.cause
		}
	}
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(known)) {
		fmt.Fprintf(&out, "%s\t%s\n", id, known[id])
	}
	return os.WriteFile(knownMisses, []byte(out.String()), 0o644)
}

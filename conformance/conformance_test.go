package conformance

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// workers is how many exchanges or commands run at a time.
const workers = 4

var outcomes *report

// TestMain prints the counts after everything else, so that the last line of
// the output is the total.
func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	var err error
	if outcomes, err = newReport(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := m.Run()
	if len(outcomes.outcomes) > 0 {
		if err := outcomes.save(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 2
		}
		outcomes.write(os.Stdout)
	}
	os.Exit(code)
}

// TestExchanges replays the recorded HTTP exchanges at the capture instant.
func TestExchanges(t *testing.T) {
	dir := recordings(t)
	server := startServer(t, clockCaptured)
	present, err := server.present()
	if err != nil {
		t.Fatal(err)
	}
	recorded := loadExchanges(t, dir)
	s := setting{server: server, present: present, asOf: server.Captured}
	pool(t, len(recorded), func(i int) (string, func(*testing.T)) {
		e := recorded[i]
		return e.ID, func(t *testing.T) {
			client, err := server.Subjects[e.As].client()
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			var m *miss
			if ours, err := replay(t.Context(), server, client, present, e); err != nil {
				m = &miss{cause: "connection", detail: oneLine(err.Error())}
			} else {
				m = compareExchange(s, e, ours)
			}
			outcomes.add(t, e.ID, exchanges, e.Category, m)
		}
	})
}

// TestTranscripts runs the recorded kubectl commands.
func TestTranscripts(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubectl")
	}
	dir := recordings(t)
	server := startServer(t, clockShifted)
	present, err := server.present()
	if err != nil {
		t.Fatal(err)
	}
	recorded := loadTranscripts(t, dir)
	b := newBench(t, server, present, dir)
	pool(t, len(recorded), func(i int) (string, func(*testing.T)) {
		tr := recorded[i]
		return tr.ID, func(t *testing.T) {
			ours, err := b.run(t.Context(), tr)
			if err != nil {
				t.Fatal(err)
			}
			outcomes.add(t, tr.ID, transcripts, tr.Family, compareTranscript(b, tr, ours))
		}
	})
}

// pool runs n subtests, a few at a time. Not by t.Parallel, whose limit is the
// number of processors: most of the time here is spent waiting.
func pool(t *testing.T, n int, subtest func(i int) (string, func(*testing.T))) {
	next := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range next {
				name, run := subtest(i)
				t.Run(name, run)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

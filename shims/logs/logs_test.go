package logs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/shims/logs"
)

var captured = time.Date(2026, 12, 1, 0, 10, 0, 0, time.UTC)

const text = `2026-12-01T00:09:00.000000000Z one, begun 2026-12-01 00:08:59
2026-12-01T00:09:30.000000000Z two
a line that lost its stamp
2026-12-01T00:09:59.500000000Z three
`

func open(t testing.TB, files fstest.MapFS) *fixtures.Case {
	t.Helper()
	files["case.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: kubecase.io/v1\nkind: Case\nname: logs\ncapture: {time: \"2026-12-01T00:10:00Z\"}\n")}
	c, err := fixtures.OpenFS("logs", files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func read(t *testing.T, c *fixtures.Case, container string, o corev1.PodLogOptions, clk clock.Clock) string {
	t.Helper()
	stream, err := logs.Source{}.OpenLog(t.Context(), c, c.Log("ns", "pod", container, o.Previous), &o, clk)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	out, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func at(t time.Time) *metav1.Time { m := metav1.NewTime(t); return &m }

func n(v int64) *int64 { return &v }

func TestOptions(t *testing.T) {
	c := open(t, fstest.MapFS{
		"logs/ns/pod/main.log":          {Data: []byte(text)},
		"logs/ns/pod/main.previous.log": {Data: []byte("2026-12-01T00:01:00.000000000Z before\n")},
		"logs/ns/pod/open.log":          {Data: []byte("2026-12-01T00:09:00.000000000Z first\n2026-12-01T00:09:01.000000000Z no newline")},
		"logs/ns/pod/empty.log":         {Data: nil},
	})
	shifted := clock.New(clock.Shifted, captured, captured.Add(24*time.Hour))
	for _, test := range []struct {
		name, container string
		options         corev1.PodLogOptions
		clock           clock.Clock
		want            string
	}{
		{name: "all", want: "one, begun 2026-12-01 00:08:59\ntwo\na line that lost its stamp\nthree\n"},
		{name: "timestamps", options: corev1.PodLogOptions{Timestamps: true}, want: text},
		{name: "shifted", options: corev1.PodLogOptions{Timestamps: true}, clock: shifted, want: strings.ReplaceAll(text, "2026-12-01", "2026-12-02")},
		{name: "tail", options: corev1.PodLogOptions{TailLines: n(2)}, want: "a line that lost its stamp\nthree\n"},
		{name: "tail of nothing", options: corev1.PodLogOptions{TailLines: n(0)}, want: ""},
		{name: "tail of more than there is", options: corev1.PodLogOptions{TailLines: n(99)}, want: "one, begun 2026-12-01 00:08:59\ntwo\na line that lost its stamp\nthree\n"},
		{name: "tail without a last newline", container: "open", options: corev1.PodLogOptions{TailLines: n(1)}, want: "no newline"},
		{name: "since", options: corev1.PodLogOptions{SinceSeconds: n(30)}, want: "two\na line that lost its stamp\nthree\n"},
		{name: "since the capture, not the present", options: corev1.PodLogOptions{SinceSeconds: n(1)}, clock: shifted, want: "three\n"},
		{name: "since for ever", options: corev1.PodLogOptions{SinceSeconds: n(1<<63 - 1), TailLines: n(1)}, want: "three\n"},
		{name: "since a time", options: corev1.PodLogOptions{SinceTime: at(captured.Add(-time.Second))}, want: "three\n"},
		{name: "since a time of the episode", options: corev1.PodLogOptions{SinceTime: at(captured.Add(24*time.Hour - time.Second))}, clock: shifted, want: "three\n"},
		{name: "the tail is taken first", options: corev1.PodLogOptions{TailLines: n(3), SinceSeconds: n(1)}, want: "three\n"},
		{name: "limit", options: corev1.PodLogOptions{LimitBytes: n(5)}, want: "one, "},
		{name: "limit with timestamps", options: corev1.PodLogOptions{LimitBytes: n(12), Timestamps: true}, want: "2026-12-01T0"},
		{name: "limit beyond the end", options: corev1.PodLogOptions{LimitBytes: n(1000), TailLines: n(1)}, want: "three\n"},
		{name: "previous", options: corev1.PodLogOptions{Previous: true}, want: "before\n"},
		{name: "empty", container: "empty", options: corev1.PodLogOptions{Timestamps: true, TailLines: n(3)}, want: ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.container == "" {
				test.container = "main"
			}
			if got := read(t, c, test.container, test.options, test.clock); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestWithoutTimestamps: what needs them is refused, the rest is answered.
func TestWithoutTimestamps(t *testing.T) {
	c := open(t, fstest.MapFS{"logs/ns/pod/main.plain.log": {Data: []byte("one\ntwo\n")}})
	if got := read(t, c, "main", corev1.PodLogOptions{TailLines: n(1)}, clock.Clock{}); got != "two\n" {
		t.Errorf("got %q, want the last line", got)
	}
	for _, o := range []corev1.PodLogOptions{{Timestamps: true}, {SinceSeconds: n(1)}, {SinceTime: at(captured)}} {
		_, err := logs.Source{}.OpenLog(t.Context(), c, c.Log("ns", "pod", "main", false), &o, clock.Clock{})
		if !errors.Is(err, logs.ErrNoTimestamps) {
			t.Errorf("%+v: error %v, want ErrNoTimestamps", o, err)
		}
	}
}

// TestFollow: everything there is comes at once, then the stream stays open
// until the client leaves.
func TestFollow(t *testing.T) {
	c := open(t, fstest.MapFS{"logs/ns/pod/main.log": {Data: []byte(text)}})
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := logs.Source{}.OpenLog(ctx, c, c.Log("ns", "pod", "main", false), &corev1.PodLogOptions{Follow: true, TailLines: n(1)}, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	first := make([]byte, len("three\n"))
	if _, err := io.ReadFull(stream, first); err != nil || string(first) != "three\n" {
		t.Fatalf("got %q (%v), want the last line", first, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := stream.Read(make([]byte, 1))
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("the stream ended with %v before the client left", err)
	default:
	}
	cancel()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want EOF", err)
	}
}

const generatedLine = "2026-12-01T00:09:00.000000000Z line %08d of a log that is far too large to be held\n"

// TestLargeLogIsStreamed reads a log from a file on disk without holding it.
func TestLargeLogIsStreamed(t *testing.T) {
	const lines = 400_000 // 34 MB
	body := &strings.Builder{}
	for i := range lines {
		fmt.Fprintf(body, generatedLine, i)
	}
	c := open(t, fstest.MapFS{"logs/ns/pod/main.log": {Data: []byte(body.String())}})
	log := c.Log("ns", "pod", "main", false)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, o := range []corev1.PodLogOptions{{}, {TailLines: n(lines - 1)}, {Timestamps: true, SinceSeconds: n(3600)}} {
		stream, err := logs.Source{}.OpenLog(t.Context(), c, log, &o, clock.New(clock.Shifted, captured, captured.Add(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		copied, err := io.Copy(io.Discard, stream)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Close(); err != nil {
			t.Fatal(err)
		}
		if copied < lines*50 {
			t.Errorf("%+v: only %d bytes came", o, copied)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// FuzzOptions: any text with any options is read to its end, never more than
// asked for.
func FuzzOptions(f *testing.F) {
	f.Add([]byte(text), int64(2), int64(30), int64(10), true)
	f.Add([]byte("2026-12-01T00:09:00Z \n\n\n"), int64(0), int64(-1), int64(-1), false)
	f.Fuzz(func(t *testing.T, data []byte, tail, since, limit int64, timestamps bool) {
		c, err := fixtures.OpenFS("logs", fstest.MapFS{
			"case.yaml":            {Data: []byte("apiVersion: kubecase.io/v1\nkind: Case\nname: logs\ncapture: {time: \"2026-12-01T00:10:00Z\"}\n")},
			"logs/ns/pod/main.log": {Data: data},
		})
		if err != nil {
			return // not a log
		}
		defer c.Close()
		o := &corev1.PodLogOptions{Timestamps: timestamps}
		if tail >= 0 {
			o.TailLines = &tail
		}
		if since > 0 {
			o.SinceSeconds = &since
		}
		if limit > 0 {
			o.LimitBytes = &limit
		}
		stream, err := logs.Source{}.OpenLog(t.Context(), c, c.Log("ns", "pod", "main", false), o, clock.New(clock.Shifted, captured, captured.Add(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		out, err := io.ReadAll(stream)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > len(data) || limit > 0 && int64(len(out)) > limit {
			t.Errorf("%d bytes of %d with limit %d", len(out), len(data), limit)
		}
		if tail >= 0 && int64(strings.Count(string(out), "\n")) > tail {
			t.Errorf("%d lines with tail %d", strings.Count(string(out), "\n"), tail)
		}
	})
}

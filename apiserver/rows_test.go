package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubecase/kubecase/fixtures/cases"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// laterBy are how long after its capture a case is looked at: each unit that an age
// is printed in, and the seconds around the changes between them.
var laterBy = []time.Duration{
	0, time.Second, 2 * time.Second, 59 * time.Second, 60 * time.Second, 119 * time.Second, 120 * time.Second, 121 * time.Second,
	9*time.Minute + 59*time.Second, 10 * time.Minute, 3*time.Hour - time.Second, 3 * time.Hour, 8*time.Hour - time.Second, 8 * time.Hour,
	45 * time.Second, 1234 * time.Second, 47*time.Hour + 59*time.Minute, 48 * time.Hour, 8*24*time.Hour + time.Second, 364 * 24 * time.Hour, 2 * 365 * 24 * time.Hour, 9 * 365 * 24 * time.Hour,
}

// TestRowsArePrinted: a Table that is made of learned rows is the one that the
// printers and the captured cells make, for every resource of every shipped case at any time.
func TestRowsArePrinted(t *testing.T) {
	for _, name := range cases.Names() {
		c, err := cases.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		snap, err := newSnapshot(c)
		if err != nil {
			t.Fatal(err)
		}
		learned, compared := 0, 0
		for _, r := range snap.resources {
			if r.data == nil || len(r.entries) == 0 {
				continue
			}
			for _, later := range laterBy {
				e, err := newEpisode(snap, EpisodeOptions{Case: c, Clock: clock.Shifted, Start: time.Now().Add(-later)})
				if err != nil {
					t.Fatal(err)
				}
				ctx := withEpisode(context.Background(), e)
				objects := make([]*object, len(r.entries))
				for i, entry := range r.entries {
					objects[i] = r.object(ctx, entry)
				}
				if err := r.learnRows(ctx, objects); err != nil {
					t.Fatal(err)
				}
				var got, want *metav1.Table
				for same := false; !same; { // in one second
					before := e.Clock.Present(time.Now())
					got = r.fromRows(ctx, objects, nil)
					if want, err = r.printAt(ctx, objects, newPrinting(ctx), nil); err != nil {
						t.Fatal(err)
					}
					same = before.Equal(e.Clock.Present(time.Now()))
				}
				if got == nil {
					continue
				}
				learned++
				for i := range want.Rows {
					if r.data.Columns == nil {
						want.Rows[i].Object = got.Rows[i].Object
					}
				}
				if r.data.Columns != nil {
					want = r.withCapturedCells(want, objects, e.Clock.Offset())
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s after %v (-printed +learned)\n%s", name, r.gvr, later, diff)
				}
				compared += len(got.Rows)
			}
		}
		t.Logf("%s: %d tables of learned rows, %d rows", name, learned, compared)
		if learned == 0 {
			t.Errorf("%s: no resource has learned rows", name)
		}
	}
}

// TestTextTablesAreUpstreams: a list that is answered as the text of a Table is, byte for
// byte, what upstream's encoder makes, whatever the query.
func TestTextTablesAreUpstreams(t *testing.T) {
	c, err := cases.Open("shop-outage")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	api := New(Config{Done: t.Context().Done()})
	// At the captured clock nothing moves between two requests.
	e, err := api.AddEpisode(EpisodeOptions{Case: c, Clock: clock.Captured})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(uri, agent string) (int, http.Header, string) {
		req := httptest.NewRequest(http.MethodGet, e.Path()+uri, nil)
		req.Header.Set("Authorization", "Bearer "+e.Token)
		req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
		req.Header.Set("User-Agent", agent)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, req)
		return w.Code, w.Header(), w.Body.String()
	}
	compared := 0
	for _, r := range e.snapshot.resources {
		if r.data == nil || !r.hasVerb("list") {
			continue
		}
		path := "/apis/" + r.gvr.Group + "/" + r.gvr.Version + "/" + r.gvr.Resource
		if r.gvr.Group == "" {
			path = "/api/" + r.gvr.Version + "/" + r.gvr.Resource
		}
		for _, query := range []string{"", "?limit=2", "?includeObject=Metadata", "?labelSelector=no-such-label", "?includeObject=None", "?includeObject=Object", "?includeObject=x", "?limit=x", "?fieldSelector=no"} {
			code, header, got := ask(path+query, "test")
			wantCode, wantHeader, pretty := ask(path+query, "curl/8") // for people, which is upstream's to encode
			var want bytes.Buffer
			if err := json.Compact(&want, []byte(pretty)); err != nil {
				t.Fatalf("%s%s: %v", path, query, err)
			}
			got = strings.TrimSuffix(got, "\n")
			if code != wantCode || got != want.String() {
				t.Errorf("%s%s: %d, want %d (-want +got)\n%s", path, query, code, wantCode, cmp.Diff(want.String(), got))
			}
			header.Del("Audit-Id")
			wantHeader.Del("Audit-Id")
			header.Del("Content-Length")
			wantHeader.Del("Content-Length")
			if diff := cmp.Diff(wantHeader, header); diff != "" {
				t.Errorf("%s%s: headers (-want +got)\n%s", path, query, diff)
			}
			compared++
		}
	}
	if compared == 0 {
		t.Error("no list was compared")
	}
}

// TestTableText: the text of a Table is what encoding/json makes of it.
func TestTableText(t *testing.T) {
	row := func(object string, cells ...any) metav1.TableRow {
		out := metav1.TableRow{Cells: cells}
		out.Object.Raw = []byte(object)
		return out
	}
	headers := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Description: "<b> \"quoted\""}}
	conditions := row(`{"a":1}`, "x")
	conditions.Conditions = []metav1.TableRowCondition{{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Message: "<done>"}}
	for name, table := range map[string]*metav1.Table{
		"no rows":    {ColumnDefinitions: headers},
		"empty rows": {ColumnDefinitions: headers, Rows: []metav1.TableRow{}},
		"cells": {
			ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "x", RemainingItemCount: new(int64)}, ColumnDefinitions: headers,
			Rows: []metav1.TableRow{
				row(`{"kind":"PartialObjectMetadata"}`, "plain", "", "tab\t", "\"", "\\", "<&>", "ü", "\u2028", "\x7f", "\xff", int64(-3), 2.5, true, nil, []any{"a"}, json.Number("12")),
				row(`{}`, []any{}...), conditions,
			},
		},
		"a row without text": {Rows: []metav1.TableRow{row(`{}`, "a"), {Cells: []any{"b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			plain := *table
			plain.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
			want, err := json.Marshal(&plain)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tableJSON(table)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestFindAges: what depends on the time in another way than one age is not learned.
func TestFindAges(t *testing.T) {
	present := time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)
	moments := []time.Time{present.Add(-5 * time.Hour), present.Add(-20 * time.Second)}
	texts := func(print func(later time.Duration) string) []string {
		var out []string
		for _, later := range learningAges {
			out = append(out, print(later))
		}
		return out
	}
	age := func(i int, later time.Duration) string {
		return duration.HumanDuration(present.Add(later).Sub(moments[i]))
	}
	for _, test := range []struct {
		name  string
		print func(later time.Duration) string
		found bool
	}{
		{"age", func(l time.Duration) string { return age(1, l) }, true},
		{"restarts", func(l time.Duration) string { return "3 (" + age(0, l) + " ago)" }, true},
		{"two ages", func(l time.Duration) string { return age(0, l) + " " + age(1, l) }, false},
		{"until", func(l time.Duration) string { return duration.HumanDuration(time.Hour - l) }, false},
		{"a state", func(l time.Duration) string {
			if l > time.Hour {
				return "Expired"
			}
			return "Valid"
		}, false},
		{"another moment", func(l time.Duration) string { return duration.HumanDuration(77*time.Second + l) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ages := findAges(texts(test.print), moments, present)
			if want := 1; test.found && len(ages) != want || !test.found && len(ages) > 0 {
				t.Fatalf("found %+v", ages)
			}
			for _, a := range ages {
				for _, later := range laterBy {
					if got, want := a.at(present.Add(later)), test.print(later); got != want {
						t.Errorf("after %v %q, want %q", later, got, want)
					}
				}
			}
		})
	}
}

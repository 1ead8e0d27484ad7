package evaluator

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

func TestFindSubmission(t *testing.T) {
	for _, test := range []struct {
		name, answer string
		want         *Submission // nil: none is found
	}{
		{"alone", `{"component":"cart","fault":"OOMKilled"}`, &Submission{Component: "cart", Fault: "OOMKilled"}},
		{"in prose and a fence", "I looked at {cart}.\n```json\n{\n  \"component\": \"cart\"\n}\n```\nDone {really}.", &Submission{Component: "cart"}},
		{"the last of several", `{"component":"a"} then {"component":"b"}`, &Submission{Component: "b"}},
		{"another object after it", `{"component":"a"} {"usage": 3}`, &Submission{Component: "a"}},
		{"nested in itself", `{"component":"a","extra":{"component":"b"}}`, &Submission{Component: "a"}},
		{"after an open brace", `{ "log": {"component":"a"}`, &Submission{Component: "a"}},
		{"braces and quotes in texts", `{"component":"a}\"{","fault":"x"}`, &Submission{Component: `a}"{`, Fault: "x"}},
		{"all fields", `{"component":"a","fault":"f","category":"c","layer":"l","components":["a","b"],"detected":true,"commands":["kubectl scale x"],"patches":[{"a":1}],"inputTokens":5,"outputTokens":6,"timeToDetect":1.5,"timeToMitigate":2}`,
			&Submission{Component: "a", Fault: "f", Category: "c", Layer: "l", Components: []string{"a", "b"}, Detected: ptr(true), Commands: []string{"kubectl scale x"}, Patches: []json.RawMessage{json.RawMessage(`{"a":1}`)}, InputTokens: ptr(int64(5)), OutputTokens: ptr(int64(6)), TimeToDetect: ptr(1.5), TimeToMitigate: ptr(2.0)}},
		{"other names of fields", `{"fault_object":"app/cart","root_cause":"oom_killed","fault_taxonomy":"runtime"}`, &Submission{Component: "app/cart", Fault: "oom_killed", Category: "runtime"}},
		{"its own name wins", `{"root_cause":"x","fault":"y"}`, &Submission{Fault: "y"}},
		{"null is not given", `{"component":null,"fault":"y"}`, &Submission{Fault: "y"}},
		{"a field of a wrong type", `{"component":["a"],"fault":"y","inputTokens":-1}`, &Submission{Fault: "y", Problems: []string{`the field "component" is not a text: it counts as not given`, `the field "inputTokens" is not a count: it counts as not given`}}},
		{"no object", "the cart is broken", nil},
		{"no known field", `{"answer": "cart"}`, nil},
		{"cut off", `{"component":"cart","fault":"OOM`, nil},
		{"no JSON", `{component: cart}`, nil},
		{"nothing", "", nil},
	} {
		got, err := FindSubmission([]byte(test.answer))
		if test.want == nil && !errors.Is(err, ErrNoSubmission) || test.want != nil && err != nil {
			t.Errorf("%s: error %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestFindSubmissionHostile wants an end, soon, whatever comes.
func TestFindSubmissionHostile(t *testing.T) {
	for name, answer := range map[string]string{
		"open braces":    strings.Repeat("{", MaxAnswerBytes),
		"open objects":   strings.Repeat(`{"a":`, MaxAnswerBytes/5),
		"an open text":   strings.Repeat(`{"`, MaxAnswerBytes/2),
		"open lists":     `{"component":` + strings.Repeat("[", MaxAnswerBytes-100),
		"spaces":         strings.Repeat("{"+strings.Repeat(" ", 1000), 1000),
		"more than fits": strings.Repeat("x", 3*MaxAnswerBytes),
	} {
		start := time.Now()
		if s, err := FindSubmission([]byte(answer)); err == nil {
			t.Errorf("%s: found %+v", name, s)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
	late := strings.Repeat("{ noise ", MaxAnswerBytes/4) + `{"component":"cart"}`
	if s, err := FindSubmission([]byte(late)); err != nil || s.Component != "cart" {
		t.Errorf("the end of a long answer: %+v, %v", s, err)
	}
}

func FuzzFindSubmission(f *testing.F) {
	f.Add([]byte(`x {"component":"a","components":["b"],"detected":false} y`))
	f.Add([]byte(`{"a":{"b":[1,2,{"fault":"\u00e9"}]}}`))
	f.Add([]byte("{\"component\":\"\xff\"}"))
	truth, err := ParseTruth("t.yaml", []byte("apiVersion: kubecase.io/v1\nkind: Truth\noutcome: {component: cart, fault: OOMKilled}\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		s, err := FindSubmission(answer)
		if (s == nil) == (err == nil) {
			t.Fatalf("submission %v, error %v", s, err)
		}
		score, err := New(truth, Options{}).Score(t.Context(), Episode{Submission: s})
		if err != nil {
			t.Fatal(err)
		}
		if score.Marks[JRA].Value != score.Marks[CA].Value*score.Marks[FA].Value {
			t.Errorf("marks disagree: %v", score.Marks)
		}
	})
}

func TestNames(t *testing.T) {
	for given, want := range map[string]string{
		"Cart": "cart", " cart\n": "cart", "app/cart": "cart", "Deployment/Cart": "cart", "deployment.apps/cart": "cart", "node/worker-1": "worker-1",
		"namespace/shop": "shop", "`cart`": "cart", "shop/cart": "shop/cart", "cart/": "cart/", "app/": "", "": "", "app/deployment/x": "deployment/x",
	} {
		if got := NormalComponent(given); got != want {
			t.Errorf("component %q: %q, want %q", given, got, want)
		}
	}
	for given, want := range map[string]string{
		"OOMKilled": "OOMKilled", "oom_killed": "OOMKilled", "OOM Killed": "OOMKilled", "oom-killed": "OOMKilled", "PVC access mode mismatch": "PVCAccessModeMismatch",
		"memroy_capacity_mismatch": "MemoryCapacityMismatch", "Gremlins!": "gremlins", "": "",
	} {
		if got := NormalFault(given); got != want {
			t.Errorf("fault %q: %q, want %q", given, got, want)
		}
	}
}

// TestTaxonomy counts what the definition lists, and wants every spelling to lead back.
func TestTaxonomy(t *testing.T) {
	want := map[string]int{"Admission Control": 6, "Scheduling": 12, "Startup": 5, "Runtime": 12, "Service Routing": 6, "Performance": 4, "Infrastructure": 4, "Application Code Defect": 8}
	got := map[string]int{}
	difficulties := map[string]int{}
	seen := map[string]bool{}
	for _, c := range Taxonomy() {
		got[c.Name] = len(c.Faults)
		difficulties[c.Difficulty] += len(c.Faults)
		for _, f := range c.Faults {
			if seen[fold(f.Name)] {
				t.Errorf("%s is there twice", f.Name)
			}
			seen[fold(f.Name)] = true
			for _, spelling := range []string{f.Name, f.Snake, strings.ReplaceAll(f.Snake, "_", " "), strings.ToUpper(f.Snake)} {
				if found, ok := LookupFault(spelling); !ok || found != f {
					t.Errorf("%q leads to %q, not to %q", spelling, found.Name, f.Name)
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults per category (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"Easy": 29, "Medium": 16, "Hard": 12}, difficulties); diff != "" {
		t.Errorf("faults per difficulty (-want +got):\n%s", diff)
	}
}

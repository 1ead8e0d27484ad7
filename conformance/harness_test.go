package conformance

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The tests of the harness itself: what was recorded must pass as an answer,
// and every kind of change to it must not.

// harnessServer stands for a server whose answers the tests make up.
func harnessServer() *Server {
	subject := Subject{URL: "https://127.0.0.1:7443/e/0123456789abcdef", Token: "token"}
	return &Server{
		Captured: time.Date(2026, 12, 1, 0, 18, 22, 0, time.UTC),
		Subjects: map[string]Subject{"admin": subject, "viewer": {URL: subject.URL, Token: "viewer's"}, "nobody": subject, "anon": subject, "bad": subject},
	}
}

const harnessPresent = "1209"

// asAnswer returns the recorded answer as a server at harnessPresent gives it.
func asAnswer(t *testing.T, e *Exchange) *Answer {
	t.Helper()
	recorded, _ := sides(time.Time{}, harnessPresent)
	body := replaceGroup(versionExpr, e.Body, func(version string) string {
		if recorded.isPresent(version) {
			return harnessPresent
		}
		return version
	})
	body = replaceGroup(currentExpr, body, func(string) string { return harnessPresent })
	body = replaceGroup(tokenExpr, body, func(text string) string {
		decoded, err := decodeToken(text)
		if err != nil || !recorded.isPresent(strconv.FormatInt(decoded.RV, 10)) {
			return text
		}
		decoded.RV, _ = strconv.ParseInt(harnessPresent, 10, 64)
		data, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	})
	body = strings.ReplaceAll(body, recordedToken, "viewer's")
	header := http.Header{}
	for key, value := range e.ResponseHeaders {
		header.Set(key, value)
	}
	if location := header.Get("Location"); location != "" {
		header.Set("Location", "/e/0123456789abcdef"+location)
	}
	return &Answer{
		Status: e.Status, Header: header, Body: []byte(body),
		Elapsed: time.Duration(e.ElapsedMS * float64(time.Millisecond)),
	}
}

func harnessSetting(e *Exchange) setting {
	s := setting{server: harnessServer(), present: harnessPresent}
	s.asOf, _ = e.date() // the answer is as old as the recorded one
	return s
}

func TestRecordedAnswersPass(t *testing.T) {
	for _, e := range loadExchanges(t, recordings(t)) {
		if e.BodyBinary || e.BodyOmitted {
			continue // the body isn't there to be answered
		}
		if m := compareExchange(harnessSetting(e), e, asAnswer(t, e)); m != nil {
			t.Errorf("%s %s: %s: %s", e.ID, e.Title, m.cause, m.detail)
		}
	}
}

// changeEvery is how many recordings share one that the tests change, to keep
// them quick.
const changeEvery = 5

// TestChangedStatusHeaderAndBodyMiss changes recorded answers in the ways that
// apply to them.
func TestChangedStatusHeaderAndBodyMiss(t *testing.T) {
	for i, e := range loadExchanges(t, recordings(t)) {
		if i%changeEvery != 0 {
			continue
		}
		changes := map[string]func(*Answer){
			"status": func(a *Answer) { a.Status++ },
			"header": func(a *Answer) { a.Header.Set("Cache-Control", "private") },
			"extra":  func(a *Answer) { a.Header.Set("X-Extra", "1") },
		}
		for key := range e.ResponseHeaders {
			if headerRules[key] != "ignore" {
				changes["no "+key] = func(a *Answer) { a.Header.Del(key) }
			}
		}
		if e.Status != http.StatusSwitchingProtocols {
			changes["newline"] = func(a *Answer) { a.Body = append(slices.Clone(a.Body), '\n') }
		}
		if e.Size > 0 && e.Body != "" {
			changes["byte"] = func(a *Answer) {
				a.Body = slices.Clone(a.Body)
				a.Body[len(a.Body)/3] ^= 1
			}
			changes["empty"] = func(a *Answer) { a.Body = nil }
		}
		original := asAnswer(t, e)
		for name, change := range changes {
			answer := *original
			answer.Header = original.Header.Clone()
			change(&answer)
			if compareExchange(harnessSetting(e), e, &answer) == nil {
				if name == "byte" && byteMayChange(string(original.Body)) {
					continue
				}
				t.Errorf("%s %s: change of %s goes unnoticed", e.ID, e.Title, name)
			}
		}
	}
}

// byteMayChange tells whether the byte that the test changes is in a value that
// isn't compared to the digit: an age, a moment of the recording, or the uid of
// an object that only a dry run made.
func byteMayChange(body string) bool {
	at := len(body) / 3
	around := body[max(0, at-36):min(len(body), at+36)]
	return ageExpr.MatchString(around) || strings.Contains(around, "2026-12-01T") || strings.Contains(around, `"uid":`)
}

func TestChangedValuesMiss(t *testing.T) {
	e := &Exchange{
		Status: 200, As: "admin",
		ResponseHeaders: map[string]string{"Content-Type": "application/json", "Date": "Tue, 01 Dec 2026 00:20:22 GMT"},
		Body: `{"kind":"Table","metadata":{"resourceVersion":"1210"},"columnDefinitions":[{"name":"Name"},{"name":"Restarts"},{"name":"Age"}],` +
			`"rows":[{"cells":["a","8 (13m ago)","4m51s"],"object":{"metadata":{"resourceVersion":"861","creationTimestamp":"2026-12-01T00:15:31Z"}}},` +
			`{"cells":["b","0","3m"],"object":null}]}` + "\n",
	}
	// Ours is of the capture instant, two minutes before.
	ours := strings.NewReplacer("1210", "1209", "4m51s", "2m51s", `"3m"`, `"60s"`, "13m", "11m").Replace(e.Body)
	s := setting{server: harnessServer(), present: harnessPresent}
	s.asOf = s.server.Captured
	for name, test := range map[string]struct {
		old, new string
		cause    string
	}{
		"none":                {"", "", ""},
		"age, rounding":       {"2m51s", "2m50s", ""},
		"age of the seconds":  {"2m51s", "2m44s", "age"},
		"age at record":       {"2m51s", "4m51s", "age"},
		"ages that disagree":  {"60s", "57s", "age"},
		"ago":                 {"11m", "15m", "age"},
		"no age":              {"2m51s", "<unknown>", "body"},
		"age not Kubernetes'": {"2m51s", "171s", "age"},
		"cell":                {`"8 (`, `"9 (`, "body"},
		"row":                 {`,{"cells":["b","0","60s"],"object":null}`, "", "body"},
		"object's version":    {`"861"`, `"862"`, "body"},
		"list's version":      {`"1209"`, `"1210"`, "body"},
		"field":               {"creationTimestamp", "created", "body"},
		"time":                {"00:15:31Z", "00:15:32Z", "body"},
		"null":                {"null", "{}", "body"},
		"pretty":              {`{"kind"`, "{\n  \"kind\"", "style"},
		"no newline":          {"]}\n", "]}", "style"},
		"number":              {`"Age"`, `1`, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			body := ours
			if test.old != "" {
				body = strings.Replace(ours, test.old, test.new, 1)
			}
			header := http.Header{"Content-Type": {"application/json"}, "Date": {"now"}}
			m := compareExchange(s, e, &Answer{Status: 200, Header: header, Body: []byte(body)})
			cause := ""
			if m != nil {
				cause = m.cause
			}
			if cause != test.cause {
				t.Errorf("cause %q, want %q (%+v)", cause, test.cause, m)
			}
		})
	}
}

func TestParseAge(t *testing.T) {
	for text, step := range map[string]time.Duration{
		"0s": time.Second, "119s": time.Second, "2m": time.Second, "9m59s": time.Second, "10m": time.Minute,
		"179m": time.Minute, "3h": time.Minute, "7h59m": time.Minute, "8h": time.Hour, "47h": time.Hour,
		"2d": time.Hour, "7d23h": time.Hour, "8d": 24 * time.Hour, "2y": 24 * time.Hour, "8y": 365 * 24 * time.Hour,
	} {
		from, until, err := parseAge(text)
		if err != nil || until-from != step {
			t.Errorf("%s: %v to %v, %v; want a step of %v", text, from, until, err, step)
		}
	}
	for _, text := range []string{"", "120s", "10m30s", "<invalid>", "5", "1h"} {
		if _, _, err := parseAge(text); err == nil {
			t.Errorf("%q is taken for an age", text)
		}
	}
}

func TestShiftBack(t *testing.T) {
	const text = `{"a":"2026-12-01T00:15:50Z","b":"2026-12-01T00:15:50.300001Z","buildDate": "2026-11-30T00:00:00Z"}
  Started:      Tue, 01 Dec 2026 00:15:50 +0000
Created on:   2026-12-01 00:15:52 +0000 UTC
2026-12-01T00:15:50.123456789Z GET / 200
2026-12-01T00:15:50.120Z v1.2026-12-01 99999-12-01T00:00:00Z
`
	offset := 17*24*time.Hour + 3*time.Hour + 59*time.Second
	lines := strings.SplitAfter(text, "\n")
	lines[0] = strings.Replace(lines[0], `,"buildDate": "2026-11-30T00:00:00Z"`, "", 1)
	text2 := strings.Join(lines, "")
	if diff := cmp.Diff(text2, shiftBack(shiftBack(text2, -offset), offset)); diff != "" {
		t.Errorf("not exact (-want +got):\n%s", diff)
	}
	if got := shiftBack("Fri, 18 Dec 2026 03:16:49 +0000 2026-12-18T03:16:49.10Z", offset); got != "Tue, 01 Dec 2026 00:15:50 +0000 2026-12-01T00:15:50.10Z" {
		t.Errorf("shifted back to %s", got)
	}
	if got := shiftBack("  buildDate: \"2026-11-30T00:00:00Z\"\n", offset); got != "  buildDate: \"2026-11-30T00:00:00Z\"\n" {
		t.Errorf("a build date was moved: %s", got)
	}
}

func TestSplitCommand(t *testing.T) {
	for line, want := range map[string][]string{
		`kubectl get pods`: {"kubectl", "get", "pods"},
		`kubectl get pods -o 'go-template={{range .items}}{{.metadata.name}} {{end}}'`: {"kubectl", "get", "pods", "-o", "go-template={{range .items}}{{.metadata.name}} {{end}}"},
		`kubectl auth can-i "*" "*"`:                      {"kubectl", "auth", "can-i", "*", "*"},
		`kubectl patch x -p {"spec":{"replicas":1}} -n s`: {"kubectl", "patch", "x", "-p", `{"spec":{"replicas":1}}`, "-n", "s"},
	} {
		got, err := splitCommand(line)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", line, err, diff)
		}
	}
	for _, line := range []string{`kubectl "a`, `kubectl 'a'b`} {
		if got, err := splitCommand(line); err == nil {
			t.Errorf("%s: %q", line, got)
		}
	}
	for _, tr := range loadTranscripts(t, recordings(t)) { // fails by itself on a line that it can't split
		for _, arg := range tr.Args {
			if arg == "" || strings.ContainsAny(arg[:1], `'"`) {
				t.Errorf("%s: argument %q", tr.ID, arg)
			}
		}
	}
}

// harnessBench compares transcripts as if they ran five minutes after the
// capture instant, long afterwards.
func harnessBench() (*bench, time.Time) {
	server := harnessServer()
	server.Offset = 40*24*time.Hour + 12345*time.Second
	return &bench{server: server, present: harnessPresent}, server.Captured.Add(server.Offset + 5*time.Minute)
}

// asRun is the transcript as kubectl would print it from a shifting server.
func asRun(tr *Transcript, b *bench, start time.Time) *run {
	ours := func(text string) string {
		text = strings.ReplaceAll(text, recordedServer, b.server.Subjects[tr.As].URL)
		text = replaceGroup(versionExpr, text, func(version string) string {
			if n, err := strconv.Atoi(version); err == nil && n >= presentFrom {
				return harnessPresent
			}
			return version
		})
		text = replaceGroup(tokenExpr, text, func(text string) string {
			decoded, err := decodeToken(text)
			if err != nil {
				return text
			}
			decoded.RV, _ = strconv.ParseInt(harnessPresent, 10, 64)
			data, err := json.Marshal(decoded)
			if err != nil {
				return text
			}
			return base64.RawURLEncoding.EncodeToString(data)
		})
		return shiftBack(text, -b.server.Offset)
	}
	return &run{Stdout: ours(tr.Stdout), Stderr: ours(tr.Stderr), ExitCode: tr.ExitCode, Start: start}
}

func TestRecordedTranscriptsPass(t *testing.T) {
	b, start := harnessBench()
	for i, tr := range loadTranscripts(t, recordings(t)) {
		if m := compareTranscript(b, tr, asRun(tr, b, start)); m != nil {
			t.Errorf("%s: %s: %s", tr.ID, m.cause, m.detail)
			continue
		}
		if i%changeEvery != 0 {
			continue
		}
		for name, change := range map[string]func(*run){
			"exit":    func(r *run) { r.ExitCode++ },
			"stdout":  func(r *run) { r.Stdout += "x\n" },
			"newline": func(r *run) { r.Stdout += "\n" },
			"line":    func(r *run) { _, r.Stdout, _ = strings.Cut(r.Stdout, "\n") },
			"stderr":  func(r *run) { r.Stderr = "Warning: x\n" + r.Stderr },
		} {
			r := asRun(tr, b, start)
			change(r)
			if name == "stderr" && !tr.HasStderr || name == "line" && tr.Stdout == "" {
				continue
			}
			if compareTranscript(b, tr, r) == nil {
				t.Errorf("%s: change of %s goes unnoticed", tr.ID, name)
			}
		}
	}
}

func TestChangedTranscriptsMiss(t *testing.T) {
	b, start := harnessBench()
	tr := &Transcript{
		ID: "1.34/x", Args: []string{"get", "all"}, As: "admin", HasStderr: true,
		Stdout: "NAME    READY   RESTARTS        AGE\n" +
			"pod/a   1/1     8 (9m34s ago)   6m27s\n" +
			"pod/b   0/1     0               6m26s\n\n" +
			"NAME    STATUS     DURATION   AGE\n" +
			"job/c   Complete   6s         6m26s\n" +
			"job/d   Failed     6m26s      6m26s\n",
	}
	ours := strings.NewReplacer(
		"RESTARTS        AGE", "RESTARTS      AGE", "8 (9m34s ago)   6m27s", "8 (11m ago)   8m",
		"0               6m26s", "0             7m59s", "6m26s      6m26s", "7m59s      7m59s", "6s         6m26s", "6s         7m59s",
	).Replace(tr.Stdout)
	for name, test := range map[string]struct{ old, new, cause string }{
		"none":           {"", "", ""},
		"age":            {"8m\n", "7m\n", "age"},
		"stuck age":      {"0             7m59s", "0             6m26s", "age"},
		"fixed duration": {"6s  ", "7s  ", "age"},
		"cell":           {"1/1", "0/1", "stdout"},
		"column":         {"STATUS ", "STATE  ", "stdout"},
		"row":            {"pod/b   0/1     0             7m59s\n", "", "stdout"},
		"empty line":     {"\n\n", "\n", "stdout"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout := ours
			if test.old != "" {
				stdout = strings.Replace(ours, test.old, test.new, 1)
				if stdout == ours {
					t.Fatal("changes nothing")
				}
			}
			m := compareTranscript(b, tr, &run{Stdout: stdout, Start: start})
			cause := ""
			if m != nil {
				cause = m.cause
			}
			if cause != test.cause {
				t.Errorf("cause %q, want %q (%+v)", cause, test.cause, m)
			}
		})
	}
}

func TestReorder(t *testing.T) {
	for _, test := range []struct {
		args     string
		one, two string
		want     bool
	}{
		{"describe secrets", "Data\n====\npassword:  19 bytes\nusername:  7 bytes\n", "Data\n====\nusername:  7 bytes\npassword:  19 bytes\n", true},
		{"describe secrets", "Data\n====\npassword:  19 bytes\nusername:  7 bytes\n", "Data\n====\nusername:  7 bytes\npassword:  18 bytes\n", false},
		{"describe ns", " Container  cpu  -\n Container  memory  -\n", " Container  memory  -\n Container  cpu  -\n", true},
		{"describe cm", "====\na:\n----\nx\n\nb:\n----\ny\nz\n\n\nBinaryData\n", "====\nb:\n----\ny\nz\n\na:\n----\nx\n\n\nBinaryData\n", true},
		{"describe cm", "====\na:\n----\nx\n\nb:\n----\ny\n\n\nBinaryData\n", "====\na:\n----\ny\n\nb:\n----\nx\n\n\nBinaryData\n", false},
		{"get pods", "a\nb\n", "b\na\n", false},
		{"get cs", "a\nb\n", "b\na\n", true},
		{"drain node-1", "x: [error when 1, error when 2], continuing\n", "x: [error when 2, error when 1], continuing\n", true},
		{"drain node-1", "x: [error when 1, error when 2]\n", "x: [error when 1]\n", false},
	} {
		tr := &Transcript{Args: strings.Fields(test.args)}
		if got := reorder(tr, test.one) == reorder(tr, test.two); got != test.want {
			t.Errorf("%s: %q and %q: equal is %v", test.args, test.one, test.two, got)
		}
	}
}

func TestPresentQuery(t *testing.T) {
	recorded, _ := sides(time.Time{}, harnessPresent)
	for query, want := range map[string]string{
		"resourceVersion=1210&limit=3":        "resourceVersion=1205&limit=3",
		"resourceVersion=101209":              "resourceVersion=101209",
		"resourceVersion=0&watch=true":        "resourceVersion=0&watch=true",
		"verbose":                             "verbose",
		"limit=3&continue=abc":                "limit=3&continue=abc",
		"continue=" + encode(`{"rv":1210}`):   "continue=" + encode(`{"rv":1205}`),
		"continue=" + encode(`{"rv":-1}`):     "continue=" + encode(`{"rv":-1}`),
		"continue=" + encode(`{"rv":101210}`): "continue=" + encode(`{"rv":101210}`),
	} {
		if got := presentQuery(query, recorded, "1205"); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

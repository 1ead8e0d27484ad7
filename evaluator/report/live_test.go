package report_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kubecase/kubecase/evaluator/report"
)

func serveLive(t testing.TB, board *report.Board) (server *httptest.Server, token string) {
	t.Helper()
	token = report.NewToken()
	ctx, cancel := context.WithCancel(context.Background())
	server = httptest.NewUnstartedServer(report.NewLivePage(board, token))
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	t.Cleanup(func() {
		cancel() // streams end, which Close waits for
		server.Close()
	})
	return server, token
}

func fetch(t testing.TB, method, url string, cookies ...*http.Cookie) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cookies {
		req.AddCookie(c)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestLiveAdmission: nothing is served without the token, or the cookie that it gave.
func TestLiveAdmission(t *testing.T) {
	server, token := serveLive(t, report.NewBoard())
	entered := fetch(t, "GET", server.URL+"/?token="+token)
	if len(entered.Cookies()) != 1 {
		t.Fatalf("the token gives %d cookies", len(entered.Cookies()))
	}
	cookie := entered.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Value == token {
		t.Errorf("the cookie is %v", cookie)
	}
	forged := &http.Cookie{Name: cookie.Name, Value: report.NewToken()}
	withToken := &http.Cookie{Name: cookie.Name, Value: token}
	for _, test := range []struct {
		method, path string
		cookie       *http.Cookie
		want         int
	}{
		{"GET", "/?token=" + token, nil, 200},
		{"GET", "/?token=" + token[1:], nil, 401},
		{"GET", "/?token=", nil, 401},
		{"GET", "/", nil, 401},
		{"GET", "/live.js", nil, 401},
		{"GET", "/live.css", nil, 401},
		{"GET", "/events", nil, 401},
		{"GET", "/events?token=" + token, nil, 401},
		{"GET", "/nothing", nil, 401},
		{"POST", "/", nil, 401},
		{"GET", "/", forged, 401},
		{"GET", "/events", forged, 401},
		{"GET", "/", withToken, 401},
		{"GET", "/", cookie, 200},
		{"GET", "/live.js", cookie, 200},
		{"GET", "/live.css", cookie, 200},
		{"GET", "/events", cookie, 200},
		{"GET", "/nothing", cookie, 404},
		{"POST", "/events", cookie, 405},
	} {
		var cookies []*http.Cookie
		if test.cookie != nil {
			cookies = append(cookies, test.cookie)
		}
		resp := fetch(t, test.method, server.URL+test.path, cookies...)
		if resp.StatusCode != test.want {
			t.Errorf("%s %s is %d, want %d", test.method, strings.ReplaceAll(test.path, token, "TOKEN"), resp.StatusCode, test.want)
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s %s has %s %q", test.method, test.path, name, got)
			}
		}
		if resp.StatusCode == 401 && len(resp.Cookies()) > 0 {
			t.Errorf("%s %s gives a cookie to a stranger", test.method, test.path)
		}
	}
}

// event is one server-sent event.
type event struct {
	id   string
	data struct {
		Totals   report.Totals
		Episodes []report.Live
	}
}

// reader reads events.
type reader struct {
	t       testing.TB
	scanner *bufio.Scanner
	close   context.CancelFunc
}

func listen(t testing.TB, server *httptest.Server, token, last string) *reader {
	t.Helper()
	cookie := fetch(t, "GET", server.URL+"/?token="+token).Cookies()[0]
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(cookie)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("the stream is %s", got)
	}
	scanner := bufio.NewScanner(resp.Body)
	scanner.Buffer(nil, 16<<20)
	return &reader{t, scanner, cancel}
}

func (r *reader) next() (e event) {
	r.t.Helper()
	for r.scanner.Scan() {
		line := r.scanner.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			e.id = id
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &e.data); err != nil {
				r.t.Fatal(err)
			}
			return e
		}
	}
	r.t.Fatalf("the stream ended: %v", r.scanner.Err())
	return e
}

// TestLiveEvents: a reader gets what there is, then what changes; one that comes back gets
// what changed since, and one of another server everything.
func TestLiveEvents(t *testing.T) {
	r := newLiveRun(t, 2)
	f := r.follow()
	poll(t, f)
	server, token := serveLive(t, f.Board())
	first := listen(t, server, token, "")
	if e := first.next(); e.data.Totals.Planned != 2 || len(e.data.Episodes) != 0 {
		t.Errorf("the first event is %+v", e)
	}
	one := r.begin("e1", 1)
	one.kubectl(time.Second, "s1", "kubectl get", "/api/v1/namespaces/shop/pods")
	poll(t, f)
	e := first.next()
	for len(e.data.Episodes) == 0 { // the totals may come before
		e = first.next()
	}
	got := e.data.Episodes[0]
	if got.ID != "e1" || got.Count != 1 || got.Calls[0].Command != "kubectl get" || got.Established != 2 || got.Groups != 5 || !strings.HasPrefix(got.Drawing, "<svg") || strings.Contains(got.Drawing, "<style") {
		t.Errorf("the event has %+v", got)
	}
	first.close()
	_, _, version, _ := f.Board().Since(0)
	r.begin("e2", 2)
	poll(t, f)
	back := listen(t, server, token, e.id).next()
	if ids := idsOf(back); !strings.Contains(ids, "e2") || strings.Contains(ids, "e1") {
		t.Errorf("who comes back at %s (board was at %d) gets %s, not e2 alone", e.id, version, ids)
	}
	stranger := listen(t, server, token, "other.1").next()
	if ids := idsOf(stranger); ids != "e1 e2" {
		t.Errorf("who comes from another server gets %s", ids)
	}
}

func idsOf(e event) string {
	var ids []string
	for _, l := range e.data.Episodes {
		ids = append(ids, l.ID)
	}
	return strings.Join(ids, " ")
}

// TestLiveSlowReader: a reader that reads nothing delays nobody, and there is room for so
// many readers only.
func TestLiveSlowReader(t *testing.T) {
	r := newLiveRun(t, 1)
	f := r.follow()
	server, token := serveLive(t, f.Board())
	cookie := fetch(t, "GET", server.URL+"/?token="+token).Cookies()[0]
	for range 32 { // they never read
		if resp := fetch(t, "GET", server.URL+"/events", cookie); resp.StatusCode != 200 {
			t.Fatalf("a reader is refused: %d", resp.StatusCode)
		}
	}
	if resp := fetch(t, "GET", server.URL+"/events", cookie); resp.StatusCode != 503 {
		t.Errorf("one too many is %d", resp.StatusCode)
	}
	e := r.begin("e1", 1)
	began := time.Now()
	for i := range 200 {
		e.kubectl(time.Second, fmt.Sprint("s", i), "kubectl get", "/api/v1/namespaces/shop/pods")
		if i%20 == 0 {
			poll(t, f)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("readers that don't read held the board up for %v", took)
	}
	if resp := fetch(t, "GET", server.URL+"/live.js", cookie); resp.StatusCode != 200 {
		t.Errorf("the page is %d while readers are stuck", resp.StatusCode)
	} else if body, err := io.ReadAll(resp.Body); err != nil || strings.Contains(string(body), "innerHTML") {
		t.Errorf("the script sets markup, or can't be read: %v", err)
	}
}

// TestLiveLooks opens the page while a run goes on.
func TestLiveLooks(t *testing.T) {
	b := newBrowser(t)
	for _, s := range screens {
		t.Run(s.String(), func(t *testing.T) {
			b.t = t
			r := newLiveRun(t, 2)
			f := r.follow()
			e := r.begin("e1", 1)
			poll(t, f)
			server, token := serveLive(t, f.Board())
			p := b.open(server.URL+"/?token="+token, s)
			p.await(`document.querySelectorAll('article').length === 1`)
			e.kubectl(time.Second, "s1", "kubectl logs", "/api/v1/namespaces/shop/pods/frontend-1/log")
			poll(t, f)
			p.await(`document.querySelectorAll('.kc-list li.kc-code').length === 1`)
			e.kubectl(time.Second, "s2", "kubectl get", "/api/v1/namespaces/shop/pods")
			e.kubectl(time.Second, "s3", "kubectl get", "/api/v1/namespaces/shop/secrets")
			poll(t, f)
			p.await(`document.querySelectorAll('.kc-list li.kc-code').length === 3 && document.querySelectorAll('.kc-new').length === 3`)
			p.await(`document.getElementById('connection').textContent === 'live'`)
			p.inspect(server.URL)
			p.shoot("watch-" + s.String())
			var address string
			p.evaluate("location.href", &address)
			if strings.Contains(address, token) {
				t.Error("the token stays in the address")
			}
			// The connection breaks, and comes back by itself.
			server.CloseClientConnections()
			e.end(rightAnswer)
			r.begin("e2", 2)
			poll(t, f)
			p.await(`document.querySelectorAll('article').length === 2 && document.querySelectorAll('.kc-right').length === 1`)
			f.Over("finished")
			p.await(`document.getElementById('connection').textContent === 'finished'`)
			var faults []string
			p.evaluate(looks, &faults)
			for _, fault := range faults {
				t.Error(fault)
			}
			p.shoot("watch-end-" + s.String())
		})
	}
}

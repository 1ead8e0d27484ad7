package recorder_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/recorder"
)

// 1930132800 is noon of 1 March 2031, and 1772366400 of 1 March 2026, to which
// the record's times are moved.
func TestUnixSecondsAreMoved(t *testing.T) {
	l, bodies := newLog(t, nil)
	s := serve(t, l, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	for _, test := range []struct{ sent, want string }{
		{"/api/v1/query_range?query=up&start=1930132800.781&end=1930136400&step=15", "/api/v1/query_range?query=up&start=1772366400.781&end=1772370000&step=15"},
		{"/api/v1/query?query=time()&time=1930132800", "/api/v1/query?query=time()&time=1772366400"},
		{"/api/v1/query?query=x&time=2031-03-01T12:00:00Z", "/api/v1/query?query=x&time=2026-03-01T12%3A00%3A00Z"},
		{"/api/v1/namespaces/m/services/p:9090/proxy/api/v1/label/pod/values?start=1930132800", "/api/v1/namespaces/m/services/p:9090/proxy/api/v1/label/pod/values?start=1772366400"},
		// No times: another path, another parameter, no number, beyond all years.
		{"/api/v1/pods?start=1930132800", "/api/v1/pods?start=1930132800"},
		{"/api/v1/query?query=1930132800", "/api/v1/query?query=1930132800"},
		{"/api/v1/query?time=1e9", "/api/v1/query?time=1e9"},
		{"/api/v1/query?time=99999999999999999999", "/api/v1/query?time=99999999999999999999"},
		{"/api/v1/query?time=-5", "/api/v1/query?time=-5"},
	} {
		before := len(recorded(t, l))
		get(t, s.URL+"/e/4f3a"+test.sent)
		if got := recorded(t, l)[before].RequestURI; got != test.want {
			t.Errorf("%s is recorded as\n%s, want\n%s", test.sent, got, test.want)
		}
	}
	resp, err := http.Post(s.URL+"/e/4f3a/api/v1/query_range", "application/x-www-form-urlencoded", strings.NewReader("query=up&start=1930132800&token=secret"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	requests := recorded(t, l)
	body, err := bodies.Get(requests[len(requests)-1].Annotations[recorder.KeyRequestBody])
	if want := "query=up&start=1772366400&token=REDACTED"; err != nil || string(body) != want {
		t.Errorf("the form is recorded as %q, %v; want %q", body, err, want)
	}
}

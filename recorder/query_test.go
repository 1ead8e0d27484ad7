package recorder

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzQuery: a query whose times don't move is recorded as it is, except for credentials;
// one whose times move still names the same parameters in the same order.
func FuzzQuery(f *testing.F) {
	f.Add("/api/v1/query_range", "query=up&start=1930132800.5&end=1930136400")
	f.Add("/api/v1/query", "time=&time&=1&time=-1&time=00000000000001&time=1.&time=1.x")
	f.Add("/api/v1/label/a/values", "token=a&Access_Token=b&%74oken=c&start=%31930132800")
	f.Fuzz(func(t *testing.T, path, raw string) {
		keys := func(query string) (out []string) {
			for part := range strings.SplitSeq(query, "&") {
				key, _, _ := strings.Cut(part, "=")
				out = append(out, key)
			}
			return out
		}
		same := capturedQuery(raw, func(b []byte) []byte { return b }, takesSeconds(path))
		secret := false
		for _, key := range keys(raw) {
			if plain, err := url.QueryUnescape(key); err == nil {
				key = plain
			}
			secret = secret || secretParameters[strings.ToLower(key)]
		}
		if !secret && same != raw {
			t.Errorf("%q became %q", raw, same)
		}
		later := func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "2031-", "2026-")) }
		moved := capturedQuery(raw, later, takesSeconds(path))
		if a, b := strings.Join(keys(raw), "&"), strings.Join(keys(moved), "&"); a != b {
			t.Errorf("the parameters %q became %q", a, b)
		}
	})
}

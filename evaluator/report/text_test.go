package report

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/kubecase/kubecase/recorder"
)

func TestPlain(t *testing.T) {
	for _, test := range []struct {
		text string
		n    int
		want string
	}{
		{"kubectl get pods", 100, "kubectl get pods"},
		{"two\nlines\tand\rmore", 100, "two lines and more"},
		{"\x1b[31mred\x07", 100, "\uFFFD[31mred\uFFFD"},
		{"exe.\u202egnp", 100, "exe.\uFFFDgnp"},
		{"\xffbad", 100, "\uFFFDbad"},
		{"abcdef", 4, "abc…"},
		{"abcd", 4, "abcd"},
		{"äöü", 3, "äöü"},
		{"", 4, ""},
	} {
		if got := Plain(test.text, test.n); got != test.want {
			t.Errorf("Plain(%q, %d) = %q, want %q", test.text, test.n, got, test.want)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("a\x00b\u202ec\xff", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = min(max(n, 1), 1000)
		got := Plain(s, n)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > n {
			t.Errorf("Plain(%q, %d) = %q", s, n, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("Plain(%q, %d) keeps %q", s, n, r)
			}
		}
	})
}

func TestUseTexts(t *testing.T) {
	use := recorder.Use{Tool: recorder.GetResources, Args: map[string]string{"name": "x", "type": "pods", "namespace": "shop"}}
	other := recorder.Use{Tool: recorder.GetClusterConfig}
	got := useTexts(&recorder.Call{Uses: []recorder.Use{use, use, other, other}}, 1)
	if want := "T1 type=pods namespace=shop name=x|and 2 more"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCounts(t *testing.T) {
	for n, want := range map[int]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %s, want %s", n, got, want)
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/importers"
)

// unpackSample writes the sample of a layout into a folder and gives the source's path.
func unpackSample(t *testing.T, name string) string {
	t.Helper()
	a, err := txtar.ParseFile("fixtures/importers/testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir, source := t.TempDir(), ""
	for _, f := range a.Files {
		if strings.HasPrefix(f.Name, "want/") || strings.Contains(f.Name, "{") {
			continue // what is expected, and what isn't plain text
		}
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		top, _, _ := strings.Cut(f.Name, "/")
		source = filepath.Join(dir, top)
	}
	return source
}

// asked is one kubectl command on an imported case, and what it must print.
type asked struct {
	args string
	want []string
}

// TestKubectlOnImports serves the sample of each layout as it is and asks kubectl.
func TestKubectlOnImports(t *testing.T) {
	kubecase, err := exec.LookPath("kubecase")
	if err != nil {
		t.Fatal(err)
	}
	for sample, commands := range map[string][]asked{
		"troubleshoot": {
			{"version", []string{`Server Version: v1\.34\.4`}},
			{"get nodes", []string{`(?m)^node-1 +Ready`}},
			{"get pods -n shop", []string{`(?m)^web-0 +1/2 +CrashLoopBackOff +4 `}},
			{"get pods -A", []string{`UnsupportedQuery.*vault: the collecting account may not read it`}},
			{"get pods -n vault", []string{`UnsupportedQuery.*vault`}},
			{"get svc -A", []string{`(?m)^shop +web +NodePort`}},
			{"get svc -n vault", []string{`No resources found in vault namespace`}},
			{"get configmaps -n shop", []string{`UnsupportedQuery.*damaged`}},
			{"get people -n shop", []string{`(?m)^ada +night$`}},
			{"get people -A", []string{`(?m)^shop +ada +night$`}},
			{"get person ada -n shop -o yaml", []string{`(?m)^  "?on"?: "2026-11-30"$`, `(?m)^  phone: '\*\*\*HIDDEN\*\*\*'$`, `(?m)^  share: 0\.5$`}},
			{"describe pod web-0 -n shop", []string{`PASSWORD: +\*\*\*HIDDEN\*\*\*`, `BackOff .*Back-off restarting failed container app`}},
			{"logs web-0 -c app -n shop", []string{`^connecting to db\npanic: no route to host\n$`}},
			{"logs web-0 -c app -n shop --previous --tail 1", []string{`^panic: no route to host\n$`}},
			{"logs web-0 -c proxy -n shop", []string{`^2026-12-01T00:18:00\.123Z a time that the program printed\n$`}},
		},
		"troubleshoot-old": {
			{"get pods", []string{`(?m)^web +0/1 +Running`}},
			{"get pods -A", []string{`(?m)^default +web `}},
			{"get deployments", []string{`No resources found in default namespace`}},
			{"get nodes", []string{`the server doesn't have a resource type "nodes"`}},
			{"get storageclasses", []string{`(?m)^local +example\.com/local`}},
			{"get ingresses.v1beta1.networking.k8s.io", []string{`(?m)^web `}},
			{"get mice", []string{`(?m)^jerry `}},
		},
		"must-gather": {
			{"get nodes", []string{`(?m)^worker-0 `}},
			{"get pods -n openshift-dns", []string{`(?m)^dns-default-x7k2p +0/2 +Running`}},
			{"get pods -A", []string{`ask for one namespace`}},
			{"get clusterversions", []string{`(?m)^version `}},
			{"get pods -n openshift-dns -o jsonpath={.items[0].status.startTime}", []string{`^2026-11-30T23:00:00Z$`}},
			{"logs dns-default-x7k2p -c dns -n openshift-dns --tail 1", []string{`^\[INFO\] plugin/reload\n$`}},
			{"logs dns-default-x7k2p -c kube-rbac-proxy -n openshift-dns --previous", []string{`^terminated\n$`}},
		},
		"inspect": {{"get svc -n shop", []string{`(?m)^web `}}},
		"cluster-info-dump": {
			{"get pods -n shop", []string{`(?m)^web +0/2 +Running`}},
			{"get deployments -n shop", []string{`No resources found in shop namespace`}},
			{"logs web -c wait -n shop", []string{`^waited$`}},
			{"logs web -c app -n shop", []string{`^one\n==== two\nthree\n$`}},
			{"get configmaps -n shop", []string{`the server doesn't have a resource type "configmaps"`}},
		},
		"cluster-info-dump-text": {
			{"get pods -n shop", []string{`(?m)^web `}},
			{"logs web -n shop", []string{`^one\n---\nnot a document\n$`}},
		},
		"objects": {
			{"get pods -A", []string{`(?m)^kube-system +dns `, `(?m)^shop +web `}},
			{"get pod web -n shop -o yaml", []string{`note: "yes"`, `(?s)text: \|\n +---\n +not a document\n`}},
			{"get svc -n shop", []string{`(?m)^web `}},
			{"get svc -n other", []string{`UnsupportedQuery`}},
			{"get crontab nightly -n shop -o jsonpath={.spec.big}", []string{`^9007199254740993$`}},
		},
		"k8shark-old": {{"get pods -n shop", []string{`(?m)^NAME +MOOD\nweb +fine$`}}, {"logs web -n shop", []string{`^one\ntwo\n$`}}, {"get nodes", []string{`UnsupportedQuery|resource type`}}},
		"kwok":        {{"get pods -n default", []string{`(?m)^web `}}},
		"crust-gather": {
			{"get pods -A", []string{`(?m)^default +web `}},
			{"get pod web --show-labels", []string{`enabled=on`}},
			{"get sheep -A", []string{`(?m)^default +dolly `}},
			{"logs web", []string{`^one\n$`}},
			{"logs web --previous", []string{`^zero\n$`}},
		},
		"velero": {
			{"get pods -A", []string{`(?m)^shop +web `}},
			{"get hpa -n shop", []string{`(?m)^web +Deployment/web`}},
			{"get oxen -A", []string{`(?m)^shop +bill `}},
			{"get ns", []string{`(?m)^shop `}},
		},
		"velero-old":         {{"get deployments -n shop", []string{`(?m)^web `}}, {"get deployments -A", []string{`UnsupportedQuery`}}},
		"support-bundle-kit": {{"get pods -A", []string{`(?m)^default +web `}}, {"logs web", []string{`^one\n$`}}, {"version", []string{`v1\.34\.4\+rke2r1`}}},
	} {
		t.Run(sample, func(t *testing.T) {
			source := unpackSample(t, sample)
			// One server for all commands; a line of NULs ends what each printed.
			var script strings.Builder
			for _, c := range commands {
				script.WriteString("kubectl " + strings.NewReplacer("{", "'{", "}", "}'").Replace(c.args) + " 2>&1; printf '\\000'\n")
			}
			command := exec.Command(kubecase, "shell", source, "--clock", "captured", "--", "sh", "-c", script.String())
			command.Env = append(os.Environ(), "TZ=UTC", "HOME="+t.TempDir(), "TMPDIR="+t.TempDir())
			out, err := command.Output()
			if failure := (*exec.ExitError)(nil); err != nil && !asExit(err, &failure) {
				t.Fatal(err)
			}
			printed := strings.Split(string(out), "\x00")
			if len(printed) != len(commands)+1 {
				t.Fatalf("%d answers to %d commands: %s", len(printed)-1, len(commands), out)
			}
			for i, c := range commands {
				for _, want := range c.want {
					if !regexp.MustCompile(want).MatchString(printed[i]) {
						t.Errorf("kubectl %s printed, without %s:\n%s", c.args, want, printed[i])
					}
				}
			}
		})
	}
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

// TestFieldsOfImports compares what kubectl prints of every object as JSON with what was
// in the source.
func TestFieldsOfImports(t *testing.T) {
	kubecase, err := exec.LookPath("kubecase")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, sample := range []string{"troubleshoot", "must-gather", "crust-gather", "velero"} {
		source := unpackSample(t, sample)
		out := filepath.Join(t.TempDir(), "case")
		if _, err := importers.Import(context.Background(), importers.Options{Source: source, Out: out}); err != nil {
			t.Fatal(err)
		}
		c, err := fixtures.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		var script strings.Builder
		var want []string
		for _, r := range c.Resources() {
			for _, o := range r.Objects {
				script.WriteString("kubectl get " + r.GVR.Resource + "." + r.GVR.Version + "." + r.GVR.Group + " " + o.Name + " -o json")
				if o.Namespace != "" {
					script.WriteString(" -n " + o.Namespace)
				}
				script.WriteString(" || exit 1; printf '\\000'\n")
				want = append(want, string(o.Raw))
			}
		}
		_ = c.Close()
		command := exec.Command(kubecase, "shell", out, "--clock", "captured", "--", "sh", "-c", script.String())
		command.Env = append(os.Environ(), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir())
		command.Stderr = os.Stderr
		printed, err := command.Output()
		if err != nil {
			t.Fatalf("%s: %v", sample, err)
		}
		for i, text := range strings.Split(strings.TrimSuffix(string(printed), "\x00"), "\x00") {
			var got, expected map[string]any
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(want[i]), &expected); err != nil {
				t.Fatal(err)
			}
			delete(got, "apiVersion")
			delete(got, "kind")
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("%s (-captured +printed):\n%s", sample, diff)
			}
			compared++
		}
	}
	if compared < 15 {
		t.Errorf("only %d objects were compared", compared)
	}
}

package conformance

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/kubeconfigs"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/shims/logs"
)

// recordingServer serves a case and records what its episodes are asked.
type recordingServer struct {
	api    *apiserver.Server
	url    string
	ca     []byte
	c      *fixtures.Case
	dir    string
	bodies *recorder.Bodies
}

// recordedEpisode is an episode with its record.
type recordedEpisode struct {
	*apiserver.Episode
	server     *recordingServer
	log        *recorder.Log
	dir        string
	kubeconfig string
}

// recordingObserver tells the recorder who asks and which answers are kept.
type recordingObserver struct{}

func (recordingObserver) Authenticated(ctx context.Context, who user.Info) {
	recorder.FromContext(ctx).SetUser(authnv1.UserInfo{Username: who.GetName(), Groups: who.GetGroups()}, nil)
}

func (recordingObserver) Kept(ctx context.Context, key any) { recorder.FromContext(ctx).SameAs(key) }

// newRecordingServer serves a case, which it closes, until the test ends.
func newRecordingServer(t testing.TB, c *fixtures.Case) *recordingServer {
	t.Helper()
	authority, err := kubeconfigs.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := authority.ServerCertificate(time.Now(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	s := &recordingServer{
		api: apiserver.New(apiserver.Config{Logs: logs.Source{}, Done: done, Observer: recordingObserver{}}),
		ca:  authority.PEM(), c: c, dir: t.TempDir(),
	}
	if s.bodies, err = recorder.OpenBodies(filepath.Join(s.dir, "bodies")); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(s.api)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	web.EnableHTTP2 = true
	web.StartTLS()
	s.url = web.URL
	t.Cleanup(func() {
		close(done)
		web.CloseClientConnections()
		web.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// episodeSubjects are whom an episode may be of; "" is a reader of everything.
var episodeSubjects = map[string]apiserver.EpisodeOptions{
	"":       {},
	"admin":  {User: "oracle-admin", Groups: []string{"system:masters"}},
	"viewer": {User: "viewer", Groups: []string{"viewers"}},
}

// episode begins an episode whose times are the machine's, so that what a test did
// and what was recorded can be compared.
func (s *recordingServer) episode(t testing.TB, subject string) *recordedEpisode {
	t.Helper()
	var started func(recorder.Source) http.Handler
	options := episodeSubjects[subject]
	options.Case, options.Clock = s.c, clock.Captured
	e := &recordedEpisode{server: s}
	var recorded http.Handler
	options.Wrap = func(next http.Handler) http.Handler {
		started = func(source recorder.Source) http.Handler { return e.log.Handler(next, source) }
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { recorded.ServeHTTP(w, r) })
	}
	var err error
	if e.Episode, err = s.api.AddEpisode(options); err != nil {
		t.Fatal(err)
	}
	e.dir = filepath.Join(s.dir, "episode-"+e.ID)
	if e.log, err = recorder.Open(e.dir, recorder.Options{Bodies: s.bodies}); err != nil {
		t.Fatal(err)
	}
	recorded = started(recorder.Source{Name: recorder.Kubernetes})
	t.Cleanup(func() {
		if err := e.log.Close(); err != nil {
			t.Error(err)
		}
	})
	e.kubeconfig = filepath.Join(s.dir, e.ID+".kubeconfig")
	access := kubeconfigs.Access{Server: s.url + e.Path(), Token: e.Token, CA: s.ca}
	if err := kubeconfigs.Write(e.kubeconfig, access); err != nil {
		t.Fatal(err)
	}
	return e
}

// calls derives what was recorded so far.
func (e *recordedEpisode) calls(t testing.TB) []recorder.Call {
	t.Helper()
	trajectory, err := recorder.ReadTrajectory(e.dir, recorder.DeriveOptions{Episode: e.ID, Bodies: e.server.bodies}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return trajectory.Calls
}

// env is what a client of the episode runs with; programs of one home share a cache.
func (e *recordedEpisode) env(home string, extra ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TZ=UTC", "KUBECONFIG=" + e.kubeconfig}, extra...)
}

// kubectlRun is one run of kubectl.
type kubectlRun struct {
	start, end     time.Time
	stdout, stderr string
	code           int
}

// kubectl runs a command line without its first word; a quarter of a minute is enough for each.
func (e *recordedEpisode) kubectl(t testing.TB, binary, home string, args ...string) kubectlRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, binary, args...)
	command.Env, command.Dir = e.env(home, "KUBE_EDITOR="+filepath.Join(home, "editor")), home
	out, errs := &strings.Builder{}, &strings.Builder{}
	command.Stdout, command.Stderr = out, errs
	r := kubectlRun{start: time.Now()}
	err := command.Run()
	r.end = time.Now()
	if command.ProcessState == nil {
		t.Fatalf("%s: %v", binary, err)
	}
	r.stdout, r.stderr, r.code = out.String(), errs.String(), command.ProcessState.ExitCode()
	return r
}

// useText writes a use as "T1 type=pods namespace=shop output=table", with " !class"
// behind it unless it was delivered.
func useText(u recorder.Use) string {
	text := string(u.Tool)
	order := []string{"type", "namespace", "name", "service", "pod", "container", "node", "component"}
	keys := slices.SortedFunc(maps.Keys(u.Args), func(a, b string) int {
		at := func(key string) int {
			if i := slices.Index(order, key); i >= 0 {
				return i
			}
			return len(order)
		}
		if d := at(a) - at(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, key := range keys {
		text += " " + key + "=" + u.Args[key]
	}
	if u.Class != recorder.Delivered {
		text += " !" + string(u.Class)
	}
	return text
}

// callText writes a call's class and its uses, sorted, one per line.
func callText(c recorder.Call) []string {
	out := []string{string(c.Class)}
	for _, u := range c.Uses {
		out = append(out, useText(u))
	}
	slices.Sort(out[1:])
	return out
}

// between are the calls that began in a run.
func (r kubectlRun) between(calls []recorder.Call) (out []recorder.Call) {
	for _, c := range calls {
		if !c.Start.Before(r.start.Truncate(time.Microsecond)) && !c.Start.After(r.end) {
			out = append(out, c)
		}
	}
	return out
}

var builtInOnce sync.Map // "" -> func() (string, error)

// builtIn is a kubectl that is kubecase, built once for all tests in the user's cache
// folder; KUBECASE_KUBECTL_BUILT_IN names one to use instead.
func builtIn(t testing.TB) string {
	t.Helper()
	if binary := os.Getenv("KUBECASE_KUBECTL_BUILT_IN"); binary != "" {
		return binary
	}
	build, _ := builtInOnce.LoadOrStore("", sync.OnceValues(func() (string, error) {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		// Renamed when it is whole, so that a kubectl that runs isn't written to.
		binary := filepath.Join(cache, "kubecase", "built-in", "kubectl")
		partial := fmt.Sprintf("%s.%d", binary, os.Getpid())
		if out, err := exec.Command("go", "build", "-o", partial, "..").CombinedOutput(); err != nil {
			return "", fmt.Errorf("building kubecase: %w\n%s", err, out)
		}
		return binary, os.Rename(partial, binary)
	}))
	binary, err := build.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// recordedKubectls are the kubectls whose traffic is recorded, by name: the oldest
// and the newest installed and the built-in one; all with KUBECASE_ALL_KUBECTLS.
func recordedKubectls(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{"built-in": builtIn(t)}
	installed := installedKubectls()
	if len(installed) == 0 {
		t.Log("no kubectl is installed: only the built-in one is run")
	}
	if len(installed) > 2 && os.Getenv("KUBECASE_ALL_KUBECTLS") == "" {
		installed = []string{installed[0], installed[len(installed)-1]}
	}
	for _, name := range installed {
		out[filepath.Base(name)] = name
	}
	if os.Getenv("KUBECASE_ALL_KUBECTLS") != "" {
		out["kubectl.1.34"] = kubectlBinary(t, "1.34")
	}
	return out
}

// overlaid is a shipped case with some files replaced; an empty text removes one.
func overlaid(t testing.TB, name string, replace map[string]string) *fixtures.Case {
	t.Helper()
	files := fstest.MapFS{}
	root := filepath.Join("..", "fixtures", "cases", name)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files[filepath.ToSlash(rel)] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range replace {
		if text == "" {
			delete(files, path)
			continue
		}
		files[path] = &fstest.MapFile{Data: []byte(text)}
	}
	c, err := fixtures.OpenFS(name, files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

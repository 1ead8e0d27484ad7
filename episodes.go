package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/kubeconfigs"
)

// drainTime is how long a shutdown waits for answers under way.
const drainTime = 2 * time.Second

// servingOptions are common to the commands that serve.
type servingOptions struct {
	address       string
	port          int
	clock         string
	asUser, asUID string
	asGroups      []string
	synthetic     bool
	debug         bool
	// complete: what a source to import lacks didn't exist.
	complete       bool
	kubeconfigsDir string
}

func addServingFlags(c *cobra.Command, defaultPort int) {
	f := c.Flags()
	f.String("address", "127.0.0.1", "address to listen on")
	f.Int("port", defaultPort, "port to listen on; 0 picks a free one")
	f.String("clock", string(clock.Shifted), `how time is seen: "shifted" (the capture instant becomes now) or "captured" (nothing moves)`)
	f.String("as", "", "investigate as this captured user, with the rights that the captured RBAC gives; default: a reader of everything")
	f.StringSlice("as-group", nil, "group of the user of --as; repeat or separate by commas")
	f.String("as-uid", "", "UID of the user of --as")
	f.Bool("synthetic-metrics", true, "where a data set has only derived gauges, also serve counters and histograms made of them, labelled synthetic=\"true\"")
	f.Bool("enable-debug", true, "let 'kubectl debug node/NAME' make its pod, which exists for that investigation only")
	f.Bool("assume-complete", false, "of a bundle or dump: what it lacks didn't exist, instead of not being captured")
	f.String("kubeconfigs", "", "folder for the kubeconfig files; default: a new temporary one that is removed at the end")
	_ = c.RegisterFlagCompletionFunc("clock", cobra.FixedCompletions([]string{string(clock.Shifted), string(clock.Captured)}, cobra.ShellCompDirectiveNoFileComp))
}

// servingOptions reads and checks all options, and reports every bad one at once.
func (a *app) servingOptions() (servingOptions, error) {
	o := servingOptions{
		address: a.config.GetString("address"), port: a.config.GetInt("port"), clock: a.config.GetString("clock"),
		asUser: a.config.GetString("as"), asUID: a.config.GetString("as-uid"), asGroups: a.config.GetStringSlice("as-group"),
		kubeconfigsDir: a.config.GetString("kubeconfigs"), synthetic: a.config.GetBool("synthetic-metrics"), debug: a.config.GetBool("enable-debug"), complete: a.config.GetBool("assume-complete"),
	}
	var errs []error
	if net.ParseIP(o.address) == nil && o.address != "localhost" {
		errs = append(errs, fmt.Errorf("--address %q is no IP address: use 127.0.0.1, or 0.0.0.0 to be reached from other machines", o.address))
	}
	if _, err := strconv.ParseUint(strings.TrimSpace(a.config.GetString("port")), 10, 16); err != nil {
		errs = append(errs, fmt.Errorf("--port %q is no port: use 1 to 65535, or 0 for a free one", a.config.GetString("port")))
	}
	if o.clock != string(clock.Shifted) && o.clock != string(clock.Captured) {
		errs = append(errs, fmt.Errorf("--clock %q is unknown: use %q or %q", o.clock, clock.Shifted, clock.Captured))
	}
	if o.asUser == "" && (len(o.asGroups) > 0 || o.asUID != "") {
		errs = append(errs, errors.New("--as-group and --as-uid say who the user of --as is: give --as too"))
	}
	if len(errs) > 0 {
		return o, usageError{errors.Join(errs...)}
	}
	return o, nil
}

// openCase opens a shipped case by name, a case at a path, or what can be imported as
// one, e.g. a support bundle.
func openCase(name string) (*fixtures.Case, error) { return openSource(name, false) }

// openSource is openCase; complete says of a source to import that what it lacks didn't exist.
func openSource(name string, complete bool) (*fixtures.Case, error) {
	if slices.Contains(cases.Names(), name) {
		if complete {
			return nil, completeError(name)
		}
		c, err := cases.Open(name)
		if err != nil {
			return nil, caseError{err}
		}
		return c, nil
	}
	c, err := fixtures.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, `/\`) {
		return nil, caseError{fmt.Errorf("no case %q: there is no such file or folder, and shipped are %s", name, strings.Join(cases.Names(), ", "))}
	}
	if err != nil {
		if c, err = openBundle(name, complete, err); err != nil {
			return nil, caseError{err}
		}
	} else if complete {
		return nil, errors.Join(completeError(name), c.Close())
	}
	return c, nil
}

func completeError(name string) error {
	return usagef("--assume-complete is for bundles and dumps, and %s is a case: what it lacks is said by coverage in its case.yaml", name)
}

// served is one case that is being served.
type served struct {
	fixture    *fixtures.Case
	episode    *apiserver.Episode
	kubeconfig string
	url        string
}

// serving is a running server with an episode per case.
type serving struct {
	api    *apiserver.Server
	url    string
	ca     []byte
	served []served
	// services besides the API server; plain is where they are reached without TLS.
	services services
	plain    *loopback

	http    *http.Server
	done    chan struct{}
	failed  chan error
	cleanup []func() error
}

// startServing opens the cases, listens, and writes a kubeconfig for each.
func (a *app) startServing(o servingOptions, names []string) (s *serving, err error) {
	s = &serving{done: make(chan struct{}), failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
			s = nil
		}
	}()
	s.services = newServices(o.synthetic)
	s.api = s.services.newAPI(s.done)
	for _, name := range names {
		c, err := openSource(name, o.complete)
		if err != nil {
			return s, err
		}
		s.cleanup = append(s.cleanup, c.Close)
		own := &mount{}
		episode, err := s.api.AddEpisode(apiserver.EpisodeOptions{
			Case: c, Clock: clock.Mode(o.clock), User: o.asUser, UID: o.asUID, Groups: o.asGroups, Wrap: own.wrap, NoDebug: !o.debug,
		})
		if err != nil {
			return s, caseError{fmt.Errorf("case %q: %w", c.Manifest().Name, err)}
		}
		own.tools = a.diagnosticTools(s, c, episode).Handler()
		own.open(s.services, c, episode, nil)
		s.served = append(s.served, served{fixture: c, episode: episode})
	}
	if err := s.listen(o, s.api); err != nil {
		return s, err
	}
	return s, a.writeKubeconfigs(s, o)
}

func (s *serving) listen(o servingOptions, handler http.Handler) error {
	keepHeadroom()
	now := time.Now()
	authority, err := kubeconfigs.NewAuthority(now)
	if err != nil {
		return err
	}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if !slices.Contains(hosts, o.address) {
		hosts = append(hosts, o.address)
	}
	certificate, err := authority.ServerCertificate(now, hosts...)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(o.address, strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("%w; --port 0 picks a free port", err)
	}
	host := o.address
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	if s.services != nil {
		if s.plain, err = s.services.listenLoopback(handler); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	s.url = "https://" + net.JoinHostPort(host, port)
	s.ca = authority.PEM()
	for i := range s.served {
		s.served[i].url = s.url + s.served[i].episode.Path()
	}
	s.http = &http.Server{
		Handler:           handler,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 30 * time.Second,
		MaxHeaderBytes:    1 << 20,
	}
	go func() {
		if err := s.http.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return nil
}

func (a *app) writeKubeconfigs(s *serving, o servingOptions) error {
	dir := o.kubeconfigsDir
	if dir == "" {
		temporary, err := os.MkdirTemp(a.tempDir, "kubeconfigs-")
		if err != nil {
			return err
		}
		dir = temporary
		s.cleanup = append(s.cleanup, func() error { return os.RemoveAll(temporary) })
	}
	for i := range s.served {
		v := &s.served[i]
		// The episode's id names the file: a case's name would tell the agent.
		v.kubeconfig = filepath.Join(dir, v.episode.ID)
		if err := kubeconfigs.Write(v.kubeconfig, kubeconfigs.Access{Server: v.url, Token: v.episode.Token, CA: s.ca}); err != nil {
			return err
		}
		if o.kubeconfigsDir != "" {
			// Access ends with the process; the file would only mislead.
			s.cleanup = append(s.cleanup, func() error { return os.Remove(v.kubeconfig) })
		}
	}
	return nil
}

// wait blocks until ctx is done or the server fails, then shuts down.
func (s *serving) wait(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	return errors.Join(err, s.stop())
}

// stop ends watches, lets answers under way finish, and removes what was made.
func (s *serving) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	close(s.done)
	if s.plain != nil {
		s.plain.stop(ctx)
	}
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // watches that outlive the drain are cut
	}
	return s.release()
}

func (s *serving) release() error {
	var errs []error
	for _, f := range slices.Backward(s.cleanup) {
		errs = append(errs, f())
	}
	s.cleanup = nil
	return errors.Join(errs...)
}

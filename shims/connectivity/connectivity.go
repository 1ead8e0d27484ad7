// Package connectivity answers what reaches into a captured container or port:
// exec, attach, port-forward, and the proxies of Services and Pods.
//
// It runs no container and opens no connection. A command that was captured is
// played back. Others are answered by a small interpreter from the case alone: names
// from Services and EndpointSlices, connections from captured probes, environment
// and files from the pod's own specification. What the case doesn't decide is said not to be
// captured, on stderr and with exit code 126, and never made up. Nothing that a
// request names is executed or opened on this machine.
package connectivity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// Target is what a request reaches into.
type Target struct {
	Case  *fixtures.Case
	Clock clock.Clock
	// Namespace and Pod, and the Container of exec and attach.
	Namespace, Pod, Container string
	// Of is the pod where it is one that an episode made to debug a node; nil for captured ones.
	Of *corev1.Pod
}

// Run is what a command came to, for the record.
type Run struct {
	// Output is the start of what it printed, stdout and stderr in their order.
	Output   string
	ExitCode int
	// NotCaptured: the case doesn't decide what the command comes to.
	NotCaptured bool
}

const (
	// NotCapturedCode is the exit code of a command that the case doesn't decide: that of a
	// shell for a command that can't be run.
	NotCapturedCode = 126
	// maxCommand bounds how long a command may take, and maxSleep how long it may sleep.
	maxCommand = time.Minute
	// maxOutput bounds what a command may print, and keptOutput what is kept for the record.
	maxOutput, keptOutput = 16 << 20, 64 << 10
	maxAtOnce             = 64
)

// running bounds the commands of all episodes together.
var running = make(chan struct{}, maxAtOnce)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// Exec runs a command in a container and serves its streams. report is told what came of
// it. An error is returned before anything is written: of a pod that isn't in the case, or
// of options that make no sense.
func Exec(w http.ResponseWriter, req *http.Request, t Target, report func(Run)) error {
	c, err := open(t)
	if err != nil {
		return err
	}
	query := req.URL.Query()
	argv := query["command"]
	return serveStreams(w, req, func(ctx context.Context, s streams) (int, error) {
		if refusal := c.refusal(); refusal != "" {
			return 0, errors.New(refusal)
		}
		if len(argv) == 0 {
			return 0, errors.New("no command was given")
		}
		out := &capture{limit: keptOutput}
		lacks := &lack{}
		code, err := c.exec(ctx, argv, streams{stdin: s.stdin, stdout: out.tee(s.stdout), stderr: out.tee(s.stderr), lack: lacks})
		if err == nil && report != nil {
			report(Run{Output: out.text(), ExitCode: code, NotCaptured: lacks.count() > 0})
		}
		return code, err
	})
}

// Attach refuses: nothing runs that could be attached to.
func Attach(w http.ResponseWriter, req *http.Request, t Target) error {
	c, err := open(t)
	if err != nil {
		return err
	}
	return serveStreams(w, req, func(context.Context, streams) (int, error) {
		if refusal := c.refusal(); refusal != "" {
			return 0, fmt.Errorf("unable to upgrade connection: container %s not found in pod %s_%s", c.name, c.pod.Name, c.pod.Namespace)
		}
		return 0, fmt.Errorf("container %q of pod %q was captured and doesn't run: read what it printed with kubectl logs", c.name, c.pod.Name)
	})
}

// container is a captured container that something is run in.
type container struct {
	Target
	pod  *corev1.Pod
	spec *corev1.Container
	name string
	net  *network
	// host: what is run is run on the node of a debugging pod, outside of its container.
	host bool
}

func open(t Target) (*container, error) {
	pod, err := t.Of, error(nil)
	if pod == nil {
		pod, err = decode[corev1.Pod](t.Case, pods, t.Namespace, t.Pod)
	}
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, apierrors.NewNotFound(pods.GroupResource(), t.Pod)
	}
	c := &container{Target: t, pod: pod, name: t.Container, net: newNetwork(t.Case, t.Namespace, pod)}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == c.name {
				c.spec = &list[i]
			}
		}
	}
	if c.spec == nil {
		c.spec = &corev1.Container{Name: c.name}
	}
	return c, nil
}

// decode reads one captured object; nil when the case doesn't have it.
func decode[T any](c *fixtures.Case, gvr schema.GroupVersionResource, namespace, name string) (*T, error) {
	r := c.Resource(gvr)
	if r == nil {
		return nil, nil
	}
	o := r.Find(namespace, name)
	if o == nil {
		return nil, nil
	}
	out := new(T)
	if err := json.Unmarshal(o.Raw, out); err != nil {
		return nil, fmt.Errorf("the captured %s %s/%s doesn't fit its type: %w", gvr.Resource, namespace, name, err)
	}
	return out, nil
}

// status is the container's state; nil without one.
func (c *container) status() *corev1.ContainerStatus {
	s := &c.pod.Status
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == c.name {
				return &list[i]
			}
		}
	}
	return nil
}

// refusal is what the kubelet says of a container that doesn't run, in its words
// (pkg/kubelet/server/server.go, getExec); empty for one that runs.
func (c *container) refusal() string {
	if s := c.status(); s == nil || s.State.Running == nil {
		return fmt.Sprintf("unable to upgrade connection: container not found (%q)", c.name)
	}
	return ""
}

// streams are a command's.
type streams struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// lack is what wasn't captured so far; it may be nil.
	lack *lack
}

// exec runs a command: as it was captured, or as the interpreter knows it.
func (c *container) exec(ctx context.Context, argv []string, s streams) (int, error) {
	select {
	case running <- struct{}{}:
		defer func() { <-running }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, maxCommand)
	defer cancel()
	left := &limit{cancel: cancel, left: maxOutput}
	s.stdout, s.stderr = left.of(s.stdout), left.of(s.stderr)
	if s.lack == nil {
		s.lack = &lack{}
	}
	s.lack.shown = []io.Writer{s.stderr, s.stdout}
	if s.stdin == nil {
		s.stdin = strings.NewReader("")
	}
	run, err := c.captured(argv)
	if err != nil {
		return 0, err
	}
	if run == nil {
		run = c.missing(argv)
	}
	if run != nil {
		return c.play(run, s)
	}
	return c.command(ctx, argv, s), nil
}

// play prints what was captured, in the time of the clock.
func (c *container) play(run *fixtures.CommandRun, s streams) (int, error) {
	offset := c.Clock.Offset()
	if strings.Contains(run.Stderr, "unable to start container process") && run.Stdout == "" {
		// The runtime refused to start it: no exit code of a command, but an error of the API.
		return 0, errors.New(strings.TrimPrefix(strings.TrimSpace(run.Stderr), "error: Internal error occurred: "))
	}
	if _, err := s.stdout.Write(clock.ShiftText([]byte(run.Stdout), offset)); err != nil {
		return 0, err
	}
	if _, err := s.stderr.Write(clock.ShiftText([]byte(run.Stderr), offset)); err != nil {
		return 0, err
	}
	return run.ExitCode, nil
}

// captured finds a command that was run in this very container, or on the node of a debugging pod.
func (c *container) captured(argv []string) (*fixtures.CommandRun, error) {
	if c.Of != nil {
		return c.nodeRun(argv)
	}
	runs, err := fixtures.ReadEntries[fixtures.CommandRun](c.Case, fixtures.CommandsDocument)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		r := &runs[i]
		if r.Namespace == c.Namespace && r.Pod == c.Pod && (r.Container == "" || r.Container == c.name) && r.Stdin == "" && slices.Equal(r.Command, argv) {
			return r, nil
		}
	}
	return nil, nil
}

// missing finds, of containers of the same image, that the command's program wasn't
// there to be started.
func (c *container) missing(argv []string) *fixtures.CommandRun {
	runs, err := fixtures.ReadEntries[fixtures.CommandRun](c.Case, fixtures.CommandsDocument)
	if err != nil || c.spec.Image == "" || c.host {
		return nil
	}
	for i := range runs {
		r := &runs[i]
		if len(r.Command) == 0 || r.Command[0] != argv[0] || !strings.Contains(r.Stderr, "unable to start container process") {
			continue
		}
		pod, err := decode[corev1.Pod](c.Case, pods, r.Namespace, r.Pod)
		if err != nil || pod == nil {
			continue
		}
		for _, other := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			if other.Image == c.spec.Image && (r.Container == "" && len(pod.Spec.Containers) == 1 || r.Container == other.Name) {
				return r
			}
		}
	}
	return nil
}

// notCapturedWords begin what a command says that the case doesn't decide.
const notCapturedWords = "kubecase: not captured: "

// notCaptured says on stderr that the case doesn't decide, and what it lacks.
func notCaptured(s streams, format string, args ...any) int {
	s.say(format, args...)
	s.lack.note()
	return NotCapturedCode
}

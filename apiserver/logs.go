package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// LogSource streams captured logs.
type LogSource interface {
	// OpenLog returns the part of a captured log that options ask for, in the
	// episode's time. Following ends with ctx, or at once when nothing can come.
	OpenLog(ctx context.Context, c *fixtures.Case, log *fixtures.Log, options *corev1.PodLogOptions, clk clock.Clock) (io.ReadCloser, error)
}

// logREST is the log subresource of pods: the checks of the API server and of
// the kubelet, over captured logs.
type logREST struct {
	pods   *resource
	source LogSource
}

var _ rest.GetterWithOptions = (*logREST)(nil)

// New implements rest.Storage.
func (l *logREST) New() runtime.Object { return &corev1.Pod{} }

// NewGetOptions implements rest.GetterWithOptions.
func (l *logREST) NewGetOptions() (runtime.Object, bool, string) {
	return &core.PodLogOptions{}, false, ""
}

// Get implements rest.GetterWithOptions.
func (l *logREST) Get(ctx context.Context, name string, opts runtime.Object) (runtime.Object, error) {
	options, ok := opts.(*core.PodLogOptions)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("options of the wrong type %T", opts))
	}
	// The gate for streams is off by default in every version so far served.
	if errs := validation.ValidatePodLogOptions(options, false); len(errs) > 0 {
		return nil, apierrors.NewInvalid(core.Kind("PodLogOptions"), name, errs)
	}
	found, err := l.pods.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod, err := podOf(found)
	if err != nil {
		return nil, err
	}
	container, err := chooseContainer(options.Container, pod)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return emptyLog{}, nil
	}
	external := &corev1.PodLogOptions{}
	if err := corev1conversion.Convert_core_PodLogOptions_To_v1_PodLogOptions(options, external, nil); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	external.Container = container
	return l.open(ctx, pod, external)
}

func (l *logREST) open(ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions) (runtime.Object, error) {
	c := l.pods.snapshot.fixture
	status := containerStatus(pod, options.Container)
	log := c.Log(pod.Namespace, pod.Name, options.Container, options.Previous)
	if p := episodeFrom(ctx).debugging.find(pod.Namespace, pod.Name); p != nil && !options.Previous && len(p.Status.ContainerStatuses) > 0 {
		log = p.captured(options.Container)
	}
	switch {
	case log != nil && log.Refusal != nil && len(log.Refusal) == 0:
		return emptyLog{}, nil // the server answered 204
	case log != nil && log.Refusal != nil:
		refusal := &apierrors.StatusError{}
		if err := json.Unmarshal(log.Refusal, &refusal.ErrStatus); err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("the captured refusal is no Status: %w", err))
		}
		return nil, refusal
	case log == nil || l.source == nil:
		if err := kubeletRefusal(pod.Name, options.Container, status, options.Previous); err != nil {
			return nil, err
		}
		what := "log"
		if options.Previous {
			what = "previous log"
		}
		return nil, newUnsupportedQuery("the %s of container %q in pod %q was not captured", what, options.Container, pod.Name)
	}
	// Nothing is added to the log of a container that has ended.
	options.Follow = options.Follow && !options.Previous && status != nil && status.State.Running != nil
	stream, err := l.source.OpenLog(ctx, c, log, options, episodeFrom(ctx).Clock)
	if err != nil {
		return nil, newUnsupportedQuery("%v", err)
	}
	return &logStream{stream: stream, follow: options.Follow}, nil
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			if statuses[i].Name == name {
				return &statuses[i]
			}
		}
	}
	return nil
}

// kubeletRefusal is the kubelet's answer about a container that has no such log,
// in its words (pkg/kubelet/kubelet_pods.go, validateContainerLogStatus); nil
// when there was one.
func kubeletRefusal(pod, container string, status *corev1.ContainerStatus, previous bool) error {
	refuse := func(format string) error {
		return apierrors.NewBadRequest(fmt.Sprintf(format, container, pod))
	}
	if status == nil {
		return refuse("container %q in pod %q is not available")
	}
	last := status.LastTerminationState.Terminated
	hasLast := last != nil && last.ContainerID != ""
	switch state := status.State; {
	case previous:
		if !hasLast {
			return refuse("previous terminated container %q in pod %q not found")
		}
	case state.Running != nil:
	case state.Terminated != nil:
		if state.Terminated.ContainerID == "" && !hasLast {
			return refuse("container %q in pod %q is terminated")
		}
	case last != nil:
		if !hasLast {
			return refuse("container %q in pod %q is terminated")
		}
	case state.Waiting != nil:
		switch state.Waiting.Reason {
		case "ErrImagePull":
			return refuse("container %q in pod %q is waiting to start: image can't be pulled")
		case "ImagePullBackOff":
			return refuse("container %q in pod %q is waiting to start: trying and failing to pull image")
		}
		return apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is waiting to start: %v", container, pod, state.Waiting.Reason))
	default:
		return refuse("container %q in pod %q is waiting to start - no logs yet")
	}
	return nil
}

// logStream hands a log to upstream's handler, which copies it to the client.
type logStream struct {
	noObject
	stream io.ReadCloser
	follow bool
}

var _ rest.ResourceStreamer = (*logStream)(nil)

// InputStream implements rest.ResourceStreamer.
func (l *logStream) InputStream(context.Context, string, string) (io.ReadCloser, bool, string, error) {
	return l.stream, l.follow, "text/plain", nil
}

// emptyLog is the answer about a pod that no node runs: 204, as the real
// server's.
type emptyLog struct{ noObject }

var _ rest.ResourceStreamer = emptyLog{}

// InputStream implements rest.ResourceStreamer.
func (emptyLog) InputStream(context.Context, string, string) (io.ReadCloser, bool, string, error) {
	return nil, false, "", nil
}

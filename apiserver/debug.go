package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

const (
	// maxDebugPods bounds the debugging pods of an episode, maxDebugBody what one is made of and
	// maxDebugLog what is kept of what it printed, in bytes.
	maxDebugPods = 64
	maxDebugBody = 256 << 10
	maxDebugLog  = 1 << 20
)

// Debugger runs what debugging pods run.
type Debugger interface {
	// Debug runs the command of a debugging pod's container on its node, without input and to
	// its end. It is false, and nothing ran, for what stays until somebody attaches to it or
	// executes something in it: a shell, a sleep.
	Debug(ctx context.Context, c Connection, output io.Writer) (exitCode int, ended bool)
}

// debugging are the pods that `kubectl debug node/…` made in an episode: the one thing that a
// reader may create. They exist for that episode only. Times are in captured time.
type debugging struct {
	mu   sync.Mutex
	pods []*debugPod
	// view is the case with these pods; nil while there are none.
	view atomic.Pointer[snapshot]
}

type debugPod struct {
	*corev1.Pod
	log []byte
}

// view is what the episode sees of its case.
func (e *Episode) view() *snapshot {
	if v := e.debugging.view.Load(); v != nil {
		return v
	}
	return e.snapshot
}

// find is one of the pods; nil for any other.
func (d *debugging) find(namespace, name string) *debugPod {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pods {
		if p.Namespace == namespace && p.Name == name {
			return p
		}
	}
	return nil
}

// put adds a pod, or replaces the one of its name, which there must not be of a new one. The
// caller's pod must not change any more.
func (e *Episode) put(p *debugPod, isNew bool) error {
	d := &e.debugging
	d.mu.Lock()
	defer d.mu.Unlock()
	before := e.view()
	if before != e.snapshot {
		defer e.forget(before) // nobody asks for what it gave any more
	}
	p.ResourceVersion = strconv.FormatUint(before.maxResourceVersion+1, 10)
	same := func(o *debugPod) bool { return o.Namespace == p.Namespace && o.Name == p.Name }
	if isNew && slices.ContainsFunc(d.pods, same) {
		return apierrors.NewAlreadyExists(podsResource.GroupResource(), p.Name)
	}
	if isNew && len(d.pods) >= maxDebugPods {
		return apierrors.NewForbidden(podsResource.GroupResource(), p.Name, fmt.Errorf("an episode has at most %d debugging pods: execute commands in one of them", maxDebugPods))
	}
	pods := append(slices.DeleteFunc(slices.Clone(d.pods), same), p)
	view, err := e.snapshot.withPods(pods, before.maxResourceVersion+1)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	d.pods = pods
	d.view.Store(view)
	return nil
}

// withPods is the snapshot with more pods. Everything else is shared.
func (s *snapshot) withPods(pods []*debugPod, version uint64) (*snapshot, error) {
	v := &snapshot{
		fixture: s.fixture, captured: s.captured, versionDocument: s.versionDocument, major: s.major, minor: s.minor, api: s.api,
		discovery: s.discovery, openapi: s.openapi, resources: maps.Clone(s.resources), maxResourceVersion: version, rbac: s.rbac, flowControl: s.flowControl,
	}
	of := s.resources[podsResource]
	data := *of.data
	data.ResourceVersion = strconv.FormatUint(version, 10)
	data.Objects = slices.Clone(data.Objects)
	for _, p := range pods {
		raw, err := json.Marshal(p.Pod)
		if err != nil {
			return nil, err
		}
		data.Objects = append(data.Objects, &fixtures.Object{
			Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), ResourceVersion: p.ResourceVersion, Labels: p.Labels, Raw: raw,
		})
	}
	slices.SortFunc(data.Objects, func(a, b *fixtures.Object) int {
		return cmp.Compare(fixtures.StoreKey(a.Namespace, a.Name), fixtures.StoreKey(b.Namespace, b.Name))
	})
	r := &resource{
		snapshot: v, gvr: of.gvr, gvk: of.gvk, listKind: of.listKind, namespaced: of.namespaced, singular: of.singular, verbs: of.verbs,
		subresources: of.subresources, data: &data, resourceVersion: version, warning: of.warning, added: map[string]bool{},
	}
	for _, o := range data.Objects {
		r.entries = append(r.entries, &entry{Object: o})
	}
	for _, p := range pods {
		r.added[fixtures.StoreKey(p.Namespace, p.Name)] = true
	}
	r.scope = newScope(r)
	v.resources[podsResource] = r
	return v, nil
}

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// As `kube-apiserver --allow-privileged`, with which clusters run: profiles of debugging pods
// need it.
func init() { capabilities.Setup(true, 0) }

// debugPodKey is the context key of the debugging pod that a request asks to create.
type debugPodKey struct{}

// withDebugPods looks, before rights are decided, whether the creation of a pod is that of a
// debugging pod on a captured node. A body whose length isn't told, as kubectl tells it, is
// not read: such a write is refused as any other, unread.
func withDebugPods(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || info.Verb != "create" || info.Resource != "pods" || info.APIGroup != "" || info.Subresource != "" || info.Namespace == "" ||
			episodeFrom(req.Context()).noDebug || req.ContentLength <= 0 || req.ContentLength > maxDebugBody {
			next.ServeHTTP(w, req)
			return
		}
		text, err := io.ReadAll(io.LimitReader(req.Body, maxDebugBody))
		if err == nil {
			if node := debuggedNode(text, req.Header.Get("Content-Type")); node != "" && episodeFrom(req.Context()).mayDebug(node) {
				req = req.WithContext(context.WithValue(req.Context(), debugPodKey{}, node))
			}
		}
		req.Body = readBefore{io.MultiReader(bytes.NewReader(text), req.Body), req.Body}
		next.ServeHTTP(w, req)
	})
}

// readBefore is a body of which the start was read before.
type readBefore struct {
	io.Reader
	io.Closer
}

// debuggedNode is the node of a pod as `kubectl debug node/…` makes them; empty for any other.
func debuggedNode(text []byte, contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	if mediaType = strings.TrimSpace(mediaType); mediaType == "" {
		mediaType = runtime.ContentTypeJSON
	}
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		return ""
	}
	pod := &corev1.Pod{}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	if obj, gvk, err := info.Serializer.Decode(text, &kind, pod); err != nil || obj != pod || *gvk != kind {
		return ""
	}
	node := pod.Spec.NodeName
	if node == "" || !strings.HasPrefix(pod.Name, "node-debugger-"+node+"-") || len(pod.Spec.Containers) != 1 || len(pod.Spec.InitContainers)+len(pod.Spec.EphemeralContainers) > 0 {
		return ""
	}
	return node
}

// mayDebug reports whether pods can be made on a node: nodes and pods were captured, and it is one.
func (e *Episode) mayDebug(node string) bool {
	r := e.snapshot.resources[podsResource]
	return r != nil && r.data != nil && e.snapshot.node(node) != nil
}

func (s *snapshot) node(name string) *corev1.Node {
	r := s.resources[corev1.SchemeGroupVersion.WithResource("nodes")]
	if r == nil || r.data == nil {
		return nil
	}
	if e := r.entry("", name); e != nil {
		node, _ := e.decodeTyped(r.gvk).(*corev1.Node)
		return node
	}
	return nil
}

// debugs reports whether a request is to make a debugging pod, as withDebugPods found.
func debugs(ctx context.Context, a authorizer.Attributes) bool {
	return ctx.Value(debugPodKey{}) != nil && a.GetVerb() == "create" && a.GetResource() == "pods" && a.GetAPIGroup() == "" && a.GetSubresource() == ""
}

// debugREST makes debugging pods.
type debugREST struct {
	of       *resource
	debugger Debugger
}

var _ rest.Creater = (*debugREST)(nil)

// New implements rest.Storage.
func (d *debugREST) New() runtime.Object { return &corev1.Pod{} }

// Destroy implements rest.Storage.
func (d *debugREST) Destroy() {}

// Create implements rest.Creater: what the real server's registry, its admission of service
// accounts and priorities, and the node's kubelet make of a pod.
func (d *debugREST) Create(ctx context.Context, obj runtime.Object, _ rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	given, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("a pod of the wrong type %T", obj))
	}
	e := episodeFrom(ctx)
	pod := given.DeepCopy()
	pod.Namespace = request.NamespaceValue(ctx)
	if err := d.admit(e, pod); err != nil {
		return nil, err
	}
	node := e.snapshot.node(pod.Spec.NodeName)
	now := metav1.NewTime(e.Clock.Present(time.Now()))
	digest := sha256.Sum256([]byte(pod.Namespace + "/" + pod.Name))
	finish(pod, now, digest, e.snapshot.minor)
	p := &debugPod{Pod: pod}
	if options != nil && len(options.DryRun) > 0 {
		return d.answer(e, p)
	}
	if starts(e.snapshot.fixture, node) {
		start(pod, node, now, digest)
		pod.Status.ContainerStatuses[0].ImageID = e.snapshot.imageID(pod.Spec.Containers[0].Image)
		if d.debugger != nil {
			out := &boundedLog{limit: maxDebugLog}
			if code, ended := d.debugger.Debug(ctx, connectionTo(e, pod), out); ended {
				p.log = clock.ShiftText(out.kept.Bytes(), -e.Clock.Offset())
				end(pod, now, code)
			}
		}
	}
	if err := e.put(p, true); err != nil {
		return nil, err
	}
	return d.answer(e, p)
}

// answer is the pod in the episode's time.
func (d *debugREST) answer(e *Episode, p *debugPod) (runtime.Object, error) {
	raw, err := json.Marshal(p.Pod)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return (&object{of: d.of, entry: &entry{Object: &fixtures.Object{Raw: raw}}, offset: e.Clock.Offset()}).toTyped()
}

// admit refuses what the real server would.
func (d *debugREST) admit(e *Episode, pod *corev1.Pod) error {
	view := e.view()
	namespaces := view.resources[corev1.SchemeGroupVersion.WithResource("namespaces")]
	if namespaces != nil && namespaces.data != nil && namespaces.covered("") == nil && namespaces.entry("", pod.Namespace) == nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), pod.Namespace)
	}
	if view.resources[podsResource].entry(pod.Namespace, pod.Name) != nil {
		return apierrors.NewAlreadyExists(d.of.gvr.GroupResource(), pod.Name)
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = "default"
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	accounts := view.resources[corev1.SchemeGroupVersion.WithResource("serviceaccounts")]
	if accounts != nil && accounts.data != nil && accounts.covered(pod.Namespace) == nil && accounts.entry(pod.Namespace, pod.Spec.ServiceAccountName) == nil {
		// plugin/pkg/admission/serviceaccount
		missing := apierrors.NewNotFound(corev1.Resource("serviceaccount"), pod.Spec.ServiceAccountName)
		return apierrors.NewForbidden(d.of.gvr.GroupResource(), pod.Name, fmt.Errorf("error looking up service account %s/%s: %w", pod.Namespace, pod.Spec.ServiceAccountName, missing))
	}
	internal := &core.Pod{}
	if err := scheme.Convert(pod, internal, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidatePodCreate(internal, podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)); len(errs) > 0 {
		return apierrors.NewInvalid(core.Kind("Pod"), pod.Name, errs)
	}
	return nil
}

// observesGenerations is the minor version from which pods and their conditions tell which
// generation they are of.
const observesGenerations = 34

// finish fills in what a server adds to a new pod: pkg/registry/core/pod, and the admission of
// service accounts and priorities.
func finish(pod *corev1.Pod, now metav1.Time, digest [sha256.Size]byte, minor int) {
	uid := slices.Clone(digest[:16])
	uid[6], uid[8] = uid[6]&0x0f|0x40, uid[8]&0x3f|0x80
	pod.UID = types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", uid[:4], uid[4:6], uid[6:8], uid[8:10], uid[10:]))
	pod.CreationTimestamp = now
	pod.ResourceVersion, pod.SelfLink, pod.OwnerReferences, pod.Finalizers = "", "", nil, nil
	pod.Generation = 0
	if minor >= observesGenerations {
		pod.Generation = 1
	}
	if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
		mountToken(pod, "kube-api-access-"+rand.SafeEncodeString(hex.EncodeToString(digest[16:19]))[:5])
	}
	priority, policy := int32(0), corev1.PreemptLowerPriority
	if pod.Spec.Priority == nil {
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = &priority, &policy
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qos.ComputePodQOS(pod)}
}

// mountToken gives each container the token of the service account, as
// plugin/pkg/admission/serviceaccount does.
func mountToken(pod *corev1.Pod, name string) {
	mode, expires := int32(0o644), int64(3607)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &expires}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
		},
	}}})
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"})
	}
}

// starts reports whether a node starts pods: its kubelet is there, or the case knows what was run
// on it by other means, which would be out of reach otherwise.
func starts(c *fixtures.Case, node *corev1.Node) bool {
	if slices.Contains(c.DocumentNames(), fixtures.NodeCommandsDocument(node.Name)) {
		return true
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// start is what the kubelet reports of a pod whose container runs.
func start(pod *corev1.Pod, node *corev1.Node, now metav1.Time, digest [sha256.Size]byte) {
	s := &pod.Status
	s.ObservedGeneration, s.Phase, s.StartTime = pod.Generation, corev1.PodRunning, &now
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: a.Address})
			if pod.Spec.HostNetwork {
				s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: a.Address})
			}
		}
	}
	if len(s.HostIPs) > 0 {
		s.HostIP = s.HostIPs[0].IP
	}
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
	for _, t := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, ObservedGeneration: pod.Generation, LastTransitionTime: now})
	}
	c := &pod.Spec.Containers[0]
	runtimeName, _, _ := strings.Cut(node.Status.NodeInfo.ContainerRuntimeVersion, "://")
	started := true
	status := corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ContainerID: cmp.Or(runtimeName, "containerd") + "://" + hex.EncodeToString(digest[:]),
		Ready: true, Started: &started, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}, Resources: &corev1.ResourceRequirements{},
	}
	for _, m := range c.VolumeMounts {
		mount := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if disabled := corev1.RecursiveReadOnlyDisabled; m.ReadOnly {
			mount.RecursiveReadOnly = &disabled
		}
		status.VolumeMounts = append(status.VolumeMounts, mount)
	}
	s.ContainerStatuses = []corev1.ContainerStatus{status}
}

// imageID is what the nodes that run an image say that it is; empty where none does.
func (s *snapshot) imageID(image string) string {
	r := s.resources[podsResource]
	for _, e := range r.entries {
		pod, ok := e.decodeTyped(r.gvk).(*corev1.Pod)
		if !ok {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			if c.Image == image {
				return c.ImageID
			}
		}
	}
	return ""
}

// end is what the kubelet reports when the container has ended.
func end(pod *corev1.Pod, now metav1.Time, code int) {
	s := &pod.Status
	s.Phase = corev1.PodSucceeded
	reason := "Completed"
	if code != 0 {
		s.Phase, reason = corev1.PodFailed, "Error"
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		switch c.Type {
		case corev1.PodReadyToStartContainers, corev1.PodReady, corev1.ContainersReady:
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, now
		}
		// pkg/kubelet/status/generate.go
		switch {
		case code == 0 && (c.Type == corev1.PodInitialized || c.Type == corev1.PodReady || c.Type == corev1.ContainersReady):
			c.Reason = "PodCompleted"
		case code != 0 && (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady):
			c.Reason = "PodFailed"
		}
	}
	status := &s.ContainerStatuses[0]
	began := status.State.Running.StartedAt
	notStarted := false
	status.Ready, status.Started = false, &notStarted
	status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(code), Reason: reason, StartedAt: began, FinishedAt: now, ContainerID: status.ContainerID,
	}}
}

// connectionTo is a connection to the container of a debugging pod.
func connectionTo(e *Episode, pod *corev1.Pod) Connection {
	return Connection{
		Case: e.snapshot.fixture, Clock: e.Clock, Resource: "pods", Namespace: pod.Namespace, Name: pod.Name,
		Container: pod.Spec.Containers[0].Name, Debugging: pod,
	}
}

// ended puts down what a debugging pod came to that somebody was attached to.
func (e *Episode) ended(p *debugPod, code int, output []byte) error {
	now := metav1.NewTime(e.Clock.Present(time.Now()))
	if p = e.debugging.find(p.Namespace, p.Name); p.Status.ContainerStatuses[0].State.Running == nil {
		return errors.New("it has ended before")
	}
	after := &debugPod{Pod: p.Pod.DeepCopy(), log: clock.ShiftText(output[:min(len(output), maxDebugLog)], -e.Clock.Offset())}
	end(after.Pod, now, code)
	return e.put(after, false)
}

// captured is what the pod printed as the kubelet keeps it: each line behind its time.
func (p *debugPod) captured(container string) *fixtures.Log {
	var text bytes.Buffer
	stamp := p.CreationTimestamp.UTC().Format("2006-01-02T15:04:05.000000000Z07:00") + " "
	for line := range bytes.Lines(p.log) {
		text.WriteString(stamp)
		text.Write(line)
	}
	if n := text.Len(); n > 0 && text.Bytes()[n-1] != '\n' {
		text.WriteByte('\n')
	}
	return fixtures.NewLog(p.Namespace, p.Name, container, append([]byte{}, text.Bytes()...))
}

// boundedLog keeps the start of what is written.
type boundedLog struct {
	kept  bytes.Buffer
	limit int
}

// Write implements io.Writer.
func (b *boundedLog) Write(p []byte) (int, error) {
	b.kept.Write(p[:min(len(p), b.limit-b.kept.Len())])
	return len(p), nil
}

// namesAdded reports whether a selection asks for one of the episode's own pods by name.
func (r *resource) namesAdded(namespace string, selector fields.Selector) bool {
	if len(r.added) == 0 || selector == nil {
		return false
	}
	name, ok := selector.RequiresExactMatch("metadata.name")
	return ok && r.added[fixtures.StoreKey(namespace, name)]
}
